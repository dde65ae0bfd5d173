// What is chosen and known; the rest of the page reads and changes it.

import { Stage } from "./stage.js";

export const SIDES = ["source", "target"];
export const byId = (id) => document.getElementById(id);
export const stages = { source: new Stage("source"), target: new Stage("target") };

export const state = {
  images: { source: null, target: null }, // {id, name, width, height}, as the server knows them
  origins: { source: null, target: null }, // where each came from, to bring it back: {file} or {sample, side}
  sample: null, // {name, points} while both images are those of a sample
  points: [], // {key, number, x, y, match: {x, y, confidence, status, cycle, scores} or null}
  selected: null, // key of a point
  chosenTemperature: null, // null: the model's own
  own: null, // the model's temperature for this pair, known after the first match
  learned: false,
  calibrated: false, // whether confidence is a probability, and status a verdict
  mirrored: false, // whether the mirror image of the source was matched
  geometry: null, // {cells, convention} of the last answer
};

export const bothThere = () => Boolean(state.images.source && state.images.target);
export const temperature = () => state.chosenTemperature ?? state.own;
export const overlay = () => document.querySelector("[name=overlay]:checked").value;

/** What every question about the pair has in common. */
export function pairRequest() {
  const request = { source: state.images.source.id, target: state.images.target.id };
  request.model = byId("model").value;
  request.localizer = byId("localizer").value;
  if (byId("mirror").value !== "no") request.mirror = byId("mirror").value;
  if (state.chosenTemperature !== null) request.temperature = state.chosenTemperature;
  return request;
}
