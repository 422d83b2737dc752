"use strict";
// A link may carry a token behind "#": browsers send that part to nobody.
const form = document.getElementById("sign-in");
if (form && location.hash.startsWith("#token=")) {
  form.elements.token.value = decodeURIComponent(location.hash.slice(7));
  history.replaceState(null, "", location.pathname);
  form.submit();
}

// A page is fetched anew when the server says that something changed, at most every five seconds.
const button = document.getElementById("live");
const main = document.getElementById("main");
const LEAST = 5000, WITHOUT_STREAM = 15000;
let stream = null, timer = 0, last = 0, slow = 0;

const focusable = () => [...main.querySelectorAll("a[href], button, input")];

async function refresh() {
  timer = 0;
  const selection = getSelection();
  const isTyping = document.activeElement && document.activeElement.matches("main input");
  if (document.hidden || isTyping || (selection && !selection.isCollapsed)) return later();
  last = Date.now();
  let answer;
  try {
    answer = await fetch(location.href, {headers: {Accept: "text/html"}});
  } catch {
    return;
  }
  if (answer.redirected) return location.reload();
  if (!answer.ok) return;
  const found = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = found.getElementById("main");
  if (!fresh || button.getAttribute("aria-pressed") !== "true") return;
  main.dataset.revision = fresh.dataset.revision;
  if (fresh.innerHTML === main.innerHTML) return;
  const at = focusable().indexOf(document.activeElement);
  const href = at < 0 ? null : document.activeElement.getAttribute("href");
  const open = [...main.querySelectorAll("details")].map((one) => one.open);
  main.replaceChildren(...fresh.childNodes);
  main.querySelectorAll("details").forEach((one, number) => { one.open = open[number] || one.open; });
  if (at >= 0) {
    const now = focusable();
    const same = now.find((one) => href && one.getAttribute("href") === href) || now[at];
    if (same) same.focus({preventScroll: true});
  }
}

function later() {
  if (!timer) timer = setTimeout(refresh, Math.max(250, last + LEAST - Date.now()));
}

function watch() {
  stop();
  stream = new EventSource(button.dataset.stream);
  stream.onmessage = (event) => { if (event.data !== main.dataset.revision) later(); };
  stream.onerror = () => {
    if (stream && stream.readyState === EventSource.CLOSED && !slow)
      slow = setInterval(later, WITHOUT_STREAM);
  };
}

function stop() {
  if (stream) stream.close();
  clearTimeout(timer);
  clearInterval(slow);
  stream = null;
  timer = slow = 0;
}

// Ages grow while the page stands still; the units are those of kubectl.
function age(seconds) {
  for (const [unit, size, until] of [["s", 1, 120], ["m", 60, 7200], ["h", 3600, 172800]])
    if (seconds < until) return Math.floor(seconds / size) + unit;
  return Math.floor(seconds / 86400) + "d";
}

// Time that is left is rounded up, so that it never says less than there is.
function within(seconds) {
  for (const [unit, size, until] of [["m", 60, 7200], ["h", 3600, 172800]])
    if (seconds <= until) return Math.ceil(seconds / size) + unit;
  return Math.ceil(seconds / 86400) + "d";
}

setInterval(() => {
  for (const one of document.querySelectorAll("time.until")) {
    const seconds = Math.ceil((Date.parse(one.dateTime) - Date.now()) / 1000);
    if (seconds > 0) one.textContent = within(seconds);
  }
  for (const one of document.querySelectorAll("time.ago")) {
    const seconds = Math.floor((Date.now() - Date.parse(one.dateTime)) / 1000);
    if (seconds >= 0) one.textContent = age(seconds);
  }
}, 30000);

addEventListener("keydown", (event) => {
  const field = document.getElementById("q");
  if (event.key !== "/" || !field || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.activeElement && document.activeElement.matches("input, textarea")) return;
  event.preventDefault();
  field.focus();
});

if (button) {
  const live = () => button.getAttribute("aria-pressed") === "true";
  button.hidden = false;
  button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", live() ? "false" : "true");
    if (live()) { watch(); later(); } else stop();
  });
  document.addEventListener("visibilitychange", () => {
    if (!live()) return;
    if (document.hidden) stop(); else { watch(); later(); }
  });
  addEventListener("pagehide", stop);
  watch();
}
