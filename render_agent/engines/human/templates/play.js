/* The form of one turn: the inputs become one JSON object, which is sent verbatim as the reply. The page polls the
   state of the session every second and replaces its content when a new turn starts. */
"use strict";

(function () {
  const POLL_MS = 1000;
  const FAST_POLL_MS = 150; // while the next view is rendered
  const STATUS_MS = 2500;
  const TYPED = "input:not([type=radio]):not([type=checkbox]), select, textarea, [contenteditable]";
  const one = (query) => document.querySelector(query);
  const all = (query) => [...document.querySelectorAll(query)];
  const turn = () => one("#turn");
  let sent = null;
  let failedPolls = 0;
  let statusTimer = 0;

  /* Announce a status to screen readers, and show it briefly or until it is replaced. */
  function say(message, { seen = true, stays = false } = {}) {
    const status = one("#status");
    if (status.textContent !== message) status.textContent = message;
    status.classList.toggle("shown", seen && message !== "");
    clearTimeout(statusTimer);
    if (!stays) statusTimer = setTimeout(() => status.classList.remove("shown"), STATUS_MS);
  }

  function showProblem(message) {
    one("#problem").textContent = message;
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

  /* Return the reply as an object. */
  function reply() {
    const fields = {};
    const reasoning = one("#reasoning").value.trim();
    if (reasoning) fields.reasoning = reasoning;
    for (const field of all("[data-field]")) {
      const value = number(field);
      if (value) fields[field.id] = value;
    }
    for (const field of all("[data-flag]:checked")) fields[field.id] = true;
    const target = point();
    if (target) fields.look_at = target;
    const view = one("[name=view]:checked");
    if (view && !one("#done").checked) fields.view = view.value === "earlier" ? Number(one("#number").value) : view.value;
    const value = answer();
    if (value !== null) fields.answer = value;
    if (one("#done").checked) fields.done = true;
    return fields;
  }

  function text() {
    const own = one("#text").value;
    return one("#expert").open && own.trim() ? own : JSON.stringify(reply());
  }

  /* Questions longer than two lines are truncated; a button expands them. */
  function cutQuestion() {
    const button = one("#whole"), title = one("#title");
    if (!button) return;
    if (!title.classList.contains("whole")) button.hidden = title.scrollHeight <= title.clientHeight + 2;
  }

  function showWhole(button) {
    const whole = one("#title").classList.toggle("whole");
    button.setAttribute("aria-expanded", String(whole));
    button.textContent = whole ? "Show less" : "Show full question";
  }

  function preview() {
    cutQuestion();
    if (!one("#act")) return;
    one("#preview").textContent = text();
    one("#send").textContent = one("#done").checked ? "Answer and finish" : "Send";
    mark();
  }

  /* Mark the point on every map. */
  function mark() {
    const target = point();
    for (const image of all("img[data-map]")) {
      const frame = image.parentElement;
      let dot = frame.querySelector(".dot");
      if (!target) {
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
      dot.style.left = 100 * ((target[0] - Number(image.dataset.x)) / scale / width + 0.5) + "%";
      dot.style.top = 100 * (0.5 - (target[1] - Number(image.dataset.y)) / scale / height) + "%";
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
    showProblem("");
    preview();
  }

  /* Return why the reply cannot be sent; an empty string if it can. */
  function validationError() {
    if (one("#expert").open && one("#text").value.trim()) return "";
    const filled = all("[data-point]").filter((field) => field.value.trim() !== "");
    if (filled.length && !point()) return "A point needs x, y and z.";
    const invalid = all("#act input[type=number]").find((field) => !field.validity.valid);
    if (invalid) return invalid.validationMessage;
    const hasAnswer = one("#answer") || one("[name=answer]");
    if (hasAnswer && one("#done").checked && answer() === null) return "Enter an answer, or uncheck “I am done”.";
    if (!Object.keys(reply()).some((name) => name !== "reasoning")) return "Enter an answer first.";
    return "";
  }

  async function send() {
    const key = turn().dataset.key;
    if (!key || sent === key) return;
    const problem = validationError();
    showProblem(problem);
    if (problem) return;
    sent = key;
    one("#send").disabled = true;
    say("Sent. Rendering the next view.");
    try {
      const response = await fetch("reply", {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Render-Agent-Token": turn().dataset.token },
        body: JSON.stringify({ key, text: text() }),
      });
      if (!response.ok) {
        const body = (await response.text()).trim();
        let message = body;
        try { message = JSON.parse(body).error || body; } catch { /* plain text */ }
        showProblem(message);
        say(message);
        if (response.status !== 409) {
          sent = null;
          one("#send").disabled = false;
        }
      }
    } catch {
      sent = null;
      one("#send").disabled = false;
      showProblem("render_agent is not responding. The reply was not sent.");
    }
  }

  /* Replace the content with the current page, and focus its title so that screen readers announce it. */
  async function show(first) {
    const problem = first ? "" : one("#problem")?.textContent || "";
    const fresh = new DOMParser().parseFromString(await (await fetch("./")).text(), "text/html");
    const next = fresh.querySelector("#turn");
    if (next.dataset.token !== turn().dataset.token) {
      location.reload();
      return;
    }
    const keys = one("#keys");
    const keysDisabled = keys && !keys.checked;
    document.title = fresh.title;
    one("header.top").replaceWith(fresh.querySelector("header.top"));
    turn().replaceWith(next);
    if (keysDisabled && one("#keys")) one("#keys").checked = false;
    window.scrollTo({ top: 0, behavior: "instant" });
    one("#title").focus({ preventScroll: true });
    say([problem, document.title.split(" · ")[0]].filter(Boolean).join(" "));
    preview();
  }

  async function poll() {
    let wait = POLL_MS;
    try {
      const state = await (await fetch("state")).json();
      if (failedPolls > 2) say("");
      failedPolls = 0;
      const shown = turn().dataset.key;
      if (state.over ? !one("[data-over]") : (state.key || "") !== shown) {
        if (state.over || state.key || !shown) await show();
        else wait = FAST_POLL_MS;
      } else if (sent === shown || !shown) wait = FAST_POLL_MS;
      if (state.over) return;
    } catch {
      failedPolls += 1;
      if (failedPolls > 2) {
        say("render_agent is not responding; it has finished or was stopped. Your replies are saved."
          + " Resume with: render-agent --continue recent", { stays: true });
      }
    }
    setTimeout(poll, wait);
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
  poll();
})();
