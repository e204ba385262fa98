// Elements, text and numbers. Text from files goes through textContent, never through markup.

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const ICONS = { verified: "✓", "self-reported": "○", disputed: "✗", passed: "✓", failed: "✗" };

// An icon and its word: the meaning is in the word.
function badge(word) {
  const icon = make("span", { "aria-hidden": "true" }, ICONS[word] ?? "·");
  return make("span", { class: `badge ${word in ICONS ? word : ""}` }, icon, ` ${word}`);
}

// A table that scrolls inside its own region; `align` has "text" for columns of words.
function table(caption, columns, rows, align = []) {
  const head = columns.map((name, i) => make("th", { scope: "col", class: align[i] }, name));
  const lines = rows.map((cells) =>
    make("tr", {}, cells.map((cell, i) => make(i ? "td" : "th", { scope: i ? null : "row", class: align[i] }, cell))),
  );
  const whole = make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, head)), make("tbody", {}, lines));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, whole);
}

const NOTHING = "—";
const WHOLE = new Intl.NumberFormat("en");

function whole(value) {
  return value === null ? NOTHING : WHOLE.format(value);
}

function decimal(value, digits = 2) {
  if (value === null) return NOTHING;
  return Number.isFinite(value) ? value.toFixed(digits).replace("-", "−") : value > 0 ? "∞" : "−∞";
}

function count(number, one, many = `${one}s`) {
  return `${whole(number)} ${number === 1 ? one : many}`;
}

function interval(low, high, digits = 2) {
  return low === null || high === null ? "" : `[${decimal(low, digits)}, ${decimal(high, digits)}]`;
}

// The decimals of a number as scoring.digits of the package has them: half the width of its interval is at least two units of
// the last one, but two decimals below 10; without an interval two below 100, one below 1,000, none above.
function digitsOf({ value, low, high }) {
  if (low === null || high === null || !(high > low)) return Math.abs(value) < 100 ? 2 : Math.abs(value) < 1000 ? 1 : 0;
  return Math.min(Math.max(Math.ceil(Math.log10(4 / (high - low)) - 1e-9), Math.abs(value) < 10 ? 2 : 0), 6);
}

// Value and 95 % interval; the interval softer.
function spread(estimate, digits = digitsOf(estimate)) {
  const { value, low, high } = estimate;
  const ends = interval(low, high, digits);
  return [decimal(value, digits), ends ? make("span", { class: "interval" }, ` ${ends}`) : null];
}

function probability(p) {
  return p === null ? NOTHING : p < 0.001 ? "< 0.001" : decimal(p, 3);
}

// The text of an element that carries base64 of gzip.
async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent.trim()), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

// A difference has its sign.
function signed(estimate) {
  return [estimate.value > 0 ? "+" : null, ...spread(estimate)];
}

async function copied(text, source) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(source);
    return document.execCommand("copy");
  }
}
