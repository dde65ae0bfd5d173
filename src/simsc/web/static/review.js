// A wall of images, the doubtful first. Every change is sent to the server, which writes the file.

const byId = (id) => document.getElementById(id);
const [ABSENT, UNSURE, SURE] = [0, 1, 2];
const STEP = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const state = { objects: [], images: new Map(), past: [], future: [], placing: null };

async function start() {
  const answer = await (await fetch("/api/review")).json();
  for (const image of answer.images) state.images.set(image.id, image);
  state.objects = answer.objects.sort((a, b) => doubt(b) - doubt(a));
  byId("next").textContent = `Then: simsc adapt ${answer.file} --out my-model`;
  byId("wall").append(...state.objects.map(card));
  byId("undo").addEventListener("click", () => travel(state.past, state.future));
  byId("redo").addEventListener("click", () => travel(state.future, state.past));
  document.addEventListener("keydown", onKey);
  progress();
  document.body.dataset.ready = "true";
}

/** How much an object needs to be looked at: settled ones least, then by the expected number of wrong points. */
export function doubt(object) {
  if (object.settled) return -1;
  return object.scores.reduce((sum, score, index) => sum + (object.keypoints[3 * index + 2] ? 1 - score : 0), 0);
}

function card(object) {
  const image = state.images.get(object.image);
  const made = element("article", "object");
  made.dataset.id = object.id;
  const frame = element("div", "frame");
  const picture = new Image();
  picture.src = `/api/review/images/${image.id}`;
  picture.alt = image.file_name;
  picture.loading = "lazy";
  picture.draggable = false;
  picture.width = image.width;
  picture.height = image.height;
  frame.append(picture);
  frame.addEventListener("click", (event) => place(object, event, frame));
  const right = element("button", "settle", "All right");
  right.type = "button";
  right.addEventListener("click", () => change(object, object.keypoints.map((v, i) => (i % 3 === 2 && v ? SURE : v)), !object.settled));
  const bar = element("div", "bar");
  bar.append(element("span", "name", image.file_name), right);
  made.append(bar, frame, element("div", "absent"));
  object.card = made;
  draw(object);
  return made;
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
    const dot = element("button", `dot ${verdict(object, index)}`);
    dot.type = "button";
    dot.dataset.index = index;
    dot.style.left = `${((x + 0.5) / image.width) * 100}%`;
    dot.style.top = `${((y + 0.5) / image.height) * 100}%`;
    dot.setAttribute("aria-label", `${name}, ${verdict(object, index)}, at ${Math.round(x)}, ${Math.round(y)}`);
    dot.append(element("span", "tag", name));
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
  made.type = "button";
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
  move(object, index, pixelAt(event, object, frame));
}

function drag(event, object, index, dot, frame) {
  event.preventDefault();
  dot.focus({ preventScroll: true });
  dot.setPointerCapture(event.pointerId);
  let last = null;
  const onMove = (moving) => {
    last = pixelAt(moving, object, frame);
    const image = state.images.get(object.image);
    dot.style.left = `${((last.x + 0.5) / image.width) * 100}%`;
    dot.style.top = `${((last.y + 0.5) / image.height) * 100}%`;
  };
  dot.addEventListener("pointermove", onMove);
  dot.addEventListener("pointerup", () => {
    dot.removeEventListener("pointermove", onMove);
    if (last) move(object, index, last);
  }, { once: true });
}

function pixelAt(event, object, frame) {
  const image = state.images.get(object.image);
  const box = frame.getBoundingClientRect();
  const inside = (value, size) => Math.min(Math.max(value * size - 0.5, 0), size - 1);
  return {
    x: inside((event.clientX - box.left) / box.width, image.width),
    y: inside((event.clientY - box.top) / box.height, image.height),
  };
}

function move(object, index, { x, y }) {
  const values = [...object.keypoints];
  values.splice(3 * index, 3, round(x), round(y), SURE);
  change(object, values, object.settled, index);
}

const round = (value) => Math.round(100 * value) / 100;

function onKey(event) {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
    event.preventDefault();
    travel(...(event.shiftKey ? [state.future, state.past] : [state.past, state.future]));
    return;
  }
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
    const image = state.images.get(object.image);
    const kept = (value, size) => Math.min(Math.max(value, 0), size - 1);
    move(object, index, {
      x: kept(x + length * STEP[event.key][0], image.width),
      y: kept(y + length * STEP[event.key][1], image.height),
    });
  }
}

/** Note what was, take over what is new, and save it. */
function change(object, keypoints, settled, index = null) {
  state.past.push(snapshot(object));
  state.future.length = 0;
  object.fixed ??= new Set();
  if (index !== null) object.fixed.add(index);
  restore(object, { keypoints, settled, fixed: object.fixed });
}

const snapshot = (object) => ({
  object, keypoints: [...object.keypoints], settled: object.settled, fixed: new Set(object.fixed),
});

function travel(from, to) {
  const step = from.pop();
  if (!step) return;
  to.push(snapshot(step.object));
  restore(step.object, step);
}

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
  byId("undo").disabled = !state.past.length;
  byId("redo").disabled = !state.future.length;
}

function element(tag, className, text = "") {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

start();
