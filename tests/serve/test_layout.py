"""The dashboard in a browser: it fits, can be read, and used by keyboard and screen reader."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.browser.chromium import Chromium
from tests.serve import layout, scenes
from tests.serve.dashboards import TOKEN, Dashboard, everything, queue, served

PAGES = {
    "login": "/login", "overview": "/", "quota": "/quota", "queue": "/queues/research",
    "nodes": "/gpus", "node": "/gpus/dgx-0", "teams": "/namespaces", "team": "/namespaces/ml",
    "workload": "/namespaces/ml/workloads/train-0", "refused": "/queues/lab",
}  # fmt: skip
SCENES = {
    "empty": ("/", "/quota", "/gpus", "/namespaces"),
    "small": ("/", "/quota", "/queues/speech", "/gpus", "/gpus/a100-1", "/namespaces/speech",
              "/namespaces", "/namespaces/speech/workloads/train-large"),
    "large": ("/", "/quota", "/queues/team-0006", "/gpus",
              "/gpus?by=topology.kubernetes.io/rack&group=rack-007", "/gpus/gpu-0007",
              "/namespaces", "/namespaces/ns-0006",
              "/namespaces/ns-0006/workloads/job-team-0006-5"),
    "hostile": ("/", "/quota", "/gpus"),
}  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as made:
        yield made


@pytest.fixture(scope="module")
def board() -> Dashboard:
    return Dashboard(*everything())


@pytest.fixture(scope="module")
def address(browser: Chromium, board: Dashboard) -> Iterator[str]:
    """Where the dashboard is, signed in by the link that carries the token."""
    with served(board) as address:
        browser.show(width=1280)
        browser.open(f"{address}/login#token={TOKEN}")
        browser.until("location.pathname === '/' && document.readyState === 'complete'")
        yield address


@pytest.mark.parametrize("scene", SCENES)
def test_every_page_of_every_scene_fits_and_can_be_read(browser, scene, tmp_path):
    folder = Path(os.environ.get("PICTURES", tmp_path))
    problems = []
    with served(getattr(scenes, scene)()) as address:
        browser.show(width=1280)
        browser.open(f"{address}/login#token={TOKEN}")
        browser.until("location.pathname === '/' && document.readyState === 'complete'")
        for path in SCENES[scene]:
            for width in layout.WIDTHS:
                for dark in (False, True):
                    browser.show(width=width, dark=dark)
                    browser.open(address + path)
                    name = path.partition("?")[0].strip("/").replace("/", "-") or "overview"
                    name += "-group" if "group" in path else ""
                    colours = "dark" if dark else "light"
                    browser.picture(folder / f"{scene}-{name}-{width}-{colours}.png")
                    found = layout.overflowing(browser) + layout.faint(browser)
                    problems += [f"{path} {width} {colours}: {one}" for one in found[:5]]
    assert problems == []


def test_who_waits_longest_and_why_is_on_the_first_screen(browser):
    with served(scenes.large()) as address:
        for width in layout.WIDTHS:
            browser.show(width=width)
            browser.open(f"{address}/login#token={TOKEN}")
            browser.until("location.pathname === '/' && document.readyState === 'complete'")
            assert (
                browser.ask("document.querySelector('.verdict').getBoundingClientRect().bottom")
                < 500
            )
            assert "held by" in browser.ask("document.querySelector('.verdict').innerText").lower()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", layout.WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_and_can_be_read(browser, address, page, width, dark, tmp_path):
    browser.show(width=width, dark=dark)
    browser.open(address + PAGES[page])
    folder = Path(os.environ.get("PICTURES", tmp_path))
    browser.picture(folder / f"{page}-{width}-{'dark' if dark else 'light'}.png")
    assert layout.overflowing(browser) == []
    assert layout.faint(browser) == []


@pytest.mark.parametrize("page", PAGES)
def test_the_keyboard_reaches_everything_from_top_to_bottom_and_shows_where_it_is(
    browser, address, page
):
    browser.show(width=1280)
    browser.open(address + PAGES[page])
    browser.ask("document.activeElement.blur()")
    found = layout.focused(browser)
    assert [one["name"] for one in found if not one["seen"]] == []
    places = [(one["top"], one["left"]) for one in found if one["name"] != "Skip to content"]
    assert places
    assert [top for top, _ in places] == sorted(top for top, _ in places)


@pytest.mark.parametrize("page", PAGES)
def test_a_screen_reader_has_a_name_for_everything(browser, address, page):
    browser.open(address + PAGES[page])
    assert layout.unnamed(browser) == []
    assert browser.ask("document.documentElement.lang") == "en"
    assert browser.ask("document.querySelectorAll('h1').length") == 1


def test_the_token_of_a_link_does_not_stay_in_the_address(browser, address):
    browser.open(f"{address}/login#token=bad")
    browser.until("document.querySelector('[role=alert]') !== null")
    assert "bad" not in browser.ask("location.href")


def test_a_page_changes_by_itself_and_the_keyboard_stays_where_it_was(browser, address, board):
    browser.show(width=1280)
    browser.open(address)
    browser.ask("document.querySelector('a[href=\"/queues/serving\"]').focus()")
    before = board.known.found
    found = replace(before, queues=(queue("arrived"), *before.queues))
    board.known.found, board.known.changes = found, board.known.changes + 1
    browser.until("document.body.innerText.includes('arrived')")
    assert browser.ask("document.activeElement.getAttribute('href')") == "/queues/serving"
    browser.ask("document.getElementById('live').click()")
    assert browser.ask("document.getElementById('live').getAttribute('aria-pressed')") == "false"
    board.known.found = before


def test_a_change_between_a_page_and_its_stream_is_seen(browser, address, board):
    browser.open(address)
    before = board.known.found
    browser.ask("stop()")
    found = replace(before, queues=(queue("late"), *before.queues))
    board.known.found, board.known.changes = found, board.known.changes + 1
    browser.ask("watch()")
    browser.until("document.body.innerText.includes('late')")
    board.known.found = before
