// Access tokens by keyboard: made, shown once, used, listed, revoked.
import { SITE_URL, judged, scenario, settled, shot, signIn, tabTo, until, visitor } from './lib.mjs';

const NAME = 'nightly build';

await scenario(async (browser) => {
  const { page, context, complaints } = await visitor(browser);
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: new URL(SITE_URL).origin });
  await signIn(page, /Alice Arden/);
  const press = (key) => page.keyboard.press(key);
  const focus = (name) =>
    until(`the focus on ${name}`, async () => {
      const value = await page.evaluate(() => document.activeElement?.textContent ?? '');
      return { holds: value === name, value };
    });

  // It is in the account menu, above the way out.
  await tabTo(page, /^Account alice/);
  await press('Enter');
  await until('the focus in the menu', async () => {
    const value = await page.evaluate(() => document.activeElement?.getAttribute('role'));
    return { holds: value?.startsWith('menuitem') ?? false, value };
  });
  await press('End');
  await focus('Sign out');
  await press('ArrowUp');
  await focus('Access tokens');
  await press('Enter');
  await page.waitForURL('**/tokens');
  await settled(page);

  await tabTo(page, /^Name/);
  await page.keyboard.type(NAME);
  await press('Enter');
  const dialog = page.getByRole('alertdialog');
  await dialog.waitFor();
  const token = await dialog.locator('[data-secret]').innerText();
  const shown = await judged(page);
  await focus('Copy token');
  await press('Enter');
  await dialog.getByText('Copied.').waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  await press('Tab');
  await focus('I have it');
  await press('Enter');
  await dialog.waitFor({ state: 'detached' });

  // Listed, and not shown again.
  const row = page.locator('[data-token]').filter({ hasText: NAME });
  await row.waitFor();
  await page.reload();
  await row.waitFor();
  const listed = await row.innerText();
  const again = (await page.content()).includes(token);
  const status = async () => {
    const headers = { authorization: `Bearer ${token}` };
    return (await fetch(new URL('/api/v1/workspaces', SITE_URL), { headers })).status;
  };
  const used = await status();
  await shot(page, 'tokens');

  await tabTo(page, new RegExp(`^Revoke ${NAME}$`));
  await press('Enter');
  await dialog.waitFor();
  await focus('Keep it');
  await press('Tab');
  await focus('Revoke it');
  await press('Enter');
  await dialog.waitFor({ state: 'detached' });
  await row.waitFor({ state: 'detached' });
  const after = await status();
  return { token, copied, shown, listed, again, used, after, complaints };
});
