// The page as it was before a reload: images, points and settings are kept in the browser.

import { byId } from "./elements.js";
import { keep, recall } from "./memory.js";
import { overlay, state } from "./state.js";

const SELECTS = ["model", "localizer", "mirror"];
const RESTED = 200; // milliseconds without a change
let resting = 0;

export function keepImages() {
  const wall = state.wall.map(({ image }) => image);
  return keep("images", { since: state.since, sample: state.sample, wall, ...state.images });
}

/** Keep points and settings, once they rest. */
export function keepPoints() {
  clearTimeout(resting);
  resting = setTimeout(() => keep("points", { since: state.since, points: plainPoints(), settings: settings() }), RESTED);
}

/** What was kept: {images, points}; points only where they belong to the source. */
export async function recallSession() {
  const [images, kept] = [await recall("images"), await recall("points")];
  if (kept) applySettings(kept.settings);
  return { images, points: kept && kept.since === images?.since ? kept.points : [] };
}

export function plainPoints() {
  return state.points.map(({ key, name, x, y }) => ({ key, name, x, y }));
}

function settings() {
  const chosen = Object.fromEntries(SELECTS.map((id) => [id, byId(id).value]));
  const shown = { overlay: overlay(), opacity: byId("opacity").value, blend: byId("blend").checked };
  return { ...chosen, ...shown, temperature: state.chosenTemperature };
}

function applySettings(kept) {
  for (const id of SELECTS) {
    if ([...byId(id).options].some((option) => option.value === kept[id])) byId(id).value = kept[id];
  }
  document.querySelector(`[name=overlay][value=${kept.overlay}]`).checked = true;
  byId("opacity").value = kept.opacity;
  byId("blend").checked = kept.blend;
  state.chosenTemperature = kept.temperature;
}
