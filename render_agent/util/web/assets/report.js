/* What the index and the pages of questions share: the rows of questions.js, which of them a filter
   keeps, and in which order. The filter stands in the address after #, so that it survives the way to
   a question and back, also where pages are opened from disk. */
"use strict";

(function () {
  /* window.REPORT = {columns: [name, …], shown: [[name, cell, classes], …], rows: [[…], …]} */
  const report = window.REPORT || { columns: [], shown: [], rows: [] };
  const places = new Map(report.columns.map((name, place) => [name, place]));

  const value = (row, name) => row[places.get(name)];

  /* {q, sort, at, and a value by column} as far as the address gives them */
  function read(hash) {
    return Object.fromEntries(new URLSearchParams((hash || "").replace(/^#/, "")));
  }

  function write(filter) {
    const kept = Object.entries(filter).filter(([, text]) => text);
    const text = new URLSearchParams(kept).toString();
    return text ? "#" + text : "";
  }

  function compare(a, b) {
    const none = (x) => x === null || x === undefined || x === "";
    if (none(a) || none(b)) return none(a) - none(b);
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }

  /* the rows that a filter keeps, in its order; nothing stands last whichever way it is sorted */
  function select(filter) {
    const wanted = Object.keys(filter).filter((name) => filter[name] && places.has(name));
    const words = (filter.q || "").toLowerCase().split(/\s+/).filter(Boolean);
    const searched = ["question_id", "text", "scene", "type", "answer", "truth"];
    const rows = report.rows.filter((row) => {
      if (wanted.some((name) => String(value(row, name)) !== filter[name])) return false;
      if (!words.length) return true;
      const text = searched.map((name) => value(row, name) ?? "").join("\n").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const name = (filter.sort || "").replace(/^-/, "");
    if (!places.has(name)) return rows;
    const sign = filter.sort.startsWith("-") ? -1 : 1;
    const keyed = rows.map((row, place) => [value(row, name), place, row]);
    const empty = (x) => x === null || x === undefined || x === "";
    keyed.sort((a, b) =>
      (empty(a[0]) || empty(b[0]) ? compare(a[0], b[0]) : sign * compare(a[0], b[0])) || a[1] - b[1]);
    return keyed.map((entry) => entry[2]);
  }

  /* The neighbours of a question in the order that the address asks for: {place, count, before, after},
     before and after being rows or null. A question that the filter leaves out has its natural ones. */
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

  /* whether a key was meant for a field, or for the browser */
  function taken(event) {
    const target = event.target;
    return event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey ||
      (target instanceof Element && target.closest("input, select, textarea, [contenteditable]") !== null);
  }

  window.Report = { report, value, read, write, select, neighbours, taken };
})();
