// The provider goes away, and control starts anew without it: whoever is signed in notices nothing, whoever
// is not is told, and signs in by the same page's link once the provider is back.
import { SITE_URL, settled, shell, shot, until, visitor, workspaceUrl } from './lib.mjs';
import { existsSync, writeFileSync } from 'node:fs';
import { account, answer, asks, isOurs, scenario, sessions, trouble } from './login-lib.mjs';

const { ID, AWAY_FILE, IS_AWAY_FILE, BACK_FILE, IS_BACK_FILE } = process.env;
const DEEP = new URL('/templates?from=away', SITE_URL).href;

/** Asks the suite for something, and waits until it is done. */
async function have(ask, done) {
  writeFileSync(ask, '');
  await until(`the suite to make ${done}`, async () => ({ holds: existsSync(done), value: null }));
}

await scenario(async (browser) => {
  const alice = await visitor(browser);
  await alice.page.goto(new URL('/auth/login', SITE_URL).href);
  await answer(alice.page, 'alice');
  await settled(alice.page);
  const work = await alice.context.newPage();
  await work.goto(workspaceUrl(ID));
  const terminal = shell(work);
  await terminal.connected();
  await terminal.type('n=41; echo "before $n"', /^before 41$/m);

  await have(AWAY_FILE, IS_AWAY_FILE);
  // The same shell, new requests, and the console as well.
  const typed = await terminal.type('echo "after $((n + 1))"', /^after (?<n>\d+)$/m);
  const fetched = await work.evaluate(async () => (await fetch('./info')).status);
  await alice.page.reload();
  await settled(alice.page);
  const who = await account(alice.page);

  const bob = await visitor(browser);
  await bob.page.goto(DEEP);
  const signIn = bob.page.getByRole('link', { name: 'Sign in' });
  const again = bob.page.getByRole('link', { name: 'Try again' });
  /** Presses a link that leads to signing in; returns the site's own answer. */
  const press = async (link) => {
    const response = bob.page.waitForResponse((reply) => isOurs(new URL(reply.url()), '/auth/login'));
    await link.click();
    return response;
  };
  const reply = await press(signIn);
  await again.waitFor();
  const away = { ...(await trouble(bob.page, reply)), sessions: (await sessions(bob.context)).length };
  await shot(bob.page, 'login-away');

  await have(BACK_FILE, IS_BACK_FILE);
  // A failure speaks for a second; a person just presses again.
  await until('the provider to be asked', async () => {
    const value = (await press(again)).status();
    return { holds: value === 303, value };
  });
  const asked = await asks(bob.page);
  await answer(bob.page, 'bob');
  await bob.page.waitForURL(DEEP);
  await settled(bob.page);
  const cookies = await alice.context.cookies(SITE_URL);
  const token = cookies.find(({ name }) => name === 'nogoo9').value;
  return { typed, fetched, who, away, asked, bobs: await account(bob.page), token };
});
