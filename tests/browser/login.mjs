// Signing in at the console and on a workspace's host, what one may see then, and signing out.
import { SITE_URL, settled, shell, shot, visitor, workspaceUrl } from './lib.mjs';
import { account, answer, asks, isOurs, provider, scenario, sessions, visited } from './login-lib.mjs';

const { ID, OTHER } = process.env;

await scenario(async (browser) => {
  const alice = await visitor(browser);
  const { page, context } = alice;
  const hops = visited(page);

  // To a page of the console with a query, by way of the provider.
  const deep = new URL(`/new?template=${ID}`, SITE_URL).href;
  await page.goto(deep);
  await page.getByRole('link', { name: 'Sign in' }).click();
  const asked = await asks(page);
  await provider.enter(page, 'alice');
  await page.waitForURL(deep);
  await page.getByRole('button', { name: 'Spawn' }).waitFor();
  const who = await account(page);
  const everyones = page.getByRole('link', { name: 'Everyone’s' });
  const aliceSeesEveryones = await everyones.count();
  const to = hops.find((url) => url.searchParams.has('code_challenge'));
  const back = hops.find((url) => isOurs(url, '/auth/callback'));
  const request = {
    ...Object.fromEntries(to.searchParams),
    state: to.searchParams.get('state').length,
    nonce: to.searchParams.get('nonce').length,
    code_challenge: to.searchParams.get('code_challenge').length,
  };
  const returned = [...back.searchParams.keys()].sort();
  const console_ = await sessions(context);

  // To a workspace's own host, with a query; its page works.
  hops.length = 0;
  const wanted = `${workspaceUrl(ID)}?from=login`;
  await page.goto(wanted);
  const handOver = hops.map(({ host, pathname }) => `${host.split('.').length > 1 ? 'workspace' : 'console'} ${pathname}`);
  const landed = page.url() === wanted;
  const terminal = shell(page);
  await terminal.connected();
  const typed = await terminal.type('echo "it is $((6 * 7))"', /^it is (?<n>\d+)$/m);
  const info = await page.evaluate(async () => {
    const reply = await fetch('./info');
    return [reply.status, (await reply.json()).version];
  });
  const both = await sessions(context);
  await shot(page, 'login-workspace');

  // An admin sees the list of everyone's, but not into their pages.
  const admin = await visitor(browser);
  await admin.page.goto(new URL('/everyone', SITE_URL).href);
  await admin.page.getByRole('link', { name: 'Sign in' }).click();
  await answer(admin.page, 'admin');
  await admin.page.waitForURL('**/everyone');
  await admin.page.locator(`[data-workspace="${ID}"]`).waitFor();
  const adminSeesEveryones = await admin.page.getByRole('link', { name: 'Everyone’s' }).count();
  const adminOpens = (await admin.page.goto(workspaceUrl(ID))).status();

  // Out: here, and at the provider.
  const out = await context.newPage();
  await out.goto(SITE_URL);
  await settled(out);
  await out.getByRole('button', { name: /^Account / }).click();
  await out.getByRole('menuitem', { name: 'Sign out' }).click();
  await provider.leave(out);
  await out.getByRole('link', { name: 'Sign in' }).waitFor();
  const signedOutAt = out.url();
  const afterwards = (await sessions(context)).map(({ domain }) => domain);
  await out.getByRole('link', { name: 'Sign in' }).click();
  const asksAgain = await asks(out);
  await out.goto(workspaceUrl(OTHER));
  const asksForHost = await asks(out);

  // What a page gets whose session is gone: an answer that a program understands.
  const failures = [];
  page.on('websocket', (socket) => {
    if (socket.url().endsWith('?probe')) socket.on('socketerror', (text) => failures.push(text));
  });
  await context.clearCookies();
  const refused = await page.evaluate(async () => {
    const reply = await fetch('./info');
    return { status: reply.status, type: reply.headers.get('content-type'), body: await reply.json() };
  });
  const closed = await page.evaluate(
    () =>
      new Promise((resolve) => {
        const socket = new WebSocket(`${location.origin.replace('http', 'ws')}/shell?probe`);
        socket.onclose = ({ code }) => resolve(code);
      }),
  );
  // Where that answer leads, one signs in and is back.
  await page.goto(refused.body.signIn);
  await answer(page, 'alice');
  await page.waitForURL(workspaceUrl(ID));
  await shell(page).connected();
  const ours = (url) => url?.includes(new URL(SITE_URL).host);
  const complaints = [...alice.complaints, ...admin.complaints].filter(({ url }) => ours(url));
  return {
    asked, request, returned, who, aliceSeesEveryones, adminSeesEveryones, adminOpens, console: console_, handOver,
    landed, typed, info, both, signedOutAt, afterwards, asksAgain, asksForHost, refused, closed, failures, complaints,
  };
});
