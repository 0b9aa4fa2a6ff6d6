// The addresses of the console. Each has its page; what a page filters by is in its address too, so
// that it can be sent to somebody and survives a reload.

import { createRootRoute, createRoute, createRouter } from '@tanstack/react-router';
import { OperationPage } from './operations/OperationPage';
import { OperationsPage } from './operations/OperationsPage';
import { SessionsPage } from './sessions/SessionsPage';
import { NotFound } from './shell/NotFound';
import { Shell } from './shell/Shell';
import { SpawnPage } from './spawn/SpawnPage';
import { TemplatePage } from './templates/TemplatePage';
import { TemplatesPage } from './templates/TemplatesPage';
import { TokensPage } from './tokens/TokensPage';
import { EveryonePage } from './workspaces/EveryonePage';
import { MinePage } from './workspaces/MinePage';
import { WorkspacePage } from './workspaces/WorkspacePage';

const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined);

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound });
const mine = createRoute({ getParentRoute: () => root, path: '/', component: MinePage });
const everyone = createRoute({
  getParentRoute: () => root,
  path: '/everyone',
  component: EveryonePage,
  validateSearch: (search: Record<string, unknown>): { q?: string; show?: string } => ({
    q: text(search.q),
    show: text(search.show),
  }),
});
const spawn = createRoute({
  getParentRoute: () => root,
  path: '/new',
  component: SpawnPage,
  validateSearch: (search: Record<string, unknown>): { template?: string } => ({
    template: text(search.template),
  }),
});
const workspace = createRoute({
  getParentRoute: () => root,
  path: '/workspaces/$id',
  component: WorkspacePage,
});
const operations = createRoute({
  getParentRoute: () => root,
  path: '/operations',
  component: OperationsPage,
});
const operation = createRoute({
  getParentRoute: () => root,
  path: '/operations/$id',
  component: OperationPage,
  validateSearch: (search: Record<string, unknown>): { state?: string } => ({ state: text(search.state) }),
});
const templates = createRoute({ getParentRoute: () => root, path: '/templates', component: TemplatesPage });
const template = createRoute({
  getParentRoute: () => root,
  path: '/templates/$name',
  component: TemplatePage,
});

const tokens = createRoute({ getParentRoute: () => root, path: '/tokens', component: TokensPage });
const sessions = createRoute({ getParentRoute: () => root, path: '/sessions', component: SessionsPage });

export const router = createRouter({
  routeTree: root.addChildren([
    mine,
    everyone,
    spawn,
    workspace,
    operations,
    operation,
    templates,
    template,
    tokens,
    sessions,
  ]),
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
