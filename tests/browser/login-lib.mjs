// What the scripts about signing in share: how the pages of each provider are used, and what passes by.
import { SITE_URL, judged, scenario as anyScenario, tabTo } from './lib.mjs';

const { PROVIDER, ISSUER } = process.env;

/** Names on the dev provider's page, which has no passwords. */
const NAMES = { alice: /Alice Arden/, bob: /Bob Brook/, admin: /Ada Admin/ };

/**
 * The pages of each provider: what shows that it asks who is there, how to answer, how to leave it after
 * signing out, and how to refuse, where it lets people do that.
 */
const PROVIDERS = {
  dev: {
    form: (page) => page.getByRole('button', { name: NAMES.alice }),
    enter: (page, who) => page.getByRole('button', { name: NAMES[who] }).click(),
    leave: async () => {},
  },
  'oidc-provider': {
    form: (page) => page.locator('input[name="login"]'),
    async enter(page, who) {
      await page.locator('input[name="login"]').fill(who);
      await page.locator('input[name="password"]').fill(who);
      await page.getByRole('button', { name: 'Sign-in' }).click();
    },
    leave: (page) => page.getByRole('button', { name: 'Yes, sign me out' }).click(),
    refuse: (page) => page.getByRole('link', { name: 'Cancel' }).click(),
  },
  zitadel: {
    form: (page) => page.getByLabel('Username'),
    async enter(page, who) {
      await page.getByLabel('Username').fill(who);
      await page.getByLabel('Password').fill(who);
      await page.getByRole('button', { name: 'Login' }).click();
    },
    leave: async () => {},
  },
};
export const provider = PROVIDERS[PROVIDER];

/** Nothing is fetched from afar: one provider's page wants a font. */
const NEAR = '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost, EXCLUDE 127.*';
export const scenario = (main) => anyScenario(main, [NEAR]);

/** Waits until the provider asks who is there; returns whether it is the provider's own address that does. */
export async function asks(page) {
  await provider.form(page).waitFor();
  return new URL(page.url()).origin === new URL(ISSUER).origin;
}

/** Answers the provider's question, wherever that leads. */
export async function answer(page, who) {
  await asks(page);
  await provider.enter(page, who);
}

/** Who the console says is signed in. */
export async function account(page) {
  const text = await page.getByRole('button', { name: /^Account / }).innerText();
  return text.replace(/\s+/g, ' ').trim();
}

/** Whether an address is that path of the console's host; a provider may have the same path on its own. */
export const isOurs = (url, path) => url.origin === new URL(SITE_URL).origin && url.pathname === path;

/** Every address that the page's window goes to from now on, redirects included. */
export function visited(page) {
  const urls = [];
  page.on('request', (request) => {
    if (request.isNavigationRequest() && request.frame() === page.mainFrame()) urls.push(new URL(request.url()));
  });
  return urls;
}

/** The session's cookies, one a host, with the full hours that they have left. */
export async function sessions(context) {
  const cookies = (await context.cookies()).filter(({ name }) => name === 'nogoo9');
  return cookies.map(({ domain, httpOnly, sameSite, path, expires }) => ({
    domain, httpOnly, sameSite, path, hours: Math.floor((expires - Date.now() / 1000) / 3600),
  }));
}

/**
 * Does `go`, which makes the provider send the browser back to the site, and keeps the browser from
 * following; returns where it was sent to.
 */
export async function heldBack({ context, page }, go) {
  const cdp = await context.newCDPSession(page);
  const held = new Promise((resolve) => {
    cdp.once('Fetch.requestPaused', resolve);
  });
  const urlPattern = `${new URL('/auth/callback', SITE_URL)}*`;
  await cdp.send('Fetch.enable', { patterns: [{ urlPattern, requestStage: 'Request' }] });
  const gone = go();
  const { requestId, request } = await held;
  // Without content the browser stays where it is.
  await cdp.send('Fetch.fulfillRequest', { requestId, responseCode: 204 });
  await gone;
  await cdp.detach();
  return new URL(request.url);
}

/**
 * What a page says that is shown in place of signing in, read in light and dark, and where its link
 * leads, which is found by keyboard.
 */
export async function trouble(page, response) {
  const seen = { status: response?.status(), title: await page.locator('h1').innerText(), broken: [] };
  seen.text = await page.locator('main').innerText();
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    const { overflow, violations } = await judged(page);
    if (overflow > 0 || violations.length > 0) seen.broken.push({ colorScheme, overflow, violations });
  }
  await tabTo(page, /^Try again$/);
  const href = await page.evaluate(() => document.activeElement.href);
  seen.again = href.slice(new URL(SITE_URL).origin.length);
  return seen;
}
