import { useEffect } from 'react';
import { buttonClass } from '../components/Button';
import { Brand } from './Brand';
import styles from './SignedOut.module.css';

/** For whoever is not signed in, or not any more. Signing in leads back to where they are. */
export function SignedOut({ ended = false }: { ended?: boolean }) {
  useEffect(() => {
    document.title = 'Sign in · nogoo9';
  }, []);
  const { pathname, search } = window.location;
  return (
    <div className={styles.page}>
      <header>
        <Brand />
      </header>
      <main className={styles.card} id="main">
        <h1>{ended ? 'Your session has ended' : 'Your workspaces, one click away'}</h1>
        <p>
          {ended
            ? 'Sign in again to go on. What runs in your workspaces went on meanwhile.'
            : 'Sign in to open, start and upgrade them. Upgrades happen while you work: open terminals stay open.'}
        </p>
        <p>
          <a
            className={buttonClass('primary')}
            href={`/auth/login?return=${encodeURIComponent(pathname + search)}`}
          >
            Sign in
          </a>
        </p>
      </main>
    </div>
  );
}
