// Two rows compared by their runs' final scores, as the package's harness.statistics does. Scores are [tasks][runs].
//
// A resample draws within each task, independently of the others, as many runs as there are, with replacement. Draws are
// seeded: the same rows give the same interval.

const REPS = 10000;
const LEVEL = 0.95;

// Whole numbers below n, evenly drawn; Marsaglia's xorshift of 32 bits.
function generator(seed) {
  let x = (seed ^ 0x9e3779b9) >>> 0 || 1;
  return (n) => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return Math.floor(((x >>> 0) / 4294967296) * n);
  };
}

// Mean of the counted values in the middle half; `values` in ascending order.
function middleMean(values, counts, total) {
  const cut = Math.floor(0.25 * total);
  let below = 0;
  let sum = 0;
  for (let i = 0; i < values.length; i++) {
    const upto = below + counts[i];
    const held = Math.min(upto, total - cut) - Math.max(below, cut);
    if (held > 0) sum += held * values[i];
    below = upto;
  }
  return sum / (total - 2 * cut);
}

function inOrder(scores) {
  const places = scores.flatMap((runs, task) => runs.map((value, run) => ({ value, task, run }))).sort((a, b) => a.value - b.value);
  const positions = scores.map((runs) => new Array(runs.length));
  places.forEach(({ task, run }, i) => { positions[task][run] = i; });
  return { values: places.map(({ value }) => value), positions };
}

function iqm(scores) {
  const { values } = inOrder(scores);
  return middleMean(values, new Array(values.length).fill(1), values.length);
}

function resampledIqm(scores, reps, draw) {
  const { values, positions } = inOrder(scores);
  const counts = new Uint32Array(values.length);
  return Float64Array.from({ length: reps }, () => {
    counts.fill(0);
    for (const runs of positions) for (let i = 0; i < runs.length; i++) counts[runs[draw(runs.length)]]++;
    return middleMean(values, counts, values.length);
  });
}

function ends(values) {
  const cut = Math.floor(((1 - LEVEL) / 2) * values.length + 1e-9);
  const order = values.slice().sort();
  return [order[cut], order[order.length - 1 - cut]];
}

function estimated(value, resampled, ...sides) {
  if (sides.some((scores) => scores[0].length < 2)) return { value, low: null, high: null };
  const [low, high] = ends(resampled());
  return { value, low, high };
}

// IQM with a 95 % interval.
function scored(scores, seed = 0, reps = REPS) {
  return estimated(iqm(scores), () => resampledIqm(scores, reps, generator(seed)), scores);
}

// Mean over tasks of P(a run of the first > one of the second) + P(equal) / 2, with a 95 % interval.
function improvement(first, second, seed = 0, reps = REPS) {
  const won = first.map((runs, task) => runs.map((ours) => second[task].map((theirs) => (Math.sign(ours - theirs) + 1) / 2)));
  const overTasks = (picks) => {
    let total = 0;
    won.forEach((wins, task) => {
      const [ours, theirs] = picks(task);
      let sum = 0;
      for (const run of ours) for (const other of theirs) sum += wins[run][other];
      total += sum / (ours.length * theirs.length);
    });
    return total / won.length;
  };
  const every = (scores) => scores.map((runs) => runs.map((_, i) => i));
  const resampled = () => {
    const draw = generator(seed);
    const drawn = (runs) => runs.map(() => draw(runs.length));
    return Float64Array.from({ length: reps }, () => overTasks((task) => [drawn(first[task]), drawn(second[task])]));
  };
  const [ours, theirs] = [every(first), every(second)];
  return estimated(overTasks((task) => [ours[task], theirs[task]]), resampled, first, second);
}
