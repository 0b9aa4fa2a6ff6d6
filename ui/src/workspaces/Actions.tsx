import { useState } from 'react';
import { type Act, useAct } from '../api/queries';
import type { Capabilities, Workspace } from '../api/types';
import { Button, buttonClass } from '../components/Button';
import { Trouble } from '../components/Page';
import styles from './Actions.module.css';
import { DeleteDialog } from './DeleteDialog';
import { RollbackDialog } from './RollbackDialog';
import { possible } from './words';

interface Props {
  workspace: Workspace;
  me: Capabilities;
  /** After it was deleted. */
  onDeleted?: () => void;
  /** Also what is rarely done. */
  all?: boolean;
}

/** What can be done with a workspace now, and what went wrong with what was tried. */
export function Actions({ workspace, me, onDeleted, all = false }: Props) {
  const act = useAct(workspace.id);
  const [isDeleting, setDeleting] = useState(false);
  const [isRollingBack, setRollingBack] = useState(false);
  const can = possible(workspace, me);
  const button = (name: Act, text: string, look: 'plain' | 'primary') => (
    <Button
      look={look}
      aria-label={`${text} ${workspace.name}`}
      isPending={act.isPending && act.variables === name}
      isDisabled={act.isPending && act.variables !== name}
      onPress={() => act.mutate(name)}
    >
      {text}
    </Button>
  );
  const isVain = !can.open && !can.upgrade && !can.start && !can.stop && !can.delete;
  return (
    <>
      {!isVain && (
        <div className={styles.actions}>
          {can.open && (
            <a
              className={buttonClass(can.upgrade ? 'plain' : 'primary')}
              href={can.open}
              aria-label={`Open ${workspace.name}`}
            >
              Open
            </a>
          )}
          {can.upgrade && button('upgrade', 'Upgrade', 'primary')}
          {all && can.rollback && (
            <Button aria-label={`Roll ${workspace.name} back`} onPress={() => setRollingBack(true)}>
              Roll back
            </Button>
          )}
          {can.start && button('start', 'Start', 'primary')}
          {can.stop && button('stop', 'Stop', 'plain')}
          {can.delete && (
            <Button look="danger" aria-label={`Delete ${workspace.name}`} onPress={() => setDeleting(true)}>
              Delete
            </Button>
          )}
        </div>
      )}
      {act.isError && <Trouble error={act.error} />}
      {isRollingBack && <RollbackDialog workspace={workspace} onClose={() => setRollingBack(false)} />}
      {isDeleting && (
        <DeleteDialog workspace={workspace} onClose={() => setDeleting(false)} onDeleted={onDeleted} />
      )}
    </>
  );
}
