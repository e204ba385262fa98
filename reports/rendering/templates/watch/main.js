// The page that `bench watch` keeps up to date: parts whose version has changed are fetched and put in place of the old.
//
// What is the same stays the same element, so a reader's selection, focus, scroll position and unfolded texts stay. The
// server escapes every text of the study; markup that is put in place here runs no script.

const places = [...document.querySelectorAll("[data-part]")];

// What distinguishes a child from its siblings: its `data-key`, else its kind and its place among those.
function keysOf(nodes) {
  const seen = {};
  return nodes.map((node) => {
    const key = node.dataset?.key ? `key ${node.dataset.key}` : node.nodeName;
    seen[key] = (seen[key] ?? 0) + 1;
    return `${key} ${seen[key]}`;
  });
}

// Make `old` equal to `next`, keeping every element that need not change.
function become(old, next) {
  if (old.isEqualNode(next)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.data = next.data;
    return;
  }
  if (old.matches("figure.chart")) {
    redraw(old, next);
    return;
  }
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const there = [...old.childNodes];
  const known = new Map(keysOf(there).map((key, i) => [key, there[i]]));
  const wanted = [...next.childNodes];
  const kept = keysOf(wanted).map((key, i) => {
    const found = known.get(key);
    if (!found) return begun(wanted[i]);
    known.delete(key);
    become(found, wanted[i]);
    return found;
  });
  for (const node of known.values()) leave(node);
  kept.forEach((node, i) => { if (old.childNodes[i] !== node) old.insertBefore(node, old.childNodes[i] ?? null); });
}

// A new element, with its charts.
function begun(node) {
  if (node.nodeType === Node.ELEMENT_NODE) charts(node).forEach((figure) => setUp(figure));
  return node;
}

function leave(node) {
  if (node.nodeType === Node.ELEMENT_NODE) charts(node).forEach((figure) => figure.querySelector(".plot")?.finalize?.());
  node.remove();
}

function charts(element) {
  return element.matches("figure.chart") ? [element] : [...element.querySelectorAll("figure.chart")];
}

function setUp(figure) {
  const { specification, rows, names } = JSON.parse(figure.querySelector("script").textContent);
  const host = figure.querySelector(".plot");
  chart(host, specification, rows, names);
  return host;
}

// Draw a chart anew beside the old drawing, which stays until the new one is complete.
async function redraw(figure, next) {
  const data = figure.querySelector("script");
  const text = next.querySelector("script").textContent;
  figure.querySelector("figcaption").textContent = next.querySelector("figcaption").textContent;
  const old = figure.querySelector(".plot:not(.coming)");
  old.dataset.alt = next.querySelector(".plot").dataset.alt;
  if (data.textContent === text) return;
  data.textContent = text;
  figure.querySelectorAll(".plot.coming").forEach((host) => host.remove());
  const host = make("div", { class: "plot coming", "data-alt": old.dataset.alt, style: `position: absolute; visibility: hidden; width: ${old.clientWidth}px` });
  const { specification, rows, names } = JSON.parse(text);
  if (!old.underway) {
    host.className = "plot";
    host.removeAttribute("style");
    comingIntoView.unobserve(old);
    old.replaceWith(host);
    chart(host, specification, rows, names);
    return;
  }
  old.after(host);
  await Promise.all([old.underway, drawChart(host, specification, rows, names)]);
  if (!host.isConnected) return; // newer data came in the meantime
  old.finalize?.();
  old.remove();
  host.underway = Promise.resolve();
  host.classList.remove("coming");
  host.removeAttribute("style");
}

// Sort the tables of a new part as the reader has sorted the old.
function sortedAlike(old, next) {
  const before = new Map([...old.querySelectorAll("table[data-sortable]")].map((each) => [each.caption.textContent, each]));
  for (const element of next.querySelectorAll("table[data-sortable]")) {
    sortable(element);
    const head = before.get(element.caption.textContent)?.querySelector("th[aria-sort]");
    const same = head && [...element.tHead.rows[0].cells].find((each) => each.textContent === head.textContent);
    if (!same) continue;
    const descending = head.getAttribute("aria-sort") === "descending";
    element.tBodies[0].append(...sorted([...element.tBodies[0].rows], (row) => cellKey(row.cells[same.cellIndex]), descending));
    markSorted([...element.tHead.rows[0].cells], same, descending);
  }
}

// A part as the server has it; nothing if the server went away, of which the stream below tells.
async function fetched(part) {
  try {
    const answer = await fetch(`/parts/${part}`, { cache: "no-store" });
    return answer.ok ? { html: await answer.text(), version: answer.headers.get("ETag").replaceAll('"', "") } : {};
  } catch {
    return {};
  }
}

// Fetch the parts that are not of these versions; calls one after the other, so that an older answer never follows a newer.
let queue = Promise.resolve();

function update({ versions, name, title, made }) {
  queue = queue.then(async () => {
    document.title = title;
    document.querySelector("h1").textContent = name;
    document.getElementById("made").textContent = made;
    for (const place of places) {
      if (place.dataset.version === versions[place.dataset.part]) continue;
      const { html, version } = await fetched(place.dataset.part);
      if (!version) continue;
      const next = place.cloneNode();
      next.append(...new DOMParser().parseFromString(html, "text/html").body.childNodes);
      next.dataset.version = version;
      sortedAlike(place, next);
      become(place, next);
    }
  });
}

// A browser allows a server six connections at a time, so a page that nobody sees gives up its own.
let stream = null;

function follow() {
  if (document.hidden || stream) return;
  stream = new EventSource("/events");
  stream.addEventListener("message", ({ data }) => update(JSON.parse(data)));
  stream.addEventListener("open", () => { document.getElementById("lost").hidden = true; });
  stream.addEventListener("error", () => {
    document.getElementById("lost").hidden = false;
    if (stream?.readyState !== EventSource.CLOSED) return; // it tries again by itself
    stream = null;
    setTimeout(follow, 2_000);
  });
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    stream?.close();
    stream = null;
  } else follow();
});
follow();
