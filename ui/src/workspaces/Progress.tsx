import { Link } from '@tanstack/react-router';
import { useLive } from '../api/live';
import type { Mode, Workspace } from '../api/types';
import styles from './Progress.module.css';
import { type Step, steps } from './steps';

/** How far a workspace's upgrade is. */
export function Progress({ workspace }: { workspace: Workspace }) {
  const { operations } = useLive();
  if (!workspace.operationId) return null;
  const operation = operations.find(({ operationId }) => operationId === workspace.operationId);
  const target = operation?.targets.find(({ id }) => id === workspace.id);
  return (
    <div className={styles.progress}>
      <Steps phase={target?.phase} mode={target?.mode} isTaken={workspace.status === 'running'} />
      <Link to="/operations/$id" params={{ id: workspace.operationId }}>
        Follow the upgrade<span className="visually-hidden"> of {workspace.name}</span>
      </Link>
    </div>
  );
}

export function Steps(props: { phase: string | undefined; mode: Mode | undefined; isTaken: boolean }) {
  return (
    <ol className={styles.steps} aria-label="Steps of the upgrade">
      {steps(props).map(({ text, state }: Step) => (
        <li key={text} data-state={state} aria-current={state === 'now' ? 'step' : undefined}>
          {text}
          <span className="visually-hidden">{state === 'done' ? ' (done)' : ''}</span>
        </li>
      ))}
    </ol>
  );
}
