/* Reload the page of a run in progress when `view` has updated its content. */
"use strict";

(function () {
  if (!location.protocol.startsWith("http")) return;
  const EVERY = 3000; // milliseconds

  async function body() {
    const response = await fetch(location.pathname);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    return response.ok ? page.body.innerHTML : null;
  }

  async function watch(before) {
    let now = null;
    try {
      now = await body();
    } catch { /* the server has stopped, or the report is being replaced */ }
    if (before && now && now !== before) location.reload();
    else setTimeout(watch, EVERY, now || before);
  }

  watch(null);
})();
