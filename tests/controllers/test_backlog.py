"""In which order Workloads get their turn."""

import pytest

from admission.base.names import WorkloadKey
from admission.controllers.backlog import Backlog


def key(name: str) -> WorkloadKey:
    return WorkloadKey("ml", name)


def taken(backlog: Backlog) -> list[str]:
    return [backlog.take().name for _ in range(len(backlog))]


def test_workloads_come_in_the_order_in_which_they_were_asked_for():
    backlog = Backlog()
    backlog.add_all([key("a"), key("b"), key("c")])
    assert taken(backlog) == ["a", "b", "c"]


def test_asking_again_keeps_the_place():
    backlog = Backlog()
    backlog.add_all([key("a"), key("b"), key("a")])
    assert taken(backlog) == ["a", "b"]


def test_those_in_a_hurry_come_before_all_others_and_in_order_among_themselves():
    backlog = Backlog()
    backlog.add_all([key("a"), key("b"), key("c")])
    backlog.hurry(key("c"))
    backlog.hurry(key("b"))
    backlog.hurry(key("c"))
    assert taken(backlog) == ["c", "b", "a"]


def test_who_is_in_a_hurry_stays_so_when_asked_for_again():
    backlog = Backlog()
    backlog.add(key("a"))
    backlog.hurry(key("b"))
    backlog.add(key("b"))
    assert taken(backlog) == ["b", "a"]


def test_a_taken_workload_may_be_asked_for_again():
    backlog = Backlog()
    backlog.add(key("a"))
    assert taken(backlog) == ["a"]
    backlog.add(key("a"))
    assert taken(backlog) == ["a"]


def test_an_empty_backlog_gives_nothing():
    backlog = Backlog()
    assert not backlog
    with pytest.raises(KeyError):
        backlog.take()
