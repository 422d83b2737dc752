"""Unpacking a packed assignment gives the domains again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base.errors import InvalidValueError
from admission.objects import conversion, structural
from tests.objects import schemas


def domain(*values: str, count: int = 1) -> dict[str, Any]:
    return {"values": list(values), "count": count}


def test_common_parts_are_written_once() -> None:
    domains = [domain("rack-1", "host-a-x"), domain("rack-1", "host-b-x", count=2)]
    assert conversion.pack_topology(2, domains) == [
        {
            "domainCount": 2,
            "valuesPerLevel": [
                {"universal": "rack-1"},
                {"individual": {"prefix": "host-", "suffix": "-x", "roots": ["a", "b"]}},
            ],
            "podCounts": {"individual": [1, 2]},
        }
    ]


def test_beginning_and_end_do_not_overlap_in_the_shortest_value() -> None:
    (packed,) = conversion.pack_topology(1, [domain("aa"), domain("aaa")])
    assert packed["valuesPerLevel"] == [{"individual": {"prefix": "aa", "roots": ["", "a"]}}]


def test_parts_that_are_empty_are_left_out() -> None:
    (packed,) = conversion.pack_topology(1, [domain("a"), domain("b")])
    assert packed["valuesPerLevel"] == [{"individual": {"roots": ["a", "b"]}}]
    assert packed["podCounts"] == {"universal": 1}


def test_no_domains_are_no_slices() -> None:
    assert conversion.pack_topology(2, []) == []


def test_a_long_run_is_cut_at_the_limit() -> None:
    domains = [domain(str(n)) for n in range(conversion.MAX_DOMAINS + 1)]
    packed = conversion.pack_topology(1, domains)
    assert [run["domainCount"] for run in packed] == [conversion.MAX_DOMAINS, 1]
    assert conversion.unpack_topology(packed) == domains


def test_every_domain_needs_a_value_per_level() -> None:
    with pytest.raises(InvalidValueError, match="one value for each of the 2 levels"):
        conversion.pack_topology(2, [domain("a", "b"), domain("a")])


DOMAINS = st.lists(
    st.builds(
        domain,
        st.text("ab-", max_size=5),
        st.text("ab-", max_size=5),
        count=st.integers(1, 3),
    ),
    max_size=6,
)


@given(DOMAINS)
def test_packing_loses_nothing(domains: list[dict[str, Any]]) -> None:
    assert conversion.unpack_topology(conversion.pack_topology(2, domains)) == domains


@given(DOMAINS)
def test_a_converted_assignment_is_valid_and_comes_back(domains: list[dict[str, Any]]) -> None:
    assignment = {"name": "main", "topologyAssignment": {"levels": ["r", "h"], "domains": domains}}
    old = {
        "apiVersion": conversion.OLD,
        "kind": "Workload",
        "status": {"admission": {"podSetAssignments": [assignment]}},
    }
    new = conversion.convert(old, conversion.NEW)
    assert structural.errors(schemas.stored()["Workload"], new) == ()
    assert conversion.convert(new, conversion.OLD) == old
