"""What is measured of a page in a browser: room, contrast, and where the keyboard goes."""

from typing import Any, Final

from tests.browser.chromium import Chromium

WIDTHS: Final = (360, 1280, 1920)
_TAB: Final = 9

_OVERFLOWING: Final = """
(() => {
  const width = document.documentElement.clientWidth, found = [];
  for (const one of document.querySelectorAll("body *")) {
    const box = one.getBoundingClientRect();
    if (box.width && box.right > width + 0.5 && !one.closest(".skip"))
      found.push(one.tagName + "." + (one.getAttribute("class") || "") + " " + box.right);
  }
  if (document.documentElement.scrollWidth > width) found.push("the page");
  return found;
})()
"""

_FAINT: Final = """
(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (text) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const luminance = (c) => [0, 1, 2].map((i) => c[i] / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const c = rgba(getComputedStyle(at).backgroundColor);
      if (c[3] === 255) return c;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !one.checkVisibility() || one.closest("svg")) continue;
    const [a, b] = [luminance(rgba(getComputedStyle(one).color)), luminance(behind(one))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push(walker.currentNode.data.trim() + " " + ratio.toFixed(2));
  }
  return found;
})()
"""

_FOCUSED: Final = """
(() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const box = one.getBoundingClientRect(), style = getComputedStyle(one);
  return {name: (one.innerText || one.name || one.id || "").trim(),
          top: Math.round(box.top), left: Math.round(box.left),
          seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0};
})()
"""


def overflowing(browser: Chromium) -> list[str]:
    """Elements that reach beyond the right edge of the window."""
    found: list[str] = browser.ask(_OVERFLOWING)
    return found


def faint(browser: Chromium) -> list[str]:
    """Texts whose contrast is below 4.5 (WCAG 2.2, level AA)."""
    found: list[str] = browser.ask(_FAINT)
    return found


def focused(browser: Chromium, most: int = 40) -> list[dict[str, Any]]:
    """What has the focus after each press of Tab, until it leaves the page."""
    found: list[dict[str, Any]] = []
    for _ in range(most):
        browser.press("Tab", _TAB)
        one = browser.ask(_FOCUSED)
        if one is None or (found and one == found[0]):
            break
        found.append(one)
    return found


def unnamed(browser: Chromium) -> list[str]:
    """Roles of what a screen reader meets and has no name for."""
    named = {"link", "button", "image", "textbox", "navigation", "img", "heading"}
    return [
        node["role"]["value"]
        for node in browser.nodes()
        if not node.get("ignored")
        and node.get("role", {}).get("value") in named
        and not node.get("name", {}).get("value")
    ]
