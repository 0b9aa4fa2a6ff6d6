import type { Counts, OperationState } from '../api/types';
import styles from './Bar.module.css';
import { ended, summary } from './words';

const parts: OperationState[] = ['succeeded', 'failed', 'skipped', 'cancelled', 'running'];

/** How much of an operation is done, and how it ended so far. */
export function Bar({ counts, label }: { counts: Counts; label: string }) {
  const total = Math.max(counts.total, 1);
  return (
    <div
      className={styles.bar}
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={counts.total}
      aria-valuenow={ended(counts)}
      aria-valuetext={summary(counts)}
    >
      {parts.map((part) => (
        <span key={part} className={styles[part]} style={{ width: `${(100 * counts[part]) / total}%` }} />
      ))}
    </div>
  );
}
