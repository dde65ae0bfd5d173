// A wall of images, the doubtful first. Every change is sent to the server, which writes the file.

import { byId, element, inside, pixelAt, putAt } from "./elements.js";
import { History } from "./history.js";
import { doubt, makeCard, makeDot } from "./wall.js";

const [ABSENT, UNSURE, SURE] = [0, 1, 2];
const STEP = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const state = { objects: [], images: new Map(), placing: null, chosen: null }; // chosen: {object, index}
const past = new History(({ object }) => snapshot(object), (step) => restore(step.object, step));

async function start() {
  const answer = await (await fetch("/api/review")).json();
  for (const image of answer.images) state.images.set(image.id, { ...image, name: image.file_name });
  state.objects = answer.objects.sort((a, b) => doubtOf(b) - doubtOf(a));
  byId("next").textContent = `Then: simsc adapt ${answer.file} --out my-model`;
  byId("wall").append(...state.objects.map(card));
  document.addEventListener("keydown", onKey);
  progress();
  document.body.dataset.ready = "true";
}

/** How much an object needs to be looked at: settled ones least. */
function doubtOf(object) {
  return object.settled ? -1 : doubt(object.scores.filter((_, index) => object.keypoints[3 * index + 2]));
}

function card(object) {
  const image = state.images.get(object.image);
  const right = element("button", "settle", "All right");
  right.addEventListener("click", () => change(object, object.keypoints.map((v, i) => (i % 3 === 2 && v ? SURE : v)), !object.settled));
  const frame = element("div");
  frame.addEventListener("click", (event) => place(object, event, frame));
  const gone = element("button", "gone", "Not there");
  gone.disabled = true;
  gone.addEventListener("click", () => remove(state.chosen));
  object.card = makeCard(`/api/review/images/${image.id}`, image, frame, gone, right);
  object.card.dataset.id = object.id;
  object.card.append(element("div", "absent"));
  draw(object);
  return object.card;
}

function draw(object) {
  const image = state.images.get(object.image);
  const frame = object.card.querySelector(".frame");
  const focused = document.activeElement?.dataset?.index;
  const mine = object.card.contains(document.activeElement);
  frame.querySelectorAll(".dot").forEach((dot) => dot.remove());
  object.names.forEach((name, index) => {
    const [x, y, seen] = object.keypoints.slice(3 * index, 3 * index + 3);
    if (!seen) return;
    const dot = makeDot("button", { x, y }, image, name);
    dot.classList.add(verdict(object, index));
    dot.classList.toggle("chosen", isChosen(object, index));
    dot.dataset.index = index;
    dot.setAttribute("aria-label", `${name}, ${verdict(object, index)}, at ${Math.round(x)}, ${Math.round(y)}`);
    dot.addEventListener("focus", () => choose({ object, index }));
    dot.addEventListener("pointerdown", (event) => drag(event, object, index, dot, frame));
    frame.append(dot);
    if (mine && focused === String(index)) dot.focus({ preventScroll: true });
  });
  const absent = object.names.map((name, index) => (object.keypoints[3 * index + 2] ? null : chip(object, name, index)));
  object.card.querySelector(".absent").replaceChildren(...absent.filter(Boolean));
  showGone(object);
  object.card.classList.toggle("settled", object.settled);
  object.card.querySelector(".settle").setAttribute("aria-pressed", String(object.settled));
}

const isChosen = (object, index) => state.chosen?.object === object && state.chosen.index === index;

/** The point that *Not there* is about: the last one that was touched. Nothing moves, for it may be about to be dragged. */
function choose(chosen) {
  const before = state.chosen;
  state.chosen = chosen;
  for (const { object } of [before, chosen].filter(Boolean)) {
    for (const dot of object.card.querySelectorAll(".dot")) dot.classList.toggle("chosen", isChosen(object, Number(dot.dataset.index)));
    showGone(object);
  }
}

function showGone(object) {
  const name = state.chosen?.object === object ? object.names[state.chosen.index] : null;
  const gone = object.card.querySelector(".gone");
  gone.disabled = !name || !object.keypoints[3 * state.chosen.index + 2];
  gone.setAttribute("aria-label", name ? `Not there: ${name}` : "Not there");
}

function verdict(object, index) {
  if (object.fixed?.has(index)) return "fixed";
  return object.keypoints[3 * index + 2] === UNSURE ? "unsure" : "sure";
}

function chip(object, name, index) {
  const made = element("button", "chip", name);
  made.setAttribute("aria-label", `Place ${name}`);
  made.addEventListener("click", () => {
    document.querySelectorAll(".chip.on").forEach((other) => other.classList.remove("on"));
    made.classList.add("on");
    state.placing = { object, index };
  });
  return made;
}

function place(object, event, frame) {
  if (state.placing?.object !== object) return;
  const { index } = state.placing;
  state.placing = null;
  move(object, index, pixelAt(event, frame, state.images.get(object.image)));
}

function drag(event, object, index, dot, frame) {
  event.preventDefault();
  dot.focus({ preventScroll: true });
  dot.setPointerCapture(event.pointerId);
  const image = state.images.get(object.image);
  const start = pixelAt(event, frame, image);
  const [x, y] = placeOf(object, index);
  let last = null;
  const onMove = (moving) => {
    const at = pixelAt(moving, frame, image);
    last = inside({ x: x + at.x - start.x, y: y + at.y - start.y }, image);
    putAt(dot, last, image);
  };
  dot.addEventListener("pointermove", onMove);
  // Also where the browser takes a finger for something else.
  dot.addEventListener("lostpointercapture", () => {
    dot.removeEventListener("pointermove", onMove);
    if (last) move(object, index, last);
  }, { once: true });
}

const placeOf = (object, index) => object.keypoints.slice(3 * index, 3 * index + 2);

function move(object, index, { x, y }, what = null) {
  const values = [...object.keypoints];
  values.splice(3 * index, 3, round(x), round(y), SURE);
  change(object, values, object.settled, index, what);
}

function remove({ object, index }) {
  const values = [...object.keypoints];
  values.splice(3 * index, 3, 0, 0, ABSENT);
  change(object, values, object.settled);
}

const round = (value) => Math.round(100 * value) / 100;

function onKey(event) {
  const dot = event.target.closest?.(".dot");
  if (!dot) return;
  const object = state.objects.find((each) => each.card.contains(dot));
  const index = Number(dot.dataset.index);
  const [x, y] = placeOf(object, index);
  if (event.key === "Delete" || event.key === "Backspace") {
    event.preventDefault();
    remove({ object, index });
  } else if (STEP[event.key]) {
    event.preventDefault();
    const length = event.shiftKey ? 10 : 1;
    const moved = { x: x + length * STEP[event.key][0], y: y + length * STEP[event.key][1] };
    move(object, index, inside(moved, state.images.get(object.image)), `arrows of ${index} in ${object.id}`);
  }
}

/** Note what was, take over what is new, and save it. */
function change(object, keypoints, settled, index = null, what = null) {
  past.note({ object }, what);
  object.fixed ??= new Set();
  if (index !== null) object.fixed.add(index);
  restore(object, { keypoints, settled, fixed: object.fixed });
}

const snapshot = (object) => ({
  object, keypoints: [...object.keypoints], settled: object.settled, fixed: new Set(object.fixed),
});

async function restore(object, { keypoints, settled, fixed }) {
  Object.assign(object, { keypoints, settled, fixed });
  draw(object);
  progress();
  const answer = await fetch(`/api/review/${object.id}`, {
    method: "PUT",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ keypoints, settled }),
  }).catch(() => null);
  const failed = !answer?.ok;
  byId("problem").hidden = !failed;
  if (failed) byId("problem").textContent = "The last change is not saved: the server does not answer.";
  document.body.dataset.saved = String(Number(document.body.dataset.saved ?? 0) + 1);
}

function progress() {
  const settled = state.objects.filter((object) => object.settled).length;
  const open = state.objects.filter((object) => !object.settled);
  const unsure = open.reduce((sum, object) => sum + object.keypoints.filter((v, i) => i % 3 === 2 && v === UNSURE).length, 0);
  byId("progress").textContent = `${settled} of ${state.objects.length} settled, ${unsure} unsure points left`;
}

start();
