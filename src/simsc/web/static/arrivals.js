// Files arrive: chosen, dropped or pasted.

import { byId } from "./elements.js";
import { takeFiles } from "./images.js";
import { addTargets } from "./many.js";
import { SIDES, stages, state } from "./state.js";

export function watchArrivals() {
  for (const side of SIDES) {
    watchChoice(`${side}-file`, (files) => takeFiles(side, files));
    watchDrop(stages[side].panel, (files) => takeFiles(side, files));
  }
  const asTargets = (files) => addTargets(files.map((file) => ({ file })));
  watchChoice("many-file", asTargets);
  watchDrop(byId("many"), asTargets);
  document.addEventListener("paste", onPaste);
}

function watchChoice(id, take) {
  byId(id).addEventListener("change", (event) => {
    const files = [...event.target.files];
    event.target.value = "";
    take(files);
  });
}

function watchDrop(box, take) {
  box.addEventListener("dragover", (event) => {
    event.preventDefault();
    box.classList.add("over");
  });
  box.addEventListener("dragleave", () => box.classList.remove("over"));
  box.addEventListener("drop", (event) => {
    event.preventDefault();
    box.classList.remove("over");
    take([...event.dataTransfer.files]);
  });
}

/** A pasted image goes to the side under the pointer, else to the first that is empty, else to the target. */
function onPaste(event) {
  const files = [...event.clipboardData.files].filter((file) => file.type.startsWith("image/"));
  if (!files.length) return;
  event.preventDefault();
  const side = SIDES.find((each) => stages[each].panel.matches(":hover")) ?? SIDES.find((each) => !state.images[each]);
  takeFiles(side ?? "target", files);
}
