// An admin upgrades everyone's outdated workspaces from the header; nobody else can.
import { SITE_URL, scenario, settled, shot, signIn, visitor } from './lib.mjs';
import { writeFileSync } from 'node:fs';

const { HERS, HIS, BAD, APPLY_FILE } = process.env;
const BUTTON = 'Upgrade All Outdated';

await scenario(async (browser) => {
  const alice = await visitor(browser);
  await signIn(alice.page, /Alice Arden/);
  const admin = await visitor(browser);
  await signIn(admin.page, /admin/i);
  const { page } = admin;
  const button = (of) => of.getByRole('button', { name: BUTTON });
  const everyone = async () => {
    await page.getByRole('link', { name: 'Everyone’s' }).click();
    await settled(page);
  };
  await everyone();
  await page.locator(`[data-workspace="${HIS}"]`).waitFor();
  const upToDate = { admin: await button(page).count(), alice: await button(alice.page).count() };
  const owners = await page.getByRole('heading', { level: 2 }).allInnerTexts();

  // The suite edits the templates.
  writeFileSync(APPLY_FILE, '');
  for (const id of [HERS, HIS, BAD]) {
    await page.locator(`[data-workspace="${id}"]`).getByText('Outdated', { exact: true }).waitFor();
  }
  await alice.page.locator(`[data-workspace="${HERS}"]`).getByText('Outdated', { exact: true }).waitFor();
  const outdated = { admin: await button(page).count(), alice: await button(alice.page).count() };
  const direct = await alice.page.evaluate(async () => {
    const answer = await fetch('/api/v1/upgrade-all', {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}',
    });
    return [answer.status, (await answer.json()).message];
  });

  await button(page).click();
  const dialog = page.getByRole('dialog');
  await dialog.locator('[data-verdict]').first().waitFor();
  const plan = {};
  for (const line of await dialog.locator('[data-verdict]').all()) {
    plan[await line.getAttribute('data-target')] = [await line.getAttribute('data-verdict'), await line.innerText()];
  }
  await dialog.getByRole('button', { name: /^Upgrade \d+ workspaces$/ }).click();
  await page.waitForURL('**/operations/*');
  await page.locator('[data-target]').first().waitFor();
  const heading = await page.getByRole('heading', { level: 1 }).innerText();
  await shot(page, 'bulk-under-way');
  await page.locator('[data-operation]:not([data-state="running"])').waitFor();
  const bar = page.getByRole('progressbar');
  const progress = [await bar.getAttribute('aria-valuenow'), await bar.getAttribute('aria-valuemax')];
  const state = await page.locator('[data-operation]').getAttribute('data-state');
  await page.locator(`[data-target="${BAD}"][data-state="failed"]`).waitFor();
  const rows = {};
  for (const row of await page.locator('[data-target]').all()) {
    rows[await row.getAttribute('data-target')] = [await row.getAttribute('data-state'), await row.innerText()];
  }
  await shot(page, 'bulk-done');
  await page.getByRole('link', { name: /^Failed \d+$/ }).click();
  await page.locator(`[data-target="${HERS}"]`).waitFor({ state: 'detached' });
  const failed = await page.locator('[data-target]').count();
  const address = page.url().replace(SITE_URL, '/');
  // The filter is in the address, so it survives a reload; and it is one operation, not many.
  await page.reload();
  await page.locator(`[data-target="${BAD}"]`).waitFor();
  const reloaded = await page.locator('[data-target]').count();

  await everyone();
  await page.locator(`[data-workspace="${BAD}"]`).getByText('The last upgrade failed').waitFor();
  await page.getByLabel('Find').fill(HIS);
  await page.locator(`[data-workspace="${HERS}"]`).waitFor({ state: 'detached' });
  const found = await page.locator('[data-workspace]').count();
  return {
    upToDate, owners, outdated, direct, plan, heading, progress, state, rows, failed, reloaded, address, found,
    complaints: [...admin.complaints, ...alice.complaints],
  };
});
