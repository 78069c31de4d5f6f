/* Draws boxes on the plan and the elevations. A box is {label, low: [x, y, z], high: [x, y, z]} in metres. */
"use strict";

(function () {
  const editor = document.querySelector("#editor");
  const views = [...document.querySelectorAll(".box-view")];
  const ends = [...document.querySelectorAll("[data-end]")];
  const label = document.querySelector("#label");
  const status = document.querySelector("#status");
  const floor = Number(editor.dataset.floor);
  const DEFAULT_HEIGHT = 0.75; // metres, of a box that was drawn on the plan only
  let boxes = [];
  const history = [];

  function corner(view) {
    return view.dataset.low.split(" ").map(Number);
  }

  /* Return the place of a pointer on a view, in metres. */
  function place(view, event) {
    const frame = view.getBoundingClientRect();
    const [, , width, height] = view.getAttribute("viewBox").split(" ").map(Number);
    const scale = Number(view.dataset.scale);
    const low = corner(view);
    return [
      low[0] + ((event.clientX - frame.left) / frame.width) * width * scale,
      low[1] + (1 - (event.clientY - frame.top) / frame.height) * height * scale,
    ];
  }

  /* Return the box in the form; null unless all six numbers are given and every side is positive. */
  function current() {
    const box = { label: label.value.trim(), low: [0, 0, 0], high: [0, 0, 0] };
    for (const input of ends) {
      if (input.value === "") return null;
      box[input.dataset.end][Number(input.dataset.axis)] = input.valueAsNumber;
    }
    return box.low.every((value, axis) => value < box.high[axis]) ? box : null;
  }

  function setEnds(axis, first, second) {
    for (const input of ends) {
      if (Number(input.dataset.axis) === axis) {
        const value = input.dataset.end === "low" ? Math.min(first, second) : Math.max(first, second);
        input.value = value.toFixed(2);
      }
    }
  }

  function shape(name, attributes, parent) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    parent.append(element);
    return element;
  }

  function draw() {
    const unfinished = current();
    for (const view of views) {
      const group = view.querySelector("g");
      group.replaceChildren();
      const scale = Number(view.dataset.scale);
      const low = corner(view);
      const height = Number(view.getAttribute("viewBox").split(" ")[3]);
      const [right, up] = [Number(view.dataset.right), Number(view.dataset.up)];
      for (const box of unfinished ? [...boxes, unfinished] : boxes) {
        const x = (box.low[right] - low[0]) / scale;
        const y = height - (box.high[up] - low[1]) / scale;
        const size = { width: (box.high[right] - box.low[right]) / scale, height: (box.high[up] - box.low[up]) / scale };
        shape("rect", { x, y, ...size, class: box === unfinished ? "current" : "" }, group);
        shape("text", { x: x + 4, y: y + 16 }, group).textContent = box.label;
      }
    }
    const list = document.querySelector("#list");
    list.replaceChildren(
      ...boxes.map((box) => {
        const item = document.createElement("li");
        item.textContent = `${box.label}: ${box.low.map((value, axis) => (box.high[axis] - value).toFixed(2)).join(" × ")} m`;
        return item;
      }),
    );
  }

  for (const view of views) {
    const axes = [Number(view.dataset.right), Number(view.dataset.up)];
    let start = null;
    view.addEventListener("pointerdown", (event) => {
      start = place(view, event);
      view.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    view.addEventListener("pointermove", (event) => {
      if (!start) return;
      const end = place(view, event);
      if (view.dataset.name === "plan") {
        axes.forEach((axis, index) => setEnds(axis, start[index], end[index]));
        const heights = ends.filter((input) => input.dataset.axis === "2");
        if (heights.some((input) => input.value === "")) setEnds(2, floor, floor + DEFAULT_HEIGHT);
      } else {
        setEnds(2, start[1], end[1]); // an elevation sets only the height
      }
      draw();
    });
    view.addEventListener("pointerup", () => {
      start = null;
      label.focus();
    });
  }

  function undo() {
    if (!history.length) return;
    boxes = history.pop();
    status.textContent = "Undone; not saved yet.";
    draw();
  }

  async function save() {
    status.textContent = "Saving …";
    try {
      const response = await fetch("boxes", {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Render-Agent-Token": editor.dataset.token },
        body: JSON.stringify(boxes),
      });
      const result = await response.json();
      status.textContent = response.ok ? `Saved ${result.saved} boxes.` : result.error;
    } catch {
      status.textContent = "The program does not answer. Is it still running?";
    }
  }

  document.querySelector("#form").addEventListener("submit", (event) => {
    event.preventDefault();
    const box = current();
    if (!box || !box.label) {
      status.textContent = box ? "Name the box." : "Draw a rectangle on the plan first.";
      return;
    }
    history.push(boxes);
    boxes = [...boxes, box];
    label.value = "";
    for (const input of ends) input.value = "";
    status.textContent = `Added ${box.label}; not saved yet.`;
    draw();
  });
  document.querySelector("#form").addEventListener("input", draw);
  document.querySelector("#undo").addEventListener("click", undo);
  document.querySelector("#save").addEventListener("click", save);
  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey)) return;
    const key = event.key.toLowerCase();
    if (key === "s" || (key === "z" && event.target.value !== undefined ? !event.target.value : key === "z")) {
      event.preventDefault();
      if (key === "s") save();
      else undo();
    }
  });
})();
