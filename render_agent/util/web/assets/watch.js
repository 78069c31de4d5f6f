/* Reloads a page of a run in progress once `report --watch` has written it anew with another content. */
"use strict";

(function () {
  if (!location.protocol.startsWith("http")) return;
  const EVERY = 3000; // milliseconds

  async function main() {
    const got = await fetch(location.pathname);
    const page = new DOMParser().parseFromString(await got.text(), "text/html");
    return got.ok ? page.getElementById("main").innerHTML : null;
  }

  async function watch(before) {
    let now = null;
    try {
      now = await main();
    } catch { /* the server has ended, or the report is being replaced */ }
    if (before && now && now !== before) location.reload();
    else setTimeout(watch, EVERY, now || before);
  }

  watch(null);
})();
