/* A question's page: the way to its neighbours in the order of the index, keys, and the link between a
   turn and its place on the map. Pages of a comparison use the parts that they have. */
"use strict";

(function () {
  const id = document.body.dataset.question;
  const link = (name) => document.getElementById(name);

  /* the neighbours in the order that the address asks for */
  function connect() {
    const { value, read, write, neighbours, report } = window.Report;
    const filter = read(location.hash);
    const found = neighbours(id, location.hash);
    if (found.place < 0) return;  // the links of the page itself stay
    for (const [name, row] of [["before", found.before], ["after", found.after]]) {
      if (!row) { link(name).removeAttribute("href"); continue; }
      link(name).href = value(row, "page") + ".html" + write({ ...filter, at: "" });
      link(name).title = value(row, "text");
    }
    const home = link("up").getAttribute("href").split("#")[0];
    const back = home + write({ ...filter, at: id });
    for (const name of ["up", "home"]) if (link(name)) link(name).href = back;
    const all = report.rows.length;
    const of = found.count === all ? `${all}` : `${found.count} kept by the filter`;
    link("place").textContent = `${found.place + 1} of ${of}`;
  }

  /* a jump within the page must not lose the filter that stands in the address */
  function jump(target) {
    const there = document.getElementById(target);
    if (!there) return false;
    const closed = there.closest("details:not([open])");
    if (closed) closed.open = true;
    there.scrollIntoView({ block: "start" });
    there.focus({ preventScroll: true });
    light(target);
    return true;
  }

  const marks = () => [...document.querySelectorAll("[data-for]")]; // a live page gets more of them
  function light(target) {
    for (const mark of marks()) mark.classList.toggle("lit", mark.dataset.for === target);
    for (const place of document.querySelectorAll(".turn, .view")) {
      place.classList.toggle("lit", place.id !== "" && place.id === target);
    }
  }

  function targetOf(element) {
    const named = marks().map((mark) => mark.dataset.for);
    for (let at = element; at; at = at.parentElement) {
      if (at.dataset && at.dataset.for) return at.dataset.for;
      if (at.id && named.includes(at.id)) return at.id;
    }
    return null;
  }

  for (const kind of ["mouseover", "focusin"]) {
    document.addEventListener(kind, (event) => {
      const target = targetOf(event.target);
      if (target) light(target);
    });
  }
  document.addEventListener("click", (event) => {
    const stop = event.target.closest("a.stop");
    if (stop && jump(stop.dataset.for)) event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.shiftKey || window.Report.taken(event)) return;
    const ways = { n: "after", ArrowRight: "after", p: "before", ArrowLeft: "before", u: "up" };
    const way = link(ways[event.key]);
    if (way && way.hasAttribute("href")) {
      event.preventDefault();
      way.click();
    } else if (/^[1-9]$/.test(event.key)) {
      const own = document.body.dataset.prefix || "";
      const named = (kind) => `${own}${kind}-${event.key}`;
      if (!jump(named(document.body.dataset.jump || "turn"))) jump(named("turn"));
    }
  });

  if (id !== undefined && link("before")) {
    connect();
    window.addEventListener("hashchange", connect);
  }
})();

/* The 3D view: its program and its scene are loaded as it is opened first. */
(function () {
  const opened = new WeakSet();

  function script(source) {
    return new Promise((resolve, reject) => {
      const made = document.createElement("script");
      made.src = source;
      made.addEventListener("load", resolve);
      made.addEventListener("error", reject);
      document.head.append(made);
    });
  }

  async function open(root) {
    let received = null;
    window.renderAgentScene = (header, text) => { received = { header, text }; };
    try {
      await script(root.dataset.viewer);
      await script(root.dataset.scene);
      const data = JSON.parse(root.dataset.view);
      await window.RenderAgentView3D(root, data, received);
    } catch (error) {
      for (const part of root.querySelectorAll(".stage, .controls, .keys")) part.hidden = true;
      root.querySelector(".refusal").hidden = false;
    }
  }
  // a live page may get its 3D view with its first turn
  document.addEventListener("toggle", ({ target }) => {
    if (!target.matches("details.view3d") || opened.has(target)) return;
    opened.add(target);
    open(target);
  }, true);
})();
