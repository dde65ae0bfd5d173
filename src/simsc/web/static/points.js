// Points of the source, and the questions where they lie in the target.

import { postJson } from "./api.js";
import { COMPUTED, distribution, localize, peak, toPixels } from "./distribution.js";
import { byId, inside } from "./elements.js";
import { History } from "./history.js";
import { alive } from "./keeping.js";
import { announce, guarded } from "./messages.js";
import { plainPoints } from "./session.js";
import { bothThere, pairRequest, SIDES, stages, state, temperature } from "./state.js";
import { refreshWarp, render, sourceLabel } from "./view.js";

const AT_ONCE = 64; // as many score maps as the server gives in one answer
const SETTLED = 250; // milliseconds without a move of the slider
let nextKey = 1;

export const past = new History(
  () => ({ points: plainPoints(), selected: state.selected }),
  ({ points, selected }) => {
    setPoints(points, selected);
    announce(`${points.length} points.`);
  },
);

/** Put these points, {name, x, y} and perhaps a key, in place of all others; known matches stay until there are new ones. */
export async function setPoints(places, selected = null) {
  const known = new Map(state.points.map((point) => [point.key, point.match]));
  state.points = makePoints(places);
  for (const point of state.points) point.match = known.get(point.key) ?? null;
  if (state.points.some((point) => point.key === selected)) state.selected = selected;
  render();
  await matchPoints(state.points);
}

/** Points of the source from {name, x, y}; the first is selected. */
export function makePoints(places) {
  const points = places.map(makePoint);
  state.selected = points[0]?.key ?? null;
  return points;
}

function makePoint({ key = nextKey, name = "", ...place }) {
  nextKey = Math.max(nextKey, key + 1);
  return { key, name, ...inside(place, state.images.source), match: null };
}

export async function addPoint(place) {
  if (!state.images.source) return;
  past.note();
  const point = makePoint(place);
  state.points.push(point);
  state.selected = point.key;
  render();
  await matchPoints([point]);
  announceMatch(point);
}

export async function addAtCentre() {
  if (!state.images.source) return;
  const { width, height } = state.images.source;
  const adding = addPoint({ x: (width - 1) / 2, y: (height - 1) / 2 });
  stages.source.markers.get(state.selected)?.focus();
  await adding;
}

/** A regular grid of `count` points along the longer side, in the middles of equal cells. */
export async function putGrid(count) {
  if (!state.images.source) return;
  const { width, height } = state.images.source;
  const cell = Math.max(width, height) / count;
  const [columns, rows] = [Math.max(Math.round(width / cell), 1), Math.max(Math.round(height / cell), 1)];
  const places = Array.from({ length: columns * rows }, (_, index) => ({
    x: (((index % columns) + 0.5) * width) / columns - 0.5,
    y: ((Math.floor(index / columns) + 0.5) * height) / rows - 0.5,
  }));
  past.note();
  await setPoints(places);
  announce(`A grid of ${columns} times ${rows} points.`);
}

export async function moveTo(point, place) {
  Object.assign(point, inside(place, state.images.source));
  render();
  await matchPoints([point]);
}

export function rename(key, name) {
  const point = state.points.find((each) => each.key === key);
  if (!point || point.name === name.trim()) return;
  past.note();
  point.name = name.trim();
  render();
  announce(`Point ${point.number} is called ${point.name || point.number}.`);
}

export function removePoint(key) {
  const index = state.points.findIndex((point) => point.key === key);
  if (index < 0) return;
  past.note();
  const [gone] = state.points.splice(index, 1);
  const neighbour = state.points[Math.min(index, state.points.length - 1)];
  if (state.selected === key) state.selected = neighbour?.key ?? null;
  render();
  (neighbour ? stages.source.markers.get(neighbour.key) : byId("add"))?.focus();
  announce(`Point ${gone.number} is removed; ${state.points.length} left.`);
}

export function clearPoints() {
  if (!state.points.length) return;
  past.note();
  setPoints([]);
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
  const answer = await alive(Object.values(state.images), () => {
    request = { ...pairRequest(), points: asked, scores: true };
    return postJson("/api/match", request);
  });
  // Meanwhile the images may have been changed for others: then this is no answer any more.
  if (SIDES.some((side) => state.images[side]?.id !== request[side])) return;
  state.own = answer.model_temperature;
  state.geometry = { cells: answer.cells, convention: answer.convention };
  for (const name of ["learned", "calibrated", "mirrored", "localizer"]) state[name] = answer[name];
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
  const localizer = byId("localizer").value || state.localizer;
  if (!state.geometry || !COMPUTED.includes(localizer)) return;
  const { cells, convention } = state.geometry;
  for (const { match } of state.points.filter((point) => point.match?.scores)) {
    const cell = localize(match.scores, temperature(), localizer);
    Object.assign(match, toPixels(cell, cells, state.images.target, convention));
    if (!state.calibrated) match.confidence = peak(distribution(match.scores, temperature()));
  }
}
