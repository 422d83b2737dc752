"""Decisions are written to a file that is bounded, and whoever decides never waits for it."""

import json
from pathlib import Path

from admission.base import logs
from admission.config.gpu_configuration import Decisions
from admission.run.decision_file import COMPONENT, DecisionFile
from tests.controlplane import waiting


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(file: DecisionFile, *decisions: dict[str, object]) -> None:
    """Has a file write decisions, and ends it."""
    file.start()
    for one in decisions:
        file.take(one)
    file.stop()


def test_lines_of_the_log_about_decisions_are_written_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    file = DecisionFile.of(Decisions(file=str(path)))
    assert file is not None
    logs.configure()
    file.start()
    logs.get(COMPONENT).info("workload admitted", namespace="ml", workload="train")
    logs.get("core").info("something else")
    file.stop()
    logs.get(COMPONENT).info("too late")
    (line,) = lines(path)
    assert (line["event"], line["workload"]) == ("workload admitted", "train")
    assert str(line["timestamp"]).endswith("Z")


def test_without_a_path_there_is_no_file() -> None:
    assert DecisionFile.of(Decisions()) is None


def test_a_full_file_is_kept_under_another_name_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    decisions: list[dict[str, object]] = [{"n": n, "text": "x" * 80} for n in range(10)]
    written(DecisionFile(path, 200, 3), *decisions)
    found = [one["n"] for name in (".2", ".1", "") for one in lines(Path(f"{path}{name}"))]
    assert found == [4, 5, 6, 7, 8, 9]
    assert all(one.stat().st_size <= 200 for one in tmp_path.iterdir())
    assert len(list(tmp_path.iterdir())) == 3


def test_a_file_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    for n in (1, 2):
        written(DecisionFile(path, 4096, 1), {"n": n})
    assert [one["n"] for one in lines(path)] == [1, 2]


def test_what_finds_no_room_is_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    file = DecisionFile(path, 4096, 1, room=2)
    for n in range(5):
        file.take({"n": n})
    file.start()
    waiting.until(lambda: path.exists() and len(lines(path)) == 2, what="two lines")
    file.take({"n": 5})
    file.stop()
    assert [one["n"] for one in lines(path)] == [0, 1, 5]
    assert lines(path)[-1]["left_out_before"] == 3


def test_a_volume_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "decisions.jsonl"
    file = DecisionFile(path, 4096, 1)
    written(file, {"n": 1})
    assert not path.exists()
