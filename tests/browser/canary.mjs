// An admin tries an upgrade of all on one workspace first; then an owner goes back, and asks not to be
// upgraded for a while.
import {
  SITE_URL, byTarget, ended, everyones, outdated, scenario, settled, shot, signIn, upgradeAllButton, visitor,
} from './lib.mjs';

const { HERS, HIS } = process.env;
const UNTIL = '2099-12-01T10:30';

await scenario(async (browser) => {
  const admin = await visitor(browser);
  await signIn(admin.page, /admin/i);
  const { page } = admin;
  await everyones(page);
  for (const id of [HERS, HIS]) await outdated(page, id).waitFor();

  await upgradeAllButton(page).click();
  const dialog = page.getByRole('dialog');
  await dialog.locator('[data-verdict]').first().waitFor();
  const plan = await byTarget(dialog, 'data-verdict');
  await dialog.getByLabel('Try first').fill('1');
  await dialog.getByLabel('May fail').fill('0');
  await shot(page, 'canary-dialog');
  await dialog.getByRole('button', { name: 'Upgrade 2 workspaces' }).click();
  await page.waitForURL('**/operations/*');
  const progress = page.locator('[data-operation]');
  const approve = page.getByRole('button', { name: 'Upgrade the rest' });
  await approve.waitFor();
  await page.locator('[role="progressbar"][aria-valuenow="1"]').waitFor();
  const waiting = [
    await progress.getByText('Waits for approval', { exact: true }).innerText(),
    await page.getByRole('progressbar').getAttribute('aria-valuenow'),
  ];
  await shot(page, 'canary-waits');
  await approve.click();
  const state = await ended(page);
  const rows = await byTarget(page, 'data-state');
  await shot(page, 'canary-done');

  const alice = await visitor(browser);
  await signIn(alice.page, /Alice Arden/);
  const hers = alice.page;
  const at = async (path) => {
    await hers.goto(new URL(path, SITE_URL).href);
    await settled(hers);
  };
  const details = () => hers.getByRole('region', { name: 'Details' });
  const running = hers.locator(`[data-workspace="${HERS}"][data-status="running"]`);
  await at(`/workspaces/${HERS}`);
  await details().getByText('Version before').waitFor();
  const fact = (name) => details().locator('div', { has: hers.getByText(name, { exact: true }) }).locator('dd code').first();
  const [after, before] = [await fact('Version').innerText(), await fact('Version before').innerText()];
  await hers.getByRole('button', { name: `Roll ${HERS} back` }).click();
  const question = hers.getByRole('alertdialog');
  await question.waitFor();
  const asked = await question.innerText();
  await shot(hers, 'rollback-dialog');
  await question.getByRole('button', { name: `Roll back to ${before}` }).click();
  await question.waitFor({ state: 'detached' });
  await hers.getByRole('link', { name: /^Rollback of / }).first().click();
  await hers.waitForURL('**/operations/*');
  const heading = await hers.getByRole('heading', { level: 1 }).innerText();
  const back = await ended(hers);
  await at(`/workspaces/${HERS}`);
  await running.waitFor();
  await details().getByText('Last upgrade').waitFor();
  const facts = await details().innerText();

  const field = hers.getByLabel('Do not upgrade before');
  const save = hers.getByRole('button', { name: 'Save' });
  await field.fill(UNTIL);
  await save.click();
  const lift = hers.getByRole('button', { name: 'Upgrade any time' });
  await lift.waitFor();
  const kept = [await field.inputValue()];
  await shot(hers, 'not-before');
  await hers.reload();
  await lift.waitFor();
  kept.push(await field.inputValue());
  // Who upgrades everything is told that this one is passed over, and why.
  await everyones(page);
  await outdated(page, HERS).waitFor();
  await upgradeAllButton(page).click();
  await dialog.locator('[data-verdict]').first().waitFor();
  const later = await byTarget(dialog, 'data-verdict');
  await page.keyboard.press('Escape');
  await lift.click();
  await lift.waitFor({ state: 'detached' });
  const lifted = await hers.getByRole('region', { name: 'Upgrades' }).getByRole('status').innerText();
  return {
    plan, waiting, state, rows, before, after, question: asked, heading, back, details: facts, kept, later, lifted,
    complaints: [...admin.complaints, ...alice.complaints],
  };
});
