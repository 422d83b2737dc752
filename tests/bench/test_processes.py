"""What is read from /proc."""

import os
import subprocess
import sys

from tests.bench import processes


def test_a_name_with_brackets_and_blanks_does_not_shift_the_fields():
    assert processes.stat_fields("12 (a) b (c) S 1 2 3\n") == ["S", "1", "2", "3"]


def test_cpu_time_is_that_of_the_process():
    before = processes.cpu_seconds([os.getpid()])
    while os.times().user + os.times().system < before + 0.05:
        pass
    assert processes.cpu_seconds([os.getpid()]) >= before + 0.03


def test_a_tree_holds_a_process_and_its_children():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert {os.getpid(), child.pid} <= set(processes.tree(os.getpid()))
        assert list(processes.tree(child.pid)) == [child.pid]
    finally:
        child.communicate(b"\n")


def test_a_thread_that_has_ended_has_no_children(tmp_path):
    assert processes._children(tmp_path / "ended") == ()


def test_peak_memory_is_at_least_what_is_held():
    held = bytearray(8 * 1024 * 1024)
    assert processes.peak_mib([os.getpid()]) > len(held) / 2**20
