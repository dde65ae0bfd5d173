// What the page says: to screen readers, and when something went wrong.

import { Problem } from "./api.js";
import { byId } from "./elements.js";
import { SIDES, stages } from "./state.js";

export function announce(text) {
  byId("status").textContent = text;
}

export function setWaiting(value) {
  for (const side of SIDES) stages[side].waiting = value;
}

/** Run a task; a problem becomes a message on the page. Says whether it went well. */
export async function guarded(task) {
  byId("problem").hidden = true;
  try {
    await task();
    return true;
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    byId("problem-text").textContent = problem.message;
    byId("problem").hidden = false;
    return false;
  } finally {
    setWaiting(false);
  }
}
