// The sample's page: a terminal that comes back by itself, a streamed clock, an upload.
// Every URL is made relative to the page's own, which may lie below a path prefix.
"use strict";

(() => {
  const element = (id) => document.getElementById(id);
  const here = (path) => new URL(path, document.baseURI);

  // --- Version and clock -------------------------------------------------------

  const loadedVersion = element("version").textContent;

  function show({ version, pod }) {
    element("version").textContent = version;
    element("pod").textContent = pod;
    const notice = element("notice");
    if (version !== loadedVersion) {
      notice.textContent = `This workspace now runs version ${version}. Reload the page when it suits you.`;
      notice.hidden = false;
    }
  }

  const clock = new EventSource(here("events"));
  clock.addEventListener("message", (event) => {
    const data = JSON.parse(event.data);
    const time = element("clock");
    time.textContent = new Date(data.time).toLocaleTimeString();
    time.dateTime = data.time;
    time.dataset.seq = data.seq;
    show(data);
  });

  // --- Terminal ----------------------------------------------------------------

  const FIRST_PAUSE = 300;
  const LAST_PAUSE = 5000;

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => ({
    background: getComputedStyle(document.documentElement).getPropertyValue("--terminal").trim(),
    foreground: "#dfe6ee",
    cursor: "#8ab4ff",
    selectionBackground: "#33507c",
  });
  const terminal = new Terminal({
    fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"),
    fontSize: 14,
    // Some fonts draw underscores below a line of height 1, where they are cut off.
    lineHeight: 1.2,
    cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
    scrollback: 5000,
    screenReaderMode: false,
    theme: theme(),
  });
  const fit = new FitAddon.FitAddon();
  terminal.loadAddon(fit);
  terminal.open(element("terminal"));
  fit.fit();
  dark.addEventListener("change", () => { terminal.options.theme = theme(); });

  terminal.attachCustomKeyEventHandler((event) => {
    if (event.key === "F6") {
      if (event.type === "keydown") element("upload-file").focus();
      return false;
    }
    return true;
  });

  const encoder = new TextEncoder();
  let socket = null;
  let pause = FIRST_PAUSE;
  let connectedBefore = false;
  // What is typed before there is a first shell waits for it. Later, while a socket is
  // away, typing is dropped: half a command must not land in a new shell.
  const early = [];

  function state(name, text = name) {
    const badge = element("terminal-state");
    badge.dataset.state = name;
    badge.textContent = text;
  }

  function say(text) {
    terminal.write(`\r\n\x1b[2m[${text}]\x1b[0m\r\n`);
  }

  function connect() {
    const url = here(`shell?cols=${terminal.cols}&rows=${terminal.rows}`);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const current = new WebSocket(url);
    current.binaryType = "arraybuffer";
    socket = current;
    current.addEventListener("open", () => {
      pause = FIRST_PAUSE;
      state("connected");
      if (connectedBefore) {
        say("reconnected: a new shell");
        // It may be another pod's. The clock comes back a moment later, so ask.
        fetch(here("info")).then((answer) => answer.json()).then(show).catch(() => {});
      }
      connectedBefore = true;
      for (const bytes of early.splice(0)) current.send(bytes);
    });
    current.addEventListener("message", (event) => {
      if (event.data instanceof ArrayBuffer) terminal.write(new Uint8Array(event.data));
    });
    current.addEventListener("close", (event) => {
      socket = null;
      state("disconnected", "reconnecting");
      if (connectedBefore) say(`disconnected${event.reason ? `: ${event.reason}` : ""}; reconnecting`);
      // A little chance, so that many tabs do not come back in the same instant.
      setTimeout(connect, pause * (0.75 + Math.random() / 2));
      pause = Math.min(pause * 2, LAST_PAUSE);
    });
  }

  function send(bytes) {
    if (socket && socket.readyState === WebSocket.OPEN) socket.send(bytes);
    else if (!connectedBefore && early.length < 256) early.push(bytes);
  }

  terminal.onData((text) => send(encoder.encode(text)));
  terminal.onBinary((text) => send(Uint8Array.from(text, (c) => c.charCodeAt(0))));
  terminal.onResize(({ cols, rows }) => {
    if (socket && socket.readyState === WebSocket.OPEN) {
      socket.send(JSON.stringify({ resize: { cols, rows } }));
    }
  });
  new ResizeObserver(() => fit.fit()).observe(element("terminal"));
  connect();
  terminal.focus();

  // --- Notes and files ---------------------------------------------------------

  const NOTES = "files/notes.txt";

  function notes(name, text = name) {
    const badge = element("notes-state");
    badge.dataset.state = name;
    badge.textContent = text;
  }

  async function list() {
    const answer = await fetch(here("files"));
    if (!answer.ok) return;
    const { files } = await answer.json();
    element("files-list").replaceChildren(...files.map(({ name, bytes }) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = here(`files/${encodeURIComponent(name)}`);
      link.textContent = name;
      const size = document.createElement("span");
      size.textContent = `${bytes.toLocaleString()} bytes`;
      item.append(link, size);
      return item;
    }));
  }

  // Workspaces without a volume have no such section.
  if (element("notes")) {
    const text = element("notes-text");
    const failed = () => notes("disconnected", "not reached; try again");
    fetch(here(NOTES))
      .then(async (answer) => {
        // Not over what was typed while it was on its way.
        if (answer.ok && !text.value) text.value = await answer.text();
      })
      .then(list)
      .catch(failed);
    text.addEventListener("input", () => notes("connecting", "not saved"));
    element("notes").addEventListener("submit", async (event) => {
      event.preventDefault();
      const button = event.target.querySelector("button");
      const saved = text.value;
      button.disabled = true;
      notes("connecting", "saving");
      try {
        const answer = await fetch(here(NOTES), { method: "PUT", body: saved });
        if (answer.ok) {
          if (text.value === saved) notes("connected", "saved");
          else notes("connecting", "not saved");
          await list();
        } else {
          notes("disconnected", `not saved (status ${answer.status})`);
        }
      } catch {
        failed();
      }
      button.disabled = false;
    });
  }

  // --- Upload ------------------------------------------------------------------

  const hex = (buffer) => [...new Uint8Array(buffer)].map((b) => b.toString(16).padStart(2, "0")).join("");

  // Reading a whole file to check the hash here is fine up to this size.
  const CHECKED = 64 * 1024 * 1024;

  element("upload").addEventListener("submit", (event) => {
    event.preventDefault();
    const file = element("upload-file").files[0];
    if (!file) return;
    const result = element("upload-result");
    const progress = element("upload-progress");
    const button = event.target.querySelector("button");
    const done = (text) => {
      result.textContent = text;
      progress.hidden = true;
      button.disabled = false;
    };
    result.textContent = "";
    progress.value = 0;
    progress.hidden = false;
    button.disabled = true;
    // XMLHttpRequest, since fetch cannot report an upload's progress.
    const request = new XMLHttpRequest();
    request.open("POST", here("upload"));
    request.responseType = "json";
    request.upload.addEventListener("progress", ({ loaded, total }) => { progress.value = total ? loaded / total : 0; });
    request.addEventListener("error", () => done("The upload broke off. Try again."));
    request.addEventListener("load", async () => {
      if (request.status !== 200 || !request.response) {
        done(`The upload was answered with status ${request.status}.`);
        return;
      }
      const { sha256, bytes } = request.response;
      let verdict = "";
      if (file.size <= CHECKED && window.crypto?.subtle) {
        const own = hex(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
        verdict = own === sha256 ? ", as sent" : ", NOT what was sent";
      }
      done(`sha256 ${sha256} (${bytes} bytes${verdict})`);
    });
    request.send(file);
  });
})();
