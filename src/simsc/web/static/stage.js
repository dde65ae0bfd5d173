// One image with its markers. Positions are pixels of the image as uploaded, whatever size it is shown at.

const PALETTE = ["#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"];
const NEEDS_LIGHT_TEXT = ["#0072B2", "#009E73", "#D55E00"];
export const VERDICTS = ["sure", "unsure", "none"];
// A network taught with targets of 3x3 cells spreads a sure match over them: its peak is near 0.15.
export const LOW_CONFIDENCE = 0.1;

export function pointColor(number) {
  return PALETTE[(number - 1) % PALETTE.length];
}

/** Colour an element as the point of a number, or by the verdict on its match: sure, unsure or none. */
export function paint(element, number, verdict = null) {
  for (const each of VERDICTS) element.classList.toggle(each, each === verdict);
  element.style.setProperty("--color", pointColor(number));
  element.classList.toggle("light", NEEDS_LIGHT_TEXT.includes(pointColor(number)));
}

export class Stage {
  constructor(side) {
    this.side = side;
    this.panel = document.querySelector(`[data-side=${side}]`);
    this.box = document.getElementById(`${side}-stage`);
    this.frame = null;
    this.image = null;
    this.markers = new Map();
    this.tip = document.createElement("span");
    this.tip.className = "tip";
    this.tip.setAttribute("aria-hidden", "true");
  }

  /** Show an image: {id, name, width, height}. */
  async show(image) {
    const picture = new Image();
    picture.alt = `${this.side} image, ${image.name}`;
    picture.draggable = false;
    picture.src = `/api/images/${image.id}`;
    await picture.decode();
    this.image = image;
    this.frame = document.createElement("div");
    this.frame.className = "frame";
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.warp = new Image();
    this.warp.className = "warp";
    this.warp.alt = "";
    this.warp.hidden = true;
    this.frame.append(picture, this.canvas, this.warp);
    this.box.replaceChildren(this.frame);
    this.markers.clear();
    document.getElementById(`${this.side}-name`).textContent = `${image.name}, ${image.width}×${image.height}`;
  }

  set waiting(value) {
    this.panel.classList.toggle("waiting", value);
    this.panel.setAttribute("aria-busy", String(value));
  }

  /** The pixel of the image under a pointer event, kept inside. */
  pixelAt(event) {
    const box = this.frame.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.image.width - 0.5;
    const y = ((event.clientY - box.top) / box.height) * this.image.height - 0.5;
    return inside({ x, y }, this.image);
  }

  /** Make, move or restyle the marker of a point. */
  mark(point, place, { hollow = false, verdict = null, selected = false, label = "", tip = "" } = {}) {
    const marker = this.markers.get(point.key) ?? this.#add(point);
    marker.textContent = point.number;
    marker.setAttribute("aria-label", label);
    marker.dataset.tip = tip;
    paint(marker, point.number, verdict);
    marker.classList.toggle("hollow", hollow);
    marker.classList.toggle("selected", selected);
    if (this.side === "source") marker.setAttribute("aria-pressed", String(selected));
    if (this.tip.dataset.key === String(point.key)) this.tip.remove();
    marker.style.left = `${((place.x + 0.5) / this.image.width) * 100}%`;
    marker.style.top = `${((place.y + 0.5) / this.image.height) * 100}%`;
  }

  unmark(key) {
    this.markers.get(key)?.remove();
    this.markers.delete(key);
    this.tip.remove();
  }

  hot(key, value) {
    const marker = this.markers.get(key);
    if (!marker) return;
    marker.classList.toggle("hot", value);
    this.tip.remove();
    if (!value || !marker.dataset.tip) return;
    this.tip.dataset.key = key;
    this.tip.textContent = marker.dataset.tip;
    this.tip.style.left = marker.style.left;
    this.tip.style.top = marker.style.top;
    this.frame.append(this.tip);
  }

  #add(point) {
    const marker = document.createElement("button");
    marker.type = "button";
    marker.className = `point ${this.side === "target" ? "match" : ""}`;
    marker.dataset.key = point.key;
    // The matches follow the points of the source; the keyboard walks through those.
    if (this.side === "target") marker.tabIndex = -1;
    this.frame.append(marker);
    this.markers.set(point.key, marker);
    return marker;
  }
}

export function inside(place, image) {
  const clamp = (value, length) => Math.min(Math.max(value, 0), length - 1);
  return { x: clamp(place.x, image.width), y: clamp(place.y, image.height) };
}
