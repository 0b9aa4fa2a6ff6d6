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
  claims?: string[];
  createdAt: string;
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
}

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
  kind: 'upgrade' | 'upgrade-all' | (string & {});
  actor: string;
  state: OperationState;
  done: boolean;
  revision: string;
  message: string;
  startedAt: string;
  finishedAt?: string;
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
}

export interface UpgradeAll {
  status: 'upgrading' | 'up_to_date' | 'dry_run';
  operationId?: string;
  total: number;
  next?: string;
  targets?: UpgradeAllTarget[];
}
