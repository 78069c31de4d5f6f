/* Sort the rows of tables of the class "sortable" by the column whose heading is pressed; empty cells come last. */
"use strict";

(function () {
  const key = (row, place) => {
    const cell = row.cells[place];
    return cell.dataset.value ?? cell.textContent.trim().replace(/^–$/, "");
  };

  /* Compare numerically if both are numbers, else as text in which runs of digits count as numbers. */
  function compare(a, b) {
    const numbers = [Number(a), Number(b)];
    return numbers.some(Number.isNaN) ? a.localeCompare(b, "en", { numeric: true }) : numbers[0] - numbers[1];
  }

  function sort(table, head) {
    const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const body = table.tBodies[0], place = head.cellIndex, sign = order === "ascending" ? 1 : -1;
    const keyed = [...body.rows].map((row) => [key(row, place), row]);
    keyed.sort(([a], [b]) => (a === "") - (b === "") || sign * compare(a, b));
    body.append(...keyed.map(([, row]) => row));
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    for (const head of table.tHead.rows[0].cells) {
      if ("unsorted" in head.dataset) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sort(table, head));
      head.replaceChildren(button);
    }
  }
})();
