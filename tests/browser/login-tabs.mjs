// Workspaces opened in several tabs at once by somebody who is not signed in: each tab asks, and each comes
// to where it was meant to go.
import { shell, visitor, workspaceUrl } from './lib.mjs';
import { answer, asks, scenario, sessions } from './login-lib.mjs';

const { ID, OTHER } = process.env;

await scenario(async (browser) => {
  const { context, page: first } = await visitor(browser);
  const targets = [`${workspaceUrl(ID)}?tab=1`, `${workspaceUrl(ID)}?tab=2&more=a%26b`, `${workspaceUrl(OTHER)}?tab=3`];
  const pages = [first, await context.newPage(), await context.newPage()];
  await Promise.all(pages.map((page, at) => page.goto(targets[at])));
  const asked = [];
  for (const page of pages) asked.push(await asks(page));
  const landed = [];
  for (const [at, page] of pages.entries()) {
    await page.bringToFront();
    await answer(page, 'alice');
    await page.waitForURL(targets[at]);
    await shell(page).connected();
    landed.push(page.url() === targets[at]);
  }
  const hosts = (await sessions(context)).map(({ domain }) => domain).sort();
  // Whoever is signed in at the console is asked nothing.
  const fourth = await context.newPage();
  const status = (await fourth.goto(`${workspaceUrl(OTHER)}?tab=4`)).status();
  return { asked, landed, hosts, status, fourth: fourth.url() === `${workspaceUrl(OTHER)}?tab=4` };
});
