// The page's data, and what it shows at a time: the list, a row, or a comparison.

const DATA = JSON.parse(document.getElementById("data").textContent);
const estimate = ([value, low, high]) => ({ value, low, high });
DATA.entries = DATA.entries.map((values) => {
  const entry = Object.fromEntries(DATA.fields.map((field, i) => [field, values[i]]));
  const searched = [entry.label, entry.method, entry.learner, entry.backend, entry.model, entry.profile, entry.suite, entry.standing, entry.source, entry.protocol, ...entry.hardware, ...entry.tasks];
  return { ...entry, score: estimate(entry.score), mean: estimate(entry.mean), searched: searched.join(" ").toLowerCase() };
});
const ENTRIES = new Map(DATA.entries.map((entry) => [entry.id, entry]));
const alike = (entry) => JSON.stringify([entry.tab, entry.suite, entry.profile, entry.board, entry.conditions, entry.measure, entry.rank]);
const ranks = Map.groupBy(DATA.entries.filter((entry) => entry.rank !== null), alike);
for (const entry of DATA.entries) entry.tied = (ranks.get(alike(entry))?.length ?? 0) > 1;

const VIEWS = {
  list: { show: showList, of: [] },
  opened: { show: showOpened, of: ["open"] },
  comparison: { show: showComparison, of: ["ticked", "base", "task"] },
};
const TITLE = document.title;
let view = "";
let shownLink = null;

function showTray() {
  const marks = ticked();
  document.getElementById("tray").hidden = !marks.length || view !== "list";
  document.getElementById("ticked").textContent = `${count(marks.length, "row")} ticked`;
  document.getElementById("compare").disabled = marks.length < 2;
}

// Where the reader was: what had the focus has it again, or else the head of what came in its place.
function focusOn(name, turned, opened, focused) {
  const head = document.querySelector(`#${name} h2`);
  const row = name === "list" ? document.querySelector(`tr[data-id="${CSS.escape(opened)}"] a, #tray:not([hidden]) #compare`) : head;
  const place = turned ? row : (focused && document.getElementById(focused)) || head;
  if (turned && name !== "list") scrollTo(0, 0);
  if (turned || document.activeElement === document.body) place?.focus();
}

async function show() {
  if (shownLink === location.hash) return;
  shownLink = location.hash;
  const before = state;
  const was = view;
  const focused = document.activeElement?.id;
  const now = readState();
  state = now;
  view = state.open ? "opened" : state.compare ? "comparison" : "list";
  if (state.theme !== before.theme) themed(state.theme);
  for (const name of Object.keys(VIEWS)) document.getElementById(name).hidden = name !== view;
  if (was !== view && was && was !== "list") clear(document.getElementById(was));
  document.getElementById("back").hidden = view === "list";
  showTray();
  if (view === "list") showList();
  else if (was !== view || VIEWS[view].of.some((name) => before[name] !== state[name])) await VIEWS[view].show(document.getElementById(view));
  if (state !== now) return;
  document.title = view === "list" ? TITLE : `${document.querySelector(`#${view} h2`).textContent} – ${TITLE}`;
  if (was && (view !== "list" || was !== "list")) focusOn(view, was !== view || before.open !== state.open, before.open, focused);
}

function start() {
  startTabs();
  startFilters();
  document.getElementById("compare").addEventListener("click", () => go({ compare: "1" }));
  document.getElementById("clear").addEventListener("click", () => go({ ticked: "" }));
  document.getElementById("back").addEventListener("click", () => go({ open: "", compare: "", base: "", task: "" }));
  document.querySelector("select.theme").addEventListener("change", (event) => go({ theme: event.target.value }, true));
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("content").focus();
  });
  addEventListener("hashchange", show);
  show();
  requestAnimationFrame(() => setTimeout(() => {
    performance.mark("usable");
    document.documentElement.dataset.ready = "";
  }));
}

start();
