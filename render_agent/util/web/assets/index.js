/* Table of questions with filtering, sorting, paging and keyboard navigation. */
"use strict";

(function () {
  const { report, value, read, write, select, taken } = window.Report;
  const $ = (id) => document.getElementById(id);
  const form = $("filter"), table = $("table"), body = table.tBodies[0];
  const SHOWN = Number(table.dataset.shown);
  const number = new Intl.NumberFormat("en");
  let filter = read(location.hash), rows = [], first = 0;

  function cell(tag, kind, text) {
    const element = document.createElement(tag);
    if (kind) element.className = kind;
    if (text !== undefined) element.textContent = text ?? "–";
    return element;
  }

  function answer(text) {
    const element = cell("td", "answer");
    element.append(cell("span", "clamped", text));
    return element;
  }

  function question(of) {
    const head = cell("th");
    head.scope = "row";
    const link = cell("a", "", of("question_id"));
    link.href = "questions/" + of("page") + ".html" + write({ ...filter, at: "" });
    const details = [of("type"), of("scene"), of("cause")].filter(Boolean).join(" · ");
    if (of("picture")) {
      const thumb = cell("img", "thumb");
      Object.assign(thumb, { loading: "lazy", decoding: "async", alt: "", width: 64, height: 48, src: of("picture") });
      head.append(thumb);
    }
    head.append(link, " ", cell("span", "text", of("text")), cell("span", "beside", details));
    return head;
  }

  /* Create a table row with the columns declared in questions.js. */
  function line(row) {
    const of = (name) => value(row, name);
    const element = document.createElement("tr");
    for (const [name, kind, classes] of report.shown) {
      if (kind === "question") element.append(question(of));
      else if (kind === "answer") element.append(answer(of(name)));
      else if (kind === "mark") {
        const mark = cell("span", "mark " + of("outcome"), of(name) === null ? of("status") : String(of(name)));
        mark.append(cell("span", "hidden-visually", " " + of("result")));
        const scored = cell("td", classes);
        scored.append(mark);
        element.append(scored);
      } else element.append(cell("td", classes, of(name)));
    }
    return element;
  }

  function show() {
    const last = Math.min(first + SHOWN, rows.length);
    body.replaceChildren(...rows.slice(first, last).map(line));
    const count = rows.length === 1 ? "1 question" : number.format(rows.length) + " questions";
    const of = rows.length < report.rows.length ? " of " + number.format(report.rows.length) : "";
    const place = number.format(first + 1) + " to " + number.format(last);
    $("count").textContent = count + of + (rows.length > SHOWN ? ", " + place + " shown" : "");
    $("pages").hidden = rows.length <= SHOWN;
    $("page-place").textContent = place + " of " + number.format(rows.length);
    $("page-before").disabled = first === 0;
    $("page-after").disabled = last === rows.length;
  }

  function markSortedColumn() {
    for (const head of table.tHead.rows[0].cells) {
      const name = head.dataset.column;
      const order = { [name]: "ascending", ["-" + name]: "descending" }[filter.sort];
      if (order) head.setAttribute("aria-sort", order);
      else head.removeAttribute("aria-sort");
    }
  }

  /* Show the matching rows, starting with the page that contains question `at`. */
  function apply(at) {
    rows = select(filter);
    const place = at ? rows.findIndex((row) => value(row, "question_id") === at) : -1;
    first = place < 0 ? 0 : place - (place % SHOWN);
    markSortedColumn();
    show();
    if (place >= 0) focus(place - first);
  }

  function onFilterChange() {
    delete filter.at;
    history.replaceState(null, "", write(filter) || location.pathname + location.search);
    apply();
  }

  function fill() {
    for (const field of form.elements) if (field.name) field.value = filter[field.name] || "";
  }

  function turnTo(start) {
    first = Math.max(0, Math.min(start, rows.length - 1));
    show();
  }

  const links = () => [...body.querySelectorAll("th a")];

  function focus(place) {
    const link = links()[place];
    if (!link) return;
    link.focus({ focusVisible: true });
    link.closest("tr").scrollIntoView({ block: "nearest" });
  }

  function step(by) {
    const all = links(), here = all.indexOf(document.activeElement);
    if (here < 0) return focus(0);
    const next = here + by;
    if (next >= all.length && first + SHOWN < rows.length) {
      turnTo(first + SHOWN);
      focus(0);
    } else if (next < 0 && first > 0) {
      turnTo(first - SHOWN);
      focus(SHOWN - 1);
    } else focus(Math.max(0, Math.min(next, all.length - 1)));
  }

  function reset() {
    filter = {};
    fill();
    onFilterChange();
  }

  for (const head of table.tHead.rows[0].cells) {
    const name = head.dataset.column, button = cell("button", "", head.textContent);
    button.type = "button";
    button.addEventListener("click", () => {
      filter.sort = filter.sort === name ? "-" + name : filter.sort === "-" + name ? "" : name;
      onFilterChange();
    });
    head.replaceChildren(button);
  }
  form.addEventListener("input", (event) => {
    if (!event.target.name) return;
    filter[event.target.name] = event.target.value;
    onFilterChange();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    focus(0);
  });
  $("reset").addEventListener("click", reset);
  $("page-before").addEventListener("click", () => { turnTo(first - SHOWN); focus(0); });
  $("page-after").addEventListener("click", () => { turnTo(first + SHOWN); focus(0); });
  $("help-button").addEventListener("click", () => $("help").showModal());
  $("help-close").addEventListener("click", () => $("help").close());
  window.addEventListener("hashchange", () => {
    if (!location.hash.includes("=") && location.hash) return;
    filter = read(location.hash);
    fill();
    apply(filter.at);
    if (location.hash) $("questions").scrollIntoView(); // for links from a figure to its questions
  });

  const keys = {
    "/": () => { form.elements.q.focus(); form.elements.q.select(); },
    "j": () => step(1), "ArrowDown": () => step(1),
    "k": () => step(-1), "ArrowUp": () => step(-1),
    "x": reset,
    "?": () => $("help").showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target === form.elements.q) return event.target.blur();
    if (taken(event) || !keys[event.key] || $("help").open) return;
    if (event.key.startsWith("Arrow") && !body.contains(document.activeElement)) return;
    event.preventDefault();
    keys[event.key]();
  });

  form.hidden = false;
  $("help-button").hidden = false;
  fill();
  apply(filter.at);
  if (filter.at) {
    delete filter.at;
    history.replaceState(null, "", write(filter) || location.pathname + location.search);
  }
})();
