// The settings beside the images: choices, slider, chart of the distribution.

import { peak, spread } from "./distribution.js";
import { byId, element } from "./elements.js";
import { VERDICTS } from "./stage.js";

const LOW = 0.005;
const HIGH = 1;
const STEPS = 1000;
const BARS = 40;

/** The choices of a select element, from the server's catalogue. */
export function offer(id, choices) {
  byId(id).replaceChildren(...choices.map(({ value, text = value, title = "", chosen = false }) => {
    const option = new Option(text, value, chosen, chosen);
    option.title = title;
    return option;
  }));
}

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
export function showDistribution(point, probabilities, verdict) {
  const chart = byId("spread-chart");
  for (const each of VERDICTS) chart.classList.toggle(each, each === verdict);
  if (!probabilities) {
    chart.replaceChildren();
    chart.setAttribute("aria-label", "No point selected");
    byId("spread").textContent = "Select a point to see its distribution over the target.";
    return;
  }
  const cells = probabilities.flat().sort((a, b) => b - a);
  while (chart.children.length < BARS) chart.append(element("span"));
  [...chart.children].forEach((bar, index) => (bar.style.height = `${(100 * (cells[index] ?? 0)) / cells[0]}%`));
  const words = `peak ${peak(probabilities).toFixed(2)}, spread over ${spread(probabilities).toFixed(1)} of ${cells.length} cells`;
  chart.setAttribute("aria-label", `Probabilities of the ${BARS} most likely cells of point ${point.number}: ${words}`);
  byId("spread").textContent = `Point ${point.number}: ${words}. Bars: the ${BARS} most likely cells, relative to the best.`;
}
