// Everything that is drawn, from the state.

import { postForBlob } from "./api.js";
import { place, showDistribution, showTable, showTemperature } from "./controls.js";
import { distribution } from "./distribution.js";
import { clearHeatmap, drawHeatmap } from "./heatmap.js";
import { alive } from "./keeping.js";
import { announce, guarded } from "./messages.js";
import { LOW_CONFIDENCE } from "./stage.js";
import { bothThere, byId, overlay, pairRequest, stages, state, temperature } from "./state.js";

export function render() {
  state.points.forEach((point, index) => (point.number = index + 1));
  state.points.forEach(renderPoint);
  const point = state.points.find((each) => each.key === state.selected);
  const probabilities = point?.match?.scores && distribution(point.match.scores, temperature());
  showTemperature(temperature(), state.own, state.learned, state.chosenTemperature !== null);
  showDistribution(point, probabilities);
  showTable(state.points, state.selected, state.calibrated);
  byId("mirrored").hidden = !state.mirrored;
  renderOverlay(probabilities);
  for (const button of document.querySelectorAll("[data-export]")) button.disabled = !state.points.length || !bothThere();
}

function renderPoint(point) {
  const selected = point.key === state.selected;
  const verdict = state.calibrated ? (point.match?.status ?? null) : null;
  stages.source.mark(point, point, { verdict, selected, label: sourceLabel(point), tip: tipOf(point) });
  if (!point.match) {
    stages.target.unmark(point.key);
    return;
  }
  const hollow = !state.calibrated && point.match.confidence < LOW_CONFIDENCE;
  stages.target.mark(point, point.match, { hollow, verdict, selected, label: `Match of point ${point.number}`, tip: tipOf(point) });
}

function renderOverlay(probabilities) {
  const stage = stages.target;
  byId("consistent-line").hidden = overlay() !== "warp";
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
    const picture = await alive(() => postForBlob("/api/warp", { ...pairRequest(), consistent: byId("consistent").checked }));
    const old = warp.src;
    warp.src = URL.createObjectURL(picture);
    if (old) URL.revokeObjectURL(old);
    await warp.decode();
    render();
    announce("The warped source lies over the target.");
  });
}

export function sourceLabel(point) {
  const found = point.match
    ? `match at ${place(point.match)}, confidence ${Math.round(100 * point.match.confidence)} percent${verdictOf(point)}`
    : "no match yet";
  return `Point ${point.number} at ${place(point)}; ${found}`;
}

function verdictOf({ match }) {
  return state.calibrated ? `, ${match.status === "none" ? "no counterpart" : match.status}` : "";
}

function tipOf({ number, match }) {
  return match ? `${number}: confidence ${match.confidence.toFixed(2)}, cycle error ${match.cycle.toFixed(1)} px` : "";
}
