(function () {
  var d = document, page = d.body.dataset, headings = JSON.parse(page.headings), over = false;
  function put(i, t) {
    var e = d.getElementById(i);
    t = t || '';
    if (e.textContent !== t) { e.textContent = t; }
    e.parentNode.hidden = e.dataset.alone !== undefined && !t;
  }
  function show(s) {
    if (over) { return true; }
    if (!s || s.status === 'serving' || s.status === 'stopped') {
      over = true;
      setTimeout(function () { location.reload(); }, 300);
      return true;
    }
    var heading = headings[s.status] || headings.other, h = d.querySelector('h1');
    if (h.textContent !== heading) { h.textContent = d.title = heading; }
    put('s', s.message);
    put('w', s.reason);
    put('e', s.lastError);
    return false;
  }
  // What is none of these says nothing of the workspace: the edge does not know at the moment, or it
  // is a balancer that speaks, whose page of an error would not come back by itself.
  function final(status) { return status === 401 || status === 403 || status === 404; }
  function poll() {
    fetch(page.status, {cache: 'no-store', credentials: 'same-origin'}).then(function (r) {
      if (final(r.status)) { return null; }
      if (!r.ok) { throw r; }
      return r.json();
    }).then(function (s) {
      if (!show(s)) { setTimeout(poll, 1000); }
    }).catch(function () { setTimeout(poll, 1500); });
  }
  function follow() {
    if (!window.EventSource) { return poll(); }
    var s = new EventSource(page.status.replace(/status$/, 'events')), heard = false;
    s.onmessage = function (m) {
      heard = true;
      if (show(JSON.parse(m.data))) { s.close(); }
    };
    s.onerror = function () {
      s.close();
      if (!over) { setTimeout(heard ? follow : poll, 1000); }
    };
  }
  setTimeout(follow, 400);
})();
