import { Link } from '@tanstack/react-router';
import { useLive } from '../api/live';
import { useCapabilities } from '../api/queries';
import { buttonClass } from '../components/Button';
import { Empty, Loading, Page } from '../components/Page';
import styles from './List.module.css';
import { WorkspaceCard } from './WorkspaceCard';
import { byName } from './words';

/** The caller's own workspaces, as they are at this moment. */
export function MinePage() {
  const { connection, workspaces } = useLive();
  const me = useCapabilities().data;
  if (!me) return null;
  const mine = [...workspaces.values()].filter(({ owner }) => owner === me.sub).sort(byName);
  const spawn = me.canSpawn && (
    <Link className={buttonClass('primary')} to="/new">
      New workspace
    </Link>
  );
  return (
    <Page title="My workspaces" actions={mine.length > 0 ? spawn : null}>
      {connection === 'connecting' ? (
        <Loading what="your workspaces" />
      ) : mine.length === 0 ? (
        <Empty title="There is no workspace of yours yet">
          <p>
            A workspace is a place to work in, with a terminal and an address of its own. It is made from a
            template, and upgraded while you work when the template moves on.
          </p>
          {spawn ? <p>{spawn}</p> : <p>Your role lets you look. Ask an admin to make you one.</p>}
        </Empty>
      ) : (
        <ul className={styles.list}>
          {mine.map((workspace) => (
            <WorkspaceCard key={workspace.id} workspace={workspace} me={me} />
          ))}
        </ul>
      )}
    </Page>
  );
}
