import { describe, expect, it } from 'vitest';
import type { Capabilities, Workspace } from '../api/types';
import { grouped, more, ports, possible } from './words';

const me: Capabilities = {
  sub: 'alice',
  role: 'user',
  isAdmin: false,
  canSpawn: true,
  canUpgradeAll: false,
  version: '0',
};
const admin: Capabilities = { ...me, sub: 'admin', role: 'admin', isAdmin: true };
const desk: Workspace = {
  id: 'desk',
  name: 'Desk',
  owner: 'alice',
  status: 'running',
  message: 'Running',
  url: 'http://desk.localhost/',
  template: 'sample',
  version: '1',
  latestVersion: '2',
  outdated: true,
  createdAt: '2026-01-01T00:00:00Z',
};

describe('what is possible', () => {
  it('is everything for the owner of what runs and is outdated', () => {
    expect(possible(desk, me)).toEqual({
      open: desk.url,
      upgrade: true,
      rollback: false,
      postpone: true,
      start: false,
      stop: true,
      delete: true,
    });
  });
  it('is nothing for a viewer but to open', () => {
    const viewer: Capabilities = { ...me, role: 'viewer' };
    expect(possible(desk, viewer)).toEqual({
      open: desk.url,
      upgrade: false,
      rollback: false,
      postpone: false,
      start: false,
      stop: false,
      delete: false,
    });
  });
  it('for an admin is not to open what is another’s', () => {
    expect(possible(desk, admin)).toEqual({
      upgrade: true,
      rollback: false,
      postpone: true,
      start: false,
      stop: true,
      delete: true,
    });
  });
  it.each([
    [{ status: 'stopped' }, { start: true, stop: false, upgrade: false, delete: true }],
    [{ status: 'deleting' }, { start: false, stop: false, upgrade: false, delete: false }],
    [{ operationId: 'op-1' }, { upgrade: false, stop: true }],
    [{ outdated: 'unknown' }, { upgrade: false }],
    [{ outdated: false }, { upgrade: false }],
    [{ status: 'failing' }, { upgrade: true, stop: true }],
    [{ previousVersion: '0' }, { rollback: true }],
    [{ previousVersion: '0', operationId: 'op-1' }, { rollback: false }],
    [{ previousVersion: '0', status: 'stopped' }, { rollback: false }],
  ] as [Partial<Workspace>, object][])('with %o is %o', (difference, expected) => {
    const can = possible({ ...desk, ...difference }, me);
    expect(can).toMatchObject(expected);
    if (['stopped', 'failing', 'deleting'].includes(difference.status ?? ''))
      expect(can.open).toBeUndefined();
  });
});

describe('groups', () => {
  const all: Workspace[] = [
    { ...desk, id: 'b', name: 'b', owner: 'bob' },
    { ...desk, id: 'z', name: 'Zoo', outdated: false, status: 'stopped' },
    { ...desk, id: 'a', name: 'Attic', outdated: 'unknown', lastUpgradeError: 'ErrImagePull: no' },
  ];
  const names = (query: string, show: Parameters<typeof grouped>[2]) =>
    grouped(all, query, show).map(({ owner, workspaces }) => [owner, workspaces.map(({ name }) => name)]);
  it('are by owner, in order', () => {
    expect(names('', 'all')).toEqual([
      ['alice', ['Attic', 'Zoo']],
      ['bob', ['b']],
    ]);
  });
  it('have what contains every word, whatever its case', () => {
    expect(names('ALICE zoo', 'all')).toEqual([['alice', ['Zoo']]]);
    expect(names('nowhere', 'all')).toEqual([]);
  });
  it('have one kind', () => {
    expect(names('', 'outdated')).toEqual([['bob', ['b']]]);
    expect(names('', 'stopped')).toEqual([['alice', ['Zoo']]]);
    expect(names('', 'trouble')).toEqual([['alice', ['Attic']]]);
  });
});

it('does not repeat the badge', () => {
  expect(more(desk)).toBeUndefined();
  expect(more({ ...desk, message: 'Running; the old pod drains: 2 sessions' })).toBe(
    'The old pod drains: 2 sessions.',
  );
  expect(more({ ...desk, status: 'starting', message: 'Starting: creating the pod' })).toBe(
    'Creating the pod.',
  );
  expect(more({ ...desk, status: 'starting', message: 'Upgrading: waiting' })).toBe('Upgrading: waiting.');
  expect(more({ ...desk, status: 'failing', message: 'Not running: ErrImagePull' })).toBe(
    'Not running: ErrImagePull.',
  );
});

describe('extra ports', () => {
  const url = 'http://web--desk.localhost/';
  const docs = { name: 'docs', port: 1, url, pathUrl: 'http://desk.localhost/docs/' };
  const some: Workspace = { ...desk, ports: [{ name: 'web', port: 2, url }, docs] };
  it('are opened under the workspace’s address where they have a path there', () => {
    expect(ports(some, me)).toEqual([
      { name: 'web', port: 2, open: url },
      { name: 'docs', port: 1, open: docs.pathUrl },
    ]);
  });
  it('are named alone where nothing is to be opened', () => {
    const names = [
      { name: 'web', port: 2 },
      { name: 'docs', port: 1 },
    ];
    expect(ports({ ...some, status: 'stopped' }, me)).toEqual(names);
    expect(ports(some, admin)).toEqual(names);
    expect(ports(desk, me)).toEqual([]);
  });
});
