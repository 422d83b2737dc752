"""The engine decides as Kueue's recorded scheduler did."""

from pathlib import Path
from typing import Any

import pytest

from tests.parity import replay

FAMILIES = sorted(replay.CASES.glob("*.jsonl.gz"))
ROOT = Path(__file__).parents[2]


def test_every_family_of_cases_is_there():
    families = [*(f"F{n:02}" for n in range(1, 18)), "T01", "T02"]

    assert [path.name.split(".")[0] for path in FAMILIES] == families
    assert sum(1 for path in FAMILIES for _ in replay.read(path)) == 1520 + 1206 + 1500


@pytest.mark.slow
@pytest.mark.parametrize("path", FAMILIES, ids=lambda path: path.name.split(".")[0])
def test_decisions_and_messages_equal_the_record(path):
    differing = {
        case["id"]: "\n".join(one.text() for one in found[:3])
        for case in replay.read(path)
        if (found := replay.replay(case, messages=True))
        and not replay.departure(case, messages=True)
    }

    assert differing == {}


def test_departures_are_few_real_and_documented():
    cases = {c["id"]: c for path in FAMILIES for c in replay.read(path)}

    assert len(replay.DEPARTURES) <= 5
    for name, record in replay.DEPARTURES.items():
        assert replay.replay(cases[name]) != []
        assert (ROOT / record).is_file()


def test_who_was_overtaken_departs_in_one_of_a_hundred_cases_at_most():
    cases = [case for path in FAMILIES for case in replay.read(path)]
    differing = [case for case in cases if replay.replay(case)]
    overtaken = [case for case in differing if replay.departure(case) == replay.OVERTAKEN]
    assert 0 < len(overtaken) <= len(cases) // 100
    assert (ROOT / replay.OVERTAKEN).is_file()


def _first(family: str) -> dict[str, Any]:
    path = replay.CASES / f"{family}.jsonl.gz"
    return next(case for case in replay.read(path) if case["steps"][0]["op"] == "cycle")


def _spoil_reserved(expect):
    expect["reserved"]["ghost"] = {"clusterQueue": "amber", "podSets": {}}


def _spoil_quota(expect):
    name = min(expect["quota"]["clusterQueues"])
    flavors = expect["quota"]["clusterQueues"][name]["flavors"]
    flavor = next(iter(flavors.values()))
    next(iter(flavor.values()))["usage"] += 1


def _spoil_pending(expect):
    expect["pending"]["ghost"] = {"reason": "WaitingForQuota", "message": ""}


def _spoil_evicted(expect):
    expect["evicted"]["ghost"] = {"reason": "Preempted", "preemptionReason": "x", "message": ""}


def _spoil_active(expect):
    name = min(expect["active"])
    expect["active"][name] = [*expect["active"][name], "ghost"]


def _spoil_inadmissible(expect):
    name = min(expect["inadmissible"])
    expect["inadmissible"][name] = [*expect["inadmissible"][name], "ghost"]


@pytest.mark.parametrize(
    "spoil",
    [
        _spoil_reserved,
        _spoil_quota,
        _spoil_pending,
        _spoil_evicted,
        _spoil_active,
        _spoil_inadmissible,
    ],
)
def test_a_changed_expectation_is_a_difference(spoil):
    case = _first("F01")
    assert replay.replay(case) == []

    spoil(case["steps"][0]["expect"])

    assert [one.step for one in replay.replay(case)] == [0]


def test_victims_that_were_not_recorded_are_a_difference():
    case = next(replay.read(replay.CASES / "T01.jsonl.gz"))
    (victims,) = case["targets"]

    assert replay.replay(case | {"targets": [{}, victims]}) == []
    assert [one.field for one in replay.replay(case | {"targets": [{}]})] == ["targets"]
    for name in victims:
        changed = case | {"targets": [{name: "InCohortFairSharing"}]}
        assert [one.got for one in replay.replay(changed)] == [victims]


def test_domains_that_were_not_recorded_are_a_difference():
    case = next(replay.read(replay.CASES / "T02.jsonl.gz"))
    other = {"main": {"levels": ["kubernetes.io/hostname"], "domains": [[["n1"], 7]]}}

    assert replay.replay(case) == []
    assert [one.field for one in replay.replay(case | {"expect": other})] == ["expect.main"]
    assert [one.field for one in replay.replay(case | {"expect": {}})] == ["expect.main"]


def test_a_refusal_in_other_words_counts_only_with_messages():
    cases = replay.read(replay.CASES / "T02.jsonl.gz")
    case = next(one for one in cases if "refused" in one["tags"])
    name = next(name for name, one in case["expect"].items() if "reason" in one)
    changed = case | {"expect": case["expect"] | {name: {"reason": "something else"}}}

    assert replay.replay(changed) == []
    assert [one.field for one in replay.replay(changed, messages=True)] == [f"expect.{name}"]


def test_a_changed_text_counts_only_with_messages():
    case = next(
        case
        for case in replay.read(replay.CASES / "F02.jsonl.gz")
        if any(step["expect"].get("pending") for step in case["steps"])
    )
    step = next(step for step in case["steps"] if step["expect"].get("pending"))
    next(iter(step["expect"]["pending"].values()))["message"] = "something else"

    assert replay.replay(case) == []
    assert len(replay.replay(case, messages=True)) == 1


def test_the_command_ends_with_the_count_and_fails_on_a_difference(monkeypatch, capsys):
    monkeypatch.setattr(replay, "DEPARTURES", {})
    files = [str(replay.CASES / "F10.jsonl.gz"), "--messages"]

    assert replay.main(files) == 1
    assert capsys.readouterr().out.endswith(
        "replayed 90 cases, 87 equal, 1 differ, 2 departures\n"
    )


def test_the_command_names_the_record_of_each_departure(capsys):
    assert replay.main([str(replay.CASES / "F10.jsonl.gz")]) == 0
    shown = capsys.readouterr().out
    assert "departure F10-000044: docs/adr/0010-" in shown
    assert shown.endswith("replayed 90 cases, 87 equal, 0 differ, 3 departures\n")
