"""What a household promises about its processes, shown on programs that start at once."""

import os
import signal
from pathlib import Path

import pytest

from tests.controlplane import forked, processes, waiting
from tests.controlplane.processes import Daemon, Household, StartError

FOREVER = ["tail", "-f", "/dev/null"]


@pytest.fixture(autouse=True)
def _own_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps these tests away from the clusters of others."""
    monkeypatch.setattr(processes, "base_folder", lambda: tmp_path)


def lose_guard(household: Household) -> None:
    """Leaves the household as a machine does that killed both its owner and its guard."""
    household._guard.send_signal(signal.SIGKILL)
    household._guard.wait()
    household.daemons.clear()
    assert household._guard.stdin is not None
    household._guard.stdin.close()


def test_close_ends_processes_that_nobody_stopped_and_removes_the_folder():
    household = Household()
    daemon = Daemon(household, "left", FOREVER)
    daemon.start()
    household.close()
    waiting.until(lambda: not daemon.is_running, what="end of the process")
    assert not household.folder.exists()


def test_a_process_that_ends_early_is_reported_with_its_log():
    household = Household()
    daemon = Daemon(household, "broken", ["sh", "-c", "echo no such flag; exit 3"])
    daemon.start()
    with pytest.raises(StartError, match=r"(?s)broken: ended with 3.*no such flag"):
        daemon.wait_until(lambda: False)
    household.close()


def test_a_process_that_is_never_ready_is_reported():
    household = Household()
    daemon = Daemon(household, "slow", FOREVER)
    daemon.start()
    with pytest.raises(StartError, match=r"slow ready: not within 0 s"):
        daemon.wait_until(lambda: False, within_seconds=0.1)
    daemon.stop()
    household.close()


def test_a_stopped_process_can_be_started_again_and_its_log_goes_on():
    household = Household()
    daemon = Daemon(household, "twice", ["sh", "-c", "echo started; exec tail -f /dev/null"])
    daemon.start()
    daemon.wait_until(lambda: daemon.log.read_text() == "started\n")
    daemon.stop()
    daemon.start()
    daemon.wait_until(lambda: daemon.log.read_text() == "started\nstarted\n")
    daemon.stop()
    household.close()


def test_grace_lets_a_process_end_by_itself():
    household = Household()
    script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do read -r _ < fifo; done"
    daemon = Daemon(household, "polite", ["sh", "-c", f"mkfifo fifo; {script}"])
    daemon.start()
    daemon.wait_until(lambda: "ready" in daemon.log.read_text())
    daemon.stop(grace_seconds=10)
    assert daemon.log.read_text().endswith("bye\n")
    household.close()


def test_a_living_household_is_not_swept():
    first = Household()
    daemon = Daemon(first, "alive", FOREVER)
    daemon.start()
    Household().close()
    assert daemon.is_running
    assert first.folder.exists()
    daemon.stop()
    first.close()


def test_the_next_household_sweeps_one_whose_owner_and_guard_died():
    household = Household()
    marker = ["sh", "-c", "read -r _ < $0", str(household.folder / "fifo")]
    os.mkfifo(household.folder / "fifo")
    daemon = Daemon(household, "orphan", marker)
    daemon.start()
    lose_guard(household)
    assert daemon.is_running
    Household().close()
    waiting.until(lambda: not daemon.is_running, what="end of the orphan")
    assert not household.folder.exists()


def test_sweeping_leaves_a_process_alone_that_only_took_over_the_id():
    household = Household()
    household.watch_over("reused", os.getpid())
    lose_guard(household)
    Household().close()
    assert not household.folder.exists()


@pytest.mark.parametrize(("measures", "expected"), [(False, "400"), (True, "unset")])
def test_programs_collect_garbage_rarely_unless_they_are_measured(
    monkeypatch: pytest.MonkeyPatch, measures: bool, expected: str
):
    monkeypatch.delenv("GOGC", raising=False)
    if measures:
        monkeypatch.setenv(forked.EXECUTE_ALL, "1")
    household = Household()
    daemon = Daemon(household, "go", ["sh", "-c", "echo ${GOGC-unset}; exec tail -f /dev/null"])
    daemon.start()
    daemon.wait_until(lambda: daemon.log.read_text() == f"{expected}\n")
    daemon.stop()
    household.close()
