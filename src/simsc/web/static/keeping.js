// The server keeps images for a while only; what it has let go of is brought back.

import { encodeImage, postJson, uploadImage } from "./api.js";
import { setWaiting } from "./messages.js";
import { byId, SIDES, stages, state } from "./state.js";

/** Run a request; when the server has let go of an image, bring it back and try once more. */
export async function alive(task) {
  try {
    return await task();
  } catch (problem) {
    if (problem.code !== "image-gone") throw problem;
    await bringBack();
    return task();
  }
}

/** Let the model see both images now, so that the first click is answered at once. */
export async function encodeBoth() {
  setWaiting(true);
  for (const side of SIDES) {
    if (state.images[side]) await alive(() => encodeImage(state.images[side].id, byId("model").value));
  }
}

async function bringBack() {
  for (const side of SIDES.filter((each) => state.origins[each])) {
    const { file, sample, side: pictured } = state.origins[side];
    const image = file ? await uploadImage(file) : (await postJson(`/api/samples/${sample}`))[pictured];
    state.images[side] = stages[side].image = image;
  }
}
