// Everything that is drawn, from the state.

import { postForBlob } from "./api.js";
import { showDistribution, showTemperature } from "./controls.js";
import { distribution } from "./distribution.js";
import { byId } from "./elements.js";
import { clearHeatmap, drawHeatmap } from "./heatmap.js";
import { alive } from "./keeping.js";
import { followPoints } from "./many.js";
import { announce, guarded } from "./messages.js";
import { keepPoints } from "./session.js";
import { LOW_CONFIDENCE } from "./stage.js";
import { bothThere, overlay, pairRequest, SIDES, stages, state, temperature, verdictOf } from "./state.js";
import { place, showTable } from "./table.js";

export function render() {
  state.points.forEach((point, index) => (point.number = index + 1));
  unmarkOthers();
  state.points.forEach(renderPoint);
  const point = state.points.find((each) => each.key === state.selected);
  const probabilities = point?.match?.scores && distribution(point.match.scores, temperature());
  showTemperature(temperature(), state.own, state.learned, state.chosenTemperature !== null);
  showDistribution(point, probabilities, verdictOf(point?.match));
  showTable();
  showCaptions();
  byId("mirrored").hidden = !state.mirrored;
  renderOverlay(probabilities);
  for (const button of document.querySelectorAll("[data-export]")) button.disabled = !state.points.length || !bothThere();
  followPoints();
  keepPoints();
}

function unmarkOthers() {
  const there = new Set(state.points.map((point) => point.key));
  for (const side of SIDES) for (const key of [...stages[side].markers.keys()]) if (!there.has(key)) stages[side].unmark(key);
}

function renderPoint(point) {
  const selected = point.key === state.selected;
  const verdict = verdictOf(point.match);
  stages.source.mark(point, point, { verdict, selected, label: sourceLabel(point) });
  if (!point.match) {
    stages.target.unmark(point.key);
    return;
  }
  const hollow = !state.calibrated && point.match.confidence < LOW_CONFIDENCE;
  stages.target.mark(point, point.match, { hollow, verdict, selected, label: `Match of ${called(point)}` });
}

/** Below each image, where it hides nothing: the point that is pointed at, else the selected one. */
export function showCaptions(key = state.selected) {
  const point = state.points.find((each) => each.key === key);
  const match = point?.match;
  const verdict = verdictOf(match);
  const title = point && (point.name ? `${point.number} ${point.name}` : `${point.number}`);
  stages.source.caption.textContent = point ? `${title}: ${place(point)}` : "";
  stages.target.caption.textContent = match
    ? `${title}: ${place(match)} · ${match.confidence.toFixed(2)}${verdict ? ` ${verdict}` : ""} · cycle error ${match.cycle.toFixed(1)} px`
    : "";
}

function renderOverlay(probabilities) {
  const stage = stages.target;
  byId("blend-line").hidden = overlay() !== "warp";
  if (!stage.frame) return;
  stage.canvas.style.opacity = stage.warp.style.opacity = byId("opacity").value / 100;
  if (overlay() === "heat" && probabilities) drawHeatmap(stage.canvas, probabilities);
  else clearHeatmap(stage.canvas);
  stage.warp.hidden = overlay() !== "warp" || !stage.warp.src;
}

/** Ask for the warped source, if it is to be seen. */
export async function refreshWarp() {
  if (overlay() !== "warp" || !bothThere()) return;
  const { warp } = stages.target;
  await guarded(async () => {
    const blend = byId("blend").checked;
    const picture = await alive(Object.values(state.images), () => postForBlob("/api/warp", { ...pairRequest(), blend }));
    const old = warp.src;
    warp.src = URL.createObjectURL(picture);
    if (old) URL.revokeObjectURL(old);
    await warp.decode();
    render();
    announce("The warped source lies over the target.");
  });
}

export function sourceLabel(point) {
  const { match } = point;
  const verdict = verdictOf(match);
  const said = verdict ? `, ${verdict === "none" ? "no counterpart" : verdict}` : "";
  const found = match ? `match at ${place(match)}, confidence ${Math.round(100 * match.confidence)} percent${said}` : "no match yet";
  return `Point ${called(point)} at ${place(point)}; ${found}`;
}

function called({ number, name }) {
  return name ? `${number}, ${name},` : `${number}`;
}
