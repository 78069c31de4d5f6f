/* The form of one turn: what is chosen becomes one JSON object, sent word for word as the reply. Every
   second the page asks where the sitting stands; a new turn takes the place of the one shown. */
"use strict";

(function () {
  const EVERY = 1000;
  const SOON = 150;
  const MOMENT = 2500;
  const TYPED = "input:not([type=radio]):not([type=checkbox]), select, textarea, [contenteditable]";
  const one = (query) => document.querySelector(query);
  const all = (query) => [...document.querySelectorAll(query)];
  const turn = () => one("#turn");
  let sent = null;
  let silent = 0;
  let fading = 0;

  /* read out at once; seen for a moment, or as long as it holds */
  function say(words, { seen = true, stays = false } = {}) {
    const status = one("#status");
    if (status.textContent !== words) status.textContent = words;
    status.classList.toggle("shown", seen && words !== "");
    clearTimeout(fading);
    if (!stays) fading = setTimeout(() => status.classList.remove("shown"), MOMENT);
  }

  function complain(words) {
    one("#problem").textContent = words;
  }

  function number(field) {
    return field && field.value.trim() !== "" && Number.isFinite(field.valueAsNumber) ? field.valueAsNumber : null;
  }

  function point() {
    const values = all("[data-point]").map(number);
    return values.length === 3 && values.every((value) => value !== null) ? values : null;
  }

  function answer() {
    const typed = one("#answer");
    if (!typed) return (one("[name=answer]:checked") || {}).value || null;
    return typed.type === "number" ? number(typed) : typed.value.trim() || null;
  }

  /* the reply that the form stands for, as an object */
  function reply() {
    const said = {};
    const reasoning = one("#reasoning").value.trim();
    if (reasoning) said.reasoning = reasoning;
    for (const field of all("[data-field]")) {
      const value = number(field);
      if (value) said[field.id] = value;
    }
    const looked = point();
    if (looked) said.look_at = looked;
    const view = one("[name=view]:checked");
    if (view && !one("#done").checked) said.view = view.value === "earlier" ? Number(one("#number").value) : view.value;
    const given = answer();
    if (given !== null) said.answer = given;
    if (one("#done").checked) said.done = true;
    return said;
  }

  function text() {
    const own = one("#text").value;
    return one("#expert").open && own.trim() ? own : JSON.stringify(reply());
  }

  /* a question of more than two lines is cut, and shown whole when that is asked for */
  function cutQuestion() {
    const button = one("#whole"), title = one("#title");
    if (!button) return;
    if (!title.classList.contains("whole")) button.hidden = title.scrollHeight <= title.clientHeight + 2;
  }

  function showWhole(button) {
    const whole = one("#title").classList.toggle("whole");
    button.setAttribute("aria-expanded", String(whole));
    button.textContent = whole ? "Two lines of it" : "Whole question";
  }

  function preview() {
    cutQuestion();
    if (!one("#act")) return;
    one("#preview").textContent = text();
    one("#send").textContent = one("#done").checked ? "Answer and finish" : "Send";
    mark();
  }

  /* where the point lies on every map that shows it */
  function mark() {
    const looked = point();
    for (const image of all("img[data-map]")) {
      const frame = image.parentElement;
      let dot = frame.querySelector(".dot");
      if (!looked) {
        if (dot) dot.remove();
        continue;
      }
      if (!dot) {
        dot = document.createElement("span");
        dot.className = "dot";
        frame.append(dot);
      }
      const scale = Number(image.dataset.scale);
      const width = Number(image.getAttribute("width"));
      const height = Number(image.getAttribute("height"));
      dot.style.left = 100 * ((looked[0] - Number(image.dataset.x)) / scale / width + 0.5) + "%";
      dot.style.top = 100 * (0.5 - (looked[1] - Number(image.dataset.y)) / scale / height) + "%";
    }
  }

  function choose(image, event) {
    const box = image.getBoundingClientRect();
    const scale = Number(image.dataset.scale);
    const width = Number(image.getAttribute("width"));
    const height = Number(image.getAttribute("height"));
    const u = (event.clientX - box.left) / box.width;
    const v = (event.clientY - box.top) / box.height;
    const [x, y, z] = all("[data-point]");
    x.value = (Number(image.dataset.x) + (u - 0.5) * width * scale).toFixed(2);
    y.value = (Number(image.dataset.y) - (v - 0.5) * height * scale).toFixed(2);
    if (z.value === "") z.value = z.dataset.usual;
    all("[data-field='°']").forEach((field) => { field.value = ""; });
    preview();
    say(`Looking at ${x.value}, ${y.value}, ${z.value}`, { seen: false });
  }

  function step(name, value) {
    const field = one("#" + name);
    if (!field) return;
    const most = Number(field.max);
    const sum = Math.round(((number(field) || 0) + value) * 1000) / 1000;
    field.value = Math.min(Math.max(sum, -most), most) || "";
    if (field.dataset.field === "°") forget();
    preview();
  }

  function forget() {
    all("[data-point]").forEach((field) => { field.value = ""; });
  }

  function clear() {
    one("#act").reset();
    complain("");
    preview();
  }

  /* what stands in the way of sending, in one sentence; nothing where nothing does */
  function obstacle() {
    if (one("#expert").open && one("#text").value.trim()) return "";
    const typed = all("[data-point]").filter((field) => field.value.trim() !== "");
    if (typed.length && !point()) return "A point needs x, y and z.";
    const wrong = all("#act input[type=number]").find((field) => !field.validity.valid);
    if (wrong) return wrong.validationMessage;
    if (one("#done").checked && answer() === null) return "You are done: give your answer first.";
    if (!Object.keys(reply()).some((name) => name !== "reasoning")) return "Give an answer first.";
    return "";
  }

  async function send() {
    const key = turn().dataset.key;
    if (!key || sent === key) return;
    const problem = obstacle();
    complain(problem);
    if (problem) return;
    sent = key;
    one("#send").disabled = true;
    say("Sent. The next view is being drawn.");
    try {
      const answered = await fetch("reply", {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Render-Agent-Token": turn().dataset.token },
        body: JSON.stringify({ key, text: text() }),
      });
      if (!answered.ok) {
        const told = (await answered.text()).trim();
        let words = told;
        try { words = JSON.parse(told).error || told; } catch { /* plain words */ }
        complain(words);
        say(words);
        if (answered.status !== 409) {
          sent = null;
          one("#send").disabled = false;
        }
      }
    } catch {
      sent = null;
      one("#send").disabled = false;
      complain("The program does not answer: the reply was not sent.");
    }
  }

  /* the page as it is now, in place of the one shown; focus goes to its title, so that it is read out */
  async function show(first) {
    const words = first ? "" : one("#problem")?.textContent || "";
    const fresh = new DOMParser().parseFromString(await (await fetch("./")).text(), "text/html");
    const next = fresh.querySelector("#turn");
    if (next.dataset.token !== turn().dataset.token) {
      location.reload();
      return;
    }
    const keys = one("#keys");
    const unticked = keys && !keys.checked;
    document.title = fresh.title;
    one("header.top").replaceWith(fresh.querySelector("header.top"));
    turn().replaceWith(next);
    if (unticked && one("#keys")) one("#keys").checked = false;
    window.scrollTo({ top: 0, behavior: "instant" });
    one("#title").focus({ preventScroll: true });
    say([words, document.title.split(" · ")[0]].filter(Boolean).join(" "));
    preview();
  }

  async function watch() {
    let wait = EVERY;
    try {
      const standing = await (await fetch("state")).json();
      if (silent > 2) say("");
      silent = 0;
      const shown = turn().dataset.key;
      if (standing.over ? !one("[data-over]") : (standing.key || "") !== shown) {
        if (standing.over || standing.key || !shown) await show();
        else wait = SOON;
      } else if (sent === shown || !shown) wait = SOON;
      if (standing.over) return;
    } catch {
      silent += 1;
      if (silent > 2) {
        say("The program does not answer: it has ended or was stopped. What was sent is saved;"
          + " render-agent --continue recent goes on.", { stays: true });
      }
    }
    setTimeout(watch, wait);
  }

  function keyed(key) {
    return all("[data-step]").find((button) => button.getAttribute("aria-keyshortcuts").split(" ").includes(key));
  }

  document.addEventListener("keydown", (event) => {
    if (!one("#act")) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      send();
      return;
    }
    const target = event.target instanceof Element ? event.target : document.body;
    if (event.ctrlKey || event.altKey || event.metaKey || target.closest(TYPED)) return;
    if (!one("#keys").checked) return;
    if (event.key === "Enter" && !target.closest("button, a, summary, input")) {
      event.preventDefault();
      send();
      return;
    }
    if (event.key === "Escape") {
      clear();
      return;
    }
    const radio = target.closest("input[type=radio]");
    const name = event.key.length === 1 ? event.key.toUpperCase() : event.key;
    if (radio && name.startsWith("Arrow")) return;
    const views = all("[name=view]:not(#view-earlier)");
    if (/^[1-9]$/.test(name) && views[name - 1]) {
      views[name - 1].checked = true;
      preview();
      return;
    }
    const button = (event.shiftKey && keyed("Shift+" + name)) || keyed(name);
    if (button) {
      event.preventDefault();
      step(button.dataset.step, Number(button.dataset.value));
    }
  });

  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    const button = target?.closest("[data-step]");
    if (button) step(button.dataset.step, Number(button.dataset.value));
    else if (target?.id === "clear") clear();
    else if (target?.id === "whole") showWhole(target);
    else if (target?.id === "no-point") { forget(); preview(); }
    else if (target?.matches("img[data-map]")) choose(target, event);
  });

  document.addEventListener("input", (event) => {
    if (event.target.id === "number") one("#view-earlier").checked = true;
    if (event.target.dataset?.field === "°") forget();
    preview();
  });
  document.addEventListener("toggle", preview, true);
  document.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });

  window.addEventListener("resize", cutQuestion);
  preview();
  watch();
})();
