// What the page shows, as the link's hash has it: a link to a view is the view, and the back button goes back.

const DEFAULTS = { tab: "", suite: "", sort: "", method: "", model: "", standing: "", q: "", open: "", ticked: "", compare: "", base: "", task: "", theme: "" };
let state = { ...DEFAULTS };

function readState() {
  const said = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(Object.entries(DEFAULTS).map(([name, value]) => [name, said.get(name) ?? value]));
}

function linkTo(changes) {
  const wanted = Object.entries({ ...state, ...changes }).filter(([, value]) => value);
  return `#${new URLSearchParams(wanted)}`;
}

// Show the state with these changes; `quietly` without an entry in the history, as for each letter of a search.
function go(changes, quietly = false) {
  const link = linkTo(changes);
  if (link === (location.hash || "#")) return;
  if (quietly) location.replace(link);
  else location.hash = link;
  show();
}

function ticked() {
  return [...new Set(state.ticked.split(","))].filter((id) => ENTRIES.has(id));
}

function tick(id, on) {
  const others = ticked().filter((each) => each !== id);
  go({ ticked: [...others, ...(on ? [id] : [])].join(",") }, true);
}
