// Search when the site is opened from disk: browsers refuse workers there, so the worker's script runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      const script = inside.document.createElement("script");
      script.src = url;
      this.ready = new Promise((resolve) => (script.onload = resolve));
      inside.document.body.append(script);
    }
    postMessage(data) {
      this.ready.then(() => {
        const inside = this.frame.contentWindow;
        inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      });
    }
    terminate() {
      this.frame.remove();
    }
  };
}
