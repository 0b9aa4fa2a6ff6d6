// A workspace that is opened before it is there: a page says so, follows, and becomes the workspace.
import { agent, scenario, shell, signIn, visitor, workspaceUrl } from './lib.mjs';

const { TEMPLATE } = process.env;
const id = TEMPLATE;

await scenario(async (browser) => {
  const { page, complaints } = await visitor(browser);
  await signIn(page, /Alice Arden/);
  const mcp = await agent();
  await mcp.call('spawn_workspace', { template: TEMPLATE, id });
  const answer = await page.goto(workspaceUrl(id));
  const waiting = {
    status: answer.status(),
    heading: await page.locator('h1').innerText(),
    message: await page.getByRole('status').innerText(),
  };
  await page.locator('#version').waitFor();
  await shell(page).connected();
  const version = await page.locator('#version').innerText();
  await mcp.close();
  return { waiting, version, url: page.url(), complaints };
});
