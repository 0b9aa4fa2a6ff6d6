import { type ReactNode, useEffect, useRef } from 'react';
import styles from './Page.module.css';

let isFirst = true;

interface Props {
  title: string;
  /** Beside the title. */
  actions?: ReactNode;
  /** Above the title: where this page hangs. */
  above?: ReactNode;
  children: ReactNode;
}

/** A page with its title, which is the window's too, and takes the focus when the page is gone to. */
export function Page({ title, actions, above, children }: Props) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · nogoo9`;
  }, [title]);
  useEffect(() => {
    // Not where the browser has just loaded: there it starts at the top by itself.
    if (!isFirst) heading.current?.focus();
    isFirst = false;
  }, []);
  return (
    <>
      {above && <nav aria-label="Breadcrumb">{above}</nav>}
      <div className={styles.head}>
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {actions && <div className={styles.actions}>{actions}</div>}
      </div>
      {children}
    </>
  );
}

/** A box. */
export function Card({ children, label }: { children: ReactNode; label?: string }) {
  return (
    <section className={styles.card} aria-label={label}>
      {children}
    </section>
  );
}

/** What to say where there is nothing yet: what belongs here, and how it comes. */
export function Empty({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div className={styles.empty}>
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** A place that is kept until there is something to show, so that nothing jumps. */
export function Loading({ what, rows = 3 }: { what: string; rows?: number }) {
  return (
    <div className={styles.loading} role="status">
      <span className="visually-hidden">Loading {what}</span>
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: they are all alike and never move
        <div key={row} className={styles.bone} />
      ))}
    </div>
  );
}

/** Something that did not work, and what to do. */
export function Trouble({ error, children }: { error: unknown; children?: ReactNode }) {
  return (
    <div className={styles.trouble} role="alert">
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {children}
    </div>
  );
}

/** Names and values. */
export function Facts({ children }: { children: ReactNode }) {
  return <dl className={styles.facts}>{children}</dl>;
}

export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A moment, as the reader's clock and language have it. */
export function When({ at }: { at: string }) {
  const moment = new Date(at);
  const text = moment.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });
  return <time dateTime={at}>{text}</time>;
}
