// The page starts here: settings, samples, files out.

import { forgetImage, getJson, postForBlob } from "./api.js";
import { watchArrivals } from "./arrivals.js";
import { offer, readable, toTemperature } from "./controls.js";
import { byId, element } from "./elements.js";
import { watchHands } from "./hands.js";
import { ofSample, swapImages, takeSample, takeUp } from "./images.js";
import { alive, encodeBoth } from "./keeping.js";
import { addTargets, clearTargets, findSelected } from "./many.js";
import { forgetAll } from "./memory.js";
import { announce, guarded } from "./messages.js";
import { addAtCentre, chooseTemperature, clearPoints, matchPoints, past, putGrid, setPoints } from "./points.js";
import { pairRequest, SIDES, state, temperature } from "./state.js";
import { refreshWarp, render } from "./view.js";

const FILES = { json: "matches.json", coco: "matches.coco.json", png: "matches.png" };

async function start() {
  watchHands();
  watchArrivals();
  watchSettings();
  watchButtons();
  const wanted = ["models", "localizers", "samples", "health"];
  const [models, localizers, samples, { indexed }] = await Promise.all(wanted.map((name) => getJson(`/api/${name}`)));
  offer("model", models.map(({ name, description, default: chosen }) => ({ value: name, title: description, chosen })));
  offer("localizer", [{ value: "", text: "the model's own" }, ...localizers.map((value) => ({ value }))]);
  byId("samples").replaceChildren(...samples.map(sampleButton));
  byId("many-find").hidden = !indexed;
  byId("many-find").textContent = `Find the point in ${indexed} images`;
  await takeUp();
  render();
  document.body.dataset.ready = "true";
}

function watchSettings() {
  byId("temperature").addEventListener("input", (event) => chooseTemperature(toTemperature(Number(event.target.value))));
  byId("temperature").addEventListener("change", () => announce(`Temperature ${readable(temperature())}`));
  byId("learned").addEventListener("click", () => chooseTemperature(null));
  byId("localizer").addEventListener("change", () => chooseTemperature(state.chosenTemperature));
  byId("mirror").addEventListener("change", () => chooseTemperature(state.chosenTemperature));
  byId("model").addEventListener("change", switchModel);
  byId("opacity").addEventListener("input", render);
  byId("blend").addEventListener("change", refreshWarp);
  for (const choice of document.querySelectorAll("[name=overlay]")) {
    choice.addEventListener("change", () => {
      render();
      refreshWarp();
    });
  }
}

function watchButtons() {
  byId("add").addEventListener("click", addAtCentre);
  byId("clear").addEventListener("click", clearPoints);
  byId("swap").addEventListener("click", swapImages);
  byId("grid").addEventListener("change", (event) => {
    putGrid(Number(event.target.value));
    event.target.value = "";
  });
  byId("keypoints").addEventListener("click", () => {
    past.note();
    setPoints(state.sample.points);
  });
  byId("many-find").addEventListener("click", findSelected);
  byId("many-sample").addEventListener("click", addOthers);
  byId("many-clear").addEventListener("click", clearTargets);
  byId("afresh").addEventListener("click", async () => {
    const images = [...Object.values(state.images), ...state.wall.map(({ image }) => image)].filter(Boolean);
    await Promise.all([forgetAll(), ...images.map(({ id }) => forgetImage(id))]);
    location.reload();
  });
  byId("problem-close").addEventListener("click", () => (byId("problem").hidden = true));
  for (const button of document.querySelectorAll("[data-export]")) {
    button.addEventListener("click", () => exportAs(button.dataset.export));
  }
}

/** All pictures of the sample but the source; the target among them, if it is one. */
function addOthers() {
  const { name, pictures } = state.sample;
  const known = [state.images.source, ...state.wall.map(({ image }) => image)];
  const shown = state.images.target && !known.includes(state.images.target) ? [state.images.target] : [];
  const there = new Set([...known, ...shown].map((image) => image.origin.path));
  const origins = Array.from({ length: pictures }, (_, number) => ofSample(name, number));
  addTargets(origins.filter(({ path }) => !there.has(path)), shown);
}

async function switchModel() {
  state.chosenTemperature = null;
  await guarded(encodeBoth);
  await matchPoints(state.points);
  await refreshWarp();
  announce(`Model ${byId("model").value}`);
}

async function exportAs(format) {
  const asked = { points: state.points.map(({ x, y }) => [x, y]), names: state.points.map(({ name }) => name) };
  await guarded(async () => {
    const file = await alive(Object.values(state.images), () => postForBlob(`/api/export/${format}`, { ...pairRequest(), ...asked }));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = FILES[format];
    link.click();
    URL.revokeObjectURL(link.href);
    announce(`${link.download} is saved.`);
  });
}

function sampleButton(sample) {
  const button = element("button");
  button.dataset.name = sample.name;
  button.title = sample.title;
  button.setAttribute("aria-label", `Sample: ${sample.title}`);
  button.setAttribute("aria-pressed", "false");
  SIDES.forEach((_, number) => {
    const picture = new Image();
    picture.src = ofSample(sample.name, number).path;
    picture.alt = "";
    button.append(picture);
  });
  button.addEventListener("click", () => takeSample(sample));
  return button;
}

guarded(start);
