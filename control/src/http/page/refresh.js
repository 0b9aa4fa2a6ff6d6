// Keeps the list fresh while somebody looks at it. Without this script the page works all the same.
"use strict";
(() => {
  const list = document.querySelector("[data-refresh]");
  if (!list) return;
  let shown = null;
  const refresh = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(list.dataset.refresh, { headers: { accept: "text/html" }, redirect: "error" });
      if (answer.status === 401) return location.reload();
      if (!answer.ok) return;
      const html = await answer.text();
      if (html === shown) return;
      // Whoever is on a button with the keyboard stays on it.
      const key = list.contains(document.activeElement) && document.activeElement.dataset.key;
      list.innerHTML = html;
      shown = html;
      if (key) list.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
    } catch {
      // The edge is away for a moment; the next turn tries again.
    }
  };
  const turn = async () => {
    await refresh();
    setTimeout(turn, 2000);
  };
  setTimeout(turn, 2000);
  document.addEventListener("visibilitychange", refresh);
})();
