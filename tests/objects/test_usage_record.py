"""Records are added up exactly, fit into an object, and are read as they were written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base.errors import InvalidValueError
from admission.objects import usage_record
from admission.objects.usage_record import (
    Account,
    OwnerAccount,
    Period,
    Record,
    RecordedOwner,
    Runs,
)

MANY = 6000
WORDS = st.text('abc"é', max_size=12)
ACCOUNTS = st.builds(Account, *(st.text("ab", min_size=1, max_size=3) for _ in range(6)))


def wide(flavors: int = 2) -> Record:
    """A record that is far too large for an object."""
    usage = {
        Account(f"namespace-{i}", "queue" * 8, "local", f"user-{i}@example.com",
                f"flavor-{i % flavors}", "nvidia.com/gpu" if i % 3 else "nvidia.com/mig-1g.10gb"):
        i + 1
        for i in range(MANY)
    }  # fmt: skip
    runs = {
        RecordedOwner(f"namespace-{i % 50}", "Pod", f"serve-{i}-abcde"): Runs(1, i, i)
        for i in range(MANY)
    }
    owners = {
        OwnerAccount(*owner, "nvidia.com/gpu"): run.seconds + 1 for owner, run in runs.items()
    }
    return Record(begin=0, until=10, usage=usage, runs=runs, owners=owners, owners_from=0)


def test_the_rows_of_a_namespace_leave_out_others_and_what_is_added_up_for_all() -> None:
    rows = {name: Account(name, "q", "l", "u", "f", "gpu") for name in ("a", "b", "")}
    record = Record(begin=0, until=10, usage={rows["a"]: 1, rows["b"]: 2})
    whole = usage_record.of_namespace(record, "a")
    assert (whole.usage, whole.is_partial) == ({rows["a"]: 1}, False)
    kinds = {"usage": rows[""], "runs": RecordedOwner("", "Job", ""),
             "owners": OwnerAccount("", "Job", "", "gpu")}  # fmt: skip
    for kind, rest in kinds.items():
        amount = Runs(1, 1, 1) if kind == "runs" else 1
        bounded = Record(begin=10, until=20, **{kind: {rest: amount}})  # type: ignore[arg-type]
        part = usage_record.of_namespace(bounded, "a")
        assert (part.usage, part.runs, part.owners, part.is_partial) == ({}, {}, {}, True)
        again = usage_record.read(usage_record.document(part, Period.HOUR, "a"))
        assert again == part
        assert usage_record.merged((whole, part)).is_partial


def sums(record: Record) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for account, amount in record.usage.items():
        key = account.flavor, account.resource
        found[key] = found.get(key, 0) + amount
    return found


def test_a_record_that_is_too_large_keeps_its_sums_and_its_largest_rows():
    record = wide()
    found = usage_record.bounded(record)
    document = usage_record.document(found, Period.HOUR, "system")
    assert len(json.dumps(document)) < 750 * 1024
    assert sum(found.owners.values()) == sum(range(MANY + 1))
    assert found.owners[max(record.owners, key=lambda one: record.owners[one])] == MANY
    assert sums(found) == sums(record)
    largest = max(record.usage, key=lambda one: record.usage[one])
    assert found.usage[largest] == MANY
    assert sum(one.number for one in found.runs.values()) == MANY
    assert sum(one.seconds for one in found.runs.values()) == sum(range(MANY))
    assert max(one.longest for one in found.runs.values()) == MANY - 1
    again = usage_record.bounded(usage_record.merged((found, record)))
    assert sums(again) == {key: 2 * n for key, n in sums(record).items()}


def test_where_there_are_too_many_flavors_they_are_added_up_too():
    record = wide(flavors=MANY)
    found = usage_record.bounded(record)
    assert sum(found.usage.values()) == sum(record.usage.values())
    by_resource = {resource: 0 for _, resource in sums(record)}
    assert {one.resource for one in found.usage} == set(by_resource)
    assert len(json.dumps(usage_record.document(found, Period.HOUR, "system"))) < 750 * 1024


def test_a_record_that_fits_stays_as_it_is():
    record = Record(begin=0, until=9, usage={Account(*"abcdef"): 3})
    assert usage_record.bounded(record) == record


@given(
    st.dictionaries(st.builds(Account, *[WORDS] * 6), st.integers(1, 2**70), max_size=4),
    st.dictionaries(
        st.builds(RecordedOwner, *[WORDS] * 3),
        st.builds(Runs, *[st.integers(1, 2**40)] * 3),
        max_size=4,
    ),
)
def test_what_is_written_is_read(
    usage: dict[Account, int], runs: dict[RecordedOwner, Runs]
) -> None:
    owners = {OwnerAccount(*owner, "gpu"): run.seconds for owner, run in runs.items()}
    record = Record(
        begin=7200, until=9000, usage=usage, runs=runs, owners=owners, owners_from=8000,
        holes=((7300, 7400),),
    )  # fmt: skip
    document = usage_record.document(record, Period.HOUR, "system")
    assert usage_record.read(document) == record
    assert usage_record.period_of(document) is Period.HOUR
    assert document["metadata"]["name"] == "gpu-usage-1970-01-01-02"


@given(st.lists(st.dictionaries(ACCOUNTS, st.integers(1, 10**12), max_size=3), min_size=1))
def test_the_sum_of_records_is_the_sum_of_their_rows(parts: list[dict[Account, int]]) -> None:
    records = [Record(begin=i, until=i + 1, usage=part) for i, part in enumerate(parts)]
    found = usage_record.merged(reversed(records))
    total = sum(amount for part in parts for amount in part.values())
    assert sum(found.usage.values()) == total
    assert (found.begin, found.until, found.holes) == (0, len(parts), ())


def test_hours_of_owners_are_whole_since_the_last_record_that_lacks_a_part_of_them():
    def merged(*since: int | None) -> int | None:
        return usage_record.merged(
            Record(begin=10 * i, until=10 * i + 10, owners_from=moment)
            for i, moment in enumerate(since)
        ).owners_from

    assert merged(0, 10, 20) == 0
    assert merged(None, 10, 20) == 10
    assert merged(None, 15, 20) == 15
    assert merged(0, None, 20) == 20
    assert merged(0, 10, None) is None


def test_a_time_between_records_is_a_hole():
    records = [Record(begin=0, until=5), Record(begin=8, until=9, holes=((8, 9),))]
    assert usage_record.merged(records).holes == ((5, 9),)


def test_of_too_many_holes_the_closest_become_one():
    holes = [(100 * i, 100 * i + 10 + (80 if i == 7 else 0)) for i in range(51)]
    found = usage_record.joined(holes)
    assert len(found) == 50
    assert (700, 810) in found
    assert found[0][0] == 0
    assert found[-1][1] == 5010


@pytest.mark.parametrize(
    "data", [{}, {"record.json": ""}, {"record.json": "{}"}, {"record.json": '{"format": 2}'}]
)
def test_another_object_is_no_record(data: dict[str, str]) -> None:
    with pytest.raises(InvalidValueError, match="must be a usage record"):
        usage_record.read({"metadata": {"name": "other"}, "data": data})
