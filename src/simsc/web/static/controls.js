// The settings beside the images: slider, chart of the distribution, table of points.

import { peak, spread } from "./distribution.js";
import { paint } from "./stage.js";
import { byId } from "./state.js";

const LOW = 0.005;
const HIGH = 1;
const STEPS = 1000;
const BARS = 40;

export function toTemperature(position) {
  return LOW * (HIGH / LOW) ** (position / STEPS);
}

export function toPosition(temperature) {
  return (STEPS * Math.log(temperature / LOW)) / Math.log(HIGH / LOW);
}

export function readable(temperature) {
  return temperature >= 0.1 ? temperature.toFixed(2) : temperature.toFixed(4);
}

/** Slider, its mark, and the words beside it. `own` is the model's temperature, null before the first match. */
export function showTemperature(temperature, own, learned, chosen) {
  const slider = byId("temperature");
  const words = learned ? "learned" : "constant";
  if (own !== null) {
    byId("tick").hidden = false;
    byId("tick").style.setProperty("--at", Math.min(Math.max(toPosition(own) / STEPS, 0), 1));
    byId("tick").title = `${words}: ${readable(own)}`;
    byId("learned").textContent = `Use the model's own: ${readable(own)} (${words})`;
  }
  byId("learned").disabled = own === null || !chosen;
  byId("temperature-value").textContent = temperature === null ? "–" : readable(temperature);
  if (temperature === null) return;
  if (document.activeElement !== slider || !chosen) slider.value = Math.round(toPosition(temperature));
  slider.setAttribute("aria-valuetext", `${readable(temperature)}${chosen ? "" : `, ${words} by the model`}`);
}

/** The most likely cells as bars, and the distribution in words. */
export function showDistribution(point, probabilities) {
  const chart = byId("spread-chart");
  if (!probabilities) {
    chart.replaceChildren();
    chart.setAttribute("aria-label", "No point selected");
    byId("spread").textContent = "Select a point to see its distribution over the target.";
    return;
  }
  const cells = probabilities.flat().sort((a, b) => b - a);
  while (chart.children.length < BARS) chart.append(document.createElement("span"));
  [...chart.children].forEach((bar, index) => (bar.style.height = `${(100 * (cells[index] ?? 0)) / cells[0]}%`));
  const words = `peak ${peak(probabilities).toFixed(2)}, spread over ${spread(probabilities).toFixed(1)} of ${cells.length} cells`;
  chart.setAttribute("aria-label", `Probabilities of the ${BARS} most likely cells of point ${point.number}: ${words}`);
  byId("spread").textContent = `Point ${point.number}: ${words}. Bars: the ${BARS} most likely cells, relative to the best.`;
}

/** One row per point. */
export function showTable(points, selected, calibrated) {
  byId("no-points").hidden = points.length > 0;
  byId("points").hidden = points.length === 0;
  const body = byId("points").querySelector("tbody");
  body.replaceChildren(...points.map((point) => row(point, point.key === selected, calibrated)));
}

function row(point, selected, calibrated) {
  const line = document.createElement("tr");
  line.classList.toggle("selected", selected);
  line.dataset.key = point.key;
  const swatch = document.createElement("span");
  swatch.className = "swatch";
  swatch.textContent = point.number;
  const match = point.match;
  const verdict = calibrated ? (match?.status ?? null) : null;
  paint(swatch, point.number, verdict);
  const remove = document.createElement("button");
  remove.type = "button";
  remove.className = "quiet";
  remove.textContent = "×";
  remove.setAttribute("aria-label", `Remove point ${point.number}`);
  const found = match ? [place(match), match.confidence.toFixed(2) + (verdict ? ` ${verdict}` : ""), `${match.cycle.toFixed(1)} px`] : ["…", "…", "…"];
  line.append(cell(swatch), ...[place(point), ...found].map(cell), cell(remove));
  return line;
}

function cell(content) {
  const made = document.createElement("td");
  made.append(content);
  return made;
}

export function place({ x, y }) {
  return `${Math.round(x)}, ${Math.round(y)}`;
}
