/* Enlarge a view, and play all views of the page as a slide show. Without this script, clicking an image opens its
   file. */
"use strict";

(function () {
  const SECONDS = 1.8;
  const views = () => [...document.querySelectorAll("a.enlarge")]; // queried each time, because live pages add views
  const film = document.createElement("dialog");
  film.className = "film";
  film.setAttribute("aria-label", "Views");
  let at = 0, timer;

  function add(tag, name, text, parent = film) {
    const element = document.createElement(tag);
    element.className = name;
    if (text) element.textContent = text;
    parent.append(element);
    return element;
  }

  const image = add("img", ""), caption = add("p", "caption"), controls = add("div", "controls");
  caption.setAttribute("role", "status");
  caption.tabIndex = 0;
  const button = (text, act) => {
    const element = add("button", "", text, controls);
    element.type = "button";
    element.addEventListener("click", act);
    return element;
  };
  button("← Previous", () => step(-1));
  const play = button("Play", () => (timer ? stop() : start()));
  button("Next →", () => step(1));
  button("Close", () => film.close());

  function show(place) {
    const all = views();
    at = Math.max(0, Math.min(place, all.length - 1));
    const thumbnail = all[at].querySelector("img"), turn = all[at].closest(".turn");
    image.src = all[at].href;
    image.alt = thumbnail.alt;
    const words = (query) => (turn && turn.querySelector(query) ? turn.querySelector(query).innerText : "");
    caption.replaceChildren();
    const title = words("header > :first-child");
    add("b", "", `${title ? title + ", view" : "View"} ${at + 1} of ${all.length}`, caption);
    const details = turn ? [...turn.querySelectorAll(".did > div")] : [];
    const descriptions = details.map((part) => `${part.children[0].innerText}: ${part.children[1].innerText}`);
    caption.append([words(".reply"), ...descriptions].filter(Boolean).join(" · ").replace(/\s+/g, " "));
    if (timer && at === all.length - 1) stop();
  }

  function start() {
    if (at === views().length - 1) show(0);
    timer = setInterval(() => show(at + 1), 1000 * SECONDS);
    play.textContent = "Pause";
  }

  function stop() {
    clearInterval(timer);
    timer = undefined;
    play.textContent = "Play";
  }

  function step(by) {
    stop();
    show(at + by);
  }

  function open(place) {
    if (!film.isConnected) document.body.append(film);
    show(place);
    film.showModal();
    play.focus();
  }

  film.addEventListener("close", () => {
    stop();
    const link = views()[at];
    if (link) link.focus();
  });
  film.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    event.stopPropagation(); // disables the keyboard shortcuts of the page behind
    if (by) step(by);
  });
  film.addEventListener("click", (event) => { if (event.target === film) film.close(); });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.enlarge");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open(views().indexOf(link));
  });
  const playAll = document.getElementById("play-turns");
  if (playAll && views().length) {
    playAll.hidden = false;
    playAll.addEventListener("click", () => { open(0); start(); });
  }
})();
