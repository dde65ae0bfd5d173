// The server keeps images for a while only; what it has let go of is brought back.

import { encodeImage, postJson, uploadImage } from "./api.js";
import { byId } from "./elements.js";
import { setWaiting } from "./messages.js";
import { keepImages } from "./session.js";
import { SIDES, state } from "./state.js";

/** An image from where it comes: {file} of the user, or {path} of a picture that the server has. */
export async function fetchImage(origin) {
  return { ...(origin.file ? await uploadImage(origin.file) : await postJson(origin.path)), origin };
}

/** Run a request about images; those that the server has let go of are brought back, and it is tried again. */
export async function alive(images, task) {
  for (let left = 2 * images.length; ; left--) {
    try {
      return await task();
    } catch (problem) {
      if (problem.code !== "image-gone" || !left) throw problem;
      const gone = images.find((image) => problem.message.includes(image.id));
      if (gone) await bringBack(gone); // else it has come back meanwhile, under another name
    }
  }
}

const returning = new Map();

export function bringBack(image) {
  if (!returning.has(image)) returning.set(image, comeBack(image).finally(() => returning.delete(image)));
  return returning.get(image);
}

async function comeBack(image) {
  Object.assign(image, await fetchImage(image.origin));
  keepImages();
}

/** Let the model see both images now, so that the first click is answered at once. */
export async function encodeBoth() {
  setWaiting(true);
  for (const image of SIDES.map((side) => state.images[side])) {
    if (image) await alive([image], () => encodeImage(image.id, byId("model").value));
  }
}
