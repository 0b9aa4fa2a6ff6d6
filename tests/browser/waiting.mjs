// A workspace that is opened before it is ready: a page says so, follows, and becomes the workspace, at
// the very address that was asked for; where no script runs, too.
import { scenario, shell, signIn, visitor, workspaceUrl } from './lib.mjs';
import { writeFileSync } from 'node:fs';

const { ID, READY_FILE } = process.env;

await scenario(async (browser) => {
  const { context, page, complaints } = await visitor(browser);
  await signIn(page, /Alice Arden/);
  const wanted = new URL('?asked=for#this', workspaceUrl(ID)).href;
  const asked = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  const answer = await page.goto(wanted);
  const waiting = {
    status: answer.status(),
    heading: await page.locator('h1').innerText(),
    message: await page.getByRole('status').innerText(),
  };
  await page.getByText('It runs and gets ready.').waitFor();

  // Signed in already, and without scripts.
  const storageState = await context.storageState();
  const bare = await visitor(browser, { storageState, javaScriptEnabled: false });
  const first = await bare.page.goto(wanted);
  const plain = { status: first.status(), heading: await bare.page.locator('h1').innerText() };
  const served = bare.page.waitForResponse((response) => response.url().includes('asked=for') && response.status() === 200);

  // Behind a balancer whose own answers come in between, what is said of the workspace changes, and the
  // page stays until it is told that nothing is to come.
  const behind = await visitor(browser, { storageState });
  const said = [502, 429, 500, 503, { status: 'stopping', message: 'It ends.' }, { status: 'starting' }, 404];
  const between = { statuses: [], headings: [], titles: [], navigations: [] };
  let navigations = 0;
  behind.page.on('request', (request) => { navigations += request.isNavigationRequest(); });
  await behind.page.route('**/.nogoo9/*', async (route) => {
    if (route.request().url().endsWith('/events')) return route.fulfill({ status: 502 });
    between.statuses.push(said[0]);
    between.headings.push(await behind.page.locator('h1').innerText());
    between.titles.push(await behind.page.title());
    between.navigations.push(navigations);
    const next = said.length > 1 ? said.shift() : said[0];
    return route.fulfill(typeof next === 'number' ? { status: next } : { json: next });
  });
  await behind.page.goto(wanted);
  await behind.page.waitForRequest((request) => request.isNavigationRequest());
  await behind.context.close();

  // The workspace is ready as soon as this is there, and not before.
  writeFileSync(READY_FILE, '');
  await page.locator('#version').waitFor();
  await shell(page).connected();
  const version = await page.locator('#version').innerText();
  await served;
  const ours = [...new Set(asked.filter((path) => path.includes('.nogoo9') && !path.endsWith('/login')))];
  return { waiting, plain, between, version, ours, wanted, url: page.url(), complaints };
});
