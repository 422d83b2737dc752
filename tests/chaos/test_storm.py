"""A minute of storm with a fixed seed: quota is kept, nothing leaks, nothing is stuck."""

import itertools
import ssl
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from tests.chaos import actions, alerts, storm
from tests.chaos.actions import KINDS, Made, Planned
from tests.chaos.storm import Options, Report
from tests.controlplane.rest import Rest


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A minute of storm; what was found."""
    options = Options(seed=16, seconds=60, kinds=frozenset(KINDS))
    return storm.rage(options, tmp_path_factory.mktemp("storm"), print)


@pytest.mark.controlplane
@pytest.mark.nightly
def test_a_minute_of_storm_keeps_quota_and_stops_nobody_without_a_decision(report: Report) -> None:
    assert report.raises > 10
    assert {"kill", "freeze", "restore", "drop-kind", "orphan", "quota"} <= set(report.actions)
    found = {name: getattr(report, name) for name in Report.UNSAFE}
    assert not any(found.values()), report.text()


@pytest.mark.controlplane
@pytest.mark.nightly
def test_after_a_minute_of_storm_everything_that_fits_runs(report: Report) -> None:
    assert report.is_good, report.text()


class Recorder:
    """A host that does nothing but note what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.editor = self.admin = Rest(0, Path(ssl.get_default_verify_paths().cafile or ""))

    def send(self, kind: str, what: str, call: Callable[[], object]) -> None:
        self.asked.append((kind, what))

    def later(self, seconds: float, kind: str, what: str, call: Callable[[], object]) -> None:
        self.asked.append((kind, f"{what} {seconds}"))

    def kill(self, program: str, seconds: float) -> None:
        self.asked.append(("kill", f"{program} {seconds}"))

    def freeze(self, program: str, seconds: float) -> None:
        self.asked.append(("freeze", f"{program} {seconds}"))

    def snapshot(self) -> None:
        self.asked.append(("restore-etcd", "snapshot"))

    def restore(self) -> None:
        raise AssertionError("nobody calls what comes later")

    def drop_kind(self, seconds: float) -> None:
        self.asked.append(("drop-kind", str(seconds)))


def _minute(seed: int, without: Collection[str] = ()) -> Iterator[Planned]:
    plan = actions.plan(seed, 60, set(KINDS) - set(without))
    return itertools.takewhile(lambda planned: planned.at <= 60, plan)


def asked(seed: int, without: Collection[str] = ()) -> list[tuple[str, str]]:
    """What a minute of a storm asks its host."""
    host, made = Recorder(), Made()
    for planned in _minute(seed, without):
        KINDS[planned.kind].act(host, made, planned.rng)
    return host.asked


def test_kinds_are_chosen_by_name() -> None:
    assert storm.chosen("", "") == set(KINDS)
    assert storm.chosen("pod,job", "job") == {"pod"}
    with pytest.raises(ValueError, match="there is no kind 'rain'"):
        storm.chosen("rain", "")


def test_an_hour_of_the_rules_is_a_minute_beside_a_storm() -> None:
    rule = {
        "alert": "Late", "for": "30m",
        "expr": "rate(a[10m]) > 0 unless a offset 1h or increase(a[24h]) > 3 * 3600",
    }  # fmt: skip
    (group,) = alerts.hasty({"groups": [{"name": "all", "rules": [rule]}]})["groups"]

    expr = "rate(a[10s]) > 0 unless a offset 60s or increase(a[1440s]) > 3 * 3600"
    assert group["rules"] == [{"alert": "Late", "for": "30s", "expr": expr}]


def test_the_same_seed_gives_the_same_storm() -> None:
    assert asked(7) == asked(7)
    assert asked(7) != asked(8)


def test_every_kind_happens_within_a_minute() -> None:
    seen = {planned.kind for planned in _minute(7)}

    assert seen == set(KINDS)


def test_a_kind_that_is_left_out_changes_nothing_of_what_does_not_meet_it() -> None:
    def kept(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return [one for one in found if one[0] in {"quota", "freeze", "lose-node", "pod"}]

    assert kept(asked(7)) == kept(asked(7, without={"kill-etcd", "label", "finish"}))
