/* Question page: links to the neighbouring questions in index order, keyboard shortcuts, and highlighting of turns and
   their positions on the map. Comparison pages use the parts that apply to them. */
"use strict";

(function () {
  const id = document.body.dataset.question;
  const link = (name) => document.getElementById(name);

  /* Link the neighbouring questions in the order given in the URL fragment. */
  function connect() {
    const { value, read, write, neighbours, report } = window.Report;
    const filter = read(location.hash);
    const position = neighbours(id, location.hash);
    if (position.place < 0) return;  // keep the static links
    for (const [name, row] of [["before", position.before], ["after", position.after]]) {
      if (!row) { link(name).removeAttribute("href"); continue; }
      link(name).href = value(row, "page") + ".html" + write({ ...filter, at: "" });
      link(name).title = value(row, "text");
    }
    const home = link("up").getAttribute("href").split("#")[0];
    const back = home + write({ ...filter, at: id });
    for (const name of ["up", "home"]) if (link(name)) link(name).href = back;
    const all = report.rows.length;
    const of = position.count === all ? `${all}` : `${position.count} matching the filter`;
    link("place").textContent = `${position.place + 1} of ${of}`;
  }

  /* Scroll to an element without changing the URL fragment, which contains the filter. */
  function jump(target) {
    const element = document.getElementById(target);
    if (!element) return false;
    const closed = element.closest("details:not([open])");
    if (closed) closed.open = true;
    element.scrollIntoView({ block: "start" });
    element.focus({ preventScroll: true });
    light(target);
    return true;
  }

  const marks = () => [...document.querySelectorAll("[data-for]")]; // queried each time, because live pages add marks
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

/* The 3D view; its script and scene are loaded when it is first opened. */
(function () {
  const opened = new WeakSet();

  function script(source) {
    return new Promise((resolve, reject) => {
      const element = document.createElement("script");
      element.src = source;
      element.addEventListener("load", resolve);
      element.addEventListener("error", reject);
      document.head.append(element);
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
  // Delegated, because a live page may add its 3D view with the first turn.
  document.addEventListener("toggle", ({ target }) => {
    if (!target.matches("details.view3d") || opened.has(target)) return;
    opened.add(target);
    open(target);
  }, true);
})();
