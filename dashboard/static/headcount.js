// What a page does beyond HTML and its figures: it shows times in the viewer's zone, keeps the theme, and stays
// live. Without it every number is still there, in the tables.
"use strict";

// a browser may forbid storage, as for a file opened from disk: choices then last as long as the page
function stored(storage, key, value) {
  try {
    const box = window[storage];
    if (value === undefined) return box.getItem(key);
    return value === null ? box.removeItem(key) : box.setItem(key, value);
  } catch {
    return null;
  }
}

// ---- theme: the system's, until the viewer chooses

const themes = ["system", "light", "dark"];

function showTheme() {
  const chosen = document.documentElement.dataset.theme ?? "system";
  for (const button of document.querySelectorAll("[data-theme-button]")) {
    button.querySelector("[data-theme-name]").textContent = chosen;
  }
}

function nextTheme() {
  const root = document.documentElement;
  const next = themes[(themes.indexOf(root.dataset.theme ?? "system") + 1) % themes.length];
  if (next === "system") delete root.dataset.theme;
  else root.dataset.theme = next;
  stored("localStorage", "headcount.theme", next === "system" ? null : next);
  showTheme();
  drawAll();
}

// ---- times: in the viewer's zone, the exact moment on hover

const dayAndTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

function ago(moment) {
  const seconds = (moment - Date.now()) / 1000;
  const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? units.at(-1);
  return relative.format(Math.round(seconds / size), unit);
}

function showTimes() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    time.textContent = "age" in time.dataset ? ago(moment) : dayAndTime.format(moment);
    time.title = exact.format(moment);
  }
}

// ---- live: the page is fetched again and only what differs is changed, in place, so that scroll, focus,
// ---- selection, open details, zoom and hidden traces stay

function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.data = fresh.data;
    return;
  }
  if (old.classList.contains("plot")) {
    old.setAttribute("aria-label", fresh.getAttribute("aria-label"));
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const before = [...old.childNodes];
  const after = [...fresh.childNodes];
  after.forEach((child, i) => (i < before.length ? morph(before[i], child) : old.append(child)));
  before.slice(after.length).forEach((child) => child.remove());
}

let etag = null;

async function refresh() {
  const address = location.href;
  const response = await fetch(address, { headers: etag ? { "If-None-Match": etag } : {}, cache: "no-store" });
  if (response.status === 304 || !response.ok || address !== location.href) return;
  etag = response.headers.get("ETag");
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const before = new Map(plots().map((plot) => [plot.id, document.getElementById(plot.dataset.figure).textContent]));
  const ticked = new Set([...document.querySelectorAll("[type=checkbox]:checked")].map((box) => box.value));
  morph(document.querySelector("main"), page.querySelector("main"));
  for (const box of document.querySelectorAll("[type=checkbox]")) box.checked = ticked.has(box.value);
  showTimes();
  const changed = plots().filter((plot) => before.get(plot.id) !== document.getElementById(plot.dataset.figure).textContent);
  await drawAll(changed);
  document.body.dataset.refreshed = String(Number(document.body.dataset.refreshed ?? 0) + 1);
}

// ---- another view of the same page: its content is fetched and put in place; the stream and scripts stay

async function show(address, isNew) {
  const response = await fetch(address);
  if (!response.ok) return location.assign(address); // the error is a page of its own
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  if (isNew) history.pushState(null, "", response.url);
  const main = document.querySelector("main");
  const focused = main.contains(document.activeElement) ? document.activeElement : null;
  plots().forEach((plot) => plot.data && Plotly.purge(plot));
  main.replaceChildren(...page.querySelector("main").childNodes);
  etag = response.headers.get("ETag");
  if (focused?.name) main.querySelector(`[name="${focused.name}"]`)?.focus();
  else if (focused?.closest(".tabs")) main.querySelector(".tabs [aria-current]").focus();
  else if (focused?.closest(".choice")) main.querySelector(".choice [aria-current]").focus();
  showTimes();
  await drawAll();
  dispatchEvent(new Event("headcount:shown"));
}

function isPlain(event) {
  return event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
}

const live = { source: null, timer: null, poll: null, paused: stored("sessionStorage", "headcount.paused") === "yes" };
const atMostEvery = 1500; // ms between two updates, however many events arrive
const pollEvery = 15000; // ms, where no stream can be had

function soon() {
  live.timer ??= setTimeout(async () => {
    try {
      await refresh();
    } catch (error) {
      showLive("offline");
    } finally {
      live.timer = null;
    }
  }, atMostEvery);
}

function showLive(word) {
  const button = document.querySelector("[data-live-button]");
  button.dataset.state = word;
  button.querySelector("[data-live-name]").textContent = word;
  button.setAttribute("aria-pressed", String(!live.paused));
}

function startLive() {
  stopLive();
  if (live.paused || document.hidden) return;
  const source = new EventSource(document.body.dataset.events); // the tab's only stream
  live.source = source;
  source.onopen = () => showLive("live");
  source.onmessage = soon;
  for (const kind of document.body.dataset.kinds.split(" ")) source.addEventListener(kind, soon);
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) return showLive("connecting");
    showLive("polling");
    live.poll ??= setInterval(soon, pollEvery);
  };
}

function stopLive() {
  live.source?.close();
  clearInterval(live.poll);
  live.source = live.poll = null;
}

function setUpLive() {
  const button = document.querySelector("[data-live-button]");
  if (!document.body.dataset.events) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    live.paused = !live.paused;
    stored("sessionStorage", "headcount.paused", live.paused ? "yes" : null);
    if (live.paused) {
      stopLive();
      showLive("paused");
    } else {
      startLive();
      soon();
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return stopLive();
    startLive();
    if (!live.paused) soon();
  });
  addEventListener("pagehide", stopLive);
  showLive(live.paused ? "paused" : "connecting");
  startLive();
}

// ---- start

showTheme();
showTimes();
setInterval(showTimes, 30000);
if (plots().length) drawAll();
darkScheme.addEventListener("change", () => drawAll());
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.matches("[data-theme-button]")) nextTheme();
  if (button?.matches("[data-export]")) exportFigure(button);
  if (button?.matches("[data-copy]")) copyLink(button);
});
document.addEventListener("toggle", (event) => {
  if (event.target.open) drawAll(plots(event.target));
}, true);
document.addEventListener("change", (event) => {
  if (event.target.matches(".filters select")) event.target.form.requestSubmit();
});
if (document.querySelector(".tabs")) {
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".tabs a, .filters .choice a");
    if (!link || !isPlain(event)) return;
    event.preventDefault();
    show(link.href, true);
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches(".filters")) return;
    event.preventDefault();
    show(`?${new URLSearchParams(new FormData(event.target))}`, true);
  });
  addEventListener("popstate", () => show(location.href, false));
}
setUpLive();
