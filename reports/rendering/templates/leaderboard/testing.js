// The one test of the package (harness.statistics.comparison) of the IQMs of two rows, computed when a reader compares them:
// the pairs of a board are too many to be tested beforehand, and a reader may choose tasks.
//
// p is that of the permutation test of the runs, relabelled within each task, and never below that of a normal test with
// episodes as units, of which `error` of a side is the standard error of its IQM. The interval of the difference holds the
// shifts that neither rejects. Scores are [tasks][runs]. Of more than 50,000 relabellings 10,000 are drawn, here by another
// generator than the package's, so that its p values may differ in the third decimal.

const RELABELLINGS = 50000;
const DRAWS = 10000;
const ROUNDING = 1e-9;
const STEPS = 32;
const HALVINGS = 20;
const WIDEST = 2.5;
const QUANTILE = 1.959963984540054; // of the normal distribution, for 95 %

function choose(n, k) {
  let ways = 1;
  for (let i = 1; i <= k; i++) ways = (ways * (n - k + i)) / i;
  return Math.round(ways);
}

function smallestP(n, m, tasks) {
  const every = choose(n + m, n) ** tasks;
  return every <= RELABELLINGS ? (n === m ? 2 : 1) / every : 1 / (1 + DRAWS);
}

function rejected(p) {
  return p < 1 - LEVEL - ROUNDING;
}

// All subsets of n of the first `count` whole numbers, the first n before all others.
function subsets(count, n) {
  const found = [];
  const taken = Array.from({ length: n }, (_, i) => i);
  for (;;) {
    const flags = new Uint8Array(count);
    for (const place of taken) flags[place] = 1;
    found.push(flags);
    let i = n - 1;
    while (i >= 0 && taken[i] === count - n + i) i--;
    if (i < 0) return found;
    taken[i]++;
    for (let j = i + 1; j < n; j++) taken[j] = taken[j - 1] + 1;
  }
}

// Which runs of both sides, the first ones' before, in each task, a relabelling gives to the first: [tasks * (n + m)].
function relabellings(n, m, tasks) {
  const count = n + m;
  if (choose(count, n) ** tasks > RELABELLINGS) {
    const draw = generator(0);
    const found = [Uint8Array.from({ length: tasks * count }, (_, i) => (i % count < n ? 1 : 0))];
    const order = Array.from({ length: count }, (_, i) => i);
    for (let k = 0; k < DRAWS; k++) {
      const flags = new Uint8Array(tasks * count);
      for (let task = 0; task < tasks; task++) {
        for (let i = 0; i < n; i++) {
          const j = i + draw(count - i);
          [order[i], order[j]] = [order[j], order[i]];
          flags[task * count + order[i]] = 1;
        }
      }
      found.push(flags);
    }
    return found;
  }
  const own = subsets(count, n);
  let found = [new Uint8Array(0)];
  for (let task = 0; task < tasks; task++) {
    found = found.flatMap((before) => own.map((flags) => Uint8Array.of(...before, ...flags)));
  }
  return found;
}

// A test of two rows: p(shift) of the runs, of the first less the shift beside the second.
function runsTest(first, second) {
  const [tasks, n, m] = [first.length, first[0].length, second[0].length];
  const labels = relabellings(n, m, tasks);
  const cuts = [Math.floor(0.25 * n * tasks), Math.floor(0.25 * m * tasks)];
  const value = new Float64Array(tasks * (n + m));
  return (shift) => {
    first.forEach((runs, task) => {
      runs.forEach((score, run) => { value[task * (n + m) + run] = score - shift; });
      second[task].forEach((score, run) => { value[task * (n + m) + n + run] = score; });
    });
    const order = Uint32Array.from(value.keys()).sort((a, b) => value[a] - value[b]);
    const room = ROUNDING * (value[order[order.length - 1]] - value[order[0]]);
    const gaps = (flags) => {
      let [ours, theirs, ranks, others, all, rest] = [0, 0, 0, 0, 0, 0];
      for (const place of order) {
        if (flags[place]) {
          if (ranks >= cuts[0] && ranks < n * tasks - cuts[0]) ours += value[place];
          ranks++;
          all += value[place];
        } else {
          if (others >= cuts[1] && others < m * tasks - cuts[1]) theirs += value[place];
          others++;
          rest += value[place];
        }
      }
      return [
        Math.abs(ours / (n * tasks - 2 * cuts[0]) - theirs / (m * tasks - 2 * cuts[1])),
        Math.abs(all / (n * tasks) - rest / (m * tasks)),
      ];
    };
    const [size, tie] = gaps(labels[0]);
    if (size <= room) return 1;
    let beyond = 0;
    for (const flags of labels) {
      const [own, mean] = gaps(flags);
      if (own > size + room || (Math.abs(own - size) <= room && mean >= tie - room)) beyond++;
    }
    return beyond / labels.length;
  };
}

// The ends of the shifts that the runs do not reject, as harness.statistics.permutation searches them.
function runsInterval(p, gap, range) {
  const accepted = (shift) => !rejected(p(shift));
  const zero = accepted(0);
  const found = [-1, 1].map((side) => {
    let [inside, outside] = [gap, gap + side * WIDEST * range];
    if (side * -gap > 0) [inside, outside] = zero ? [0, outside] : [gap, 0];
    if (outside && accepted(outside)) return side * Infinity;
    const shifts = Array.from({ length: STEPS }, (_, i) => outside + ((inside - outside) * i) / (STEPS - 1));
    let place = 1;
    while (place < STEPS - 1 && !accepted(shifts[place])) place++;
    [inside, outside] = [shifts[place], shifts[place - 1]];
    for (let i = 0; i < HALVINGS; i++) {
      const middle = (inside + outside) / 2;
      [inside, outside] = accepted(middle) ? [middle, outside] : [inside, middle];
    }
    return inside;
  });
  return zero ? [Math.min(found[0], 0), Math.max(found[1], 0)] : found;
}

// The two-sided p value of a gap with this standard error; null where the error is not known.
function normalP(gap, error) {
  if (error === null) return null;
  if (error === 0) return gap === 0 ? 1 : 0;
  const z = Math.abs(gap) / error / Math.SQRT2;
  const t = 1 / (1 + 0.5 * z); // Chebyshev fit of erfc, relative error below 1.2e-7 (Numerical Recipes, 6.2)
  const series = [-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277];
  return t * Math.exp(-z * z + series.reduceRight((sum, each) => sum * t + each, 0));
}

// The difference of the IQMs, first less second, with its interval and p; `told` stands in the place of an interval that so
// few runs do not have. `errors`: of each side, null where episodes are not known; `span`: the greatest possible difference.
function difference(first, second, errors = [null, null], span = Infinity) {
  const gap = iqm(first) - iqm(second);
  const [tasks, n, m] = [first.length, first[0].length, second[0].length];
  const fewest = Math.min(n, m);
  const nothing = { value: gap, low: null, high: null, p: null, told: `${count(fewest, "seed")} cannot tell` };
  if (fewest < 2) return nothing;
  const test = runsTest(first, second);
  const error = errors.includes(null) ? null : Math.hypot(...errors);
  const p = Math.max(test(0), normalP(gap, error) ?? 0);
  if (!rejected(smallestP(n, m, tasks))) return { ...nothing, p };
  const every = [...first, ...second].flat();
  let [low, high] = runsInterval(test, gap, Math.max(...every) - Math.min(...every));
  if (error !== null) [low, high] = [Math.min(low, gap - QUANTILE * error), Math.max(high, gap + QUANTILE * error)];
  return { value: gap, low: Math.max(low, -span), high: Math.min(high, span), p, told: "" };
}
