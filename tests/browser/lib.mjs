// What the scripts of this folder share: a browser, a watch on its console, signing in, the official
// MCP client. Each script prints one JSON report on its last line and judges nothing.
import axe from 'axe-core';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { chromium } from 'playwright-core';
import { mkdirSync } from 'node:fs';

export const { SITE_URL, MCP_URL, WORKSPACE_URL, TOKEN } = process.env;
export const workspaceUrl = (id) => WORKSPACE_URL.replace('{id}', id);

/** Longest wait for anything on a page. */
const WAIT = 120_000;

/** Folder of the screenshots, which are for people to look at. */
const SHOTS = new URL('shots/', import.meta.url).pathname;
export const shot = (page, name) => page.screenshot({ path: `${SHOTS}${name}.png`, fullPage: true });

/** Starts a browser, runs `main` and prints what it returns. The browser ends in any case. */
export async function scenario(main, flags = []) {
  mkdirSync(SHOTS, { recursive: true });
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
    args: [
      '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync', ...flags,
    ],
  });
  try {
    const report = await main(browser);
    console.log(JSON.stringify(report));
  } catch (error) {
    for (const page of browser.contexts().flatMap((context) => context.pages())) {
      const text = await page.locator('body').innerText({ timeout: 2000 }).catch(String);
      console.error(`--- ${page.url()}\n${text}`);
    }
    throw error;
  } finally {
    await browser.close();
  }
}

/** A browser window of its own, and the list of what its console complains about. */
export async function visitor(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options });
  context.setDefaultTimeout(WAIT);
  const complaints = [];
  context.on('console', (message) => {
    if (!['error', 'warning'].includes(message.type())) return;
    complaints.push({ text: message.text(), url: message.location().url });
  });
  context.on('weberror', (error) => complaints.push({ text: String(error.error()), url: error.page()?.url() }));
  return { context, page: await context.newPage(), complaints };
}

/** Signs in at the console with the mouse, and waits until it shows what there is. */
export async function signIn(page, name) {
  await page.goto(SITE_URL);
  await page.getByRole('link', { name: 'Sign in' }).click();
  await page.getByRole('button', { name }).click();
  await page.waitForURL(SITE_URL);
  await settled(page);
}

/** Waits until a page of the console has what it shows. */
export async function settled(page) {
  await page.locator('main h1').waitFor();
  await page.getByText(/^Loading /).first().waitFor({ state: 'detached' });
}

/** Goes to the list of everyone's workspaces, which admins have. */
export async function everyones(page) {
  await page.getByRole('link', { name: 'Everyone’s' }).click();
  await settled(page);
}

/** The word on a workspace's card that there is a newer version. */
export const outdated = (page, id) =>
  page.locator(`[data-workspace="${id}"]`).getByText('Outdated', { exact: true });

/** The header's button that upgrades everything. */
export const upgradeAllButton = (page) => page.getByRole('button', { name: 'Upgrade All Outdated' });

/** Presses it, agrees, and is on the operation's page; returns what was said would happen to whom. */
export async function upgradeAll(page) {
  await upgradeAllButton(page).click();
  const dialog = page.getByRole('dialog');
  await dialog.locator('[data-verdict]').first().waitFor();
  const plan = await byTarget(dialog, 'data-verdict');
  await dialog.getByRole('button', { name: /^Upgrade \d+ workspaces?$/ }).click();
  await page.waitForURL('**/operations/*');
  await page.locator('[data-target]').first().waitFor();
  return plan;
}

/** Waits on an operation's page for its end; returns which it was. */
export async function ended(page) {
  await page.locator('[data-operation]:not([data-state="running"])').waitFor();
  return page.locator('[data-operation]').getAttribute('data-state');
}

/** Lines about workspaces: by id, the value of that attribute, and the text. */
export async function byTarget(of, attribute) {
  const lines = {};
  for (const line of await of.locator(`[data-target][${attribute}]`).all()) {
    lines[await line.getAttribute('data-target')] = [await line.getAttribute(attribute), await line.innerText()];
  }
  return lines;
}

/** What accessibility rules a page breaks, and how badly it fits. */
export async function judged(page) {
  // Colours on their way from one to the other are no one's choice.
  await page.evaluate(async () => {
    const ends = document.getAnimations().filter((one) => one.effect.getComputedTiming().endTime < Infinity);
    await Promise.allSettled(ends.map((one) => one.finished));
  });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
  return {
    overflow: Math.max(0, wide),
    violations: serious.map(({ id, nodes }) => ({
      id, where: nodes.map((node) => `${node.target} ${node.failureSummary}`),
    })),
  };
}

/** Presses Tab until what has the focus bears that name; it must show that it has it. */
export async function tabTo(page, name) {
  const passed = [];
  for (let presses = 0; presses < 40; presses += 1) {
    const focus = await page.evaluate(() => {
      const element = document.activeElement;
      const label = element.getAttribute('aria-label') ?? element.labels?.[0]?.innerText ?? element.innerText;
      const style = getComputedStyle(element);
      return { label: label?.replace(/\s+/g, ' ').trim(), outline: style.outlineStyle, width: parseFloat(style.outlineWidth) };
    });
    if (name.test(focus.label ?? '')) {
      if (focus.outline === 'none' || !(focus.width >= 1)) throw new Error(`focus on ${focus.label} cannot be seen`);
      return;
    }
    passed.push(focus.label);
    await page.keyboard.press('Tab');
  }
  throw new Error(`Tab never came to ${name}, but to: ${JSON.stringify(passed)}`);
}

/** Looks until it holds; says what was seen last if it never does. */
export async function until(what, look) {
  const end = Date.now() + WAIT;
  for (;;) {
    const seen = await look();
    if (seen.holds) return seen.value;
    if (Date.now() > end) throw new Error(`waited for ${what}; last seen: ${JSON.stringify(seen.value)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The shell of a workspace's page, as whoever sits before it sees it. */
export function shell(page) {
  const screen = async () => {
    const rows = await page.locator('.xterm-rows > div').allInnerTexts();
    return rows.map((row) => row.replaceAll('\u00a0', ' ').trimEnd()).join('\n');
  };
  return {
    screen,
    connected: () => page.locator('#terminal-state[data-state="connected"]').waitFor(),
    /** Types a line and returns the groups of what `expected` finds on the screen then. */
    async type(line, expected) {
      await page.keyboard.type(`${line}\n`);
      return this.shows(expected);
    },
    shows: (expected) =>
      until(`the terminal to show ${expected}`, async () => {
        const text = await screen();
        const found = text.match(expected);
        return { holds: found !== null, value: found ? { ...found.groups } : text };
      }),
  };
}

/** The official MCP client: calls a tool and returns its structured answer. */
export async function agent() {
  const client = new Client(
    { name: 'nogoo9-browser-tests', version: '0.0.0' },
    { versionNegotiation: { mode: 'auto' } },
  );
  const headers = { Authorization: `Bearer ${TOKEN}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(MCP_URL), { requestInit: { headers } }));
  const call = async (name, args = {}) => {
    const result = await client.callTool({ name, arguments: args });
    if (result.isError) throw new Error(`${name}: ${result.content[0]?.text}`);
    return result.structuredContent;
  };
  return { call, close: () => client.close() };
}
