"""The load of part (e)."""

from collections import Counter

from tests.bench import shape

NAMES = [name for _, name in shape.BASELINE.queues()]


def test_fifteen_thousand_workloads_come_over_thirty_queues():
    found = shape.arrivals(NAMES)
    assert len(found) == len({arrival.name for arrival in found}) == 15_000
    assert set(Counter(arrival.queue for arrival in found).values()) == {500}
    assert Counter(arrival.of.name for arrival in found) == {
        "small": 10_500, "medium": 3_000, "large": 1_500,
    }  # fmt: skip


def test_workloads_of_a_class_come_at_their_interval():
    for one in shape.BASELINE.classes:
        due = [a.due_ms for a in shape.arrivals(["q"]) if a.of is one]
        assert due == [index * one.interval_ms for index in range(one.count)]


def test_arrivals_are_in_the_order_in_which_they_are_due():
    due = [arrival.due_ms for arrival in shape.arrivals(NAMES)]
    assert due == sorted(due)


def test_a_scale_keeps_at_least_one_workload_of_each_class():
    assert len(shape.arrivals(NAMES, 0.1)) == 1_500
    assert Counter(a.of.name for a in shape.arrivals(["q"], 0.001)) == dict.fromkeys(
        ("small", "medium", "large"), 1
    )


def test_fifty_thousand_workloads_come_over_a_thousand_queues():
    names = [name for _, name in shape.LARGE.queues()]
    found = shape.arrivals(names, shape=shape.LARGE)
    assert len(set(names)) == 1_000
    assert len(found) == len({arrival.name for arrival in found}) == 50_000
    assert set(Counter(arrival.queue for arrival in found).values()) == {50}


def test_fewer_queues_of_the_large_load_have_their_whole_load():
    scaled = shape.LARGE.scaled(0.02)
    assert len(list(scaled.queues())) == 20
    assert scaled.classes == shape.LARGE.classes


def test_a_slower_load_is_as_contended_and_its_queues_take_turns():
    slower = shape.LARGE.slowed(500)
    for before, after in zip(shape.LARGE.classes, slower.classes, strict=True):
        assert after.interval_ms == 500 * before.interval_ms
        assert after.runtime_ms * before.interval_ms == before.runtime_ms * after.interval_ms
        due = [a.due_ms for a in shape.arrivals(["p", "q"], shape=slower) if a.of is after]
        assert due == [index * after.interval_ms // 2 for index in range(2 * after.count)]


def test_the_workloads_in_racks_ask_for_what_those_of_the_first_load_do():
    assert len(shape.arrivals(NAMES, shape=shape.RACKS)) == 15_000
    for plain in shape.BASELINE.classes:
        of_racks = [one for one in shape.RACKS.classes if one.name.startswith(plain.name)]
        assert sum(one.count for one in of_racks) == plain.count
        assert {(one.cpu, one.priority) for one in of_racks} == {(plain.cpu, plain.priority)}
        for one in of_racks:
            (pod_set,) = shape.workload("w", "q", one)["spec"]["podSets"]
            (container,) = pod_set["template"]["spec"]["containers"]
            milli = int(container["resources"]["requests"]["cpu"].removesuffix("m"))
            assert pod_set["count"] * milli == 1000 * plain.cpu
            assert pod_set["topologyRequest"]
