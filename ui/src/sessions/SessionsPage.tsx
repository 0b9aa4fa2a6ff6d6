import { useState } from 'react';
import { useSessions } from '../api/queries';
import type { Session } from '../api/types';
import { Badge } from '../components/Badge';
import { Button } from '../components/Button';
import { Loading, Page, Trouble, When } from '../components/Page';
import rows from '../components/Rows.module.css';
import { EndDialog, type Ending } from './EndDialog';

/** Where one is signed in, and how to end that elsewhere. */
export function SessionsPage() {
  const sessions = useSessions();
  const [ending, setEnding] = useState<Ending>();
  const others = sessions.data?.sessions.filter((session) => !session.current) ?? [];
  return (
    <Page
      title="Sessions"
      actions={
        others.length > 1 && (
          <Button look="danger" onPress={() => setEnding({ others: others.length })}>
            End all others
          </Button>
        )
      }
    >
      <p className={rows.lead}>
        Each browser that you have signed in with has one. End those that you do not know, or do not use any
        more.
      </p>
      {sessions.isPending ? (
        <Loading what="sessions" />
      ) : sessions.isError ? (
        <Trouble error={sessions.error}>
          <Button onPress={() => void sessions.refetch()}>Try again</Button>
        </Trouble>
      ) : (
        <ul className={rows.list} aria-label="Your sessions">
          {sessions.data.sessions.map((session) => (
            <Row key={session.id} session={session} onEnd={() => setEnding({ one: session })} />
          ))}
        </ul>
      )}
      {ending && <EndDialog ending={ending} onClose={() => setEnding(undefined)} />}
    </Page>
  );
}

function Row({ session, onEnd }: { session: Session; onEnd: () => void }) {
  const about = `begun-${session.id}`;
  return (
    <li className={rows.row} data-session={session.id} data-current={session.current}>
      <div className={rows.facts}>
        <div className={rows.head}>
          <h2 id={about}>
            Signed in <When at={session.createdAt} />
          </h2>
          {session.current && <Badge tone="accent">This browser</Badge>}
        </div>
        <p className={rows.soft}>
          <span>
            Last seen about <When at={session.lastSeenAt} />
          </span>
          <span>
            Ends <When at={session.endsAt} />
          </span>
        </p>
      </div>
      {!session.current && (
        <Button look="danger" onPress={onEnd} aria-describedby={about}>
          End
        </Button>
      )}
    </li>
  );
}
