// What control's JSON API and events carry. `tests/browser/contract.mjs` holds these to real answers.

export type Status = 'running' | 'starting' | 'upgrading' | 'stopping' | 'stopped' | 'deleting' | 'failing';

export interface Workspace {
  id: string;
  name: string;
  owner: string;
  status: Status;
  message: string;
  url?: string;
  pathUrl?: string;
  podName?: string;
  template: string;
  version: string;
  latestVersion?: string;
  outdated: boolean | 'unknown';
  lastUpgradeError?: string;
  operationId?: string;
  /** No bulk upgrades it before then. */
  notBefore?: string;
  /** What a rollback brings back. */
  previousVersion?: string;
  lastUpgrade?: LastUpgrade;
  claims?: string[];
  ports?: ExtraPort[];
  createdAt: string;
}

/** What a workspace serves beside its own port. */
export interface ExtraPort {
  name: string;
  port: number;
  /** On a host of its own. */
  url?: string;
  /** Under the workspace's own address. */
  pathUrl?: string;
}

export interface LastUpgrade {
  operationId: string;
  from: string;
  to: string;
  actor: string;
  startedAt: string;
  finishedAt?: string;
  state: OperationState;
}

export type OperationState = 'pending' | 'running' | 'succeeded' | 'failed' | 'skipped' | 'cancelled';

/** How a pod is replaced. */
export type Mode = 'side-by-side' | 'recreate';

export interface OperationTarget {
  id: string;
  owner?: string;
  state: OperationState;
  phase?: 'starting' | 'draining' | 'aborting' | 'done' | (string & {});
  message: string;
  podName?: string;
  previousPodName?: string;
  fromVersion?: string;
  toVersion?: string;
  mode?: Mode;
  error?: { reason: string; message: string };
  /** The operation that upgrades it instead. */
  underWay?: string;
}

/** Which workspaces an upgrade of many is about. */
export type Scope = 'outdated' | 'all';

export interface Counts {
  total: number;
  pending: number;
  running: number;
  succeeded: number;
  failed: number;
  skipped: number;
  cancelled: number;
}

export interface Operation {
  operationId: string;
  kind: 'upgrade' | 'rollback' | 'upgrade-all' | (string & {});
  actor: string;
  state: OperationState;
  done: boolean;
  revision: string;
  message: string;
  startedAt: string;
  finishedAt?: string;
  paused?: boolean;
  waiting?: 'approval' | (string & {});
  canary?: number;
  failureBudget?: number;
  /** Why it stopped by itself. */
  stopped?: string;
  /** The operation whose failed workspaces it tries again. */
  retryOf?: string;
  scope?: Scope;
  counts?: Counts;
  targets: OperationTarget[];
}

export interface Capabilities {
  sub: string;
  role: 'viewer' | 'user' | 'admin';
  isAdmin: boolean;
  canSpawn: boolean;
  canUpgradeAll: boolean;
  version: string;
}

/** What a personal access token may be used for. */
export type TokenScope = 'nogoo9:read' | 'nogoo9:write' | 'nogoo9:admin';

/** A personal access token, without the token itself. */
export interface Token {
  id: string;
  name: string;
  scopes: (TokenScope | (string & {}))[];
  createdAt: string;
  expiresAt: string;
  expired: boolean;
  /** To the hour. */
  lastUsedAt?: string;
}

export interface Tokens {
  tokens: Token[];
  /** How many one may have that have not expired. */
  most: number;
}

/** The only answer that has the token itself. */
export interface CreatedToken extends Token {
  token: string;
}

export interface CreateToken {
  name: string;
  scopes: TokenScope[];
  expiresInDays: number;
}

/** A browser session. */
export interface Session {
  id: string;
  createdAt: string;
  /** To a quarter of an hour. */
  lastSeenAt: string;
  endsAt: string;
  /** Whether it is the one that asks. */
  current: boolean;
}

export interface Sessions {
  sessions: Session[];
}

/** One property of a template's `parameters`. */
export interface Parameter {
  type?: 'string' | 'integer' | 'boolean';
  title?: string;
  description?: string;
  default?: string | number | boolean;
  enum?: (string | number | boolean)[];
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
}

export interface Parameters {
  title?: string;
  description?: string;
  properties?: Record<string, Parameter>;
  required?: string[];
}

export interface Template {
  name: string;
  usable: boolean;
  version?: string;
  problem?: string;
  images?: string[];
  parameters?: Parameters;
  spec?: unknown;
}

/** Arguments of spawning. */
export interface Spawn {
  template: string;
  id?: string;
  name?: string;
  userSub?: string;
  inputs: Record<string, string | number | boolean>;
}

export interface Upgrade {
  id: string;
  status: 'upgrading' | 'up_to_date';
  operationId?: string;
  next: string;
}

export interface UpgradeAllTarget {
  id: string;
  owner: string;
  template: string;
  fromVersion?: string;
  toVersion?: string;
  mode?: Mode;
  verdict: 'upgrade' | 'skip';
  reason?: string;
  /** Volumes that end with the pod. */
  dataLost?: string[];
  /** The operation that upgrades it already. */
  underWay?: string;
}

/** What is asked of an upgrade of many. */
export interface UpgradeAllOptions {
  dryRun?: boolean;
  scope?: Scope;
  maxParallel?: number;
  canary?: number;
  failureBudget?: number;
}

export interface UpgradeAll {
  status: 'upgrading' | 'up_to_date' | 'dry_run';
  operationId?: string;
  total: number;
  upgraded: number;
  next?: string;
  targets?: UpgradeAllTarget[];
}
