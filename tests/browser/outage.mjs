// Control goes away and comes back under an open page; then the session ends under it.
import { SITE_URL, scenario, shot, signIn, visitor } from './lib.mjs';
import { writeFileSync } from 'node:fs';

const { ID, BEGIN_FILE, END_FILE } = process.env;

await scenario(async (browser) => {
  const { context, page, complaints } = await visitor(browser, { colorScheme: 'light' });
  await signIn(page, /Alice Arden/);
  const card = page.locator(`[data-workspace="${ID}"]`);
  await page.locator(`[data-workspace="${ID}"][data-status="running"]`).waitFor();
  await page.evaluate(() => {
    window.sameDocument = true;
  });
  writeFileSync(BEGIN_FILE, '');
  const banner = page.getByText(/The connection is lost/);
  await banner.waitFor();
  const lost = await banner.innerText();
  const kept = await card.getAttribute('data-status');
  await card.getByRole('button', { name: /^Stop/ }).click();
  const refused = await card.getByRole('alert').innerText();
  await shot(page, 'outage');
  writeFileSync(END_FILE, '');
  await banner.waitFor({ state: 'detached' });
  // What was refused works again, and the list follows again.
  await card.getByRole('button', { name: /^Stop/ }).click();
  await page.locator(`[data-workspace="${ID}"][data-status="stopped"]`).waitFor();
  const sameDocument = await page.evaluate(() => window.sameDocument === true);

  const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await background();
  await page.getByRole('button', { name: 'Account alice' }).click();
  await page.getByRole('menuitemradio', { name: 'Dark' }).click();
  await page.keyboard.press('Escape');
  const dark = await background();
  await page.reload();
  await card.waitFor();
  const reloaded = await background();

  await context.clearCookies();
  await page.getByRole('link', { name: 'Templates' }).click();
  await page.getByRole('heading', { name: 'Your session has ended' }).waitFor();
  const back = await page.getByRole('link', { name: 'Sign in' }).getAttribute('href');
  await page.getByRole('link', { name: 'Sign in' }).click();
  await page.waitForURL((url) => url.origin !== new URL(SITE_URL).origin || url.pathname === '/templates');
  return { lost, kept, refused, sameDocument, light, dark, reloaded, back, complaints };
});
