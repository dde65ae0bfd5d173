// Many targets for one source: a wall of them, the most doubtful first, each with the points where they were found.

import { forgetImage, postJson, Problem } from "./api.js";
import { byId, element } from "./elements.js";
import { openTarget } from "./images.js";
import { alive, bringBack, fetchImage } from "./keeping.js";
import { announce, guarded } from "./messages.js";
import { keepImages } from "./session.js";
import { paint, VERDICTS } from "./stage.js";
import { pairRequest, state, verdictOf } from "./state.js";
import { countOf, verdictCounts } from "./table.js";
import { doubt, makeCard, makeDot } from "./wall.js";

const RESTED = 400; // milliseconds in which no point moves
let resting = 0;
let asking = null;

/** Bring targets in from where they come, {file} or {path}; images that are known already are just shown. */
export async function addTargets(origins, known = []) {
  known.forEach(addTarget);
  await guarded(async () => {
    for (const origin of origins) {
      byId("many-words").textContent = `Bringing in ${state.wall.length + 1} …`;
      addTarget(await fetchImage(origin));
    }
  });
  keepImages();
  showWall();
  followPoints();
  if (origins.length) announce(`${state.wall.length} targets.`);
  if (!state.images.target && state.wall.length) await openTarget(state.wall[0].image);
}

/** Where is the selected point in all images that the server has indexed? Those that look most like it are the targets. */
export async function findSelected() {
  const point = state.points.find(({ key }) => key === state.selected);
  if (!point) return announce("Select a point first.");
  const found = [];
  const asked = () => ({ image: state.images.source.id, point: [point.x, point.y] });
  const ask = async () => found.push(...(await alive([state.images.source], () => postJson("/api/index/find", asked()))));
  if (!(await guarded(ask))) return;
  clearTargets();
  await addTargets(found.map(({ number, similarity }) => ({ path: `/api/index/${number}`, similarity })));
}

export function clearTargets() {
  state.wall.splice(0).forEach(({ image }) => letGo(image));
  keepImages();
  showWall();
}

/** Put an image on the wall. */
export function addTarget(image) {
  const item = { image, matches: null, asked: null };
  const frame = element("button", "open");
  frame.addEventListener("click", () => openTarget(image));
  const remove = element("button", "quiet", "×");
  remove.setAttribute("aria-label", `Remove ${image.name}`);
  remove.addEventListener("click", () => {
    state.wall.splice(state.wall.indexOf(item), 1);
    letGo(image);
    keepImages();
    showWall();
  });
  item.card = makeCard(`/api/images/${image.id}`, image, frame, remove);
  item.card.querySelector("img").addEventListener("error", (event) => comeBack(event.target, item), { once: true });
  state.wall.push(item);
}

async function comeBack(picture, item) {
  await onCard(item, async () => {
    await bringBack(item.image);
    picture.src = `/api/images/${item.image.id}`;
  });
}

/** Run a task about one target; a problem is told on its card and holds up no other. */
async function onCard(item, task) {
  item.problem = "";
  try {
    await task();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    item.problem = problem.message;
  }
}

function letGo(image) {
  if (image !== state.images.target && image !== state.images.source) forgetImage(image.id);
}

/** What the matches of the wall depend on; null where there is nothing to ask. */
function question() {
  if (!state.images.source || !state.points.length) return null;
  return JSON.stringify([{ ...pairRequest({}), source: state.since }, state.points.map(({ x, y }) => [x, y])]);
}

/** Match all targets again once the points rest, if anything changed. */
export function followPoints() {
  const now = question();
  if (state.wall.every((item) => item.asked === now)) return;
  clearTimeout(resting);
  resting = setTimeout(() => (asking ??= matchAll().finally(() => (asking = null))), RESTED);
}

async function matchAll() {
  for (let item; (item = state.wall.find((each) => each.asked !== question())); ) {
    const asked = question();
    item.asked = asked;
    if (asked === null) item.matches = null;
    else await onCard(item, () => matchOne(item));
    showWall();
  }
}

async function matchOne(item) {
  const points = state.points.map(({ x, y }) => [x, y]);
  const answer = await alive([state.images.source, item.image], () => postJson("/api/match", { ...pairRequest(item.image), points }));
  item.matches = answer.matches.map(({ target: [x, y], confidence, status }) => ({ x, y, confidence, status }));
  state.calibrated = answer.calibrated;
}

/** Draw the wall, the most doubtful first, or the most similar where that is known; those without an answer stay behind. */
export function showWall() {
  const rank = ({ image, matches }) => image.origin.similarity ?? (matches ? doubt(matches.map((match) => match.confidence)) : -1);
  state.wall.sort((a, b) => rank(b) - rank(a));
  state.wall.forEach(drawItem);
  const shown = [...byId("wall").children];
  if (state.wall.length !== shown.length || state.wall.some(({ card }, index) => card !== shown[index])) {
    byId("wall").replaceChildren(...state.wall.map(({ card }) => card));
  }
  const now = question();
  const waiting = state.wall.filter((item) => item.asked !== now).length;
  byId("many-words").textContent = waiting && now ? `${waiting} of ${state.wall.length} still to match` : "";
  byId("many-clear").disabled = !state.wall.length;
  byId("many-hint").hidden = state.wall.length > 0;
}

function drawItem({ image, matches, card, problem }) {
  const frame = card.querySelector(".open");
  frame.querySelectorAll(".dot").forEach((dot) => dot.remove());
  (matches ?? []).forEach((match, index) => {
    const dot = makeDot("span", match, image, `${state.points[index]?.name || index + 1}: ${match.confidence.toFixed(2)}`);
    paint(dot, index + 1, verdictOf(match));
    frame.append(dot);
  });
  const counts = card.querySelector(".counts");
  const known = matches && state.calibrated ? VERDICTS.filter((verdict) => countOf(matches, verdict)) : [];
  counts.replaceChildren(...verdictCounts(matches ?? [], known), similar(image), problem ?? "");
  frame.setAttribute("aria-pressed", String(image === state.images.target));
  frame.setAttribute("aria-label", `Open ${image.name} as the target. ${counts.textContent}`);
}

const similar = ({ origin: { similarity } }) => (similarity === undefined ? "" : `similarity ${similarity.toFixed(2)}`);
