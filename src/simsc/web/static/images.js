// Images come in: samples, chosen or dropped files, and the two swapped.

import { forgetImage, postJson, uploadImage } from "./api.js";
import { encodeBoth } from "./keeping.js";
import { announce, guarded, setWaiting } from "./messages.js";
import { addPoints, matchPoints } from "./points.js";
import { bothThere, byId, SIDES, stages, state } from "./state.js";
import { refreshWarp, render } from "./view.js";

export async function takeSample(name) {
  await guarded(async () => {
    setWaiting(true);
    const pair = await postJson(`/api/samples/${name}`);
    for (const side of SIDES) state.origins[side] = { sample: name, side };
    state.sample = { name, points: pair.points };
    await showPair(pair);
    announce(`Sample ${name} is ready. Click in the source image or press plus.`);
  });
}

export async function takeFile(side, file) {
  await guarded(async () => {
    setWaiting(true);
    const image = await uploadImage(file);
    state.origins[side] = { file };
    state.sample = null;
    await showPair({ [side]: image });
    announce(`${file.name} is the ${side} image.`);
  });
}

export async function swapImages() {
  if (!bothThere()) return;
  const moved = state.points.filter((point) => point.match).map(({ match }) => ({ x: match.x, y: match.y }));
  state.images = { source: state.images.target, target: state.images.source };
  state.origins = { source: state.origins.target, target: state.origins.source };
  state.sample = null;
  await guarded(async () => {
    await encodeBoth();
    for (const side of SIDES) await stages[side].show(state.images[side]);
    forgetPoints();
    showSample();
    await addPoints(moved);
    await refreshWarp();
    announce("The images are swapped; the matches are now the points.");
  });
}

async function showPair(pair) {
  for (const side of SIDES.filter((each) => pair[each])) {
    if (state.images[side]) forgetImage(state.images[side].id);
    state.images[side] = pair[side];
    await stages[side].show(pair[side]);
  }
  if (pair.source) forgetPoints();
  state.points.forEach((point) => (point.match = null));
  state.own = state.geometry = null;
  showSample();
  render();
  await encodeBoth();
  await matchPoints(state.points);
  await refreshWarp();
}

function forgetPoints() {
  for (const { key } of state.points) for (const side of SIDES) stages[side].unmark(key);
  state.points = [];
  state.selected = null;
}

function showSample() {
  byId("keypoints").hidden = !state.sample;
  for (const button of document.querySelectorAll("#samples button")) {
    button.setAttribute("aria-pressed", String(button.dataset.name === state.sample?.name));
  }
}
