// What the states of a workspace are called, and what can be done in each.

import { sentence } from '../api/client';
import type { Capabilities, Status, Workspace } from '../api/types';
import type { Tone } from '../components/Badge';

export const words: Record<Status, { text: string; tone: Tone }> = {
  running: { text: 'Running', tone: 'good' },
  starting: { text: 'Starting', tone: 'accent' },
  upgrading: { text: 'Upgrading', tone: 'accent' },
  stopping: { text: 'Stopping', tone: 'soft' },
  stopped: { text: 'Stopped', tone: 'soft' },
  deleting: { text: 'Being deleted', tone: 'soft' },
  failing: { text: 'Failing', tone: 'bad' },
};

export interface Possible {
  /** Where it is opened. */
  open?: string;
  upgrade: boolean;
  rollback: boolean;
  /** Saying until when bulks pass it over. */
  postpone: boolean;
  start: boolean;
  stop: boolean;
  delete: boolean;
}

const UP: Status[] = ['running', 'starting', 'failing', 'upgrading'];

/** What this person can do with this workspace now. The server decides; this only hides what is vain. */
export function possible(workspace: Workspace, me: Capabilities): Possible {
  const { status } = workspace;
  const isMine = workspace.owner === me.sub;
  const mayChange = me.isAdmin || (isMine && me.role !== 'viewer');
  const isUp = UP.includes(status);
  const url = workspace.url ?? workspace.pathUrl;
  return {
    // Being admin does not open another's pages.
    ...(url && isMine && isUp && status !== 'failing' ? { open: url } : {}),
    upgrade: mayChange && isUp && workspace.outdated === true && !workspace.operationId,
    rollback: mayChange && isUp && workspace.previousVersion !== undefined && !workspace.operationId,
    postpone: mayChange && status !== 'deleting',
    start: mayChange && status === 'stopped',
    stop: mayChange && isUp,
    delete: mayChange && status !== 'deleting',
  };
}

/** What it serves beside its own port; with where, for whoever can open it now. */
export function ports(
  workspace: Workspace,
  me: Capabilities,
): { name: string; port: number; open?: string }[] {
  const opens = possible(workspace, me).open !== undefined;
  return (workspace.ports ?? []).map(({ name, port, url, pathUrl }) => {
    // Under a path it is a page of the workspace's own, and its person is signed in there already.
    const open = opens ? (pathUrl ?? url) : undefined;
    return { name, port, ...(open ? { open } : {}) };
  });
}

/** What the message says beyond the badge beside it, if anything. */
export function more({ message, status }: Workspace): string | undefined {
  const word = words[status].text.toLowerCase();
  const text = message.trim();
  if (text.toLowerCase() === word) return undefined;
  const said = new RegExp(`^${word}[:;] `, 'i');
  return sentence(text.replace(said, ''));
}

export interface Group {
  owner: string;
  workspaces: Workspace[];
}

export type Show = 'all' | 'outdated' | 'trouble' | 'stopped';

export const shows: { id: Show; text: string }[] = [
  { id: 'all', text: 'All' },
  { id: 'outdated', text: 'Outdated' },
  { id: 'trouble', text: 'In trouble' },
  { id: 'stopped', text: 'Stopped' },
];

const passes: Record<Show, (workspace: Workspace) => boolean> = {
  all: () => true,
  outdated: ({ outdated }) => outdated === true,
  trouble: ({ status, lastUpgradeError }) => status === 'failing' || lastUpgradeError !== undefined,
  stopped: ({ status }) => status === 'stopped',
};

/** Those that contain the words and are of the kind, by owner; owners and workspaces in order. */
export function grouped(workspaces: Iterable<Workspace>, query: string, show: Show): Group[] {
  const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
  const groups = new Map<string, Workspace[]>();
  for (const workspace of workspaces) {
    const text = [workspace.id, workspace.name, workspace.owner, workspace.template, workspace.version]
      .join(' ')
      .toLowerCase();
    if (!passes[show](workspace) || !wanted.every((word) => text.includes(word))) continue;
    const group = groups.get(workspace.owner);
    if (group) group.push(workspace);
    else groups.set(workspace.owner, [workspace]);
  }
  return [...groups]
    .map(([owner, found]) => ({ owner, workspaces: found.sort(byName) }))
    .sort((a, b) => a.owner.localeCompare(b.owner));
}

export function byName(a: Workspace, b: Workspace): number {
  return a.name.localeCompare(b.name) || a.id.localeCompare(b.id);
}
