"""In which order Workloads get their turn."""

from admission.base.names import WorkloadKey
from admission.controller.writing.work_queue import WorkQueue
from tests.clocks import FakeClock


def key(name: str) -> WorkloadKey:
    return WorkloadKey("ml", name)


def taken(work: WorkQueue, may_decide: bool = True) -> list[str]:
    """Names of all that may be looked at, in turn."""
    names = []
    while (found := work.pop(lambda: may_decide)) is not None:
        names.append(found.name)
    return names


def test_workloads_come_in_the_order_in_which_they_were_asked_for():
    work = WorkQueue(FakeClock())
    work.add_all([key("a"), key("b"), key("c")])
    assert taken(work) == ["a", "b", "c"]


def test_asking_again_keeps_the_place():
    work = WorkQueue(FakeClock())
    work.add_all([key("a"), key("b"), key("a")])
    assert taken(work) == ["a", "b"]


def test_those_in_a_hurry_come_before_all_others_and_in_order_among_themselves():
    work = WorkQueue(FakeClock())
    work.add_all([key("a"), key("b"), key("c")])
    work.add_to_release(key("c"))
    work.add_to_release(key("b"))
    work.add_to_release(key("c"))
    assert taken(work) == ["c", "b", "a"]


def test_who_is_in_a_hurry_stays_so_when_asked_for_again():
    work = WorkQueue(FakeClock())
    work.add(key("a"))
    work.add_to_release(key("b"))
    work.add(key("b"))
    assert taken(work) == ["b", "a"]


def test_a_taken_workload_may_be_asked_for_again():
    work = WorkQueue(FakeClock())
    work.add(key("a"))
    assert taken(work) == ["a"]
    work.add(key("a"))
    assert taken(work) == ["a"]


def test_those_about_which_something_was_decided_come_before_those_in_a_hurry():
    work = WorkQueue(FakeClock())
    work.add_all([key("a"), key("b"), key("c"), key("d")])
    work.add_to_release(key("b"))
    work.add_decided([key("d"), key("c")])
    assert taken(work) == ["d", "c", "b", "a"]


def test_while_no_decision_may_be_written_all_others_get_their_turn():
    work = WorkQueue(FakeClock())
    work.add_all([key("a"), key("b")])
    work.add_to_release(key("c"))
    work.add_decided([key("a"), key("d")])
    assert taken(work, may_decide=False) == ["c", "b"]
    assert taken(work) == ["a", "d"]


def test_who_waits_for_a_decision_to_be_written_gets_one_turn_only():
    work = WorkQueue(FakeClock())
    work.add_to_release(key("a"))
    work.add_decided([key("a")])
    work.add_to_release(key("a"))
    work.add(key("a"))
    assert taken(work, may_decide=False) == []
    assert taken(work) == ["a"]


def test_whether_a_decision_may_be_written_is_asked_for_each_anew():
    work = WorkQueue(FakeClock())
    work.add_decided([key("a"), key("b")])
    work.add(key("c"))
    answers = iter([True, False])
    order = [work.pop(lambda: next(answers)) for _ in range(2)]
    assert order == [key("a"), key("c")]


def test_an_empty_queue_gives_nothing():
    assert WorkQueue(FakeClock()).pop(lambda: True) is None
