// Pointer and keyboard.

import { byId } from "./elements.js";
import { addAtCentre, addPoint, announceMatch, moveTo, past, removePoint, rename, select } from "./points.js";
import { SIDES, stages, state } from "./state.js";
import { showCaptions } from "./view.js";
import { watchZoom } from "./zoom.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const STEPS_ACROSS = 200;
let dragged = null;
let grip = { x: 0, y: 0 }; // from the point to where it was taken hold of
let moved = false;

export function watchHands() {
  const { box } = stages.source;
  box.addEventListener("pointerdown", onPointerDown);
  box.addEventListener("pointermove", onPointerMove);
  for (const end of ["pointerup", "pointercancel"]) box.addEventListener(end, drop);
  box.addEventListener("click", onTap);
  box.addEventListener("focusin", (event) => {
    const key = Number(event.target.dataset.key);
    if (key && key !== state.selected) select(key);
  });
  stages.target.box.addEventListener("click", (event) => selectFrom(event.target.closest(".point")));
  byId("points").addEventListener("click", onTable);
  byId("points").addEventListener("change", (event) => rename(keyOfRow(event), event.target.value));
  document.addEventListener("keydown", onKey);
  document.addEventListener("pointerover", (event) => hover(event, true));
  document.addEventListener("pointerout", (event) => hover(event, false));
  SIDES.forEach((side) => watchZoom(stages[side]));
}

const onImage = (event) => stages.source.frame?.contains(event.target);

function onPointerDown(event) {
  const marker = event.target.closest(".point");
  // A finger on the image itself may be about to scroll: a tap puts the point.
  if (!onImage(event) || event.button !== 0 || (event.pointerType === "touch" && !marker)) return;
  event.preventDefault();
  if (marker) select(Number(marker.dataset.key));
  else addPoint(stages.source.pixelAt(event));
  moved = !marker; // putting and dragging a new point is one step back
  dragged = state.points.find((point) => point.key === state.selected);
  const at = stages.source.pixelAt(event);
  grip = { x: at.x - dragged.x, y: at.y - dragged.y };
  stages.source.markers.get(state.selected).focus({ focusVisible: false, preventScroll: true });
  stages.source.box.setPointerCapture(event.pointerId);
}

function onPointerMove(event) {
  if (!dragged) return;
  if (!moved) past.note();
  moved = true;
  const at = stages.source.pixelAt(event);
  moveTo(dragged, { x: at.x - grip.x, y: at.y - grip.y });
}

function drop() {
  if (dragged) announceMatch(dragged);
  dragged = null;
}

function onTap(event) {
  if (event.pointerType === "touch" && onImage(event) && !event.target.closest(".point")) addPoint(stages.source.pixelAt(event));
}

function hover(event, value) {
  const key = Number(event.target.closest?.(".point")?.dataset.key);
  if (!key || dragged) return;
  for (const side of SIDES) stages[side].hot(key, value);
  showCaptions(value ? key : undefined);
}

const keyOfRow = (event) => Number(event.target.closest("tbody tr")?.dataset.key);

function onTable(event) {
  const key = keyOfRow(event);
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
    past.note(undefined, `arrows of ${point.key}`);
    await moveTo(point, { x: point.x + dx * step, y: point.y + dy * step });
    announceMatch(point);
  }
}
