"""Commands of the product forked from a warm process behave as executed ones."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane import forked, waiting
from tests.controlplane.moved_clock import MovedClock


@pytest.mark.parametrize(
    "arguments", [("--help",), ("gpu", "profiles", "--product", "none"), ("nonsense",)]
)
def test_a_forked_command_prints_and_ends_as_an_executed_one(arguments: tuple[str, ...]) -> None:
    command = [*forked.PROGRAM, *arguments]
    executed = subprocess.run(command, capture_output=True, text=True, check=False)
    done = forked.run(command)
    assert done.returncode == executed.returncode
    assert done.stdout == executed.stdout
    assert done.stderr == executed.stderr


def test_a_forked_command_has_the_folder_and_the_environment_that_it_is_given(
    tmp_path: Path,
) -> None:
    (tmp_path / "here.yaml").write_text("")
    read = [*forked.PROGRAM, "config", "--config", "here.yaml"]
    assert forked.run(read, cwd=tmp_path).returncode == 0
    assert forked.run(read).returncode != 0
    helped = [*forked.PROGRAM, "--help"]
    narrow = forked.run(helped, env={**os.environ, "COLUMNS": "40"})
    assert narrow.stdout != forked.run(helped).stdout


@pytest.fixture
def blocked() -> Iterator["forked.Process | subprocess.Popen[bytes]"]:
    """A process that writes more than its pipe takes, which nobody reads."""
    reading, writing = os.pipe()
    process = forked.start([*forked.PROGRAM, "manifests"], stdout=writing)
    os.close(writing)
    yield process
    process.kill()
    process.wait()
    os.close(reading)


def test_a_signal_is_told_as_the_exit_code(
    blocked: "forked.Process | subprocess.Popen[bytes]",
) -> None:
    assert blocked.poll() is None
    blocked.kill()
    assert blocked.wait() == -signal.SIGKILL
    assert blocked.poll() == -signal.SIGKILL


def test_waiting_for_a_process_that_runs_times_out(
    blocked: "forked.Process | subprocess.Popen[bytes]",
) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        blocked.wait(0)
    assert blocked.poll() is None


def test_what_was_forked_ends_with_the_process_that_asked_for_it() -> None:
    program = (
        "import os, sys\n"
        "from tests.controlplane import forked\n"
        "process = forked.start([*forked.PROGRAM, 'manifests'], stdout=os.pipe()[1])\n"
        "print(process.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    owner.kill()
    owner.communicate()
    waiting.until(lambda: not Path(f"/proc/{pid}").exists(), what="the forked process ended")


def test_another_program_is_executed() -> None:
    done = forked.run([sys.executable, "-c", "import sys; print(sys.argv)"])
    assert done.stdout == "['-c']\n"


def test_what_is_typed_is_read() -> None:
    done = forked.run(["cat"], typed="text")
    assert done.stdout == "text"


def test_a_clock_that_is_moved_is_ahead_for_all_that_share_it(tmp_path: Path) -> None:
    first, second = MovedClock(tmp_path / "clock"), MovedClock(tmp_path / "clock")
    first.advance(60)
    second.advance(3540)
    assert first.seconds_ahead == second.seconds_ahead == 3600


@pytest.mark.parametrize(
    "waits",
    [
        "threading.Event().wait(3600)",
        "queue.Queue().get(timeout=3600)",
        "queue.SimpleQueue().get(timeout=3600)",
    ],
)
def test_who_waits_until_a_moment_wakes_up_when_the_clock_was_moved_past_it(
    tmp_path: Path, waits: str
) -> None:
    clock = MovedClock(tmp_path / "clock")
    program = (
        "import contextlib, pathlib, queue, sys, threading\n"
        "from tests.controlplane.moved_clock import MovedClock\n"
        "MovedClock(pathlib.Path(sys.argv[1])).replace_system_clock()\n"
        "print('begins', flush=True)\n"
        "with contextlib.suppress(queue.Empty):\n"
        f"    {waits}\n"
    )
    waiter = subprocess.Popen(
        [sys.executable, "-c", program, str(clock.path)], stdout=subprocess.PIPE
    )
    with waiter:
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == b"begins\n"
        with pytest.raises(TimeoutError):
            waiting.until(lambda: waiter.poll() is not None, within_seconds=0.2)

        def has_ended() -> bool:
            clock.advance(3600)  # again, should the wait begin after the first
            return waiter.poll() is not None

        waiting.until(has_ended, what="the wait is over")
    assert waiter.returncode == 0


def test_a_message_ends_a_wait_that_goes_by_a_moved_clock(tmp_path: Path) -> None:
    program = (
        "import pathlib, queue, sys, threading\n"
        "from tests.controlplane.moved_clock import MovedClock\n"
        "MovedClock(pathlib.Path(sys.argv[1])).replace_system_clock()\n"
        "event, queues = threading.Event(), (queue.Queue(), queue.SimpleQueue())\n"
        "threading.Timer(0.2, event.set).start()\n"
        "print(event.wait(3600))\n"
        "for one in queues:\n"
        "    threading.Timer(0.2, one.put, ['message']).start()\n"
        "    print(one.get(timeout=3600))\n"
    )
    done = forked.run([sys.executable, "-c", program, str(tmp_path / "clock")])
    assert done.stdout == "True\nmessage\nmessage\n"
