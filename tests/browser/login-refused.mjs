// Sign-ins that come to nothing: answers that were stolen, altered or used up, and a provider that lets
// nobody in. Each ends on a page that says so and leads back, and none of them in a session.
import { SITE_URL, shot, visitor } from './lib.mjs';
import { answer, asks, heldBack, isOurs, provider, scenario, sessions, trouble } from './login-lib.mjs';

const DEEP = '/templates?from=refused';
const LOGIN = new URL(`/auth/login?return=${encodeURIComponent(DEEP)}`, SITE_URL).href;

await scenario(async (browser) => {
  const pages = {};
  /** Opens an address, notes what stands there under that name, and how many sessions there are then. */
  const at = async (name, { page, context }, url) => {
    const response = await page.goto(url);
    pages[name] = { ...(await trouble(page, response)), sessions: (await sessions(context)).length };
  };
  const begin = async () => {
    const one = await visitor(browser);
    await one.page.goto(LOGIN);
    await asks(one.page);
    return one;
  };
  const changed = (url, change) => {
    const other = new URL(url);
    change(other.searchParams);
    return other.href;
  };

  // Alice's answer, before her browser has taken it to the site.
  const alice = await begin();
  const answered = await heldBack(alice, () => provider.enter(alice.page, 'alice'));
  const stranger = await visitor(browser);
  await at('elsewhere', stranger, answered.href);
  await shot(stranger.page, 'login-refused');
  // Its link begins anew, here and now.
  await stranger.page.keyboard.press('Enter');
  const leadsBack = await asks(stranger.page);
  // Somebody else's sign-in, begun in this very browser, does not lend itself to it.
  await at('mixed', stranger, answered.href);
  await at('tossed', alice, changed(answered, (query) => query.set('state', `${query.get('state')}x`)));
  await at('stateless', alice, changed(answered, (query) => query.delete('state')));
  await at('doubled', alice, changed(answered, (query) => query.append('state', 'x')));
  // It still counts where it belongs, once.
  await alice.page.goto(answered.href);
  const landed = alice.page.url() === new URL(DEEP, SITE_URL).href;
  const signedIn = await sessions(alice.context);
  await at('twice', alice, answered.href);

  // A code that the provider never gave.
  const guess = await begin();
  const guessed = await heldBack(guess, () => provider.enter(guess.page, 'bob'));
  await at('guessed', guess, changed(guessed, (query) => query.set('code', 'guessed')));
  // The provider may be asked in a way that it must refuse.
  const silent = await visitor(browser);
  const sent = await silent.context.request.get(LOGIN, { maxRedirects: 0 });
  const toProvider = new URL(sent.headers().location);
  toProvider.searchParams.set('prompt', 'none');
  await at('silent', silent, toProvider.href);
  await silent.page.keyboard.press('Enter');
  await answer(silent.page, 'alice');
  await silent.page.waitForURL(new URL(DEEP, SITE_URL).href);
  const afterwards = (await sessions(silent.context)).length;
  // A person may refuse, where the provider lets them.
  if (provider.refuse) {
    const one = await begin();
    const response = one.page.waitForResponse((reply) => isOurs(new URL(reply.url()), '/auth/callback'));
    await provider.refuse(one.page);
    const reply = await response;
    await one.page.waitForURL((url) => isOurs(url, '/auth/callback'));
    pages.cancelled = { ...(await trouble(one.page, reply)), sessions: (await sessions(one.context)).length };
  }
  return { pages, leadsBack, landed, signedIn, afterwards };
});
