// Someone who opens another's workspace, and one that does not exist: what the browser shows.
import { scenario, shell, signIn, visitor, workspaceUrl } from './lib.mjs';

const { OTHERS, ABSENT } = process.env;

await scenario(async (browser) => {
  const bob = await visitor(browser);
  await signIn(bob.page, /Bob Brook/);
  /** Everything there is to see, with the address left out. */
  const look = async (id) => {
    const answer = await bob.page.goto(workspaceUrl(id));
    const hide = (text) => text.replaceAll(id, '{id}');
    const hops = [];
    for (let request = answer.request(); request; request = request.redirectedFrom()) {
      const url = new URL(request.url());
      hops.unshift([(await request.response()).status(), hide(url.host), url.pathname]);
    }
    const { date, ...headers } = await answer.allHeaders();
    return {
      status: answer.status(), hops, headers, url: hide(bob.page.url()), title: await bob.page.title(),
      html: hide(await bob.page.content()),
    };
  };
  const others = await look(OTHERS);
  const absent = await look(ABSENT);
  const alice = await visitor(browser);
  await signIn(alice.page, /Alice Arden/);
  const own = (await alice.page.goto(workspaceUrl(OTHERS))).status();
  await shell(alice.page).connected();
  return { others, absent, own, complaints: bob.complaints, ownComplaints: alice.complaints };
});
