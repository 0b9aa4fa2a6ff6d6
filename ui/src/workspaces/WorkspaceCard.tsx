import { Link } from '@tanstack/react-router';
import { sentence } from '../api/client';
import type { Capabilities, Workspace } from '../api/types';
import { Badge } from '../components/Badge';
import { Actions } from './Actions';
import { Ports } from './Ports';
import { Progress } from './Progress';
import { Version } from './Version';
import styles from './WorkspaceCard.module.css';
import { more, possible, words } from './words';

/** A workspace in a list: what it is doing, and what can be done. */
export function WorkspaceCard({ workspace, me }: { workspace: Workspace; me: Capabilities }) {
  const { text, tone } = words[workspace.status];
  const { open } = possible(workspace, me);
  const said = more(workspace);
  return (
    <li className={styles.card} data-workspace={workspace.id} data-status={workspace.status}>
      <div className={styles.head}>
        <h3>{open ? <a href={open}>{workspace.name}</a> : workspace.name}</h3>
        <Badge tone={tone}>{text}</Badge>
        {workspace.outdated === true && <Badge tone="warn">Outdated</Badge>}
      </div>
      {said && <p className={styles.message}>{said}</p>}
      {workspace.lastUpgradeError && (
        <p className={styles.error}>The last upgrade failed: {sentence(workspace.lastUpgradeError)}</p>
      )}
      <Progress workspace={workspace} />
      <p className={styles.line}>
        <Link to="/workspaces/$id" params={{ id: workspace.id }} aria-label={`${workspace.id}, details`}>
          {workspace.id}
        </Link>
        <span>from {workspace.template}</span>
        <span>
          version <Version workspace={workspace} />
        </span>
      </p>
      {workspace.ports && (
        <p className={styles.line}>
          Also serves <Ports workspace={workspace} me={me} />
        </p>
      )}
      <Actions workspace={workspace} me={me} />
    </li>
  );
}
