import { useEffect, useState } from 'react';
import type { Connection } from '../api/live';
import styles from './ConnectionBanner.module.css';

/** Longest silence that is not worth a word: a page that is being loaded, a proxy that restarts. */
const GRACE_MS = 1500;

/** Says when what is shown may not be current, over the page and not in it, so that nothing jumps. */
export function ConnectionBanner({ connection }: { connection: Connection }) {
  const [isLate, setLate] = useState(false);
  const isAway = connection === 'lost' || connection === 'connecting';
  useEffect(() => {
    if (!isAway) return;
    const timer = setTimeout(() => setLate(true), GRACE_MS);
    return () => {
      clearTimeout(timer);
      setLate(false);
    };
  }, [isAway]);
  const text = !isAway || !isLate ? '' : describe(connection);
  return (
    <div role="status" className={styles.place}>
      {text && <p className={styles.banner}>{text}</p>}
    </div>
  );
}

function describe(connection: Connection): string {
  if (navigator.onLine === false) return 'This computer is offline. What you see is what was last known.';
  if (connection === 'connecting') return 'Connecting to nogoo9…';
  return 'The connection is lost; trying again. What you see is what was last known.';
}
