// The table of points. Rows stay while their points do, so that nothing is lost of a name that is being typed.

import { byId, element } from "./elements.js";
import { LOW_CONFIDENCE, paint, VERDICTS } from "./stage.js";
import { state, verdictOf } from "./state.js";

const WORDS = { sure: "sure", unsure: "unsure", none: "no counterpart" };
const NOT_CALIBRATED = `This model has no calibration. Hollow: confidence below ${LOW_CONFIDENCE}.`;

export function showTable() {
  const body = byId("points").querySelector("tbody");
  const rows = new Map([...body.rows].map((row) => [Number(row.dataset.key), row]));
  byId("no-points").hidden = state.points.length > 0;
  byId("points").hidden = state.points.length === 0;
  const wanted = state.points.map((point) => fill(rows.get(point.key) ?? makeRow(point), point));
  if (wanted.length !== body.rows.length || wanted.some((row, index) => row !== body.rows[index])) body.replaceChildren(...wanted);
  showVerdicts();
}

function showVerdicts() {
  const matches = state.points.map((point) => point.match).filter(Boolean);
  byId("verdicts").hidden = !matches.length;
  byId("verdicts").replaceChildren(...(state.calibrated ? verdictCounts(matches) : [NOT_CALIBRATED]));
}

/** How many matches are sure, unsure and without counterpart: at the same time what the colours mean. */
export function verdictCounts(matches, verdicts = VERDICTS) {
  return verdicts.map((verdict) => {
    const count = element("span", "count");
    count.append(element("span", `sign ${verdict}`, countOf(matches, verdict)), ` ${WORDS[verdict]}`);
    return count;
  });
}

export const countOf = (matches, verdict) => matches.filter((match) => match.status === verdict).length;

function makeRow(point) {
  const row = element("tr");
  row.dataset.key = point.key;
  const name = element("input", "name");
  name.maxLength = 80;
  name.spellcheck = false;
  const contents = [element("span", "swatch"), name, "", "", "", "", element("button", "quiet", "×")];
  for (const content of contents) row.insertCell().append(content);
  for (const index of [2, 5]) row.cells[index].className = "wide";
  return row;
}

function fill(row, point) {
  const { key, number, name, match } = point;
  const [swatch, typed] = row.querySelectorAll(".swatch, input");
  const verdict = verdictOf(match);
  row.classList.toggle("selected", key === state.selected);
  swatch.textContent = number;
  paint(swatch, number, verdict);
  typed.placeholder = `point ${number}`;
  typed.setAttribute("aria-label", `Name of point ${number}`);
  if (document.activeElement !== typed) typed.value = name;
  const found = match ? [place(match), match.confidence.toFixed(2) + (verdict ? ` ${verdict}` : ""), `${match.cycle.toFixed(1)} px`] : ["…", "…", "…"];
  [place(point), ...found].forEach((text, index) => (row.cells[2 + index].textContent = text));
  row.querySelector("button").setAttribute("aria-label", `Remove point ${number}`);
  return row;
}

export function place({ x, y }) {
  return `${Math.round(x)}, ${Math.round(y)}`;
}
