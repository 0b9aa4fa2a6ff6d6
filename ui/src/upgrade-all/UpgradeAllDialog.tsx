import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { useUpgradeAll, useUpgradeAllPlan } from '../api/queries';
import type { Scope } from '../api/types';
import { Button } from '../components/Button';
import { Dialog } from '../components/Dialog';
import { NumberField, Select } from '../components/Field';
import { Loading, Trouble } from '../components/Page';
import { Plan } from './Plan';
import styles from './UpgradeAll.module.css';

const PARALLEL = 5;
const scopes: { id: Scope; text: string }[] = [
  { id: 'outdated', text: 'Those that are outdated' },
  { id: 'all', text: 'All, also those that are up to date' },
];

/** A number that was given; an empty field gives none. */
const given = (value: number) => (Number.isNaN(value) ? undefined : value);

/** Shows what would happen to whom, and then lets it happen. */
export function UpgradeAllDialog({ from = 'outdated', onClose }: { from?: Scope; onClose: () => void }) {
  const navigate = useNavigate();
  const [scope, setScope] = useState<Scope>(from);
  const plan = useUpgradeAllPlan(scope);
  const run = useUpgradeAll();
  const [parallel, setParallel] = useState(PARALLEL);
  const [canary, setCanary] = useState(Number.NaN);
  const [budget, setBudget] = useState(Number.NaN);
  const targets = plan.data?.targets ?? [];
  const count = plan.data?.upgraded ?? 0;
  const begin = () => {
    const first = given(canary);
    const failures = given(budget);
    run.mutate(
      {
        scope,
        maxParallel: given(parallel) ?? PARALLEL,
        ...(first === undefined ? {} : { canary: first }),
        ...(failures === undefined ? {} : { failureBudget: failures }),
      },
      {
        onSuccess: ({ operationId }) => {
          onClose();
          if (operationId) void navigate({ to: '/operations/$id', params: { id: operationId } });
        },
      },
    );
  };
  return (
    <Dialog
      wide
      isOpen
      onClose={onClose}
      title={scope === 'outdated' ? 'Upgrade all outdated workspaces?' : 'Upgrade all workspaces?'}
      actions={
        <>
          <Button onPress={onClose}>Not now</Button>
          <Button look="primary" isDisabled={count === 0} isPending={run.isPending} onPress={begin}>
            {count === 1 ? 'Upgrade 1 workspace' : `Upgrade ${count} workspaces`}
          </Button>
        </>
      }
    >
      <Select
        label="Which"
        options={scopes}
        value={scope}
        onChange={(value) => setScope(value === 'all' ? 'all' : 'outdated')}
      />
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
              ? scope === 'outdated'
                ? 'Nothing is outdated that could be upgraded now.'
                : 'There is no workspace that could be upgraded now.'
              : 'Owners stay owners, addresses stay, and open terminals go on where the workspace allows it. You can close this page meanwhile.'}
          </p>
          {count > 0 && (
            <div className={styles.terms}>
              <NumberField
                label="At once"
                help="1 to 50. Each needs room for one more pod."
                value={parallel}
                onChange={setParallel}
                minValue={1}
                maxValue={50}
              />
              <NumberField
                label="Try first"
                help="So many, then wait for approval."
                placeholder="All in one go"
                value={canary}
                onChange={setCanary}
                minValue={1}
              />
              <NumberField
                label="May fail"
                help="With one more, the rest is cancelled."
                placeholder="Any number"
                value={budget}
                onChange={setBudget}
                minValue={0}
              />
            </div>
          )}
          <Plan targets={targets} total={plan.data.total} />
        </>
      )}
      {run.isError && <Trouble error={run.error} />}
    </Dialog>
  );
}
