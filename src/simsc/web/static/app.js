// The page starts here: settings, samples, files out.

import { getJson, postForBlob } from "./api.js";
import { readable, toTemperature } from "./controls.js";
import { watchHands } from "./hands.js";
import { swapImages, takeSample } from "./images.js";
import { alive, encodeBoth } from "./keeping.js";
import { announce, guarded } from "./messages.js";
import { addAtCentre, addPoints, chooseTemperature, clearPoints, matchPoints } from "./points.js";
import { byId, pairRequest, SIDES, state, temperature } from "./state.js";
import { refreshWarp, render } from "./view.js";

const FILES = { json: "matches.json", coco: "matches.coco.json", png: "matches.png" };

async function start() {
  watchHands();
  watchSettings();
  watchButtons();
  render();
  const models = await getJson("/api/models");
  byId("model").replaceChildren(...models.map(modelOption));
  byId("samples").replaceChildren(...(await getJson("/api/samples")).map(sampleButton));
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
  byId("consistent").addEventListener("change", refreshWarp);
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
  byId("keypoints").addEventListener("click", () => {
    clearPoints();
    addPoints(state.sample.points.map(([x, y]) => ({ x, y })));
  });
  byId("problem-close").addEventListener("click", () => (byId("problem").hidden = true));
  for (const button of document.querySelectorAll("[data-export]")) {
    button.addEventListener("click", () => exportAs(button.dataset.export));
  }
}

async function switchModel() {
  state.chosenTemperature = null;
  await guarded(encodeBoth);
  await matchPoints(state.points);
  await refreshWarp();
  announce(`Model ${byId("model").value}`);
}

async function exportAs(format) {
  const points = state.points.map(({ x, y }) => [x, y]);
  await guarded(async () => {
    const file = await alive(() => postForBlob(`/api/export/${format}`, { ...pairRequest(), points }));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = FILES[format];
    link.click();
    URL.revokeObjectURL(link.href);
    announce(`${link.download} is saved.`);
  });
}

function modelOption(model) {
  const option = new Option(model.name, model.name, model.default, model.default);
  option.title = model.description;
  return option;
}

function sampleButton(sample) {
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.name = sample.name;
  button.title = sample.title;
  button.setAttribute("aria-label", `Sample: ${sample.title}`);
  button.setAttribute("aria-pressed", "false");
  for (const side of SIDES) {
    const picture = new Image();
    picture.src = `/api/samples/${sample.name}/${side}`;
    picture.alt = "";
    button.append(picture);
  }
  button.addEventListener("click", () => takeSample(sample.name));
  return button;
}

guarded(start);
