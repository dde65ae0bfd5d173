// Images come in: samples, files, one of the many targets, those of before a reload; and the two swapped.

import { forgetImage } from "./api.js";
import { byId } from "./elements.js";
import { alive, encodeBoth, fetchImage } from "./keeping.js";
import { addTarget, addTargets, showWall } from "./many.js";
import { announce, guarded, setWaiting } from "./messages.js";
import { makePoints, matchPoints, past } from "./points.js";
import { keepImages, recallSession } from "./session.js";
import { bothThere, SIDES, stages, state } from "./state.js";
import { refreshWarp, render } from "./view.js";

export async function takeSample({ name, title, pictures }) {
  await guarded(async () => {
    setWaiting(true);
    const [source, target] = [await fetchImage(ofSample(name, 0)), await fetchImage(ofSample(name, 1))];
    const points = source.points.map(([x, y], index) => ({ x, y, name: source.point_names[index] }));
    await showPair({ source, target }, { sample: { name, pictures, points } });
    announce(`${title}: click in the source image or press plus.`);
  });
}

export const ofSample = (name, number) => ({ path: `/api/samples/${name}/${number}` });

/** Files for a side. Two are the pair; of more, the first is the source if they are for it, and the others are targets. */
export async function takeFiles(side, files) {
  const [first, second] = files;
  if (files.length === 1) await takeFile(side, first);
  else if (files.length === 2) {
    await takeFile("source", first);
    await takeFile("target", second);
  } else if (files.length) {
    if (side === "source") await takeFile("source", first);
    await addTargets(files.slice(side === "source" ? 1 : 0).map((file) => ({ file })));
  }
}

async function takeFile(side, file) {
  await guarded(async () => {
    setWaiting(true);
    await showPair({ [side]: await fetchImage({ file }) });
    announce(`${file.name} is the ${side} image.`);
  });
}

/** Open one of the many targets beside the source. */
export async function openTarget(image) {
  await guarded(async () => {
    await showPair({ target: image });
    announce(`${image.name} is the target image.`);
  });
}

export async function swapImages() {
  if (!bothThere()) return;
  const moved = state.points.filter((point) => point.match).map(({ name, match: { x, y } }) => ({ name, x, y }));
  await guarded(async () => {
    await showPair({ source: state.images.target, target: state.images.source }, { points: moved });
    announce("The images are swapped; the matches are now the points.");
  });
}

/** Show the images, points and settings of before a reload. */
export async function takeUp() {
  const { images, points } = await recallSession();
  if (!images) return;
  const { sample, since, wall, ...pair } = images;
  await guarded(async () => {
    wall.forEach(addTarget);
    await showPair(pair, { sample, points, since });
  });
}

/** Show one or both images; a new source comes with its points, and with its sample if it is one. */
async function showPair(pair, { sample = null, points = [], since = Date.now() } = {}) {
  const before = Object.values(state.images);
  for (const side of SIDES.filter((each) => pair[each])) {
    await alive([pair[side]], () => stages[side].show(pair[side]));
    state.images[side] = pair[side];
  }
  before.filter((image) => image && !isShown(image)).forEach(({ id }) => forgetImage(id));
  if (pair.source) Object.assign(state, { sample, since, points: makePoints(points) });
  if (pair.source) past.forget();
  state.points.forEach((point) => (point.match = null));
  state.own = state.geometry = null;
  keepImages();
  showSample();
  showWall();
  render();
  await encodeBoth();
  await matchPoints(state.points);
  await refreshWarp();
}

function isShown(image) {
  return Object.values(state.images).includes(image) || state.wall.some((each) => each.image === image);
}

function showSample() {
  byId("keypoints").hidden = !state.sample?.points.length;
  byId("many-sample").hidden = !state.sample;
  for (const button of document.querySelectorAll("#samples button")) {
    button.setAttribute("aria-pressed", String(button.dataset.name === state.sample?.name));
  }
}
