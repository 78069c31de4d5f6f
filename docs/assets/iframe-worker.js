// A browser starts no worker for a page that is opened from disk, so the search runs in a frame instead.
if (location.protocol === "file:") {
  window.IFrameWorker = true;
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      const deliver = (data) => inside.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = () => Promise.resolve();
      script.src = new URL(address, location.href).href;
      script.onload = () => {
        this.postMessage = deliver;
        waiting.forEach(deliver);
      };
      this.postMessage = (data) => waiting.push(data);
      this.terminate = () => frame.remove();
      inside.document.body.append(script);
    }
  };
}
