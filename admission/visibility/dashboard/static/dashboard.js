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
  if (document.hidden || (selection && !selection.isCollapsed)) return later();
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
  main.replaceChildren(...fresh.childNodes);
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
