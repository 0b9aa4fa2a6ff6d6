import type { ReactNode } from 'react';
import styles from './Badge.module.css';

export type Tone = 'good' | 'warn' | 'bad' | 'soft' | 'accent';

/** A word about the state of something. The word says it; the colour only helps. */
export function Badge({ tone, children }: { tone: Tone; children: ReactNode }) {
  return <span className={`${styles.badge} ${styles[tone]}`}>{children}</span>;
}
