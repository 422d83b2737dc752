"""The benchmark of room on nodes, small."""

import pytest

from tests.bench import places, report


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"NODES": 10, "BOUND": 100, "QUEUES": 4, "WAITING": 40, "CYCLES": 4, "EVENTS": 5}
    for name, value in sizes.items():
        monkeypatch.setattr(places, name, value)


@pytest.mark.usefixtures("small")
def test_every_goal_is_about_a_figure_and_what_is_missed_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(places.GOALS, "bind_us", -1)
    figures = places.measure()
    assert places.GOALS.keys() <= figures.keys()
    assert "bind_us" in figures["missed"]
    assert "bind us" in report.text({"places": figures})
