// From similarities over the target's cells to a distribution and a point, at any temperature.
// The same formulas as simsc.matching, so that the slider answers without the server.

// Those of the server's localisers that are computed here too; for others the page waits for its answer.
export const COMPUTED = ["kernel-soft-argmax", "argmax", "soft-argmax", "window-soft-argmax"];
const SIGMA = 7;
const WINDOW = 5;

/** Probabilities of the cells (rows of numbers): softmax(scores / temperature). */
export function distribution(scores, temperature) {
  return softmax(scores.map((row) => row.map((score) => score / temperature)));
}

/** Probability of the most likely cell. */
export function peak(probabilities) {
  return Math.max(...probabilities.flat());
}

/** Over how many cells the probability is spread: the exponential of its entropy. */
export function spread(probabilities) {
  const entropy = probabilities.flat().reduce((sum, p) => (p > 0 ? sum - p * Math.log(p) : sum), 0);
  return Math.exp(entropy);
}

/** The match in cells of the target. */
export function localize(scores, temperature, localizer) {
  const best = argmax(scores);
  if (localizer === "argmax") return best;
  const scaled = scores.map((row, y) => row.map((score, x) => (score / temperature) * weight(localizer, x - best.x, y - best.y)));
  const logits = scaled.map((row, y) => row.map((value, x) => (kept(localizer, x - best.x, y - best.y) ? value : -Infinity)));
  return expectation(softmax(logits));
}

/** From cells to pixels of an image. */
export function toPixels(cell, cells, image, convention) {
  const along = (place, count, length) =>
    convention === "corner" ? (place * (length - 1)) / Math.max(count - 1, 1) : ((place + 0.5) * length) / count - 0.5;
  return { x: along(cell.x, cells.width, image.width), y: along(cell.y, cells.height, image.height) };
}

function weight(localizer, dx, dy) {
  return localizer === "kernel-soft-argmax" ? Math.exp(-(dx * dx + dy * dy) / (2 * SIGMA * SIGMA)) : 1;
}

function kept(localizer, dx, dy) {
  const reach = Math.floor(WINDOW / 2);
  return localizer !== "window-soft-argmax" || (Math.abs(dx) <= reach && Math.abs(dy) <= reach);
}

function argmax(scores) {
  let best = { x: 0, y: 0 };
  scores.forEach((row, y) => row.forEach((score, x) => {
    if (score > scores[best.y][best.x]) best = { x, y };
  }));
  return best;
}

function softmax(logits) {
  const top = Math.max(...logits.flat());
  const weights = logits.map((row) => row.map((value) => Math.exp(value - top)));
  const total = weights.flat().reduce((sum, value) => sum + value, 0);
  return weights.map((row) => row.map((value) => value / total));
}

function expectation(probabilities) {
  const mean = { x: 0, y: 0 };
  probabilities.forEach((row, y) => row.forEach((p, x) => {
    mean.x += p * x;
    mean.y += p * y;
  }));
  return mean;
}
