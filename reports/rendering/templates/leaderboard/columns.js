// The columns of the table: how a row is sorted by each, and what its cell shows.
//
// A long table stays fast because rows out of sight are not laid out (style.css). A table's own layout cannot do that, so
// each row is a grid, and roles say what the elements of a table would have said by themselves.

const FALLING = "descending";

function rankCell(entry) {
  if (entry.rank === null) return [make("span", { class: "soft", "aria-hidden": "true" }, "–"), make("span", { class: "unseen" }, "no rank")];
  const { rank, rank_low: low, rank_high: high, tied } = entry;
  const range = low === null || (low === rank && high === rank) ? null : make("div", { class: "interval" }, make("span", { class: "unseen" }, "between "), low === high ? `${low}` : `${low}–${high}`);
  return [make("span", { class: "rank" }, `${tied ? "=" : ""}${rank}`), tied ? make("span", { class: "unseen" }, " tied ") : null, range];
}

function rowCell(entry) {
  const box = make("input", { type: "checkbox", "aria-label": `Compare ${entry.label}`, onchange: (event) => tick(entry.id, event.target.checked) });
  const link = make("a", { href: `#${new URLSearchParams({ tab: entry.shown_in, open: entry.id })}`, onclick: (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go({ open: entry.id });
  } }, entry.name || entry.label);
  const tasks = entry.tasks.length > 3 ? count(entry.tasks.length, "task") : entry.tasks.join(", ");
  return make("div", { class: "row" }, box, make("div", {}, link, make("div", { class: "soft" }, `${entry.relation ? `${entry.relation}, ` : ""}${entry.learner} on ${tasks}`)));
}

function scoreName({ name, direction }) {
  return direction === "lower" ? `${name}, lower is better` : name;
}

// The interval as a stripe on the score's range, and the score as a mark on it; nothing where no range is known.
function bar({ value, low, high }, measure) {
  if (value === null || measure.low === null || measure.high === null) return null;
  const percent = (place) => `${Math.max(0, Math.min(1, (place - measure.low) / (measure.high - measure.low))) * 100}%`;
  const element = make("div", { class: "bar", "aria-hidden": "true" });
  element.style.setProperty("--low", percent(low ?? value));
  element.style.setProperty("--high", percent(high ?? value));
  element.style.setProperty("--value", percent(value));
  return element;
}

// A number such that the best come first where numbers fall.
function better({ measure }, value) {
  return value === null || measure.direction !== "lower" ? value : -value;
}

const RANK = { id: "rank", title: "Rank", key: (entry) => entry.rank, cell: rankCell };
const APART = { id: "apart", title: "Why apart", text: true, key: (entry) => entry.apart, cell: (entry) => entry.apart };
const OTHERS = [
  { id: "score", title: "Score", hint: "IQM of the final score over runs and tasks, 95 % interval", first: FALLING, key: (entry) => better(entry, entry.score.value), cell: (entry) => [...spread(entry.score), entry.measure.name === "success" ? null : make("div", { class: "soft" }, scoreName(entry.measure)), bar(entry.score, entry.measure)] },
  { id: "mean", title: "Mean", first: FALLING, key: (entry) => better(entry, entry.mean.value), cell: (entry) => decimal(entry.mean.value) },
  { id: "standing", title: "Standing", text: true, key: (entry) => entry.standing, cell: (entry) => (entry.pictures === "pictures not verified" ? make("span", {}, badge(entry.standing), make("span", { class: "soft" }, ` · ${entry.pictures}`)) : badge(entry.standing)) },
  { id: "profile", title: "Profile", text: true, key: (entry) => entry.profile, cell: (entry) => entry.profile },
  { id: "seeds", title: "Seeds", first: FALLING, key: (entry) => entry.seeds.length, cell: (entry) => whole(entry.seeds.length) },
  { id: "steps", title: "Steps", first: FALLING, key: (entry) => entry.steps, cell: (entry) => whole(entry.steps) },
  { id: "model", title: "Model", text: true, key: (entry) => entry.model, cell: (entry) => entry.model || NOTHING },
  { id: "backend", title: "Backend", text: true, key: (entry) => entry.backend, cell: (entry) => entry.backend || NOTHING },
  { id: "calls", title: "Calls", hint: "to models, over all runs", first: FALLING, key: (entry) => entry.calls, cell: (entry) => whole(entry.calls) },
  { id: "cost", title: "Cost, USD", hint: "over all runs", first: FALLING, key: (entry) => entry.usd, cell: (entry) => decimal(entry.usd) },
  { id: "hardware", title: "Hardware", text: true, key: (entry) => entry.hardware.join("; "), cell: (entry) => make("span", { class: "small" }, entry.hardware.join("; ") || NOTHING) },
  { id: "protocol", title: "Protocol", text: true, key: (entry) => entry.protocol, cell: (entry) => entry.protocol },
  { id: "source", title: "Source", text: true, key: (entry) => entry.source, cell: (entry) => make("span", { class: "small" }, entry.source) },
];
const ROW = { id: "row", title: "Row", text: true, row: true, key: (entry) => entry.name || entry.label, cell: rowCell };
const COLUMNS = { ranked: [RANK, ROW, ...OTHERS], apart: [ROW, ...OTHERS.slice(0, 3), APART, ...OTHERS.slice(3)] };

// The columns of a table of these entries: those in which at least one entry has something.
function columnsOf(kind, entries) {
  const filled = (value) => value !== null && value !== undefined && value !== "";
  return COLUMNS[kind].filter((column) => entries.some((entry) => filled(column.key(entry))));
}

function headCell(column) {
  const hint = column.hint ? make("span", { class: "unseen" }, `: ${column.hint}`) : null;
  return make("th", { role: "columnheader", scope: "col", class: column.text ? "text" : null, "data-column": column.id, "data-first": column.first, title: column.hint }, column.title, hint);
}

function line(columns, entry) {
  const cells = columns.map((column) => make(column.row ? "th" : "td", { role: column.row ? "rowheader" : "cell", scope: column.row ? "row" : null, class: column.text ? "text" : null }, column.cell(entry)));
  const element = make("tr", { role: "row", "data-id": entry.id }, cells);
  element.addEventListener("click", (event) => {
    if (!event.target.closest("a, input, button") && getSelection().isCollapsed) go({ open: entry.id });
  });
  return element;
}
