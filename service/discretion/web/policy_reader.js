// A worker: a policy's document may have tens of megabytes, and a page that parses it stands still meanwhile. What is
// handed back is a few flat arrays, which change hands without being copied.

onmessage = ({ data }) => {
  try {
    const document = JSON.parse(new TextDecoder().decode(data));
    const made = document.decisions ? table(document) : rest(document);
    postMessage({ made }, document.decisions ? [made.decisions.buffer, made.learned.buffer, made.scores.buffer] : []);
  } catch {
    postMessage({ made: null });
  }
};

// Everything but what is large.
function rest({ decisions, source, pessimistic_score: scores, steps, groups, ...document }) {
  return document;
}

function table(document) {
  const [steps, states] = [document.decisions.length, document.decisions[0].length];
  const size = steps * states;
  const made = { decisions: new Uint32Array(size), learned: new Uint8Array(size), scores: new Float64Array(size) };
  for (let step = 0; step < steps; step += 1) {
    made.decisions.set(document.decisions[step], step * states);
    made.scores.set(document.pessimistic_score[step], step * states);
    const source = document.source[step];
    for (let state = 0; state < states; state += 1) made.learned[step * states + state] = source[state] === "learned" ? 1 : 0;
  }
  return { ...rest(document), ...made, steps, states, kind: document.states, ...summary(made, document.actions.count) };
}

function summary({ decisions, learned, scores }, actions) {
  const taken = new Array(actions).fill(0);
  let trusted = 0;
  for (let index = 0; index < decisions.length; index += 1) {
    taken[decisions[index]] += 1;
    trusted += learned[index];
  }
  return { taken, trusted, usual: usual(scores) };
}

const SAMPLE = 50000;

// Where all but the lowest and highest fiftieth lie: a few outliers would leave one colour for everything else.
function usual(scores) {
  const every = Math.ceil(scores.length / SAMPLE);
  const sorted = scores.filter((_, index) => index % every === 0).sort();
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
  return [at(0.02), at(0.98)];
}
