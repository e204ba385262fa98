// The list: tabs, filters, and for each suite a table of ranked rows and one of rows listed apart.

const SPARSE = 300; // rows of a tab that are still shown all at once
const LONG = 50; // rows of a table from which on those out of sight are not laid out
const NONE = make("p", {}, "No row fits the search and the filters. Reset shows all.");
const sections = new Map(); // "tab suite" -> its section, built when first shown

function suitesOf(tab) {
  return DATA.suites.filter((suite) => inTab(tab).some((entry) => entry.suite === suite.name));
}

function inTab(tab) {
  return DATA.entries.filter((entry) => entry.shown_in === tab);
}

// The tab with the most ranked rows, or the most rows where none is ranked; of equal ones the first.
function fullestTab(tabs) {
  const most = (counted) => tabs.reduce((best, tab) => (counted(tab) > counted(best) ? tab : best), tabs[0]);
  const ranked = (tab) => inTab(tab).filter((entry) => entry.rank !== null).length;
  return tabs.some(ranked) ? most(ranked) : most((tab) => inTab(tab).length);
}

// The chosen one, or else the fullest.
function currentTab() {
  const tabs = Object.keys(DATA.tabs);
  return tabs.find((tab) => tab === state.tab) ?? fullestTab(tabs);
}

// The suites to show: the chosen one, or all; of a long board the first unless all are asked for or searched.
function chosenSuite(tab) {
  const names = suitesOf(tab).map((suite) => suite.name);
  if (names.includes(state.suite) || state.suite === "*") return state.suite;
  return inTab(tab).length > SPARSE && !state.q ? names[0] : "*";
}

function listed(kind, title, suite, entries) {
  const columns = columnsOf(kind, entries);
  const heads = columns.map(headCell);
  const rows = entries.map((entry) => ({ entry, element: line(columns, entry) }));
  const body = make("tbody", { role: "rowgroup" }, rows.map(({ element }) => element));
  const name = `${suite.title}: ${title}`;
  const head = make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, heads));
  const [{ shared: settings }] = entries;
  const shared = settings ? make("span", { class: "soft" }, `, all with ${settings}`) : null;
  const whole = make("table", { class: `board ${kind} ${entries.length > LONG ? "long" : ""}`, role: "table", "aria-label": name }, make("caption", {}, title, shared), head, body);
  const widths = columns.map(({ id }) => `var(--${id})`);
  whole.style.setProperty("--columns", `${widths.slice(0, -1).join(" ")} minmax(${widths.at(-1)}, 1fr)`);
  whole.style.setProperty("--width", `calc(${widths.join(" + ")})`);
  const region = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, whole);
  sortHeads(heads, (head, descending) => go({ sort: `${descending ? "-" : ""}${head.dataset.column}` }));
  let shown = "";
  const sort = (wanted) => {
    if (wanted === shown) return;
    const descending = wanted.startsWith("-");
    const id = wanted.replace("-", "");
    const column = columns.find((each) => each.id === id);
    const order = column ? sorted(rows, ({ entry }) => column.key(entry), descending) : rows;
    body.append(...order.map(({ element }) => element));
    markSorted(heads, column ? heads[columns.indexOf(column)] : kind === "ranked" ? heads[0] : null, column ? descending : false);
    shown = wanted;
  };
  markSorted(heads, kind === "ranked" ? heads[0] : null, false);
  return { region, rows, sort };
}

function section(tab, suite) {
  const key = `${tab} ${suite.name}`;
  if (sections.has(key)) return sections.get(key);
  const entries = inTab(tab).filter((entry) => entry.suite === suite.name);
  // The rows of one tab may be of several profiles (`scripted`), or of one task alone: those are not ranked together.
  // Scripted rows have a table of their own below that of the rows whose tasks and conditions they share.
  const alike = ({ profile, board, conditions, measure }) => JSON.stringify([profile, board, conditions, measure]);
  const beside = (entry) => entry.tab === "scripted" && tab !== "scripted";
  const split = (rows) => [rows.filter((entry) => !beside(entry)), rows.filter(beside)].filter((part) => part.length);
  // A replication, or further seeds, stand beneath the ranked row of the same configuration.
  const placed = (entry) => entry.rank !== null || (ENTRIES.get(entry.beneath)?.rank ?? null) !== null;
  const ranked = [...Map.groupBy(entries.filter(placed), (entry) => alike(ENTRIES.get(entry.beneath) ?? entry)).values()].flatMap(split);
  const apart = split(entries.filter((entry) => !placed(entry)));
  const several = new Set(ranked.map(([{ profile }]) => profile)).size > 1;
  const title = (entry) => {
    const { board, profile, conditions, measure } = entry;
    return `${beside(entry) ? "Scripted, ranked apart" : "Ranked"}${board ? ` on ${board} alone` : ""}${measure.name === "success" ? "" : ` by ${scoreName(measure)}`}${conditions ? `, ${conditions}` : ""}${several ? `, ${profile}` : ""}`;
  };
  const tables = [
    ...ranked.map((rows) => listed("ranked", title(rows[0]), suite, rows)),
    ...apart.map((rows) => listed("apart", beside(rows[0]) ? "Scripted, listed apart" : "Listed apart", suite, rows)),
  ];
  const element = make("section", { "aria-label": suite.title }, make("h2", {}, suite.title, make("span", { class: "soft" }, ` ${suite.name}, version ${suite.version}`)), tables.map(({ region }) => region));
  if (entries.length > LONG) element.style.setProperty("--height", `${3.6 * entries.length + 12}rem`);
  element.classList.toggle("long", entries.length > LONG);
  const found = { element, tables };
  sections.set(key, found);
  return found;
}

function matches(entry, words) {
  return (!state.method || entry.method === state.method) && (!state.model || entry.model === state.model) && (!state.standing || entry.standing === state.standing) && words.every((word) => entry.searched.includes(word));
}

function showTabs(tab) {
  for (const button of document.querySelectorAll("[role=tab]")) {
    const chosen = button.dataset.tab === tab;
    button.setAttribute("aria-selected", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
  }
  document.getElementById("panel").setAttribute("aria-labelledby", `tab-${tab}`);
  const scripted = tab !== "scripted" && inTab(tab).some((entry) => entry.tab === "scripted");
  document.getElementById("about-tab").textContent = `${tab}: ${DATA.tabs[tab]}.${scripted ? ` Scripted rows stand below the others and are ranked apart; in them ${DATA.scripted}.` : ""}`;
}

function fill(select, options, value) {
  const wanted = JSON.stringify(options);
  if (select.dataset.options !== wanted) select.replaceChildren(...options.map(([each, title]) => make("option", { value: each }, title)));
  select.dataset.options = wanted;
  select.value = value;
}

function showFilters(tab) {
  const entries = inTab(tab);
  const values = (field) => [...new Set(entries.map((entry) => entry[field]).filter(Boolean))].sort(COLLATOR.compare);
  for (const field of ["method", "model", "standing"]) {
    const known = values(field);
    const options = state[field] && !known.includes(state[field]) ? [...known, state[field]] : known;
    fill(document.getElementById(`filter-${field}`), [["", "any"], ...options.map((each) => [each, each])], state[field]);
  }
  fill(document.getElementById("filter-suite"), [["*", "all"], ...suitesOf(tab).map((suite) => [suite.name, suite.title])], chosenSuite(tab));
  const search = document.getElementById("search");
  if (search !== document.activeElement) search.value = state.q;
}

function showList() {
  const tab = currentTab();
  if (!tab) return;
  const suite = chosenSuite(tab);
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  const marks = new Set(ticked());
  showTabs(tab);
  showFilters(tab);
  let found = 0;
  let all = 0;
  const shown = suitesOf(tab).filter((each) => suite === "*" || each.name === suite).map((each) => {
    const { element, tables } = section(tab, each);
    let within = 0;
    for (const { rows, region, sort } of tables) {
      sort(state.sort);
      let kept = 0;
      for (const row of rows) {
        const fits = matches(row.entry, words);
        row.element.hidden = !fits;
        kept += fits;
        const mark = marks.has(row.entry.id);
        row.element.classList.toggle("ticked", mark);
        row.element.querySelector("input").checked = mark;
      }
      region.hidden = !kept;
      within += kept;
      all += rows.length;
    }
    element.hidden = !within;
    found += within;
    return element;
  });
  if (!found) shown.push(NONE);
  const place = document.getElementById("suites");
  if (shown.length !== place.children.length || shown.some((each, i) => each !== place.children[i])) place.replaceChildren(...shown);
  document.getElementById("count").textContent = found === all ? count(all, "row") : `${whole(found)} of ${count(all, "row")}`;
}

// Arrow keys go through the tabs, as readers of such pages expect.
function startTabs() {
  const tabs = Object.keys(DATA.tabs);
  const place = document.getElementById("tabs");
  place.append(...tabs.map((tab) => make("button", { type: "button", role: "tab", id: `tab-${tab}`, "data-tab": tab, "aria-controls": "panel", onclick: () => go({ tab, open: "", compare: "" }) }, tab, make("span", { class: "soft" }, ` ${whole(inTab(tab).length)}`))));
  place.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(currentTab());
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const tab = tabs[(to + tabs.length) % tabs.length];
    go({ tab });
    document.getElementById(`tab-${tab}`).focus();
  });
}

function startFilters() {
  for (const field of ["method", "model", "standing", "suite"]) {
    document.getElementById(`filter-${field}`).addEventListener("change", (event) => go({ [field]: event.target.value }));
  }
  document.getElementById("search").addEventListener("input", (event) => go({ q: event.target.value.trim() }, true));
  document.getElementById("reset").addEventListener("click", () => {
    document.getElementById("search").value = "";
    go({ method: "", model: "", standing: "", suite: "", q: "", sort: "" });
  });
}
