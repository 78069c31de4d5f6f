/* A view of the page, large, and all of them in turn like a film. Without this script a click on a
   picture opens its file. */
"use strict";

(function () {
  const SECONDS = 1.8;
  const views = () => [...document.querySelectorAll("a.enlarge")]; // a live page gets more of them
  const film = document.createElement("dialog");
  film.className = "film";
  film.setAttribute("aria-label", "Views");
  let at = 0, timer;

  function made(tag, name, text, parent = film) {
    const element = document.createElement(tag);
    element.className = name;
    if (text) element.textContent = text;
    parent.append(element);
    return element;
  }

  const image = made("img", ""), caption = made("p", "caption"), controls = made("div", "controls");
  caption.setAttribute("role", "status");
  caption.tabIndex = 0;
  const button = (text, act) => {
    const element = made("button", "", text, controls);
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
    const picture = all[at].querySelector("img"), turn = all[at].closest(".turn");
    image.src = all[at].href;
    image.alt = picture.alt;
    const words = (query) => (turn && turn.querySelector(query) ? turn.querySelector(query).innerText : "");
    caption.replaceChildren();
    const title = words("header > :first-child");
    made("b", "", `${title ? title + ", view" : "View"} ${at + 1} of ${all.length}`, caption);
    const did = turn ? [...turn.querySelectorAll(".did > div")] : [];
    const told = did.map((part) => `${part.children[0].innerText}: ${part.children[1].innerText}`);
    caption.append([words(".reply"), ...told].filter(Boolean).join(" · ").replace(/\s+/g, " "));
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
    event.stopPropagation(); // the keys of the page behind it rest
    if (by) step(by);
  });
  film.addEventListener("click", (event) => { if (event.target === film) film.close(); });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.enlarge");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open(views().indexOf(link));
  });
  const whole = document.getElementById("play-turns");
  if (whole && views().length) {
    whole.hidden = false;
    whole.addEventListener("click", () => { open(0); start(); });
  }
})();
