/* Comparison page: filter the changed questions. The filter is stored in the URL fragment, so that question
   pages can use it, too. */
"use strict";

(function () {
  const { read, write, select, value, taken } = window.Report;
  const form = document.querySelector("form.filter");
  const table = document.getElementById("changed");
  if (!form || !table) return;
  const rows = new Map([...table.tBodies[0].rows].map((row) => [row.dataset.id, row]));

  function show() {
    const filter = read(location.hash);
    for (const field of form.elements) if (field.name) field.value = filter[field.name] || "";
    const matching = new Set(select(filter).map((row) => value(row, "question_id")));
    const selection = Object.fromEntries(Object.entries(filter).filter(([name]) => name !== "at"));
    for (const [id, row] of rows) {
      row.hidden = !matching.has(id);
      const link = row.querySelector("a");
      link.href = link.getAttribute("href").split("#")[0] + write(selection);
    }
    const words = matching.size === 1 ? "question" : "questions";
    document.getElementById("count").textContent =
      matching.size === rows.size ? `${matching.size} ${words}` : `${matching.size} of ${rows.size} questions`;
    if (filter.at && rows.has(filter.at)) {
      const link = rows.get(filter.at).querySelector("a");
      link.scrollIntoView({ block: "center" });
      link.focus({ preventScroll: true });
    }
  }

  function choose() {
    const filter = {};
    for (const field of form.elements) if (field.name && field.value) filter[field.name] = field.value;
    history.replaceState(null, "", location.pathname + location.search + write(filter));
    show();
  }

  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", choose);
  window.addEventListener("hashchange", show);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || taken(event)) return;
    event.preventDefault();
    form.elements.q.focus();
  });
  if (location.hash.includes("=") || location.hash === "") show();
})();

(function () {
  for (const button of document.querySelectorAll("button.copy")) {
    const text = document.getElementById(button.dataset.copies);
    button.hidden = false;
    button.addEventListener("click", () => {
      const range = document.createRange();
      range.selectNodeContents(text);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      // works in pages opened from disk, which have no navigator.clipboard in some browsers
      if (document.execCommand("copy")) button.textContent = "Copied";
    });
  }
})();
