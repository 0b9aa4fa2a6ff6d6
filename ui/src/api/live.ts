// What the server tells by itself: workspaces and operations, from one stream of events for the
// whole page. A store outside React, since it lives as long as the page does.

import { useSyncExternalStore } from 'react';
import { ApiError, api } from './client';
import type { Operation, Workspace } from './types';

export type Connection =
  /** Nothing was told yet. */
  | 'connecting'
  /** What is shown is what is. */
  | 'live'
  /** What is shown is what was last known. */
  | 'lost'
  /** The session has ended. */
  | 'signed-out';

export interface Live {
  connection: Connection;
  workspaces: ReadonlyMap<string, Workspace>;
  /** Newest first. */
  operations: readonly Operation[];
}

/** Pauses between two attempts to connect, the last for ever. */
const PAUSES_MS = [500, 1000, 2000, 5000, 10_000];
/** As many as the server lists. */
const MOST_OPERATIONS = 50;

let state: Live = { connection: 'connecting', workspaces: new Map(), operations: [] };
let source: EventSource | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;
let failures = 0;
const listeners = new Set<() => void>();

function set(next: Partial<Live>) {
  state = { ...state, ...next };
  for (const listener of listeners) listener();
}

/** The operations with that one as it is now, newest first. */
export function withOperation(operations: readonly Operation[], operation: Operation): Operation[] {
  const others = operations.filter(({ operationId }) => operationId !== operation.operationId);
  return [...others, operation]
    .sort((a, b) => b.startedAt.localeCompare(a.startedAt) || b.operationId.localeCompare(a.operationId))
    .slice(0, MOST_OPERATIONS);
}

interface Draft {
  workspaces: Map<string, Workspace>;
  operations: readonly Operation[];
}

let draft: Draft | undefined;

/** Changes what is shown. Changes that come close together, as in a bulk upgrade, are drawn once. */
function edit(change: (draft: Draft) => void) {
  if (!draft) {
    draft = { workspaces: new Map(state.workspaces), operations: state.operations };
    requestAnimationFrame(flush);
  }
  change(draft);
}

function flush() {
  const changed = draft;
  draft = undefined;
  if (changed) set(changed);
}

/** Shows what an action answered, before the stream tells it. */
export function apply(workspace: Workspace) {
  edit(({ workspaces }) => workspaces.set(workspace.id, workspace));
  flush();
}

function connect() {
  clearTimeout(timer);
  timer = undefined;
  if (source || document.visibilityState === 'hidden' || state.connection === 'signed-out') return;
  const stream = new EventSource('/api/v1/events');
  source = stream;
  const on = <T>(name: string, take: (data: T) => void) =>
    stream.addEventListener(name, (event: MessageEvent<string>) => {
      if (source === stream) take(JSON.parse(event.data) as T);
    });
  on<{ workspaces: Workspace[]; operations: Operation[] }>('snapshot', ({ workspaces, operations }) => {
    failures = 0;
    draft = undefined;
    set({
      connection: 'live',
      workspaces: new Map(workspaces.map((workspace) => [workspace.id, workspace])),
      operations,
    });
  });
  on<Workspace>('workspace', (workspace) =>
    edit(({ workspaces }) => workspaces.set(workspace.id, workspace)),
  );
  on<{ id: string }>('workspace-gone', ({ id }) => edit(({ workspaces }) => workspaces.delete(id)));
  on<Operation>('operation', (operation) =>
    edit((draft) => {
      draft.operations = withOperation(draft.operations, operation);
    }),
  );
  stream.onerror = () => {
    // The browser would try again by itself, but not after a refusal, and without a word why.
    if (source !== stream) return;
    disconnect();
    void again();
  };
}

function disconnect() {
  source?.close();
  source = undefined;
}

async function again() {
  const pause = PAUSES_MS[Math.min(failures, PAUSES_MS.length - 1)];
  failures += 1;
  if (state.connection === 'live' && failures > 1) set({ connection: 'lost' });
  try {
    await api.capabilities();
  } catch (error) {
    if (error instanceof ApiError && error.isSignedOut) {
      set({ connection: 'signed-out' });
      return;
    }
    if (state.connection === 'live') set({ connection: 'lost' });
  }
  if (!timer && !source) timer = setTimeout(connect, pause);
}

/** Says that a call was refused for want of a session. */
export function signedOut() {
  disconnect();
  set({ connection: 'signed-out' });
}

/**
 * Begins to follow. A hidden page lets go of its stream, since browsers allow few connections to a
 * host; shown again it gets a fresh snapshot.
 */
export function follow() {
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'hidden') disconnect();
    else connect();
  });
  window.addEventListener('online', () => {
    failures = 0;
    clearTimeout(timer);
    timer = undefined;
    connect();
  });
  window.addEventListener('offline', () => {
    disconnect();
    set({ connection: state.connection === 'live' ? 'lost' : state.connection });
  });
  connect();
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useLive(): Live {
  return useSyncExternalStore(subscribe, () => state);
}
