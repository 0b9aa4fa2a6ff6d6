import { expect, it } from 'vitest';
import type { Capabilities, Operation, OperationState, OperationTarget } from '../api/types';
import { counts, ended, listed, possible, standing, summary, title } from './words';

const target = (id: string, state: OperationState): OperationTarget => ({ id, state, message: '' });
const operation = (more: Partial<Operation>): Operation => ({
  operationId: 'op-1',
  kind: 'upgrade-all',
  actor: 'admin',
  state: 'running',
  done: false,
  revision: '1',
  message: '',
  startedAt: '2026-01-01T00:00:00Z',
  targets: [
    target('b', 'succeeded'),
    target('a', 'succeeded'),
    target('c', 'failed'),
    target('d', 'running'),
  ],
  ...more,
});

it('counts targets where the operation does not count itself', () => {
  const found = counts(operation({}));
  expect(found).toEqual({
    total: 4,
    pending: 0,
    running: 1,
    succeeded: 2,
    failed: 1,
    skipped: 0,
    cancelled: 0,
  });
  expect(ended(found)).toBe(3);
  expect(summary(found)).toBe('1 under way, 1 failed, 2 succeeded');
  expect(counts(operation({ counts: { ...found, total: 900 } })).total).toBe(900);
  expect(summary(counts(operation({ targets: [] })))).toBe('nothing to do');
});

it('puts what needs a look first, and filters', () => {
  const ids = (state?: string) => listed(operation({}).targets, state).map(({ id }) => id);
  expect(ids()).toEqual(['d', 'c', 'a', 'b']);
  expect(ids('failed')).toEqual(['c']);
  expect(ids('skipped')).toEqual([]);
});

it('has a title', () => {
  expect(title(operation({}))).toBe('Upgrade of 4 outdated workspaces');
  expect(title(operation({ kind: 'upgrade', targets: [target('desk', 'running')] }))).toBe('Upgrade of desk');
  expect(title(operation({ scope: 'all' }))).toBe('Upgrade of 4 workspaces');
  expect(title(operation({ kind: 'rollback', targets: [target('desk', 'running')] }))).toBe(
    'Rollback of desk',
  );
});

it('says what it waits for', () => {
  expect(standing(operation({})).text).toBe('Under way');
  expect(standing(operation({ waiting: 'approval' })).text).toBe('Waits for approval');
  expect(standing(operation({ waiting: 'approval', paused: true })).text).toBe('Paused');
  expect(standing(operation({ paused: true, done: true, state: 'cancelled' })).text).toBe('Cancelled');
});

const admin: Capabilities = {
  sub: 'admin',
  role: 'admin',
  isAdmin: true,
  canSpawn: true,
  canUpgradeAll: true,
  version: '0',
};
const alice: Capabilities = { ...admin, sub: 'alice', role: 'user', isAdmin: false };
const single: Partial<Operation> = { kind: 'upgrade', targets: [target('desk', 'running')] };
const failed: Partial<Operation> = { done: true, state: 'failed' };

it.each([
  [{}, admin, ['pause', 'cancel']],
  [{ paused: true }, admin, ['resume', 'cancel']],
  [{ waiting: 'approval' }, admin, ['approve', 'cancel']],
  [{ waiting: 'approval', paused: true }, admin, ['resume', 'cancel']],
  [failed, admin, ['retry']],
  [{ ...failed, targets: [target('a', 'succeeded')] }, admin, []],
  [{}, alice, []],
  [failed, alice, []],
  [single, alice, ['cancel']],
  [single, { ...alice, role: 'viewer' }, []],
] as [Partial<Operation>, Capabilities, string[]][])('%o takes from %o: %j', (more, me, expected) => {
  const can = possible(operation(more), me);
  expect(Object.entries(can).flatMap(([name, may]) => (may ? [name] : []))).toEqual(expected);
});
