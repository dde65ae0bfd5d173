// The page: what is chosen, what is asked, what is shown.

import { encodeImage, forgetImage, getJson, postForBlob, postJson, Problem, uploadImage } from "./api.js";
import { byId, place, readable, showDistribution, showTable, showTemperature, toTemperature } from "./controls.js";
import { distribution, localize, peak, toPixels } from "./distribution.js";
import { clearHeatmap, drawHeatmap } from "./heatmap.js";
import { inside, LOW_CONFIDENCE, Stage } from "./stage.js";

const SIDES = ["source", "target"];
const stages = { source: new Stage("source"), target: new Stage("target") };
const state = {
  images: { source: null, target: null }, // {id, name, width, height}, as the server knows them
  origins: { source: null, target: null }, // where each came from, to bring it back: {file} or {sample, side}
  points: [], // {key, number, x, y, match: {x, y, confidence, cycle, scores} or null}
  selected: null,
  chosenTemperature: null, // null: the model's own
  own: null,
  learned: false,
  geometry: null, // {cells, convention} of the last answer
  sample: null,
};
let nextKey = 1;

// ---- images

async function takeSample(name) {
  await guarded(async () => {
    setWaiting(true);
    const pair = await postJson(`/api/samples/${name}`);
    for (const side of SIDES) state.origins[side] = { sample: name, side };
    state.sample = { name, points: pair.points };
    await showPair(pair);
    announce(`Sample ${name} is ready. Click in the source image or press plus.`);
  });
}

async function takeFile(side, file) {
  await guarded(async () => {
    setWaiting(true);
    const image = await uploadImage(file);
    state.origins[side] = { file };
    state.sample = null;
    await showPair({ [side]: image });
    announce(`${file.name} is the ${side} image.`);
  });
}

async function showPair(pair) {
  for (const side of SIDES.filter((each) => pair[each])) {
    if (state.images[side]) forgetImage(state.images[side].id);
    state.images[side] = pair[side];
    await stages[side].show(pair[side]);
  }
  if (pair.source) state.points = [];
  state.selected = pair.source ? null : state.selected;
  state.points.forEach((point) => (point.match = null));
  state.own = state.geometry = null;
  for (const button of document.querySelectorAll("#samples button")) {
    button.setAttribute("aria-pressed", String(button.dataset.name === state.sample?.name));
  }
  byId("keypoints").hidden = !state.sample;
  render();
  await encodeBoth();
  await matchPoints(state.points);
  await refreshWarp();
}

async function encodeBoth() {
  setWaiting(true);
  for (const side of SIDES) {
    if (state.images[side]) await alive(() => encodeImage(state.images[side].id, byId("model").value));
  }
}

/** Run a request; when the server has let go of an image, bring it back and try once more. */
async function alive(task) {
  try {
    return await task();
  } catch (problem) {
    if (problem.code !== "image-gone") throw problem;
    await bringBack();
    return task();
  }
}

async function bringBack() {
  for (const side of SIDES.filter((each) => state.origins[each])) {
    const origin = state.origins[side];
    const image = origin.file ? await uploadImage(origin.file) : (await postJson(`/api/samples/${origin.sample}`))[origin.side];
    state.images[side] = stages[side].image = image;
  }
}

async function swapImages() {
  if (!bothThere()) return;
  const moved = state.points.filter((point) => point.match).map((point) => ({ x: point.match.x, y: point.match.y }));
  state.images = { source: state.images.target, target: state.images.source };
  state.origins = { source: state.origins.target, target: state.origins.source };
  state.sample = null;
  await guarded(async () => {
    await bringBackIfNeeded();
    for (const side of SIDES) await stages[side].show(state.images[side]);
    byId("keypoints").hidden = true;
    state.points = [];
    state.selected = null;
    await addPoints(moved);
    await refreshWarp();
    announce("The images are swapped; the matches are now the points.");
  });
}

const bringBackIfNeeded = () => alive(encodeBoth);

// ---- points

async function addPoints(places) {
  if (!state.images.source) return [];
  const added = places.map((each) => ({ key: nextKey++, ...inside(each, state.images.source), match: null }));
  state.points.push(...added);
  if (added.length) state.selected = added[0].key;
  render();
  await matchPoints(added);
  if (added.length === 1) announceMatch(added[0]);
  return added;
}

async function addAtCentre() {
  if (!state.images.source) return;
  const { width, height } = state.images.source;
  const adding = addPoints([{ x: (width - 1) / 2, y: (height - 1) / 2 }]);
  stages.source.markers.get(state.points.at(-1).key)?.focus();
  await adding;
}

function removePoint(key) {
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

function clearPoints() {
  for (const point of state.points) for (const side of SIDES) stages[side].unmark(point.key);
  state.points = [];
  state.selected = null;
  render();
  announce("All points are removed.");
}

function select(key) {
  state.selected = key;
  render();
}

const pending = new Set();
let asking = null;

/** Ask for matches; while an answer is on its way, later wishes are gathered into one next question. */
function matchPoints(points) {
  points.forEach((point) => pending.add(point));
  asking ??= ask().finally(() => (asking = null));
  return asking;
}

async function ask() {
  while (pending.size && bothThere()) {
    const points = [...pending].filter((point) => state.points.includes(point)).slice(0, 64);
    points.forEach((point) => pending.delete(point));
    if (!points.length) break;
    if (!(await guarded(() => fetchMatches(points)))) pending.clear();
  }
  pending.clear();
}

async function fetchMatches(points) {
  const asked = points.map(({ x, y }) => [x, y]);
  const answer = await alive(() => postJson("/api/match", { ...pairRequest(), points: asked, scores: true }));
  state.own = answer.model_temperature;
  state.learned = answer.learned;
  state.geometry = { cells: answer.cells, convention: answer.convention };
  answer.matches.forEach((match, index) => {
    const [x, y] = match.target;
    points[index].match = { x, y, confidence: match.confidence, cycle: match.cycle_error, scores: match.scores };
  });
  render();
}

function pairRequest() {
  const request = { source: state.images.source.id, target: state.images.target.id };
  request.model = byId("model").value;
  request.localizer = byId("localizer").value;
  if (state.chosenTemperature !== null) request.temperature = state.chosenTemperature;
  return request;
}

// ---- temperature

/** What the model says at another temperature, computed here from the similarities. */
function relocate() {
  if (!state.geometry) return;
  const localizer = byId("localizer").value;
  for (const point of state.points.filter((each) => each.match?.scores)) {
    const cell = localize(point.match.scores, temperature(), localizer);
    Object.assign(point.match, toPixels(cell, state.geometry.cells, state.images.target, state.geometry.convention));
    point.match.confidence = peak(distribution(point.match.scores, temperature()));
  }
}

const temperature = () => state.chosenTemperature ?? state.own;

let settling = 0;
function chooseTemperature(value) {
  state.chosenTemperature = value;
  relocate();
  render();
  clearTimeout(settling);
  settling = setTimeout(async () => {
    await matchPoints(state.points); // the way back is only known to the server
    await refreshWarp();
  }, 250);
}

// ---- what is seen

function render() {
  state.points.forEach((point, index) => (point.number = index + 1));
  for (const point of state.points) {
    const selected = point.key === state.selected;
    stages.source.mark(point, point, { selected, label: sourceLabel(point), tip: tipOf(point) });
    if (point.match && state.images.target) {
      const hollow = point.match.confidence < LOW_CONFIDENCE;
      const label = `Match of point ${point.number}`;
      stages.target.mark(point, point.match, { hollow, selected, label, tip: tipOf(point) });
    } else {
      stages.target.unmark(point.key);
    }
  }
  const point = state.points.find((each) => each.key === state.selected);
  const probabilities = point?.match?.scores && distribution(point.match.scores, temperature());
  showTemperature(temperature(), state.own, state.learned, state.chosenTemperature !== null);
  showDistribution(point, probabilities);
  showTable(state.points, state.selected, select, removePoint);
  renderOverlay(probabilities);
  for (const button of document.querySelectorAll("[data-export]")) button.disabled = !state.points.length || !bothThere();
}

function renderOverlay(probabilities) {
  const stage = stages.target;
  if (!stage.frame) return;
  const opacity = byId("opacity").value / 100;
  stage.canvas.style.opacity = stage.warp.style.opacity = opacity;
  if (overlay() === "heat" && probabilities) drawHeatmap(stage.canvas, probabilities);
  else clearHeatmap(stage.canvas);
  stage.warp.hidden = overlay() !== "warp" || !stage.warp.src;
  byId("consistent-line").hidden = overlay() !== "warp";
}

const overlay = () => document.querySelector("[name=overlay]:checked").value;

async function refreshWarp() {
  if (overlay() !== "warp" || !bothThere()) return;
  const consistent = byId("consistent").checked;
  await guarded(async () => {
    const picture = await alive(() => postForBlob("/api/warp", { ...pairRequest(), consistent }));
    const old = stages.target.warp.src;
    stages.target.warp.src = URL.createObjectURL(picture);
    if (old) URL.revokeObjectURL(old);
    await stages.target.warp.decode();
    render();
    announce("The warped source lies over the target.");
  });
}

function tipOf(point) {
  if (!point.match) return "";
  return `${point.number}: confidence ${point.match.confidence.toFixed(2)}, cycle error ${point.match.cycle.toFixed(1)} px`;
}

function sourceLabel(point) {
  const found = point.match ? `match at ${place(point.match)}, confidence ${Math.round(100 * point.match.confidence)} percent` : "no match yet";
  return `Point ${point.number} at ${place(point)}; ${found}`;
}

function announce(text) {
  byId("status").textContent = text;
}

function announceMatch(point) {
  if (point.match) announce(sourceLabel(point));
}

const bothThere = () => Boolean(state.images.source && state.images.target);

function setWaiting(value) {
  for (const side of SIDES) stages[side].waiting = value;
}

/** Run a task; a problem becomes a message on the page. Says whether it went well. */
async function guarded(task) {
  byId("problem").hidden = true;
  try {
    await task();
    return true;
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    byId("problem-text").textContent = problem.message;
    byId("problem").hidden = false;
    return false;
  } finally {
    setWaiting(false);
  }
}

// ---- files out

async function exportAs(format) {
  const points = state.points.map(({ x, y }) => [x, y]);
  await guarded(async () => {
    const file = await alive(() => postForBlob(`/api/export/${format}`, { ...pairRequest(), points }));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = { json: "matches.json", coco: "matches.coco.json", png: "matches.png" }[format];
    link.click();
    URL.revokeObjectURL(link.href);
    announce(`${link.download} is saved.`);
  });
}

// ---- hands and keys

let dragged = null;

function onPointerDown(event) {
  const stage = stages.source;
  if (!stage.frame?.contains(event.target) || event.button !== 0) return;
  const marker = event.target.closest(".point");
  event.preventDefault();
  if (marker) grab(Number(marker.dataset.key), event);
  else {
    addPoints([stage.pixelAt(event)]);
    grab(state.selected, event);
  }
}

function grab(key, event) {
  dragged = state.points.find((point) => point.key === key);
  if (!dragged) return;
  select(key);
  stages.source.markers.get(key).focus({ focusVisible: false });
  stages.source.box.setPointerCapture(event.pointerId);
}

function onPointerMove(event) {
  if (!dragged) return;
  moveTo(dragged, stages.source.pixelAt(event));
}

function onPointerUp() {
  if (dragged) announceMatch(dragged);
  dragged = null;
}

async function moveTo(point, target) {
  Object.assign(point, inside(target, state.images.source));
  render();
  await matchPoints([point]);
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

async function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "+" && !typing) {
    event.preventDefault();
    await addAtCentre();
    return;
  }
  const key = Number(event.target.closest?.("[data-side=source] .point")?.dataset.key);
  const point = state.points.find((each) => each.key === key);
  if (!point) return;
  if (event.key === "Delete" || event.key === "Backspace") {
    event.preventDefault();
    removePoint(key);
  } else if (ARROWS[event.key]) {
    event.preventDefault();
    const step = (Math.max(state.images.source.width, state.images.source.height) / 200) * (event.shiftKey ? 10 : 1);
    const [dx, dy] = ARROWS[event.key];
    await moveTo(point, { x: point.x + dx * step, y: point.y + dy * step });
    announceMatch(point);
  }
}

function watchHover() {
  const turn = (value) => (event) => {
    const marker = event.target.closest?.(".point");
    if (marker) for (const side of SIDES) stages[side].hot(Number(marker.dataset.key), value);
  };
  document.addEventListener("pointerover", turn(true));
  document.addEventListener("pointerout", turn(false));
}

function watchFiles() {
  for (const side of SIDES) {
    const { panel } = stages[side];
    byId(`${side}-file`).addEventListener("change", (event) => {
      const [file] = event.target.files;
      event.target.value = "";
      if (file) takeFile(side, file);
    });
    panel.addEventListener("dragover", (event) => {
      event.preventDefault();
      panel.classList.add("over");
    });
    panel.addEventListener("dragleave", () => panel.classList.remove("over"));
    panel.addEventListener("drop", async (event) => {
      event.preventDefault();
      panel.classList.remove("over");
      const [first, second] = event.dataTransfer.files;
      if (first) await takeFile(second ? "source" : side, first);
      if (second) await takeFile("target", second);
    });
  }
}

function watchControls() {
  byId("temperature").addEventListener("input", (event) => chooseTemperature(toTemperature(Number(event.target.value))));
  byId("temperature").addEventListener("change", () => announce(`Temperature ${readable(temperature())}`));
  byId("learned").addEventListener("click", () => chooseTemperature(null));
  byId("localizer").addEventListener("change", () => chooseTemperature(state.chosenTemperature));
  byId("model").addEventListener("change", async () => {
    state.chosenTemperature = null;
    await guarded(encodeBoth);
    await matchPoints(state.points);
    await refreshWarp();
    announce(`Model ${byId("model").value}`);
  });
  byId("opacity").addEventListener("input", render);
  byId("consistent").addEventListener("change", refreshWarp);
  for (const choice of document.querySelectorAll("[name=overlay]")) {
    choice.addEventListener("change", async () => {
      render();
      await refreshWarp();
    });
  }
  byId("add").addEventListener("click", addAtCentre);
  byId("clear").addEventListener("click", clearPoints);
  byId("swap").addEventListener("click", swapImages);
  byId("keypoints").addEventListener("click", () => {
    clearPoints();
    addPoints(state.sample.points.map(([x, y]) => ({ x, y })));
  });
  byId("problem-close").addEventListener("click", () => (byId("problem").hidden = true));
  for (const button of document.querySelectorAll("[data-export]")) {
    button.addEventListener("click", () => exportAs(button.dataset.export));
  }
}

function watchStage() {
  const { box } = stages.source;
  box.addEventListener("pointerdown", onPointerDown);
  box.addEventListener("pointermove", onPointerMove);
  box.addEventListener("pointerup", onPointerUp);
  box.addEventListener("pointercancel", onPointerUp);
  stages.target.box.addEventListener("click", (event) => {
    const marker = event.target.closest(".point");
    if (marker) select(Number(marker.dataset.key));
  });
  box.addEventListener("focusin", (event) => {
    const key = Number(event.target.dataset.key);
    if (key && key !== state.selected) select(key);
  });
  document.addEventListener("keydown", onKey);
}

// ---- start

function sampleButton(sample) {
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.name = sample.name;
  button.title = sample.title;
  button.setAttribute("aria-label", `Sample: ${sample.title}`);
  button.setAttribute("aria-pressed", "false");
  for (const side of SIDES) {
    const picture = new Image();
    picture.src = `/api/samples/${sample.name}/${side}`;
    picture.alt = "";
    picture.loading = "lazy";
    button.append(picture);
  }
  button.addEventListener("click", () => takeSample(sample.name));
  return button;
}

async function start() {
  watchStage();
  watchFiles();
  watchControls();
  watchHover();
  render();
  const models = await getJson("/api/models");
  byId("model").replaceChildren(...models.map((model) => {
    const option = new Option(model.name, model.name, model.default, model.default);
    option.title = model.description;
    return option;
  }));
  byId("samples").replaceChildren(...(await getJson("/api/samples")).map(sampleButton));
  document.body.dataset.ready = "true";
}

guarded(start);
