// An admin upgrades everyone's outdated workspaces from the header; nobody else can.
import {
  SITE_URL, byTarget, ended, everyones, outdated, scenario, shot, signIn, upgradeAll, upgradeAllButton, visitor,
} from './lib.mjs';
import { writeFileSync } from 'node:fs';

const { HERS, HIS, BAD, APPLY_FILE } = process.env;

await scenario(async (browser) => {
  const alice = await visitor(browser);
  await signIn(alice.page, /Alice Arden/);
  const admin = await visitor(browser);
  await signIn(admin.page, /admin/i);
  const { page } = admin;
  const counts = async () => ({
    admin: await upgradeAllButton(page).count(), alice: await upgradeAllButton(alice.page).count(),
  });
  await everyones(page);
  await page.locator(`[data-workspace="${HIS}"]`).waitFor();
  const upToDate = await counts();
  const owners = await page.getByRole('heading', { level: 2 }).allInnerTexts();

  // The suite edits the templates.
  writeFileSync(APPLY_FILE, '');
  for (const id of [HERS, HIS, BAD]) {
    await outdated(page, id).waitFor();
  }
  await outdated(alice.page, HERS).waitFor();
  const changed = await counts();
  const direct = await alice.page.evaluate(async () => {
    const answer = await fetch('/api/v1/upgrade-all', {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}',
    });
    return [answer.status, (await answer.json()).message];
  });

  const plan = await upgradeAll(page);
  const heading = await page.getByRole('heading', { level: 1 }).innerText();
  await shot(page, 'bulk-under-way');
  const state = await ended(page);
  const bar = page.getByRole('progressbar');
  const progress = [await bar.getAttribute('aria-valuenow'), await bar.getAttribute('aria-valuemax')];
  await page.locator(`[data-target="${BAD}"][data-state="failed"]`).waitFor();
  const rows = await byTarget(page, 'data-state');
  await shot(page, 'bulk-done');
  await page.getByRole('link', { name: /^Failed \d+$/ }).click();
  await page.locator(`[data-target="${HERS}"]`).waitFor({ state: 'detached' });
  const failed = await page.locator('[data-target]').count();
  const address = page.url().replace(SITE_URL, '/');
  // The filter is in the address, so it survives a reload; and it is one operation, not many.
  await page.reload();
  await page.locator(`[data-target="${BAD}"]`).waitFor();
  const reloaded = await page.locator('[data-target]').count();

  await everyones(page);
  await page.locator(`[data-workspace="${BAD}"]`).getByText('The last upgrade failed').waitFor();
  await page.getByLabel('Find').fill(HIS);
  await page.locator(`[data-workspace="${HERS}"]`).waitFor({ state: 'detached' });
  const found = await page.locator('[data-workspace]').count();
  return {
    upToDate, owners, outdated: changed, direct, plan, heading, progress, state, rows, failed, reloaded, address, found,
    complaints: [...admin.complaints, ...alice.complaints],
  };
});
