// One row opened: its curve, tasks, ablations, frames, configuration, provenance, runs, verification and citation.

const LINES = COLOURS * DASHES.length; // that can be told apart in one chart
const packs = new Map(); // suite -> what its rows open, by field and id

function pack(suite) {
  const place = DATA.suites.findIndex((each) => each.name === suite);
  if (!packs.has(suite)) packs.set(suite, unpacked(`details-${place}`).then(JSON.parse));
  return packs.get(suite);
}

async function detailsOf(entry) {
  const held = await pack(entry.suite);
  const found = Object.fromEntries(Object.entries(held).filter(([field]) => field !== "pictures").map(([field, values]) => [field, values[entry.id]]));
  return { ...found, frames: found.frames.map(({ caption, picture }) => ({ caption, png: held.pictures[picture] })) };
}

function curveRows(curve, series) {
  return curve.x.map((x, i) => ({ x, value: curve.value[i], low: curve.low[i], high: curve.high[i], series }));
}

function place(x) {
  return x > 1 ? whole(x) : decimal(x);
}

// Curves under one heading; they share axes only where they share what these are called.
function curvesFigure(caption, curves, names) {
  const axes = (curve) => `${curve.of} over ${curve.unit}`;
  const kinds = [...new Set(curves.map(axes))];
  const figures = kinds.map((kind) => {
    const told = curves.flatMap((curve, i) => (axes(curve) === kind && curve.x.length ? [`${names[i]}: ${decimal(curve.value[0])} at ${place(curve.x[0])}, ${decimal(curve.value.at(-1))} at ${place(curve.x.at(-1))}`] : []));
    const plot = make("div", { "data-alt": `${caption}. ${told.join("; ")}.` });
    const rows = curves.flatMap((curve, i) => (axes(curve) === kind ? curveRows(curve, i) : []));
    chart(plot, DATA.curves[kind], rows, names);
    return make("figure", { class: "chart" }, plot, make("figcaption", {}, caption));
  });
  return make("div", {}, figures);
}

function block(title, ...content) {
  return make("section", {}, make("h3", {}, title), content);
}

function folded(summary, ...content) {
  return make("details", {}, make("summary", {}, summary), content);
}

function facts(entry) {
  const range = entry.rank === null ? NOTHING : `${entry.rank}${entry.tied ? ", tied" : ""} (95 %: ${entry.rank_low}–${entry.rank_high})`;
  const pairs = [
    ["Rank", range], ["Score (IQM)", spread(entry.score)], ["Score is", scoreName(entry.measure)], ["Mean", spread(entry.mean)], ["Standing", badge(entry.standing)], ...(entry.pictures ? [["Pictures", badge(entry.pictures)]] : []),
    ["Suite", entry.suite], ["Tasks", entry.tasks.join(", ")], ...(entry.conditions ? [["Conditions", entry.conditions]] : []), ["Tab", entry.shown_in], ["Profile", entry.profile], ["Method", entry.method], ["Learner", entry.learner],
    ["Model", entry.model || NOTHING], ["Backend", entry.backend || NOTHING], ["Seeds", entry.seeds.join(", ") || NOTHING],
    ["Steps of a run", whole(entry.steps)], ["Episodes of a final evaluation", whole(entry.episodes)], ["Model calls", whole(entry.calls)],
    ["Cost, USD", decimal(entry.usd)], ["Hardware", entry.hardware.join("; ") || NOTHING], ["Protocol", entry.protocol], ["Source", entry.source],
  ];
  return make("dl", { class: "facts" }, pairs.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

function episodeFigure({ title, about, words, left_out, webp }) {
  const image = make("img", { alt: `Animation, ${about.split(";")[0]}: ${title.toLowerCase()}` });
  if (/^[A-Za-z0-9+/]+={0,2}$/.test(webp)) image.src = `data:image/webp;base64,${webp}`;
  const said = words.length ? folded("What was said", make("ul", {}, words.map(([step, text]) => make("li", {}, `Step ${whole(step)}: ${text}`))), left_out ? make("p", { class: "soft" }, `${count(left_out, "further caption")} left out.`) : null) : null;
  const figure = make("figure", { class: "animation" }, image, make("figcaption", {}, make("strong", {}, title), `. ${about}.`, said));
  stillable(figure);
  return figure;
}

// The episodes of the final policy, which are read and decoded when a reader opens them.
function episodesOf(entry) {
  const held = document.getElementById(`episodes-${entry.id}`);
  if (!held) return null;
  const place = folded("Show episodes of the final policy, failures first");
  place.classList.add("episodes");
  place.addEventListener("toggle", () => {
    if (!place.open || place.querySelector(".gallery")) return;
    const { told, films, verification } = JSON.parse(held.textContent);
    place.append(
      ...told.map((text) => make("p", {}, text)),
      ...(verification.length ? verification.map((text) => make("p", { class: "pictures" }, text)) : [make("p", { class: "soft" }, "They were drawn on the machine that has this study; nobody handed them in.")]),
      make("div", { class: "gallery" }, films.map(episodeFigure)),
    );
  });
  return block("Episodes", place);
}

function citation(bibtex) {
  const text = make("pre", { tabindex: "0", "aria-label": "BibTeX" }, bibtex);
  const said = make("span", { role: "status" });
  const button = make("button", { type: "button", onclick: async () => { said.textContent = (await copied(bibtex, text)) ? "Copied." : "Not copied: select it and copy by hand."; } }, "Copy BibTeX");
  return block("Citation", text, make("p", { class: "control" }, button, said));
}

function sortedTable(...content) {
  const region = table(...content);
  sortable(region.querySelector("table"));
  return region;
}

function sectionsOf(entry, details) {
  const { tasks, variations, frames, settings, origins, runs, checks } = details;
  const several = tasks.length > 1;
  const returned = tasks.every((each) => each.measure.name === "return"); // said already
  const own = new Set(tasks.map((each) => scoreName(each.measure))).size > 1;
  const scores = tasks.map((each) => [each.task, ...(own ? [scoreName(each.measure)] : []), spread(each.score), spread(each.mean), ...(returned ? [] : [spread(each.returns)]), each.final.map((value) => decimal(value)).join(", ")]);
  const scoreHeads = ["Task", ...(own ? ["Score is"] : []), "IQM", "Mean", ...(returned ? [] : ["Mean return"]), `Seeds ${entry.seeds.join(", ")}`];
  const varied = variations.map((each) => [each.name, each.kind, each.task, spread(each.score), signed(each.difference)]);
  return [
    block("Learning curve", curvesFigure(`IQM of the ${details.curve.of} over runs${several ? " and tasks" : ""}, 95 % interval`, [details.curve], [entry.label])),
    block("Tasks", sortedTable("Final score by task", scoreHeads, scores, scoreHeads.map((head, i) => (["Task", "Score is"].includes(head) || i === scoreHeads.length - 1 ? "text" : ""))), several ? curvesFigure(tasks.length > LINES ? `Score by task, the first ${LINES}` : "Score by task", tasks.slice(0, LINES).map((each) => each.curve), tasks.map((each) => each.task)) : null),
    varied.length ? block("Ablations and perturbations", sortedTable("Beside the row itself", ["Variation", "Kind", "Task", "Score (IQM)", "Difference"], varied, ["text", "text", "text"]), make("p", { class: "soft" }, "Difference: IQM of the variation less that of the row on the same task; in brackets the shifts that the permutation test of the runs does not reject at 5 %, not corrected for the number of variations; none with fewer than four seeds, which cannot tell.")) : null,
    episodesOf(entry),
    frames.length ? block("Sample frames", make("div", { class: "frames" }, frames.map(({ caption, png }) => make("figure", {}, make("img", { src: `data:image/png;base64,${png}`, alt: caption }), make("figcaption", {}, caption))))) : null,
    block("Verification", checks.length ? table("What was checked", ["Check", "Result", "Detail"], checks.map(({ what, passed, detail }) => [what, badge(passed === null ? "not checked" : passed ? "passed" : "failed"), detail]), ["text", "text", "text"]) : make("p", {}, "Nobody has verified this row: its numbers are those of its source.")),
    block("Configuration", folded(count(settings.length, "setting"), sortedTable("Settings, and the layer that set each", ["Setting", "Value", "Set by"], settings.map(({ name, value, layer }) => [make("code", {}, name), value, layer]), ["text", "text", "text"]))),
    block("Provenance", table("What the runs were made with", ["Commit", "Packages", "Hardware", "Runs"], origins.map(({ commit, packages, hardware, runs: made }) => [commit, packages, hardware, whole(made)]), ["text", "text", "text"]), folded(count(runs.length, "run directory", "run directories"), make("ul", {}, runs.map((run) => make("li", {}, make("code", {}, run)))))),
    details.bibtex ? citation(details.bibtex) : null,
  ];
}

async function showOpened(place) {
  const entry = ENTRIES.get(state.open);
  if (!entry) {
    place.replaceChildren(make("h2", { tabindex: "-1" }, "No such row"), make("p", {}, `This link names the row ${state.open}, which is not on this board.`));
    return;
  }
  const head = make("h2", { tabindex: "-1" }, entry.label);
  const notes = [entry.apart ? `${entry.beneath ? "Beneath a ranked row" : "Listed apart"}: ${entry.apart}.` : null, entry.tab === "scripted" ? `In this scripted row ${DATA.scripted}.` : null].filter(Boolean);
  place.replaceChildren(head, ...notes.map((note) => make("p", { class: "notes" }, note)), facts(entry));
  const details = await detailsOf(entry);
  if (state.open === entry.id) place.append(...sectionsOf(entry, details).filter(Boolean));
}
