import { expect, it } from 'vitest';
import type { Operation, OperationState, OperationTarget } from '../api/types';
import { counts, ended, listed, summary, title } from './words';

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
});
