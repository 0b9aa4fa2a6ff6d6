// Spawning from a form that the template's schema makes, and deleting through a dialog that asks.
import { judged, scenario, settled, shot, signIn, tabTo, until, visitor } from './lib.mjs';

const { TEMPLATE, SITE_URL } = process.env;

await scenario(async (browser) => {
  const { page, complaints } = await visitor(browser);
  const sent = [];
  page.on('request', (request) => {
    if (request.method() !== 'GET' && new URL(request.url()).pathname.startsWith('/api/')) {
      sent.push([request.method(), new URL(request.url()).pathname + new URL(request.url()).search, request.postDataJSON()]);
    }
  });
  await signIn(page, /Alice Arden/);
  await page.goto(new URL(`/new?template=${TEMPLATE}`, SITE_URL).href);
  await settled(page);
  const form = page.locator('form').filter({ has: page.getByRole('button', { name: 'Spawn' }) });
  const field = (name) => form.getByLabel(name, { exact: true });
  const spawn = form.getByRole('button', { name: 'Spawn' });
  const labels = await form.locator('label:not([aria-hidden=true] label)').allInnerTexts();
  const placeholder = await field('Greeting').getAttribute('placeholder');

  // What is required is asked for before anything is sent.
  await field('Id').fill('Not an id');
  await spawn.click();
  await form.getByText('Please fill out this field').waitFor();
  const refusedHere = await form.locator('[data-invalid] input').count();
  await shot(page, 'forms-invalid');
  const sentBefore = sent.length;

  await field('Id').fill(TEMPLATE);
  await form.getByLabel(/^Team/).fill('blue');
  await field('Greeting').fill('');
  await form.getByLabel('Size').fill('2');
  await form.getByRole('button', { name: /Colour/ }).click();
  await page.getByRole('option', { name: 'green' }).click();
  await form.getByText('Loud', { exact: true }).click();
  await judgedNow(page);
  await spawn.click();
  await page.waitForURL(SITE_URL);
  const card = page.locator(`[data-workspace="${TEMPLATE}"]`);
  await page.locator(`[data-workspace="${TEMPLATE}"][data-status="running"]`).waitFor();

  // The same id again: the server's words, and what was filled in stays.
  await page.goto(new URL(`/new?template=${TEMPLATE}`, SITE_URL).href);
  await settled(page);
  await field('Id').fill(TEMPLATE);
  await form.getByLabel(/^Team/).fill('red');
  await spawn.click();
  const refusedThere = await page.getByRole('alert').innerText();
  const stays = await form.getByLabel(/^Team/).inputValue();
  await page.getByRole('link', { name: 'Cancel' }).click();

  // By keyboard: the dialog holds the focus, and gives it back.
  await card.waitFor();
  await tabTo(page, new RegExp(`^Delete ${TEMPLATE}$`));
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('alertdialog');
  await dialog.waitFor();
  const question = await dialog.innerText();
  const focused = () => page.evaluate(() => document.activeElement?.textContent ?? '');
  // The focus moves a moment after what it moves for.
  const firstFocus = await until('the focus in the dialog', async () => {
    const value = await focused();
    return { holds: value === 'Keep it', value };
  });
  const inside = [];
  for (let presses = 0; presses < 4; presses += 1) {
    await page.keyboard.press('Tab');
    inside.push(await page.evaluate(() => document.activeElement?.closest('[role=alertdialog]') !== null));
  }
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  const back = await until('the focus back on the button', async () => {
    const value = await page.evaluate(() => document.activeElement?.getAttribute('aria-label'));
    return { holds: value === `Delete ${TEMPLATE}`, value };
  });
  const still = await card.getAttribute('data-status');
  await page.keyboard.press('Enter');
  await dialog.getByText('Delete its data too').click();
  await dialog.getByRole('button', { name: 'Delete it with its data' }).click();
  await dialog.waitFor({ state: 'detached' });
  await card.waitFor({ state: 'detached' });
  return {
    labels, placeholder, refusedHere, sentBefore, sent, refusedThere, stays, question, firstFocus, inside, back, still,
    complaints,
  };

  async function judgedNow(of) {
    const { violations } = await judged(of);
    if (violations.length > 0) throw new Error(JSON.stringify(violations));
  }
});
