// What was, to go back to it: Ctrl Z and Ctrl Shift Z, and the buttons #undo and #redo.

export class History {
  #past = [];
  #future = [];
  #last = null;

  /** `now(step)` gives what can be gone back to, of the same thing as `step` where there is one; `restore(step)` does. */
  constructor(now, restore) {
    Object.assign(this, { now, restore });
    document.getElementById("undo").addEventListener("click", () => this.undo());
    document.getElementById("redo").addEventListener("click", () => this.redo());
    document.addEventListener("keydown", (event) => this.#onKey(event));
    this.#show();
  }

  /** To be called before a change. Changes in a row that are called the same (`what`) are one step. */
  note(step = undefined, what = null) {
    if (what !== null && what === this.#last) return;
    this.#last = what;
    this.#past.push(this.now(step));
    this.#future = [];
    this.#show();
  }

  forget() {
    this.#past = [];
    this.#future = [];
    this.#last = null;
    this.#show();
  }

  undo() {
    this.#travel(this.#past, this.#future);
  }

  redo() {
    this.#travel(this.#future, this.#past);
  }

  #travel(from, to) {
    const step = from.pop();
    if (!step) return;
    this.#last = null;
    to.push(this.now(step));
    this.restore(step);
    this.#show();
  }

  #show() {
    document.getElementById("undo").disabled = !this.#past.length;
    document.getElementById("redo").disabled = !this.#future.length;
  }

  #onKey(event) {
    if (!(event.ctrlKey || event.metaKey) || event.target.matches?.("input:not([type])")) return;
    const key = event.key.toLowerCase();
    if (key !== "z" && key !== "y") return;
    event.preventDefault();
    if (key === "y" || event.shiftKey) this.redo();
    else this.undo();
  }
}
