// A wall of images with points on them, the doubtful first: what the review and the many targets have in common.

import { element, putAt } from "./elements.js";

/** The expected number of wrong points, given for each the probability that it is right. */
export function doubt(confidences) {
  return confidences.reduce((sum, confidence) => sum + 1 - confidence, 0);
}

/** One image of the wall; `frame` is the element that holds the picture and its points. */
export function makeCard(source, image, frame, ...buttons) {
  const card = element("article", "object");
  const picture = new Image(image.width, image.height);
  picture.loading = "lazy";
  picture.draggable = false;
  picture.alt = image.name;
  picture.src = source;
  frame.classList.add("frame");
  frame.append(picture);
  const bar = element("div", "bar");
  bar.append(element("span", "name", image.name), ...buttons);
  const caption = element("p", "caption");
  caption.append(element("span", "pointed"), element("span", "counts"));
  card.append(bar, frame, caption);
  return card;
}

/** A point on an image of the wall; pointing at it tells its name below the image, where it hides nothing. */
export function makeDot(tag, place, image, name) {
  const dot = element(tag, "dot");
  putAt(dot, place, image);
  const say = (text) => () => dot.closest(".object")?.querySelector(".pointed").replaceChildren(text);
  for (const event of ["pointerenter", "focus"]) dot.addEventListener(event, say(name));
  dot.addEventListener("blur", say(""));
  dot.addEventListener("pointerleave", () => say(dot === document.activeElement ? name : "")()); // a lifted finger leaves
  return dot;
}
