// What operations and their states are called, and how many of what they have.

import type { Capabilities, Counts, Operation, OperationState, OperationTarget } from '../api/types';
import type { Tone } from '../components/Badge';

export const states: Record<OperationState, { text: string; tone: Tone }> = {
  pending: { text: 'Waiting', tone: 'soft' },
  running: { text: 'Under way', tone: 'accent' },
  succeeded: { text: 'Succeeded', tone: 'good' },
  failed: { text: 'Failed', tone: 'bad' },
  skipped: { text: 'Skipped', tone: 'soft' },
  cancelled: { text: 'Cancelled', tone: 'soft' },
};

export const order: OperationState[] = ['running', 'failed', 'pending', 'succeeded', 'skipped', 'cancelled'];

/** As the operation counts them, or else as its targets are. */
export function counts(operation: Operation): Counts {
  if (operation.counts) return operation.counts;
  const found: Counts = {
    total: 0,
    pending: 0,
    running: 0,
    succeeded: 0,
    failed: 0,
    skipped: 0,
    cancelled: 0,
  };
  for (const { state } of operation.targets) {
    found.total += 1;
    found[state] += 1;
  }
  return found;
}

/** How many came to an end, whichever. */
export const ended = ({ succeeded, failed, skipped, cancelled }: Counts) =>
  succeeded + failed + skipped + cancelled;

/** Whether it is about many workspaces, also where there happens to be one. */
export const isBulk = ({ kind }: Operation) => kind === 'upgrade-all';

export function title(operation: Operation): string {
  if (isBulk(operation)) {
    const { total } = counts(operation);
    const of = operation.scope === 'all' ? '' : 'outdated ';
    return total === 1 ? `Upgrade of 1 ${of}workspace` : `Upgrade of ${total} ${of}workspaces`;
  }
  const what = operation.kind === 'rollback' ? 'Rollback' : 'Upgrade';
  const [only] = operation.targets;
  return only ? `${what} of ${only.id}` : what;
}

/** Where it stands, in a word or two. */
export function standing(operation: Operation): { text: string; tone: Tone } {
  if (operation.done) return states[operation.state];
  if (operation.paused) return { text: 'Paused', tone: 'warn' };
  if (operation.waiting === 'approval') return { text: 'Waits for approval', tone: 'warn' };
  return states[operation.state];
}

/** What this person can say to it now. The server decides; this only hides what is vain. */
export function possible(operation: Operation, me: Capabilities) {
  const many = isBulk(operation);
  const may = many ? me.isAdmin : me.role !== 'viewer';
  const goes = may && !operation.done;
  const waits = operation.paused === true || operation.waiting !== undefined;
  return {
    pause: goes && many && !waits,
    resume: goes && many && operation.paused === true,
    approve: goes && many && !operation.paused && operation.waiting === 'approval',
    cancel: goes,
    retry: may && operation.done && counts(operation).failed > 0,
  };
}

/** Such as "3 succeeded, 1 failed". */
export function summary(found: Counts): string {
  const parts = order.filter((state) => found[state] > 0).map((state) => `${found[state]} ${said[state]}`);
  return parts.length > 0 ? parts.join(', ') : 'nothing to do';
}

const said: Record<OperationState, string> = {
  pending: 'waiting',
  running: 'under way',
  succeeded: 'succeeded',
  failed: 'failed',
  skipped: 'skipped',
  cancelled: 'cancelled',
};

/** Those in the state, or all; what is under way or failed comes first. */
export function listed(targets: OperationTarget[], state: string | undefined): OperationTarget[] {
  return targets
    .filter((target) => state === undefined || target.state === state)
    .sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state) || a.id.localeCompare(b.id));
}
