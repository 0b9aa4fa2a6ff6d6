import { useState } from 'react';
import { useDelete } from '../api/queries';
import type { Workspace } from '../api/types';
import { Button } from '../components/Button';
import { Dialog } from '../components/Dialog';
import { Checkbox } from '../components/Field';
import { Trouble } from '../components/Page';

interface Props {
  workspace: Workspace;
  onClose: () => void;
  onDeleted?: (() => void) | undefined;
}

/** Asks before anything is lost, and says what that is. Volumes are kept unless they are named. */
export function DeleteDialog({ workspace, onClose, onDeleted }: Props) {
  const remove = useDelete(workspace.id);
  const [withData, setWithData] = useState(false);
  const claims = workspace.claims ?? [];
  const confirm = () =>
    remove.mutate(withData, {
      onSuccess: () => {
        onClose();
        onDeleted?.();
      },
    });
  return (
    <Dialog
      alert
      isOpen
      onClose={onClose}
      title={`Delete ${workspace.name}?`}
      actions={
        <>
          <Button autoFocus onPress={onClose}>
            Keep it
          </Button>
          <Button look="danger-solid" isPending={remove.isPending} onPress={confirm}>
            {withData ? 'Delete it with its data' : 'Delete it'}
          </Button>
        </>
      }
    >
      <p>
        What runs in it ends, open terminals too
        {claims.length === 0 ? ', and everything stored in it is lost.' : '.'} Its address is free again
        afterwards.
      </p>
      {claims.length > 0 && (
        <>
          <p>
            Its data is kept on {claims.length === 1 ? 'the volume' : 'the volumes'}{' '}
            <strong>{claims.join(', ')}</strong>, unless you say otherwise.
          </p>
          <Checkbox isSelected={withData} onChange={setWithData}>
            Delete its data too. It cannot be brought back.
          </Checkbox>
        </>
      )}
      {remove.isError && <Trouble error={remove.error} />}
    </Dialog>
  );
}
