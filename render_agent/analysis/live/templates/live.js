/* Keeps a page of the report up to date: asks every second what is new, fetches the page again when
   something is, and changes what differs, so that place, focus and what is opened stay as they are. */
"use strict";

(function () {
  const EVERY = 1000;
  const MOMENT = 5000;
  const box = document.getElementById("live");
  const match = location.pathname.match(/^\/report\/questions\/([^/]+)\.html$/);
  const news = match ? `/live/questions/${match[1]}.json` : "/live/index.json";
  /* what the scripts of the page look after themselves */
  const own = new Set(document.querySelectorAll("#table, #filter, #count, #pages"));
  let fading = 0;
  let silent = 0;

  function say(words, stays) {
    box.textContent = words;
    box.classList.toggle("shown", words !== "");
    clearTimeout(fading);
    if (!stays) fading = setTimeout(() => box.classList.remove("shown"), MOMENT);
  }

  /* attributes that scripts and readers change: an update leaves them as they are */
  function kept(element, name) {
    return (name === "open" && ["DETAILS", "DIALOG"].includes(element.tagName)) || name === "hidden" ||
      (name === "class" && element.classList.contains("lit"));
  }

  function attributes(old, fresh) {
    for (const { name, value } of [...fresh.attributes]) {
      if (!kept(old, name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      if (!kept(old, name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
  }

  /* by what an element is known again among its siblings */
  const name = (element) => element.nodeName + " " +
    (element.id || element.getAttribute("aria-labelledby") || element.getAttribute("class") || "");

  /* which of `at` and its later siblings a new child is; null where it is none of them */
  function partner(at, child) {
    if (child.nodeType !== Node.ELEMENT_NODE) return at && at.nodeType === child.nodeType ? at : null;
    let found = at;
    while (found && !(found.nodeType === Node.ELEMENT_NODE && name(found) === name(child))) found = found.nextSibling;
    return found;
  }

  /* make `old` be like `fresh`, keeping every element that is in both */
  function change(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== Node.ELEMENT_NODE) {
      old.nodeValue = fresh.nodeValue;
      return;
    }
    if (own.has(old)) return;
    if (old.matches("[data-drawn]")) { // the 3D view, which draws the new turns itself
      old.dataset.view = fresh.dataset.view;
      old.dispatchEvent(new Event("changed"));
      return;
    }
    attributes(old, fresh);
    let at = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const found = partner(at, child);
      if (!found) {
        old.insertBefore(document.importNode(child, true), at);
        continue;
      }
      while (at !== found) {
        const gone = at;
        at = at.nextSibling;
        gone.remove();
      }
      change(found, child);
      at = found.nextSibling;
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  }

  /* what the filter of the index offers beside what it did */
  function choices(fresh) {
    const form = document.getElementById("filter");
    for (const select of fresh.querySelectorAll("#filter select")) {
      const there = form.elements[select.name];
      if (!there) form.insertBefore(document.importNode(select.parentElement, true), document.getElementById("reset"));
      else {
        const known = [...there.options].map((option) => option.value);
        for (const option of select.options) if (!known.includes(option.value)) there.append(document.importNode(option, true));
      }
    }
  }

  /* the rows of the index, as questions.js has them, for the script that shows them */
  async function rows() {
    if (!window.Report || !window.Report.refresh) return;
    const text = await (await fetch("questions.js")).text();
    Object.assign(window.Report.report, JSON.parse(text.slice(text.indexOf("{"), text.lastIndexOf(";"))));
    window.Report.refresh();
  }

  async function update() {
    const got = await fetch(location.pathname);
    const fresh = new DOMParser().parseFromString(await got.text(), "text/html");
    const told = fresh.getElementById("live");
    if (!got.ok || !told) return false;
    const table = document.getElementById("table");
    change(document.getElementById("main"), fresh.getElementById("main"));
    change(document.querySelector("footer"), fresh.querySelector("footer"));
    const stamps = document.querySelector(".stamps"), now = fresh.querySelector(".stamps");
    if (stamps && now) change(stamps, now);
    else if (stamps) stamps.remove();
    else if (now) document.querySelector("header.top").append(document.importNode(now, true));
    if (table) {
      change(document.querySelector("header.top nav"), fresh.querySelector("header.top nav"));
      choices(fresh);
      await rows();
    }
    const more = Number(told.dataset.shown) - Number(box.dataset.shown);
    box.dataset.version = told.dataset.version;
    box.dataset.shown = told.dataset.shown;
    if (more > 0) say(more === 1 ? "1 new turn" : `${more} new turns`);
    return true;
  }

  /* a run that has come to its end is asked about no more */
  async function watch() {
    let over = false;
    try {
      const standing = await (await fetch(news)).json();
      if (silent > 2) say("");
      silent = 0;
      const shown = standing.version === box.dataset.version || (await update());
      over = standing.finished && shown && standing.version === box.dataset.version;
      if (over) say("The run is finished");
    } catch {
      silent += 1;
      if (silent === 3) {
        say("This page is no longer kept up to date: render-agent view has ended, or its terminal says why.", true);
      }
    }
    if (!over) setTimeout(watch, silent < 3 ? EVERY : 10 * EVERY);
  }

  if (!box.dataset.version.endsWith("-True")) setTimeout(watch, EVERY);
})();
