// Somebody who signs in and stays; the suite lets time pass for them.
import { SITE_URL, settled, visitor } from './lib.mjs';
import { answer, scenario, sessions } from './login-lib.mjs';

await scenario(async (browser) => {
  const { context, page } = await visitor(browser);
  await page.goto(new URL('/auth/login', SITE_URL).href);
  await answer(page, 'bob');
  await page.waitForURL(SITE_URL);
  await settled(page);
  const cookie = (await context.cookies()).find(({ name }) => name === 'nogoo9');
  return { token: cookie.value, sessions: await sessions(context) };
});
