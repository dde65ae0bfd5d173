// Pointer, keyboard and dropped files.

import { takeFile } from "./images.js";
import { addAtCentre, addPoints, announceMatch, moveTo, removePoint, select } from "./points.js";
import { byId, SIDES, stages, state } from "./state.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const STEPS_ACROSS = 200;
let dragged = null;

export function watchHands() {
  const { box } = stages.source;
  box.addEventListener("pointerdown", onPointerDown);
  box.addEventListener("pointermove", (event) => dragged && moveTo(dragged, stages.source.pixelAt(event)));
  for (const end of ["pointerup", "pointercancel"]) box.addEventListener(end, drop);
  box.addEventListener("focusin", (event) => {
    const key = Number(event.target.dataset.key);
    if (key && key !== state.selected) select(key);
  });
  stages.target.box.addEventListener("click", (event) => selectFrom(event.target.closest(".point")));
  byId("points").addEventListener("click", onTable);
  document.addEventListener("keydown", onKey);
  document.addEventListener("pointerover", (event) => hover(event, true));
  document.addEventListener("pointerout", (event) => hover(event, false));
  SIDES.forEach(watchFiles);
}

function onPointerDown(event) {
  if (!stages.source.frame?.contains(event.target) || event.button !== 0) return;
  event.preventDefault();
  const marker = event.target.closest(".point");
  if (marker) select(Number(marker.dataset.key));
  else addPoints([stages.source.pixelAt(event)]);
  dragged = state.points.find((point) => point.key === state.selected);
  stages.source.markers.get(state.selected).focus({ focusVisible: false });
  stages.source.box.setPointerCapture(event.pointerId);
}

function drop() {
  if (dragged) announceMatch(dragged);
  dragged = null;
}

function hover(event, value) {
  const marker = event.target.closest?.(".point");
  if (marker && !dragged) for (const side of SIDES) stages[side].hot(Number(marker.dataset.key), value);
}

function onTable(event) {
  const key = Number(event.target.closest("tbody tr")?.dataset.key);
  if (!key) return;
  if (event.target.closest("button")) removePoint(key);
  else select(key);
}

function selectFrom(marker) {
  if (marker) select(Number(marker.dataset.key));
}

async function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "+" && !event.target.matches("input, select, textarea")) {
    event.preventDefault();
    await addAtCentre();
    return;
  }
  const key = Number(event.target.closest?.("[data-side=source] .point")?.dataset.key);
  const point = state.points.find((each) => each.key === key);
  if (point) await onPointKey(event, point);
}

async function onPointKey(event, point) {
  if (event.key === "Delete" || event.key === "Backspace") {
    event.preventDefault();
    removePoint(point.key);
  } else if (ARROWS[event.key]) {
    event.preventDefault();
    const { width, height } = state.images.source;
    const step = (Math.max(width, height) / STEPS_ACROSS) * (event.shiftKey ? 10 : 1);
    const [dx, dy] = ARROWS[event.key];
    await moveTo(point, { x: point.x + dx * step, y: point.y + dy * step });
    announceMatch(point);
  }
}

function watchFiles(side) {
  const { panel } = stages[side];
  byId(`${side}-file`).addEventListener("change", (event) => {
    const [file] = event.target.files;
    if (file) takeFile(side, file);
    event.target.value = "";
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
