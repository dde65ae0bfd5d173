// A closer look at an image: its frame grows inside of the stage, which then scrolls.

const MOST = 8;
const STEP = 1.5;

export function watchZoom(stage) {
  const { box, panel } = stage;
  for (const button of panel.querySelectorAll("[data-zoom]")) {
    const factor = { in: STEP, out: 1 / STEP, fit: 0 }[button.dataset.zoom];
    button.addEventListener("click", () => zoomTo(stage, stage.zoom * factor));
  }
  box.addEventListener("wheel", (event) => onWheel(event, stage), { passive: false });
  box.addEventListener("pointerdown", (event) => startPan(event, stage));
  window.addEventListener("resize", () => zoomTo(stage, 1));
}

/** Show the image `wanted` times as large as it fits; what is at `at` ({clientX, clientY}) stays there. */
export function zoomTo(stage, wanted, at = middle(stage.box)) {
  const { box, frame } = stage;
  if (!frame) return;
  const before = frame.getBoundingClientRect();
  const share = { x: (at.clientX - before.left) / before.width, y: (at.clientY - before.top) / before.height };
  if (stage.zoom === 1) stage.fit = { width: before.width, height: box.getBoundingClientRect().height };
  stage.zoom = Math.min(Math.max(wanted, 1), MOST);
  const close = stage.zoom > 1;
  box.classList.toggle("zoomed", close);
  box.style.height = close ? `${stage.fit.height}px` : "";
  frame.style.width = close ? `${stage.fit.width * stage.zoom}px` : "";
  const after = frame.getBoundingClientRect();
  box.scrollLeft += after.left + share.x * after.width - at.clientX;
  box.scrollTop += after.top + share.y * after.height - at.clientY;
}

function middle(box) {
  const { left, top, width, height } = box.getBoundingClientRect();
  return { clientX: left + width / 2, clientY: top + height / 2 };
}

// Without Ctrl the wheel scrolls, as everywhere; a pinch on a touchpad comes as a wheel with Ctrl.
function onWheel(event, stage) {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  zoomTo(stage, stage.zoom * 2 ** (-event.deltaY / 200), event);
}

// The middle button pans; in the target, where a click puts no point, so does the left one.
function startPan(event, stage) {
  const left = event.button === 0 && stage.side === "target" && !event.target.closest(".point");
  if (stage.zoom === 1 || event.pointerType === "touch" || !(event.button === 1 || left)) return;
  event.preventDefault();
  const { box } = stage;
  const pan = (moved) => box.scrollBy(-moved.movementX, -moved.movementY);
  box.setPointerCapture(event.pointerId);
  box.addEventListener("pointermove", pan);
  for (const end of ["pointerup", "pointercancel"]) {
    box.addEventListener(end, () => box.removeEventListener("pointermove", pan), { once: true });
  }
}
