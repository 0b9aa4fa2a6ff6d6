// A workspace that is opened before it is ready: a page says so, follows, and becomes the workspace.
import { scenario, shell, signIn, visitor, workspaceUrl } from './lib.mjs';
import { writeFileSync } from 'node:fs';

const { ID, READY_FILE } = process.env;

await scenario(async (browser) => {
  const { page, complaints } = await visitor(browser);
  await signIn(page, /Alice Arden/);
  const answer = await page.goto(workspaceUrl(ID));
  const waiting = {
    status: answer.status(),
    heading: await page.locator('h1').innerText(),
    message: await page.getByRole('status').innerText(),
  };
  // The workspace is ready as soon as this is there, and not before.
  writeFileSync(READY_FILE, '');
  await page.locator('#version').waitFor();
  await shell(page).connected();
  const version = await page.locator('#version').innerText();
  return { waiting, version, url: page.url(), complaints };
});
