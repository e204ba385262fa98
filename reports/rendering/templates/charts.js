// Charts by Vega-Lite, drawn when they are about to come into view.
//
// `chart(host, specification, rows, names)` draws into an element. `rows` are data of the specification's data set; each
// has `series`, an index into `names`. In the page's own text: a `figure.chart` with `.plot` and, as JSON in a script
// element, {"specification": …, "rows": …, "names": …}.
//
// Vega stands compressed in the element `vega`; its text becomes a script when the first chart is drawn, which the page's
// policy allows by its hash. Expressions are interpreted, never compiled, and nothing is loaded from anywhere.

const COLOURS = 6;
const FEW = 4; // curves that share one drawing; of more, each has a drawing of its own with the others behind it
const DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4]]; // prime to COLOURS: 30 different lines
const refuse = () => Promise.reject(new Error("a chart loads nothing"));
const NO_LOADER = { load: refuse, sanitize: refuse, http: refuse, file: refuse };
let vegaReady = null;

function loadVega() {
  vegaReady ??= unpacked("vega").then((text) => {
    document.head.append(make("script", {}, text));
    return window.vegaEmbed;
  });
  return vegaReady;
}

// Colours are the style's own names: a chart follows light, dark and print without being drawn again.
const CHART_CONFIG = {
  background: null,
  aria: false, // the element around the drawing has a name, and tables have the numbers
  font: "system-ui, sans-serif",
  axis: { labelColor: "var(--soft)", titleColor: "var(--ink)", titleFontWeight: "normal", gridColor: "var(--line)", gridOpacity: 0.6, domainColor: "var(--soft)", tickColor: "var(--soft)", labelFontSize: 12, titleFontSize: 13, labelOverlap: true },
  view: { stroke: null },
};

function lineOf(series) {
  return { colour: `var(--series-${series % COLOURS})`, dash: DASHES[series % DASHES.length] };
}

// The specification with the colour and the dash of each of its series, and without a band that no row has.
function dressed(specification, rows, series) {
  const domain = series.map(String);
  const lines = series.map(lineOf);
  const scales = { color: { domain, range: lines.map(({ colour }) => colour) }, strokeDash: { domain, range: lines.map(({ dash }) => dash) } };
  const drawn = (unit) => !unit.encoding?.y2 || rows.some((row) => Number.isFinite(row[unit.encoding.y2.field]));
  const dress = (unit) => {
    const encoding = Object.fromEntries(Object.entries(unit.encoding ?? {}).map(([channel, how]) =>
      [channel, how.field === "series" && scales[channel] ? { ...how, scale: scales[channel] } : how]));
    return { ...unit, encoding, ...(unit.layer ? { layer: unit.layer.filter(drawn).map(dress) } : {}) };
  };
  return dress(specification);
}

// The specification of one series of many: its line and band before the lines of all others, on the axes that all share.
function inFront(specification, rows, series) {
  const { layer, ...rest } = dressed(specification, rows.filter((row) => row.series === series), [series]);
  const line = layer.findLast((unit) => unit.mark.type === "line");
  const { x, y } = line.encoding;
  const extent = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  const within = (axis, fields) => ({ ...axis, scale: { ...axis.scale, domain: axis.scale.domain ?? extent(rows.flatMap((row) => fields.map((field) => row[field])).filter(Number.isFinite)) } });
  const behind = {
    data: { name: "others" },
    mark: { type: "line", strokeWidth: 1, opacity: 0.35 },
    encoding: { x: within(x, ["x"]), y: within(y, ["value", "low", "high"]), detail: { field: "series", type: "nominal" }, color: { value: "var(--soft)" } },
  };
  return { ...rest, height: 150, layer: [behind, ...layer] };
}

function showTip(handler, event, item, value) {
  let tip = document.getElementById("tip");
  if (!value) {
    tip?.remove();
    return;
  }
  const lines = Object.entries(value).filter(([, text]) => text !== "null" && text !== "").map(([name, text]) => make("div", {}, make("span", { class: "soft" }, `${name} `), String(text)));
  tip ??= document.body.appendChild(make("div", { id: "tip", "aria-hidden": "true" }));
  tip.replaceChildren(...lines);
  const { offsetWidth: width, offsetHeight: height } = tip;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - width - 4))}px`;
  tip.style.top = `${Math.max(4, event.clientY - height - 8)}px`;
}

function sample(series) {
  const element = (tag, attributes) => {
    const found = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
    return found;
  };
  const { colour, dash } = lineOf(series);
  const whole = element("svg", { width: 34, height: 10, "aria-hidden": "true" });
  whole.append(element("line", { x1: 1, x2: 33, y1: 5, y2: 5, stroke: colour, "stroke-width": 2.5, "stroke-dasharray": dash.join(" ") }));
  return whole;
}

function legend(names, series) {
  return make("ul", { class: "legend" }, series.map((i) => make("li", {}, sample(i), ` ${names[i]}`)));
}

// Draw into `drawing`, which `alt` tells in words; gives what Vega made of it.
async function drawInto(drawing, alt, specification, datasets) {
  const embed = await loadVega();
  const whole = { ...specification, data: { name: "rows" }, datasets };
  const drawn = await embed(drawing, whole, { mode: "vega-lite", ast: true, actions: false, renderer: "svg", loader: NO_LOADER, config: CHART_CONFIG, defaultStyle: false, tooltip: showTip });
  drawing.querySelector("svg").setAttribute("aria-hidden", "true");
  drawing.setAttribute("role", "img"); // Vega has set both anew
  drawing.setAttribute("aria-label", alt);
  drawing.removeAttribute("aria-roledescription");
  return drawn;
}

async function drawTogether(host, specification, rows, values, names, series) {
  const drawing = make("div", { class: "drawing" });
  host.replaceChildren(drawing);
  if (names.length > 1) host.append(legend(names, series));
  return [await drawInto(drawing, host.dataset.alt ?? "", dressed(specification, rows, series), { rows: values })];
}

async function drawApart(host, specification, rows, values, names, series) {
  const panels = series.map((i) => {
    const drawing = make("div", { class: "drawing" });
    const panel = make("li", {}, make("div", { class: "panel-title" }, sample(i), ` ${names[i]}`), drawing);
    return { i, drawing, panel };
  });
  host.replaceChildren(make("ul", { class: "panels", "aria-label": host.dataset.alt ?? "" }, panels.map(({ panel }) => panel)));
  return Promise.all(panels.map(({ i, drawing }) => {
    const mine = ({ series: index }) => index === String(i);
    return drawInto(drawing, `Curve of ${names[i]}`, inFront(specification, rows, i), { rows: values.filter(mine), others: values.filter((row) => !mine(row)) });
  }));
}

async function drawChart(host, specification, rows, names) {
  await loadVega();
  const series = [...new Set(rows.map((row) => row.series))].sort((a, b) => a - b);
  const values = rows.map((row) => ({ ...row, series: String(row.series), name: String(names[row.series]) }));
  const drawn = await (series.length > FEW ? drawApart : drawTogether)(host, specification, rows, values, names, series);
  host.finalize = () => drawn.forEach((each) => each.finalize());
  host.dataset.drawn = "";
}

// Empty an element; its charts no longer follow the window's size.
function clear(place) {
  place.querySelectorAll(".plot").forEach((host) => host.finalize?.());
  place.replaceChildren();
  document.getElementById("tip")?.remove();
}

const comingIntoView = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) {
    if (!isIntersecting) continue;
    comingIntoView.unobserve(target);
    target.draw();
  }
}, { rootMargin: "1500px" });

function chart(host, specification, rows, names) {
  host.classList.add("plot");
  host.draw = () => (host.underway ??= drawChart(host, specification, rows, names));
  comingIntoView.observe(host);
}

const ownCharts = [...document.querySelectorAll("figure.chart")].map((figure) => {
  const { specification, rows, names } = JSON.parse(figure.querySelector("script").textContent);
  const host = figure.querySelector(".plot");
  chart(host, specification, rows, names);
  return host;
});

// Those that nobody has scrolled to yet are drawn one after the other, so that they are there when the page is printed.
async function drawTheRest() {
  for (const host of ownCharts) {
    await new Promise((next) => { (window.requestIdleCallback ?? setTimeout)(next); });
    if (!host.isConnected) continue;
    comingIntoView.unobserve(host);
    await host.draw();
  }
}

addEventListener("load", drawTheRest);

// What a reader would see by scrolling or unfolding is on the printed page too.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
