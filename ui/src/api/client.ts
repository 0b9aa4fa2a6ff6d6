// Calls of the JSON API. The session is a cookie, which counts because the browser vouches (by
// Sec-Fetch-Site) that the call is this console's own.

import type {
  Capabilities,
  CreatedToken,
  CreateToken,
  Operation,
  Sessions,
  Spawn,
  Template,
  Tokens,
  Upgrade,
  UpgradeAll,
  UpgradeAllOptions,
  Workspace,
} from './types';

/** Longer than the API's own limit. */
const TIMEOUT_MS = 45_000;

/** A call that failed. Its message is a sentence for the person who looks at it. */
export class ApiError extends Error {
  readonly code: string;
  readonly status: number;

  constructor(message: string, code: string, status: number) {
    super(message);
    this.name = 'ApiError';
    this.code = code;
    this.status = status;
  }

  /** Whether the session has ended. */
  get isSignedOut(): boolean {
    return this.status === 401;
  }
}

async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  let response: Response;
  try {
    response = await fetch(`/api/v1${path}`, {
      method,
      cache: 'no-store',
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...(body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
  } catch {
    const offline = navigator.onLine === false;
    throw new ApiError(
      offline
        ? 'This computer is offline. Connect it and try again.'
        : 'nogoo9 does not answer. Your workspaces may well go on; try again in a moment.',
      'unreachable',
      0,
    );
  }
  const text = await response.text();
  const answer = parse(text);
  if (response.ok && answer !== undefined) return answer as T;
  const failure = (answer ?? {}) as { code?: string; message?: string };
  throw new ApiError(
    sentence(failure.message ?? `nogoo9 answered with status ${response.status}. Try again in a moment.`),
    failure.code ?? 'unknown',
    response.status,
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** With a capital at its start and a full stop at its end. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  const ended = /[.!?…]$/.test(trimmed) ? trimmed : `${trimmed}.`;
  return ended.charAt(0).toUpperCase() + ended.slice(1);
}

const at = (id: string) => `/workspaces/${encodeURIComponent(id)}`;

/** What can be said to an operation that is under way. */
export type Command = 'pause' | 'resume' | 'cancel';

export const api = {
  capabilities: () => call<Capabilities>('GET', '/capabilities'),
  workspace: (id: string) => call<Workspace>('GET', at(id)),
  spawn: (spawn: Spawn) => call<Workspace>('POST', '/workspaces', spawn),
  start: (id: string) => call<Workspace>('POST', `${at(id)}/start`),
  stop: (id: string) => call<Workspace>('POST', `${at(id)}/stop`),
  upgrade: (id: string) => call<Upgrade>('POST', `${at(id)}/upgrade`),
  rollback: (id: string) => call<Upgrade>('POST', `${at(id)}/rollback`),
  notBefore: (id: string, notBefore: string | null) =>
    call<Workspace>('PUT', `${at(id)}/not-before`, { notBefore }),
  delete: (id: string, deleteData: boolean) =>
    call<{ message: string }>('DELETE', `${at(id)}${deleteData ? '?deleteData=true' : ''}`),
  templates: () => call<{ templates: Template[] }>('GET', '/templates').then((answer) => answer.templates),
  template: (name: string) => call<Template>('GET', `/templates/${encodeURIComponent(name)}`),
  operation: (id: string, offset: number, limit: number) =>
    call<Operation>('GET', `/operations/${encodeURIComponent(id)}?offset=${offset}&limit=${limit}`),
  command: (id: string, command: Command) =>
    call<Operation>('POST', `/operations/${encodeURIComponent(id)}/${command}`),
  retry: (id: string) => call<UpgradeAll>('POST', `/operations/${encodeURIComponent(id)}/retry`),
  tokens: () => call<Tokens>('GET', '/tokens'),
  createToken: (token: CreateToken) => call<CreatedToken>('POST', '/tokens', token),
  revokeToken: (id: string) => call<{ id: string }>('DELETE', `/tokens/${encodeURIComponent(id)}`),
  sessions: () => call<Sessions>('GET', '/sessions'),
  endSession: (id: string) => call<{ ended: number }>('DELETE', `/sessions/${encodeURIComponent(id)}`),
  endOtherSessions: () => call<{ ended: number }>('DELETE', '/sessions'),
  upgradeAll: (options: UpgradeAllOptions) => call<UpgradeAll>('POST', '/upgrade-all', options),
};
