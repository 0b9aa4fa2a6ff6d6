import type { Workspace } from '../api/types';

/** The version that it runs, and the one that it could. */
export function Version({ workspace }: { workspace: Workspace }) {
  const { version, latestVersion, outdated } = workspace;
  return (
    <>
      <code>{version}</code>
      {outdated === true && latestVersion && (
        <>
          {' '}
          <span aria-hidden="true">→</span>
          <span className="visually-hidden">, the newest is</span> <code>{latestVersion}</code>
        </>
      )}
      {outdated === 'unknown' && ' (its template cannot be read now)'}
    </>
  );
}
