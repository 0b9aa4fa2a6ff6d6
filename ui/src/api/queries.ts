// What pages ask for, and what they do.

import {
  keepPreviousData,
  MutationCache,
  QueryCache,
  QueryClient,
  useInfiniteQuery,
  useMutation,
  useQuery,
} from '@tanstack/react-query';
import { ApiError, api, type Command } from './client';
import { apply, signedOut } from './live';
import type { CreateToken, Operation, OperationTarget, Scope, Spawn, UpgradeAllOptions } from './types';

/** Targets of an operation that one call brings. */
const PAGE = 250;
/** Pages that are brought without being asked for. */
export const MOST_PAGES = 8;

const watch = {
  onError(error: Error) {
    if (error instanceof ApiError && error.isSignedOut) signedOut();
  },
};

export const queries = new QueryClient({
  queryCache: new QueryCache(watch),
  mutationCache: new MutationCache(watch),
  defaultOptions: {
    queries: {
      // What may be right a moment later is tried again; a refusal is not.
      retry: (count, error) =>
        count < 2 && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
      staleTime: 5000,
    },
  },
});

export const useCapabilities = () =>
  useQuery({ queryKey: ['capabilities'], queryFn: api.capabilities, staleTime: 60_000 });

export const useTemplates = () => useQuery({ queryKey: ['templates'], queryFn: api.templates });

export const useTemplate = (name: string) =>
  useQuery({ queryKey: ['template', name], queryFn: () => api.template(name) });

/**
 * An operation with its targets, page by page. `revision` is the newest that the stream told of: a
 * new one is a reason to ask again.
 */
export const useOperation = (id: string, revision: string | undefined) =>
  useInfiniteQuery({
    queryKey: ['operation', id, revision],
    queryFn: ({ pageParam }) => api.operation(id, pageParam, PAGE),
    initialPageParam: 0,
    getNextPageParam: (last, pages) => {
      const seen = pages.reduce((sum, page) => sum + page.targets.length, 0);
      return last.targets.length > 0 && seen < (last.counts?.total ?? 0) ? seen : undefined;
    },
    select: ({ pages }): { operation: Operation | undefined; targets: OperationTarget[] } => ({
      operation: pages[0],
      targets: pages.flatMap((page) => page.targets),
    }),
    placeholderData: keepPreviousData,
    // The stream tells of every step, but not of one that is waited for in words.
    refetchInterval: ({ state }) => (state.data?.pages[0]?.done === false ? 5000 : false),
  });

export type Act = 'start' | 'stop' | 'upgrade';

export const useAct = (id: string) =>
  useMutation({
    mutationFn: async (act: Act) => {
      if (act === 'upgrade') await api.upgrade(id);
      apply(act === 'upgrade' ? await api.workspace(id) : await api[act](id));
    },
  });

export const useDelete = (id: string) =>
  useMutation({ mutationFn: (deleteData: boolean) => api.delete(id, deleteData) });

export const useSpawn = () =>
  useMutation({ mutationFn: (spawn: Spawn) => api.spawn(spawn), onSuccess: apply });

/** Goes back to the version before. */
export const useRollback = (id: string) =>
  useMutation({
    mutationFn: async () => {
      await api.rollback(id);
      apply(await api.workspace(id));
    },
  });

/** Until when bulks pass the workspace over; null: they do not. */
export const useNotBefore = (id: string) =>
  useMutation({
    mutationFn: (notBefore: string | null) => api.notBefore(id, notBefore),
    onSuccess: apply,
  });

export const useTokens = () => useQuery({ queryKey: ['tokens'], queryFn: api.tokens });

const tokensChanged = () => queries.invalidateQueries({ queryKey: ['tokens'] });

/** Makes a token. Its answer is kept for nobody but whoever asked. */
export const useCreateToken = () =>
  useMutation({
    mutationFn: (token: CreateToken) => api.createToken(token),
    onSuccess: tokensChanged,
    gcTime: 0,
  });

export const useRevokeToken = (id: string) =>
  useMutation({ mutationFn: () => api.revokeToken(id), onSettled: tokensChanged });

export const useSessions = () => useQuery({ queryKey: ['sessions'], queryFn: api.sessions });

const sessionsChanged = () => queries.invalidateQueries({ queryKey: ['sessions'] });

export const useEndSession = () =>
  useMutation({ mutationFn: (id: string) => api.endSession(id), onSettled: sessionsChanged });

export const useEndOtherSessions = () =>
  useMutation({ mutationFn: () => api.endOtherSessions(), onSettled: sessionsChanged });

/** What an upgrade of all would do. */
export const useUpgradeAllPlan = (scope: Scope) =>
  useQuery({
    queryKey: ['upgrade-all', scope],
    queryFn: () => api.upgradeAll({ dryRun: true, scope }),
    staleTime: 0,
    gcTime: 0,
  });

export const useUpgradeAll = () =>
  useMutation({ mutationFn: (options: UpgradeAllOptions) => api.upgradeAll(options) });

export const useCommand = (id: string) =>
  useMutation({
    mutationFn: (command: Command) => api.command(id, command),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['operation', id] }),
  });

export const useRetry = (id: string) => useMutation({ mutationFn: () => api.retry(id) });
