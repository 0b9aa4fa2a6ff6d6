// Every page in light, dark and on a phone: a picture for people, rules of accessibility and the
// width for the suite.
import axe from 'axe-core';
import { SITE_URL, scenario, shell, shot, visitor, workspaceUrl } from './lib.mjs';

const { RUNNING, STARTING, ABSENT, TEMPLATE } = process.env;
const THEMES = {
  light: { colorScheme: 'light' },
  dark: { colorScheme: 'dark' },
  phone: { colorScheme: 'light', viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true },
};

await scenario(async (browser) => {
  const pages = [];
  const complaints = [];
  for (const [theme, options] of Object.entries(THEMES)) {
    const window = await visitor(browser, { reducedMotion: 'reduce', ...options });
    const { page } = window;
    const look = async (name) => {
      await shot(page, `${name}-${theme}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      await page.evaluate(axe.source);
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
      pages.push({
        name, theme, overflow: Math.max(0, wide),
        violations: serious.map(({ id, nodes }) => ({ id, where: nodes.map((node) => `${node.target} ${node.failureSummary}`) })),
      });
    };
    await page.goto(SITE_URL);
    await look('signed-out');
    await page.getByRole('link', { name: 'Sign in' }).click();
    await page.getByRole('button', { name: /Alice Arden/ }).waitFor();
    await look('sign-in');
    await page.getByRole('button', { name: /Alice Arden/ }).click();
    await page.waitForURL(SITE_URL);
    await look('console');
    await page.goto(new URL(`/ui/new?template=${TEMPLATE}`, SITE_URL).href);
    await look('new');
    await page.goto(new URL(`/ui/workspaces/${RUNNING}/delete`, SITE_URL).href);
    await look('delete');
    await page.goto(workspaceUrl(RUNNING));
    const terminal = shell(page);
    await terminal.connected();
    await terminal.type('echo "It is $((6 * 7))."', /^It is 42\.$/m);
    await look('workspace');
    await page.goto(workspaceUrl(STARTING));
    await look('waiting');
    await page.goto(workspaceUrl(ABSENT));
    await look('not-found');
    complaints.push(...window.complaints);
    await window.context.close();
  }
  return { pages, complaints };
});
