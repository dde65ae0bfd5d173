// A wall of images, the doubtful first. Every change is sent to the server, which writes the file.

import { byId, element, inside, pixelAt, putAt } from "./elements.js";
import { History } from "./history.js";
import { doubt, makeCard, makeDot } from "./wall.js";

const [ABSENT, UNSURE, SURE] = [0, 1, 2];
const STEP = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const state = { objects: [], images: new Map(), placing: null };
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
  object.card = makeCard(`/api/review/images/${image.id}`, image, frame, right);
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
    dot.dataset.index = index;
    dot.setAttribute("aria-label", `${name}, ${verdict(object, index)}, at ${Math.round(x)}, ${Math.round(y)}`);
    dot.addEventListener("pointerdown", (event) => drag(event, object, index, dot, frame));
    frame.append(dot);
    if (mine && focused === String(index)) dot.focus({ preventScroll: true });
  });
  const absent = object.names.map((name, index) => (object.keypoints[3 * index + 2] ? null : chip(object, name, index)));
  object.card.querySelector(".absent").replaceChildren(...absent.filter(Boolean));
  object.card.classList.toggle("settled", object.settled);
  object.card.querySelector(".settle").setAttribute("aria-pressed", String(object.settled));
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
  let last = null;
  const onMove = (moving) => {
    last = pixelAt(moving, frame, image);
    putAt(dot, last, image);
  };
  dot.addEventListener("pointermove", onMove);
  dot.addEventListener("pointerup", () => {
    dot.removeEventListener("pointermove", onMove);
    if (last) move(object, index, last);
  }, { once: true });
}

function move(object, index, { x, y }, what = null) {
  const values = [...object.keypoints];
  values.splice(3 * index, 3, round(x), round(y), SURE);
  change(object, values, object.settled, index, what);
}

const round = (value) => Math.round(100 * value) / 100;

function onKey(event) {
  const dot = event.target.closest?.(".dot");
  if (!dot) return;
  const object = state.objects.find((each) => each.card.contains(dot));
  const index = Number(dot.dataset.index);
  const [x, y] = object.keypoints.slice(3 * index, 3 * index + 2);
  if (event.key === "Delete" || event.key === "Backspace") {
    event.preventDefault();
    const values = [...object.keypoints];
    values.splice(3 * index, 3, 0, 0, ABSENT);
    change(object, values, object.settled);
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
