import { Link, Outlet } from '@tanstack/react-router';
import { useLive } from '../api/live';
import { useCapabilities } from '../api/queries';
import { Loading, Trouble } from '../components/Page';
import { UpgradeAllButton } from '../upgrade-all/UpgradeAllButton';
import { Account } from './Account';
import { Announcer } from './Announcer';
import { Brand } from './Brand';
import { ConnectionBanner } from './ConnectionBanner';
import styles from './Shell.module.css';
import { SignedOut } from './SignedOut';

/** What is around every page: who you are, where to go, and whether what is shown is current. */
export function Shell() {
  const { connection } = useLive();
  const capabilities = useCapabilities();
  if (connection === 'signed-out') return <SignedOut ended />;
  const me = capabilities.data;
  return (
    <>
      <a className={styles.skip} href="#main">
        Skip to the content
      </a>
      <header className={styles.header}>
        <div className={styles.bar}>
          <Brand />
          <nav className={styles.nav} aria-label="Main">
            <Link to="/" activeOptions={{ exact: true }}>
              My workspaces
            </Link>
            {me?.isAdmin && <Link to="/everyone">Everyone’s</Link>}
            <Link to="/operations">Operations</Link>
            <Link to="/templates">Templates</Link>
          </nav>
          <div className={styles.right}>
            {me && <UpgradeAllButton capabilities={me} />}
            {me && <Account capabilities={me} />}
          </div>
        </div>
      </header>
      <main id="main" className={styles.main} tabIndex={-1}>
        {capabilities.isError && !me ? (
          <Trouble error={capabilities.error}>
            <button type="button" onClick={() => capabilities.refetch()}>
              Try again
            </button>
          </Trouble>
        ) : me ? (
          <Outlet />
        ) : (
          <Loading what="the console" />
        )}
      </main>
      <ConnectionBanner connection={connection} />
      <Announcer />
    </>
  );
}
