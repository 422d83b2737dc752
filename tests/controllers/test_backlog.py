"""In which order Workloads get their turn."""

from admission.base.names import WorkloadKey
from admission.controllers.writing.backlog import Backlog


def key(name: str) -> WorkloadKey:
    return WorkloadKey("ml", name)


def taken(backlog: Backlog, may_decide: bool = True) -> list[str]:
    """Names of all that may be looked at, in turn."""
    names = []
    while (found := backlog.take(lambda: may_decide)) is not None:
        names.append(found.name)
    return names


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


def test_those_about_which_something_was_decided_come_before_those_in_a_hurry():
    backlog = Backlog()
    backlog.add_all([key("a"), key("b"), key("c"), key("d")])
    backlog.hurry(key("b"))
    backlog.decide([key("d"), key("c")])
    assert taken(backlog) == ["d", "c", "b", "a"]


def test_while_no_decision_may_be_written_all_others_get_their_turn():
    backlog = Backlog()
    backlog.add_all([key("a"), key("b")])
    backlog.hurry(key("c"))
    backlog.decide([key("a"), key("d")])
    assert taken(backlog, may_decide=False) == ["c", "b"]
    assert taken(backlog) == ["a", "d"]


def test_who_waits_for_a_decision_to_be_written_gets_one_turn_only():
    backlog = Backlog()
    backlog.hurry(key("a"))
    backlog.decide([key("a")])
    backlog.hurry(key("a"))
    backlog.add(key("a"))
    assert taken(backlog, may_decide=False) == []
    assert taken(backlog) == ["a"]


def test_whether_a_decision_may_be_written_is_asked_for_each_anew():
    backlog = Backlog()
    backlog.decide([key("a"), key("b")])
    backlog.add(key("c"))
    answers = iter([True, False])
    order = [backlog.take(lambda: next(answers)) for _ in range(2)]
    assert order == [key("a"), key("c")]


def test_an_empty_backlog_gives_nothing():
    assert Backlog().take(lambda: True) is None
