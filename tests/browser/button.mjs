// The header's button, both ways: an admin has it while something is outdated, and presses it; a
// writer never has it, even beside an outdated workspace of their own.
import {
  byTarget, ended, everyones, outdated, scenario, settled, shot, signIn, upgradeAll, upgradeAllButton, visitor,
} from './lib.mjs';
import { writeFileSync } from 'node:fs';

const { HERS, HIS, APPLY_FILE } = process.env;
// The identity provider of a cluster has an authority that no browser knows.
const WINDOW = { ignoreHTTPSErrors: true };

await scenario(async (browser) => {
  const alice = await visitor(browser, WINDOW);
  await signIn(alice.page, /Alice Arden/);
  const { page, complaints } = await visitor(browser, WINDOW);
  await signIn(page, /admin/i);
  // Without a bound: it ends with the window, or with the button in it.
  let alicesEver = false;
  const watch = upgradeAllButton(alice.page).waitFor({ timeout: 0 }).then(() => { alicesEver = true; }, () => {});
  const button = upgradeAllButton(page);
  await everyones(page);
  for (const id of [HERS, HIS]) await page.locator(`[data-workspace="${id}"]`).waitFor();
  await alice.page.locator(`[data-workspace="${HERS}"]`).waitFor();
  const before = await button.count();

  // The suite edits the templates.
  writeFileSync(APPLY_FILE, '');
  for (const id of [HERS, HIS]) await outdated(page, id).waitFor();
  await outdated(alice.page, HERS).waitFor();
  const during = await button.count();
  await shot(page, 'button-admin');
  await shot(alice.page, 'button-writer');

  const plan = await upgradeAll(page);
  const state = await ended(page);
  const rows = await byTarget(page, 'data-state');
  await button.waitFor({ state: 'detached' });
  await outdated(alice.page, HERS).waitFor({ state: 'detached' });
  // Nor does it come back with what the server says anew.
  await everyones(page);
  await page.reload();
  await settled(page);
  await page.locator(`[data-workspace="${HIS}"]`).waitFor();
  const after = await button.count();
  await alice.context.close();
  await watch;
  return { before, during, after, alicesEver, plan, state, rows, complaints: [...complaints, ...alice.complaints] };
});
