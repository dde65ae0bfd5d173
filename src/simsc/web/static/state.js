// What is chosen and known; the rest of the page reads and changes it.

import { byId } from "./elements.js";
import { Stage } from "./stage.js";

export const SIDES = ["source", "target"];
export const stages = { source: new Stage("source"), target: new Stage("target") };

export const state = {
  // {id, name, width, height} as the server knows them, and origin, to bring them back: {file} or {path}
  images: { source: null, target: null },
  sample: null, // {name, pictures, points} while the source is that of a sample
  since: 0, // when the source came; points that are kept belong to a source
  points: [], // {key, number, name, x, y, match: {x, y, confidence, status, cycle, scores} or null}
  selected: null, // key of a point
  chosenTemperature: null, // null: the model's own
  own: null, // the model's temperature for this pair, known after the first match
  localizer: null, // the one that was used
  learned: false,
  calibrated: false, // whether confidence is a probability, and status a verdict
  mirrored: false, // whether the mirror image of the source was matched
  geometry: null, // {cells, convention} of the last answer
  wall: [], // many targets: {image, matches or null, asked, card}
};

export const bothThere = () => Boolean(state.images.source && state.images.target);
export const temperature = () => state.chosenTemperature ?? state.own;
export const overlay = () => document.querySelector("[name=overlay]:checked").value;
export const verdictOf = (match) => (state.calibrated && match ? match.status : null);

/** What every question about the pair has in common. */
export function pairRequest(target = state.images.target) {
  const request = { source: state.images.source.id, target: target.id, model: byId("model").value };
  if (byId("localizer").value) request.localizer = byId("localizer").value;
  if (byId("mirror").value !== "no") request.mirror = byId("mirror").value;
  if (state.chosenTemperature !== null) request.temperature = state.chosenTemperature;
  return request;
}
