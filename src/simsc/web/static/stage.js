// One image with its markers. Positions are pixels of the image as uploaded, whatever size it is shown at.

import { Problem } from "./api.js";
import { byId, element, pixelAt, putAt } from "./elements.js";

const PALETTE = ["#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"];
const NEEDS_LIGHT_TEXT = ["#0072B2", "#009E73", "#D55E00"];
export const VERDICTS = ["sure", "unsure", "none"];
// A network taught with targets of 3x3 cells spreads a sure match over them: its peak is near 0.15.
export const LOW_CONFIDENCE = 0.1;

/** Colour an element as the point of a number, or by the verdict on its match: sure, unsure or none. */
export function paint(made, number, verdict = null) {
  const color = PALETTE[(number - 1) % PALETTE.length];
  for (const each of VERDICTS) made.classList.toggle(each, each === verdict);
  made.style.setProperty("--color", color);
  made.classList.toggle("light", NEEDS_LIGHT_TEXT.includes(color));
}

export class Stage {
  constructor(side) {
    this.side = side;
    this.panel = document.querySelector(`[data-side=${side}]`);
    this.box = byId(`${side}-stage`);
    this.caption = byId(`${side}-caption`);
    this.frame = null;
    this.image = null;
    this.zoom = 1;
    this.markers = new Map();
  }

  /** Show an image: {id, name, width, height}. */
  async show(image) {
    const picture = new Image();
    picture.alt = `${this.side} image, ${image.name}`;
    picture.draggable = false;
    picture.src = `/api/images/${image.id}`;
    await picture.decode().catch(() => {
      throw new Problem(`The image ${image.name} ('${image.id}') is not here any more.`, "image-gone");
    });
    this.image = image;
    this.frame = element("div", "frame");
    this.canvas = element("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.warp = new Image();
    this.warp.className = "warp";
    this.warp.alt = "";
    this.warp.hidden = true;
    this.frame.append(picture, this.canvas, this.warp);
    this.box.replaceChildren(this.frame);
    this.box.classList.remove("zoomed");
    this.box.style.height = "";
    this.zoom = 1;
    this.markers.clear();
    byId(`${this.side}-name`).textContent = `${image.name}, ${image.width}×${image.height}`;
  }

  set waiting(value) {
    this.panel.classList.toggle("waiting", value);
    this.panel.setAttribute("aria-busy", String(value));
  }

  /** The pixel of the image under a pointer event, kept inside. */
  pixelAt(event) {
    return pixelAt(event, this.frame, this.image);
  }

  /** Make, move or restyle the marker of a point. */
  mark(point, place, { hollow = false, verdict = null, selected = false, label = "" } = {}) {
    const marker = this.markers.get(point.key) ?? this.#add(point);
    marker.textContent = point.number;
    marker.setAttribute("aria-label", label);
    paint(marker, point.number, verdict);
    marker.classList.toggle("hollow", hollow);
    marker.classList.toggle("selected", selected);
    if (this.side === "source") marker.setAttribute("aria-pressed", String(selected));
    putAt(marker, place, this.image);
  }

  unmark(key) {
    this.markers.get(key)?.remove();
    this.markers.delete(key);
  }

  hot(key, value) {
    this.markers.get(key)?.classList.toggle("hot", value);
  }

  #add(point) {
    const marker = element("button", `point ${this.side === "target" ? "match" : ""}`);
    marker.dataset.key = point.key;
    // The matches follow the points of the source; the keyboard walks through those.
    if (this.side === "target") marker.tabIndex = -1;
    this.frame.append(marker);
    this.markers.set(point.key, marker);
    return marker;
  }
}
