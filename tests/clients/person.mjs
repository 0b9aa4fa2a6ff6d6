// A person before the page of the development identity provider, by HTTP.

/** The values that an attribute has in tags that match, as the page is written. */
const attributes = (html, pattern) => [...html.matchAll(pattern)].map((found) => found[1]);

/**
 * Signs `user` in at the authorization request `url`, allowing of nogoo9's scopes only these. Returns
 * the parameters that the application gets back.
 */
export async function signIn(url, user, allows) {
  const page = await fetch(url);
  const html = await page.text();
  if (!page.ok) throw new Error(`${url}: ${page.status} ${html}`);
  const [request] = attributes(html, /name="request" value="([^"]+)"/g);
  const form = new URLSearchParams({ request, user });
  for (const box of attributes(html, /name="(allow:[^"]+)"/g)) {
    if (allows.includes(box.slice('allow:'.length))) form.set(box, 'yes');
  }
  const sent = await fetch(new URL('/sign-in', url), {
    method: 'POST',
    body: form,
    headers: { origin: new URL(url).origin },
    redirect: 'manual',
  });
  const back = new URL(sent.headers.get('location'));
  const wanted = new URL(url.searchParams.get('redirect_uri'));
  if (sent.status !== 303 || back.origin + back.pathname !== wanted.origin + wanted.pathname) {
    throw new Error(`signing in ended at ${sent.status} ${back}`);
  }
  return back.searchParams;
}
