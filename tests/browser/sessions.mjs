// One's own browser sessions by keyboard: listed, this one marked, another ended, then all others.
import { judged, scenario, settled, shot, signIn, tabTo, until, visitor } from './lib.mjs';

const WHO = /Vera/;

await scenario(async (browser) => {
  const { page, complaints } = await visitor(browser);
  await signIn(page, WHO);
  for (let more = 0; more < 3; more += 1) {
    const other = await visitor(browser);
    await signIn(other.page, WHO);
    complaints.push(...other.complaints);
    await other.context.close();
  }
  const press = (key) => page.keyboard.press(key);
  const focus = (name) =>
    until(`the focus on ${name}`, async () => {
      const value = await page.evaluate(() => document.activeElement?.textContent ?? '');
      return { holds: value === name, value };
    });
  const rows = page.locator('[data-session]');
  const listed = async (count) => {
    await until(`${count} sessions`, async () => {
      const value = await rows.count();
      return { holds: value === count, value };
    });
    const current = await page.locator('[data-session][data-current="true"]').count();
    const ids = await rows.evaluateAll((all) => all.map((row) => row.dataset.session));
    return { ids, current, marked: await page.getByText('This browser', { exact: true }).count() };
  };

  // It is in the account menu, two above the way out.
  await tabTo(page, /^Account vera/);
  await press('Enter');
  await until('the focus in the menu', async () => {
    const value = await page.evaluate(() => document.activeElement?.getAttribute('role'));
    return { holds: value?.startsWith('menuitem') ?? false, value };
  });
  await press('End');
  await focus('Sign out');
  await press('ArrowUp');
  await focus('Access tokens');
  await press('ArrowUp');
  await focus('Sessions');
  await press('Enter');
  await page.waitForURL('**/sessions');
  await settled(page);
  const all = await listed(4);
  const own = await page.locator('[data-current="true"]').getAttribute('data-session');
  const shown = await judged(page);
  await page.emulateMedia({ colorScheme: 'dark' });
  const dark = await judged(page);
  await shot(page, 'sessions');

  // The first of the others. Who is asked may think better of it.
  const dialog = page.getByRole('alertdialog');
  const first = await page.locator('[data-current="false"]').first().getAttribute('data-session');
  await tabTo(page, /^End$/);
  await press('Enter');
  await dialog.waitFor();
  await focus('Keep it');
  await press('Escape');
  await dialog.waitFor({ state: 'detached' });
  await focus('End');
  await press('Enter');
  await dialog.waitFor();
  const asked = await judged(page);
  await focus('Keep it');
  await press('Tab');
  await focus('End it');
  await press('Enter');
  await dialog.waitFor({ state: 'detached' });
  const without = await listed(3);

  // Then the rest, by the button above the list.
  await page.reload();
  await settled(page);
  await listed(3);
  await tabTo(page, /^End all others$/);
  await press('Enter');
  await dialog.waitFor();
  const question = await dialog.innerText();
  await focus('Keep them');
  await press('Tab');
  await focus('End them');
  await press('Enter');
  await dialog.waitFor({ state: 'detached' });
  const alone = await listed(1);
  const buttons = await page.getByRole('button', { name: /^End/ }).count();
  return { all, own, first, without, alone, buttons, question, shown, dark, asked, complaints };
});
