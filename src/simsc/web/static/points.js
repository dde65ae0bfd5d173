// Points of the source, and the questions where they lie in the target.

import { postJson } from "./api.js";
import { distribution, localize, peak, toPixels } from "./distribution.js";
import { alive } from "./keeping.js";
import { announce, guarded } from "./messages.js";
import { inside } from "./stage.js";
import { bothThere, byId, pairRequest, SIDES, stages, state, temperature } from "./state.js";
import { refreshWarp, render, sourceLabel } from "./view.js";

const AT_ONCE = 64; // as many score maps as the server gives in one answer
const SETTLED = 250; // milliseconds without a move of the slider
let nextKey = 1;

export async function addPoints(places) {
  if (!state.images.source || !places.length) return;
  const added = places.map((each) => ({ key: nextKey++, ...inside(each, state.images.source), match: null }));
  state.points.push(...added);
  state.selected = added[0].key;
  render();
  await matchPoints(added);
  if (added.length === 1) announceMatch(added[0]);
}

export async function addAtCentre() {
  if (!state.images.source) return;
  const { width, height } = state.images.source;
  const adding = addPoints([{ x: (width - 1) / 2, y: (height - 1) / 2 }]);
  stages.source.markers.get(state.selected)?.focus();
  await adding;
}

export async function moveTo(point, place) {
  Object.assign(point, inside(place, state.images.source));
  render();
  await matchPoints([point]);
}

export function removePoint(key) {
  const index = state.points.findIndex((point) => point.key === key);
  if (index < 0) return;
  const [gone] = state.points.splice(index, 1);
  const neighbour = state.points[Math.min(index, state.points.length - 1)];
  if (state.selected === key) state.selected = neighbour?.key ?? null;
  for (const side of SIDES) stages[side].unmark(key);
  render();
  (neighbour ? stages.source.markers.get(neighbour.key) : byId("add"))?.focus();
  announce(`Point ${gone.number} is removed; ${state.points.length} left.`);
}

export function clearPoints() {
  for (const { key } of state.points) for (const side of SIDES) stages[side].unmark(key);
  state.points = [];
  state.selected = null;
  render();
  announce("All points are removed.");
}

export function select(key) {
  state.selected = key;
  render();
}

export function announceMatch(point) {
  if (point.match) announce(sourceLabel(point));
}

const pending = new Set();
let asking = null;

/** Ask for matches; while an answer is on its way, later wishes are gathered into one next question. */
export function matchPoints(points) {
  points.forEach((point) => pending.add(point));
  asking ??= ask().finally(() => (asking = null));
  return asking;
}

async function ask() {
  while (pending.size && bothThere()) {
    const points = [...pending].slice(0, AT_ONCE);
    points.forEach((point) => pending.delete(point));
    const wanted = points.filter((point) => state.points.includes(point));
    if (wanted.length && !(await guarded(() => fetchMatches(wanted)))) break;
  }
  pending.clear();
}

async function fetchMatches(points) {
  const asked = points.map(({ x, y }) => [x, y]);
  let request;
  const answer = await alive(() => {
    request = { ...pairRequest(), points: asked, scores: true };
    return postJson("/api/match", request);
  });
  // Meanwhile the images may have been changed for others: then this is no answer any more.
  if (SIDES.some((side) => state.images[side].id !== request[side])) return;
  state.own = answer.model_temperature;
  state.learned = answer.learned;
  state.calibrated = answer.calibrated;
  state.mirrored = answer.mirrored;
  state.geometry = { cells: answer.cells, convention: answer.convention };
  answer.matches.forEach(({ target: [x, y], confidence, status, cycle_error: cycle, scores }, index) => {
    points[index].match = { x, y, confidence, status, cycle, scores };
  });
  render();
}

let settling = 0;

/** Another temperature (null: the model's own): shown at once, the way back asked for when the slider rests. */
export function chooseTemperature(value) {
  state.chosenTemperature = value;
  relocate();
  render();
  clearTimeout(settling);
  settling = setTimeout(async () => {
    await matchPoints(state.points);
    await refreshWarp();
  }, SETTLED);
}

function relocate() {
  if (!state.geometry) return;
  const { cells, convention } = state.geometry;
  for (const { match } of state.points.filter((point) => point.match?.scores)) {
    const cell = localize(match.scores, temperature(), byId("localizer").value);
    Object.assign(match, toPixels(cell, cells, state.images.target, convention));
    if (!state.calibrated) match.confidence = peak(distribution(match.scores, temperature()));
  }
}
