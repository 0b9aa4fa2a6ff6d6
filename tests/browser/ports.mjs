// An extra port: found in the console, opened under its path and on its own host, and called by pages.
import { scenario, signIn, visitor, workspaceUrl } from './lib.mjs';

const { ID } = process.env;
const at = (id, path) => new URL(path, workspaceUrl(id)).href;
const own = (path) => at(ID, path);
const port = (path) => at(`docs--${ID}`, path);
const sibling = (path) => at(process.env.SIBLING, path);

/** What a script of the page that is shown gets. */
const fetched = (page, url) =>
  page.evaluate(
    async (url) => {
      const answer = await fetch(url, { credentials: 'include' }).catch((error) => error.name);
      return typeof answer === 'string' ? answer : answer.status;
    },
    url,
  );

await scenario(async (browser) => {
  const { page } = await visitor(browser);
  await signIn(page, /Alice Arden/);
  const card = page.locator(`[data-workspace="${ID}"]`);
  await card.getByRole('link', { name: 'docs', exact: true }).click();
  await page.getByRole('heading', { name: `What ${ID} answers` }).waitFor();
  const byPath = page.url();
  await page.getByRole('link', { name: 'info', exact: true }).click();
  await page.waitForURL(own('/docs/info'));

  const answer = await page.goto(port('/info'));
  const byHost = { status: answer.status(), url: page.url(), workspace: (await answer.json()).workspace };
  const cookies = await page.context().cookies(port('/'));
  const bound = cookies.filter(({ name }) => name === 'nogoo9').map(({ domain }) => domain);

  // Pages without a policy of their own that would keep them from asking.
  const fromPort = { own: await fetched(page, own('/info')), port: await fetched(page, port('/info')) };
  await page.goto(own('/info'));
  const fromOwn = { own: await fetched(page, own('/docs/info')), port: await fetched(page, port('/info')) };
  await page.goto(sibling('/info'));
  const fromSibling = { own: await fetched(page, own('/info')), port: await fetched(page, port('/info')) };
  return { byPath, byHost, bound, fromPort, fromOwn, fromSibling };
});
