// One person's way, by keyboard alone: signs in, spawns a workspace from the console, works in its
// shell, goes on working in it while an agent upgrades the workspace, and reloads when it suits her.
import { SITE_URL, agent, scenario, shell, shot, tabTo, until, visitor, workspaceUrl } from './lib.mjs';

const { TEMPLATE } = process.env;
const id = TEMPLATE;

await scenario(async (browser) => {
  const { context, page, complaints } = await visitor(browser);
  // What happened, in order.
  const events = [];
  page.on('websocket', (socket) => {
    const path = new URL(socket.url()).pathname;
    events.push(`open ${path}`);
    socket.on('close', () => events.push(`close ${path}`));
  });

  await page.goto(SITE_URL);
  await tabTo(page, /^Sign in$/);
  await page.keyboard.press('Enter');
  await page.waitForURL((url) => url.origin !== new URL(SITE_URL).origin);
  await tabTo(page, /Alice Arden/);
  await page.keyboard.press('Enter');
  await page.waitForURL(SITE_URL);

  await tabTo(page, /^New workspace$/);
  await page.keyboard.press('Enter');
  await page.waitForURL('**/new');
  await tabTo(page, new RegExp(`^${TEMPLATE}\\b`));
  await page.keyboard.press('Enter');
  await page.waitForURL('**/new?template=*');
  await tabTo(page, /^Name/);
  await page.keyboard.type('My journey');
  await tabTo(page, /^Id/);
  await page.keyboard.type(id);
  await tabTo(page, /^Spawn$/);
  await page.keyboard.press('Enter');
  await page.waitForURL(SITE_URL);
  // The list follows by itself, without a reload.
  const card = page.locator(`[data-workspace="${id}"]`);
  await page.locator(`[data-workspace="${id}"][data-status="running"]`).waitFor();
  const spawned = await card.innerText();

  await tabTo(page, /^My journey$/);
  await page.keyboard.press('Enter');
  await page.waitForURL(workspaceUrl(id));
  const terminal = shell(page);
  await terminal.connected();
  const facts = async (of) => ({
    version: await of.locator('#version').innerText(),
    pod: await of.locator('#pod').innerText(),
  });
  const first = await facts(page);
  // The terminal has the focus from the start.
  const before = await terminal.type(
    'n=41; echo "before: $POD_NAME $$ $n"',
    /^before: (?<pod>\S+) (?<pid>\d+) (?<n>\d+)$/m,
  );

  const mcp = await agent();
  // The suite edits the template once the workspace is served.
  await until('a newer version', async () => {
    const workspace = await mcp.call('get_workspace', { id });
    return { holds: workspace.outdated === true, value: workspace };
  });
  const upgrade = await mcp.call('upgrade_workspace', { id });
  events.push('upgrade asked for');
  const info = () => page.evaluate(async () => (await fetch('./info')).json());
  const operation = () => mcp.call('get_operation', { operationId: upgrade.operationId });
  await until('the new pod to answer', async () => {
    const value = await info();
    return { holds: value.pod === upgrade.podName, value };
  });
  events.push('new pod answers');
  const during = await terminal.type(
    'echo "during: $POD_NAME $$ $((n+1))"',
    /^during: (?<pod>\S+) (?<pid>\d+) (?<n>\d+)$/m,
  );
  const meanwhile = { info: await info(), operation: await operation() };
  events.push('typed in the old pod');
  // Whoever opens a page now is on the new pod, shell and all.
  const second = await context.newPage();
  await second.goto(workspaceUrl(id));
  const secondTerminal = shell(second);
  await secondTerminal.connected();
  const beside = {
    ...(await facts(second)),
    shell: await secondTerminal.type('echo "beside: $POD_NAME"', /^beside: (?<pod>\S+)$/m),
  };
  await second.close();
  await page.bringToFront();

  await terminal.shows(/\[reconnected: a new shell\]/);
  const farewell = await terminal.screen();
  await terminal.connected();
  await page.locator('#notice:not([hidden])').waitFor();
  const notice = await page.locator('#notice').innerText();
  await shot(page, 'journey-reconnected');
  const after = await terminal.type(
    'echo "after: $POD_NAME $$ [$n]"',
    /^after: (?<pod>\S+) (?<pid>\d+) \[(?<n>\d*)\]$/m,
  );
  const done = await until('the upgrade to be done', async () => {
    const value = await operation();
    return { holds: value.done, value };
  });
  events.push('upgrade done');

  await page.reload();
  await terminal.connected();
  const reloaded = await facts(page);

  await page.goto(SITE_URL);
  await card.waitFor();
  const upgraded = await card.innerText();
  await tabTo(page, new RegExp(`^${id}, details$`));
  await page.keyboard.press('Enter');
  await page.waitForURL(`**/workspaces/${id}`);
  const details = await page.getByRole('region', { name: 'Details' }).innerText();
  await page.reload();
  await tabTo(page, /^Account alice/);
  await page.keyboard.press('Enter');
  await page.getByRole('menuitem', { name: 'Sign out' }).waitFor();
  await page.keyboard.press('End');
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'Sign in' }).waitFor();
  const signedOut = page.url();
  await mcp.close();
  return {
    spawned, first, before, upgrade, during, meanwhile, beside, notice, farewell, after, done, reloaded, upgraded,
    details, signedOut, events, complaints,
  };
});
