// Ticked rows beside each other: curves, differences of the score and probabilities of improvement.

// Runs' final scores by task: of several tasks on a scale from 0, the worst, to 1, the best of each one's range.
function scoresOn(details, tasks) {
  return tasks.map((task) => {
    const { final, measure: { low, high, direction } } = details.tasks.find((each) => each.task === task);
    if (tasks.length === 1) return final;
    return final.map((value) => (direction === "lower" ? high - value : value - low) / (high - low));
  });
}

// Whether lower is better of what `scoresOn` gives.
function falls(details, tasks) {
  return tasks.length === 1 && details.tasks.find((each) => each.task === tasks[0]).measure.direction === "lower";
}

function sharedTasks(all) {
  const [first, ...others] = all.map(({ details }) => new Map(details.tasks.filter((each) => each.final.length).map((each) => [each.task, JSON.stringify(each.measure)])));
  return [...first.keys()].filter((task) => others.every((tasks) => tasks.get(task) === first.get(task)));
}

// Why a reader should be careful with what follows.
function warnings(entries, tasks) {
  const differ = (field) => new Set(entries.map((entry) => entry[field])).size > 1;
  const every = new Set(entries.flatMap((entry) => entry.tasks));
  return [
    differ("suite") ? "These rows are of different suites: nothing but their curves is compared." : null,
    !differ("suite") && !tasks.length ? "These rows have no task and score in common: nothing but their curves is compared." : null,
    !differ("suite") && tasks.length && tasks.length < every.size ? `Compared on the tasks that all have: ${tasks.join(", ")}.` : null,
    differ("shown_in") ? "These rows are of different tabs, which are never ranked together." : null,
    differ("tab") && entries.some((entry) => entry.tab === "scripted") ? `Some of these rows are scripted and are never ranked with the others; in scripted rows ${DATA.scripted}.` : null,
    differ("conditions") ? "Their suites' settings or demonstrations differ, so they are never ranked together." : null,
    differ("profile") || differ("steps") ? "Their profiles or numbers of steps differ." : null,
  ].filter(Boolean);
}

// The standard error of a row's IQM over these tasks from its episodes; null where it is not known, as of some of its tasks.
function errorOn({ tasks: own, error }, tasks) {
  if (tasks.length === 1) return own.find((each) => each.task === tasks[0]).error;
  return tasks.length === own.length ? error : null;
}

// The greatest possible difference of two scores on these tasks.
function spanOn({ tasks: own }, tasks) {
  if (tasks.length > 1) return 1;
  const { low, high } = own.find((each) => each.task === tasks[0]).measure;
  return low === null || high === null ? Infinity : high - low;
}

function besideTable(all, tasks, base) {
  const reference = scoresOn(base.details, tasks);
  const lower = falls(base.details, tasks);
  const rows = all.map(({ entry, details }) => {
    const scores = scoresOn(details, tasks);
    const own = entry === base.entry;
    const apart = own ? null : difference(scores, reference, [errorOn(details, tasks), errorOn(base.details, tasks)], spanOn(base.details, tasks));
    const remove = make("button", { type: "button", "aria-label": `Remove ${entry.label}`, onclick: () => tick(entry.id, false) }, "Remove");
    return [
      entry.label, spread(scored(scores)), own ? "reference" : apart.told ? [...signed(apart), make("span", { class: "interval" }, ` (${apart.told})`)] : signed(apart), own ? NOTHING : probability(apart.p), own ? "reference" : spread(lower ? improvement(reference, scores) : improvement(scores, reference)), whole(entry.seeds.length), remove,
    ];
  });
  return table(`Beside ${base.entry.label}`, ["Row", "Score (IQM)", "Difference", "p", "Probability of improvement", "Seeds", "Remove"], rows, ["text"]);
}

function choice(title, field, options, value) {
  const select = make("select", { id: `choose-${field}`, onchange: (event) => go({ [field]: event.target.value }) }, options.map(([each, name]) => make("option", { value: each }, name)));
  select.value = value;
  return make("label", { class: "control" }, title, select);
}

async function showComparison(place) {
  const entries = ticked().map((id) => ENTRIES.get(id));
  const head = make("h2", { tabindex: "-1" }, `Compare ${count(entries.length, "row")}`);
  place.replaceChildren(head);
  if (entries.length < 2) {
    place.append(make("p", {}, "Tick two rows or more of the table to see them beside each other."));
    return;
  }
  const asked = state;
  const all = await Promise.all(entries.map(async (entry) => ({ entry, details: await detailsOf(entry) })));
  if (state !== asked) return;
  const sameSuite = new Set(entries.map((entry) => entry.suite)).size === 1;
  const tasks = sameSuite ? sharedTasks(all) : [];
  const base = all.find(({ entry }) => entry.id === state.base) ?? all[0];
  const task = tasks.includes(state.task) ? state.task : tasks.length === 1 ? tasks[0] : "";
  const curves = all.map(({ details }) => (task ? details.tasks.find((each) => each.task === task).curve : details.curve));
  const controls = make("div", { class: "controls" }, choice("Reference ", "base", entries.map((entry) => [entry.id, entry.label]), base.entry.id), tasks.length > 1 ? choice("Task ", "task", [["", "all"], ...tasks.map((each) => [each, each])], task) : null);
  const notes = warnings(entries, tasks);
  const apart = !task && new Set(entries.map((entry) => entry.tasks.join())).size > 1;
  place.append(
    controls,
    ...(notes.length ? [make("ul", { class: "notes" }, notes.map((note) => make("li", {}, note)))] : []),
    block("Learning curves", curvesFigure(`IQM of the score over runs${task ? `, ${task}` : apart ? " and each row's own tasks" : " and tasks"}, 95 % intervals`, curves, entries.map((entry) => entry.label))),
  );
  if (!tasks.length) return;
  place.append(
    block("Differences", besideTable(all, task ? [task] : tasks, base), make("p", { class: "soft" }, `Difference: IQM less the reference's, in brackets the shifts that the test does not reject at 5 %. p: the two-sided permutation test of the runs behind the ranks, never below a test with episodes as units where these are known of the compared tasks; neither is corrected for the number of rows. Probability of improvement: how often a run ends better than one of the reference on the same task, ties half, mean over tasks. In brackets 95 % stratified bootstrap intervals of ${whole(REPS)} seeded resamples, which show the spread of the runs; of fewer than ten seeds they are too narrow.`)),
  );
}
