import { useEndOtherSessions, useEndSession } from '../api/queries';
import type { Session } from '../api/types';
import { Button } from '../components/Button';
import { Dialog } from '../components/Dialog';
import { Trouble, When } from '../components/Page';

/** What is to be ended: one session, or so many others. */
export type Ending = { one: Session } | { others: number };

/** Asks before another browser is signed out. */
export function EndDialog({ ending, onClose }: { ending: Ending; onClose: () => void }) {
  const one = useEndSession();
  const others = useEndOtherSessions();
  const isOne = 'one' in ending;
  const { isPending, isError, error } = isOne ? one : others;
  const end = () =>
    isOne
      ? one.mutate(ending.one.id, { onSuccess: onClose })
      : others.mutate(undefined, { onSuccess: onClose });
  return (
    <Dialog
      alert
      isOpen
      onClose={onClose}
      title={isOne ? 'End this session?' : `End ${ending.others} other sessions?`}
      actions={
        <>
          <Button autoFocus onPress={onClose}>
            Keep {isOne ? 'it' : 'them'}
          </Button>
          <Button look="danger-solid" isPending={isPending} onPress={end}>
            End {isOne ? 'it' : 'them'}
          </Button>
        </>
      }
    >
      {isOne && (
        <p>
          It began <When at={ending.one.createdAt} />.
        </p>
      )}
      <p>
        That browser is signed out within a quarter of an hour, from the console and from all workspaces. What
        runs in them goes on.
      </p>
      {isError && <Trouble error={error} />}
    </Dialog>
  );
}
