import { useRevokeToken } from '../api/queries';
import type { Token } from '../api/types';
import { Button } from '../components/Button';
import { Dialog } from '../components/Dialog';
import { Trouble } from '../components/Page';

/** Asks before whatever uses the token stops working. */
export function RevokeDialog({ token, onClose }: { token: Token; onClose: () => void }) {
  const revoke = useRevokeToken(token.id);
  return (
    <Dialog
      alert
      isOpen
      onClose={onClose}
      title={`Revoke ${token.name}?`}
      actions={
        <>
          <Button autoFocus onPress={onClose}>
            Keep it
          </Button>
          <Button
            look="danger-solid"
            isPending={revoke.isPending}
            onPress={() => revoke.mutate(undefined, { onSuccess: onClose })}
          >
            Revoke it
          </Button>
        </>
      }
    >
      <p>Whatever uses it is refused from now on; what it has open ends within a minute.</p>
      {revoke.isError && <Trouble error={revoke.error} />}
    </Dialog>
  );
}
