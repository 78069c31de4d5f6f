/* Shared by the index and the question pages: the rows of questions.js, filtering and sorting. The filter is stored in
   the URL fragment, so that it survives navigation to a question and back, even if the pages are opened from disk. */
"use strict";

(function () {
  /* window.REPORT = {columns: [name, …], shown: [[name, cell, classes], …], rows: [[…], …]} */
  const report = window.REPORT || { columns: [], shown: [], rows: [] };
  const places = new Map(report.columns.map((name, place) => [name, place]));

  const value = (row, name) => row[places.get(name)];

  /* Return {q, sort, at, and values by column} from a URL fragment. */
  function read(hash) {
    return Object.fromEntries(new URLSearchParams((hash || "").replace(/^#/, "")));
  }

  function write(filter) {
    const entries = Object.entries(filter).filter(([, text]) => text);
    const text = new URLSearchParams(entries).toString();
    return text ? "#" + text : "";
  }

  function compare(a, b) {
    const isEmpty = (x) => x === null || x === undefined || x === "";
    if (isEmpty(a) || isEmpty(b)) return isEmpty(a) - isEmpty(b);
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }

  /* Return the matching rows in the filter's order; empty values come last in either direction. */
  function select(filter) {
    const columns = Object.keys(filter).filter((name) => filter[name] && places.has(name));
    const words = (filter.q || "").toLowerCase().split(/\s+/).filter(Boolean);
    const searched = ["question_id", "text", "scene", "type", "answer", "truth"];
    const rows = report.rows.filter((row) => {
      if (columns.some((name) => String(value(row, name)) !== filter[name])) return false;
      if (!words.length) return true;
      const text = searched.map((name) => value(row, name) ?? "").join("\n").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const name = (filter.sort || "").replace(/^-/, "");
    if (!places.has(name)) return rows;
    const sign = filter.sort.startsWith("-") ? -1 : 1;
    const keyed = rows.map((row, place) => [value(row, name), place, row]);
    const isEmpty = (x) => x === null || x === undefined || x === "";
    keyed.sort((a, b) =>
      (isEmpty(a[0]) || isEmpty(b[0]) ? compare(a[0], b[0]) : sign * compare(a[0], b[0])) || a[1] - b[1]);
    return keyed.map((entry) => entry[2]);
  }

  /* Return the position of a question in the order given by the fragment: {place, count, before, after}, where before and
     after are rows or null. Questions that do not match the filter use the default order. */
  function neighbours(id, hash) {
    const of = (rows) => [rows, rows.findIndex((row) => value(row, "question_id") === id)];
    let [rows, place] = of(select(read(hash)));
    if (place < 0) [rows, place] = of(report.rows);
    return {
      place, count: rows.length,
      before: place > 0 ? rows[place - 1] : null,
      after: place >= 0 && place + 1 < rows.length ? rows[place + 1] : null,
    };
  }

  /* Return true if a key press belongs to a form field or to the browser. */
  function taken(event) {
    const target = event.target;
    return event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey ||
      (target instanceof Element && target.closest("input, select, textarea, [contenteditable]") !== null);
  }

  window.Report = { report, value, read, write, select, neighbours, taken };
})();
