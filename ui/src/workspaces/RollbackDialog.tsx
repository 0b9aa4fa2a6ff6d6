import { useRollback } from '../api/queries';
import type { Workspace } from '../api/types';
import { Button } from '../components/Button';
import { Dialog } from '../components/Dialog';
import { Trouble } from '../components/Page';

interface Props {
  workspace: Workspace;
  onClose: () => void;
}

/** Says from what to what, and asks. */
export function RollbackDialog({ workspace, onClose }: Props) {
  const rollback = useRollback(workspace.id);
  const { name, version, previousVersion } = workspace;
  return (
    <Dialog
      alert
      isOpen
      onClose={onClose}
      title={`Roll ${name} back?`}
      actions={
        <>
          <Button autoFocus onPress={onClose}>
            Stay on {version}
          </Button>
          <Button
            look="primary"
            isPending={rollback.isPending}
            onPress={() => rollback.mutate(undefined, { onSuccess: onClose })}
          >
            Roll back to {previousVersion}
          </Button>
        </>
      }
    >
      <p>
        From <code>{version}</code> <span aria-hidden="true">→</span>
        <span className="visually-hidden">to</span> <code>{previousVersion}</code>, as an upgrade does it: by
        a new pod, and back again if that fails. Its address, its owner and its volumes stay.
      </p>
      <p>What the newer version wrote stays as it wrote it; see that the older one can read it.</p>
      {rollback.isError && <Trouble error={rollback.error} />}
    </Dialog>
  );
}
