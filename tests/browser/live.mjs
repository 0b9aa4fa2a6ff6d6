// The list follows what others do, without a reload: a workspace comes, runs, is outdated, fails to
// upgrade, stops and goes; and the page says when it has lost touch.
import { agent, scenario, shot, signIn, until, visitor } from './lib.mjs';
import { writeFileSync } from 'node:fs';

const { TEMPLATE, APPLY_FILE, FAIL_FILE } = process.env;
const id = TEMPLATE;

await scenario(async (browser) => {
  const { context, page, complaints } = await visitor(browser);
  await signIn(page, /Alice Arden/);
  await page.evaluate(() => {
    window.sameDocument = true;
    // Each announcement stays only until the next one, which may be of another workspace.
    window.announced = [];
    const listen = () => {
      for (const { textContent } of document.querySelectorAll('[role=status]')) window.announced.push(textContent);
    };
    new MutationObserver(listen).observe(document, { childList: true, characterData: true, subtree: true });
  });
  const card = page.locator(`[data-workspace="${id}"]`);
  const status = (word) => page.locator(`[data-workspace="${id}"][data-status="${word}"]`).waitFor();
  const before = await card.count();

  const mcp = await agent();
  await mcp.call('spawn_workspace', { template: TEMPLATE, id, name: 'Live desk' });
  await card.waitFor();
  await status('running');
  const running = await card.innerText();

  // The suite puts a template in place that makes pods which fail when they are told to.
  writeFileSync(APPLY_FILE, '');
  await card.getByText('Outdated', { exact: true }).waitFor();
  const outdated = await card.innerText();
  await card.getByRole('button', { name: 'Upgrade Live desk' }).click();
  await card.getByRole('list', { name: 'Steps of the upgrade' }).waitFor();
  await shot(page, 'live-upgrading');
  writeFileSync(FAIL_FILE, '');
  await card.getByText('The last upgrade failed').waitFor();
  await card.getByRole('list', { name: 'Steps of the upgrade' }).waitFor({ state: 'detached' });
  const failed = await card.innerText();
  const served = await card.getAttribute('data-status');

  await page.getByRole('link', { name: 'Operations' }).click();
  await page.locator('[data-operation][data-state="failed"]').first().waitFor();
  await page.getByRole('link', { name: `Upgrade of ${id}` }).first().click();
  await page.locator(`[data-target="${id}"][data-state="failed"]`).waitFor();
  const row = await page.getByRole('region', { name: 'Progress' }).innerText();
  await page.getByRole('link', { name: 'My workspaces' }).first().click();

  await context.setOffline(true);
  const banner = page.getByText(/offline|connection is lost/);
  await banner.waitFor();
  const lost = await banner.innerText();
  const kept = await card.count();
  await shot(page, 'live-offline');
  await context.setOffline(false);
  await banner.waitFor({ state: 'detached' });

  await mcp.call('stop_workspace', { id });
  await status('stopped');
  await card.getByRole('button', { name: 'Start Live desk' }).click();
  await status('running');
  await mcp.call('delete_workspace', { id });
  await card.waitFor({ state: 'detached' });
  const sameDocument = await page.evaluate(() => window.sameDocument === true);
  const said = await until('the end to be announced', async () => {
    const texts = await page.evaluate(() => [...new Set(window.announced)]);
    return { holds: texts.some((text) => /Live desk/.test(text)), value: texts };
  });
  await mcp.close();
  return { before, running, outdated, failed, served, row, lost, kept, said, sameDocument, complaints };
});
