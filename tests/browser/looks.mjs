// Every page in light, dark and on a phone: a picture for people, rules of accessibility and the
// width for the suite.
import { SITE_URL, judged, scenario, settled, shell, shot, visitor, workspaceUrl } from './lib.mjs';

const { RUNNING, STARTING, ABSENT, TEMPLATE, OPERATION } = process.env;
const THEMES = {
  light: { colorScheme: 'light' },
  dark: { colorScheme: 'dark' },
  phone: { colorScheme: 'light', viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true },
};

await scenario(async (browser) => {
  const pages = [];
  const complaints = [];
  for (const [theme, options] of Object.entries(THEMES)) {
    const look = async (page, name) => {
      await shot(page, `${name}-${theme}`);
      pages.push({ name, theme, ...(await judged(page)) });
    };
    const enter = async (who) => {
      const window = await visitor(browser, { reducedMotion: 'reduce', ...options });
      const { page } = window;
      await page.goto(SITE_URL);
      await page.getByRole('link', { name: 'Sign in' }).waitFor();
      if (who.test('Alice Arden')) await look(page, 'signed-out');
      await page.getByRole('link', { name: 'Sign in' }).click();
      await page.getByRole('button', { name: who }).waitFor();
      if (who.test('Alice Arden')) await look(page, 'sign-in');
      await page.getByRole('button', { name: who }).click();
      await page.waitForURL(SITE_URL);
      await settled(page);
      return window;
    };
    const at = async (page, path) => {
      await page.goto(new URL(path, SITE_URL).href);
      await settled(page);
    };

    const alice = await enter(/Alice Arden/);
    const { page } = alice;
    await page.locator(`[data-workspace="${RUNNING}"][data-status="running"]`).waitFor();
    await look(page, 'mine');
    await page.getByRole('button', { name: 'Account alice' }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).waitFor();
    await look(page, 'account');
    await page.keyboard.press('Escape');
    await page.locator(`[data-workspace="${RUNNING}"]`).getByRole('button', { name: /^Delete/ }).click();
    await page.getByRole('alertdialog').waitFor();
    await look(page, 'delete');
    await page.keyboard.press('Escape');
    await at(page, `/workspaces/${RUNNING}`);
    await look(page, 'details');
    await at(page, '/new');
    await look(page, 'choose');
    await at(page, `/new?template=${TEMPLATE}`);
    await page.getByRole('button', { name: 'Spawn' }).waitFor();
    await look(page, 'new');
    await at(page, '/templates');
    await look(page, 'templates');
    await at(page, `/templates/${TEMPLATE}`);
    await page.getByText('Pod spec').waitFor();
    await look(page, 'template');
    await at(page, '/operations');
    await look(page, 'operations');
    await at(page, `/operations/${OPERATION}`);
    await page.locator('[data-target]').first().waitFor();
    await look(page, 'operation');
    await at(page, '/tokens');
    await page.locator('[data-token]').waitFor();
    await look(page, 'tokens');
    await at(page, '/sessions');
    await page.locator('[data-session]').first().waitFor();
    await look(page, 'sessions');
    await at(page, '/no/such/page');
    await look(page, 'no-page');
    await page.goto(workspaceUrl(RUNNING));
    const terminal = shell(page);
    await terminal.connected();
    await terminal.type('echo "It is $((6 * 7))."', /^It is 42\.$/m);
    await look(page, 'workspace');
    await page.goto(workspaceUrl(STARTING));
    await look(page, 'waiting');
    await page.goto(workspaceUrl(ABSENT));
    await look(page, 'not-found');

    const bob = await enter(/Bob Brook/);
    await look(bob.page, 'empty');

    const admin = await enter(/admin/i);
    await at(admin.page, '/everyone');
    await admin.page.locator(`[data-workspace="${RUNNING}"]`).waitFor();
    await look(admin.page, 'everyone');
    await admin.page.getByRole('button', { name: 'Upgrade All Outdated' }).click();
    await admin.page.locator('[data-verdict]').first().waitFor();
    await look(admin.page, 'upgrade-all');

    for (const window of [alice, bob, admin]) {
      complaints.push(...window.complaints);
      await window.context.close();
    }
  }
  return { pages, complaints };
});
