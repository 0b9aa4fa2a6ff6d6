import { Link } from '@tanstack/react-router';
import { sentence } from '../api/client';
import type { UpgradeAllTarget } from '../api/types';
import { Badge } from '../components/Badge';
import styles from './UpgradeAll.module.css';

/** Workspaces that are named; of more only the number is said. */
const MOST = 200;

/** What would happen to each workspace, and why. */
export function Plan({ targets, total }: { targets: UpgradeAllTarget[]; total: number }) {
  if (targets.length === 0) return null;
  const shown = targets.slice(0, MOST);
  return (
    // It scrolls by itself: whoever has no mouse goes there by Tab.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable
    <section className={styles.plan} aria-label="What would happen" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">Workspace</th>
            <th scope="col">It would be</th>
            <th scope="col">Version</th>
            <th scope="col">To know</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((target) => (
            <tr key={target.id} data-verdict={target.verdict} data-target={target.id}>
              <td>
                <strong>{target.id}</strong> <span className={styles.soft}>of {target.owner}</span>
              </td>
              <td>
                {target.verdict === 'upgrade' ? (
                  <Badge tone="accent">Upgraded</Badge>
                ) : (
                  <Badge tone="soft">Skipped</Badge>
                )}
              </td>
              <td>
                <code>{target.fromVersion}</code>
                {target.verdict === 'upgrade' && target.toVersion && (
                  <>
                    {' '}
                    → <code>{target.toVersion}</code>
                  </>
                )}
                {target.mode && <div className={styles.soft}>{target.mode}</div>}
              </td>
              <td>
                <Known target={target} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {total > shown.length && <p className={styles.more}>and {total - shown.length} more</p>}
    </section>
  );
}

function Known({ target: { reason, dataLost = [], underWay } }: { target: UpgradeAllTarget }) {
  return (
    <>
      {reason && <div className={styles.soft}>{sentence(reason)}</div>}
      {dataLost.length > 0 && (
        <div className={styles.lost}>
          Loses what is in {dataLost.join(', ')}: {dataLost.length === 1 ? 'it ends' : 'they end'} with the
          pod.
        </div>
      )}
      {underWay && (
        <Link to="/operations/$id" params={{ id: underWay }}>
          Follow it there
        </Link>
      )}
    </>
  );
}
