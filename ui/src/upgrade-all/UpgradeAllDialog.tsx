import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { useUpgradeAll, useUpgradeAllPlan } from '../api/queries';
import type { UpgradeAllTarget } from '../api/types';
import { Button } from '../components/Button';
import { Dialog } from '../components/Dialog';
import { NumberField } from '../components/Field';
import { Loading, Trouble } from '../components/Page';
import styles from './UpgradeAll.module.css';

/** Workspaces that are named; of more only the number is said. */
const MOST = 200;

/** Shows what would happen to whom, and then lets it happen. */
export function UpgradeAllDialog({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const plan = useUpgradeAllPlan(true);
  const run = useUpgradeAll();
  const [parallel, setParallel] = useState(5);
  const targets = plan.data?.targets ?? [];
  const count = targets.filter(({ verdict }) => verdict === 'upgrade').length;
  const begin = () =>
    run.mutate(Number.isNaN(parallel) ? 5 : parallel, {
      onSuccess: ({ operationId }) => {
        onClose();
        if (operationId) void navigate({ to: '/operations/$id', params: { id: operationId } });
      },
    });
  return (
    <Dialog
      wide
      isOpen
      onClose={onClose}
      title="Upgrade all outdated workspaces?"
      actions={
        <>
          <Button onPress={onClose}>Not now</Button>
          <Button look="primary" isDisabled={count === 0} isPending={run.isPending} onPress={begin}>
            {count === 1 ? 'Upgrade 1 workspace' : `Upgrade ${count} workspaces`}
          </Button>
        </>
      }
    >
      {plan.isPending ? (
        <Loading what="what would be upgraded" rows={1} />
      ) : plan.isError ? (
        <Trouble error={plan.error}>
          <Button onPress={() => void plan.refetch()}>Try again</Button>
        </Trouble>
      ) : (
        <>
          <p>
            {count === 0
              ? 'Nothing is outdated any more.'
              : 'Owners stay owners, addresses stay, and open terminals go on where the workspace allows it. You can close this page meanwhile.'}
          </p>
          {count > 0 && (
            <NumberField
              label="At once"
              help="How many are upgraded at the same time, 1 to 50. Each needs room for one more pod."
              value={parallel}
              onChange={setParallel}
              minValue={1}
              maxValue={50}
            />
          )}
          <Plan targets={targets} />
        </>
      )}
      {run.isError && <Trouble error={run.error} />}
    </Dialog>
  );
}

function Plan({ targets }: { targets: UpgradeAllTarget[] }) {
  if (targets.length === 0) return null;
  return (
    <ul className={styles.plan} aria-label="What would happen">
      {targets.slice(0, MOST).map((target) => (
        <li key={target.id} data-verdict={target.verdict} data-target={target.id}>
          <span>
            <strong>{target.id}</strong> <span className={styles.soft}>of {target.owner}</span>
          </span>
          {target.verdict === 'upgrade' ? (
            <span className={styles.soft}>
              <code>{target.fromVersion}</code> → <code>{target.toVersion}</code>
              {target.mode && `, ${target.mode}`}
            </span>
          ) : (
            <span className={styles.soft}>skipped{target.reason && `: ${target.reason}`}</span>
          )}
        </li>
      ))}
      {targets.length > MOST && <li>and {targets.length - MOST} more</li>}
    </ul>
  );
}
