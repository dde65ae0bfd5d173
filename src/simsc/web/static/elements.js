// Small helpers for elements and places on images, shared by all pages.

export const byId = (id) => document.getElementById(id);

export function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (tag === "button") made.type = "button";
  made.className = className;
  made.textContent = text;
  return made;
}

/** Put an element at a pixel of an image that fills its frame. */
export function putAt(made, { x, y }, { width, height }) {
  made.style.left = `${((x + 0.5) / width) * 100}%`;
  made.style.top = `${((y + 0.5) / height) * 100}%`;
}

/** The pixel of an image under a pointer event, kept inside. */
export function pixelAt(event, frame, image) {
  const box = frame.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * image.width - 0.5;
  const y = ((event.clientY - box.top) / box.height) * image.height - 0.5;
  return inside({ x, y }, image);
}

export function inside({ x, y }, { width, height }) {
  const clamp = (value, length) => Math.min(Math.max(value, 0), length - 1);
  return { x: clamp(x, width), y: clamp(y, height) };
}
