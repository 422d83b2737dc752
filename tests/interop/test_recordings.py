"""What rows read, and what stand-ins of operators say, against what the real operators said.

``make interop ARGS=--record`` writes the recordings.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from admission.owners.row_owner import RowOwner
from tests.interop import cases, operators, recordings
from tests.owners import samples

NAMES = [one for operator in operators.OPERATORS for one in operator.samples]
EVERY = pytest.mark.parametrize("name", NAMES)
WITH_STAND_IN = pytest.mark.parametrize("name", [one for one in NAMES if one != "trainjob"])
"""The stand-in for Kubeflow's trainer makes JobSets; what it says is that of the JobSet."""
HELD, STARTS, STOPS, AGAIN, ENDS = "held", "starts", "stops", "starts again", "ends"
MADE = {"lastTransitionTime", "message"}
"""What a recording does not have, and what tells people more."""
_STOPPED_LATE = {"rayjob"}
"""Kinds that their operator begins with, although they are suspended, and stops then."""
_ENDLESS = {"raycluster"}


def owners(name: str, step: str) -> Iterator[RowOwner]:
    """The object in the state of each entry of a step, as the controller reads it."""
    sample = cases.read(name)
    manifest = sample.manifest
    metadata = {**manifest["metadata"], "namespace": "team", "uid": "1", "resourceVersion": "1"}
    for at, status in recordings.of(name).entries:
        if at == step:
            document = {**manifest, "metadata": metadata, "status": status}
            yield cases.owner(document, sample.made)


@EVERY
def test_a_row_reads_what_its_operator_says(name: str) -> None:
    *before, waits = owners(name, HELD)
    assert not any(each.is_active() for each in ([] if name in _STOPPED_LATE else before))
    assert not waits.is_active()
    assert not any(each.finished() for each in (*before, waits))
    for step in (STARTS, AGAIN):
        *before, last = owners(name, step)
        assert last.is_active()
        assert last.is_ready()
        assert not any(one.finished() for one in (*before, last))
    *before, stopped = owners(name, STOPS)
    assert not stopped.is_active()
    assert not any(one.finished() for one in (*before, stopped))
    if name in _ENDLESS:
        assert not list(owners(name, ENDS))
    else:
        *_, ended = owners(name, ENDS)
        assert ended.finished() is not None
        assert not ended.is_active()


@WITH_STAND_IN
def test_an_operator_says_all_that_its_stand_in_says(name: str) -> None:
    kind = cases.read(name).manifest["kind"]
    (sample,) = (one for one in samples.ALL if one.row.kind == kind)
    recorded = recordings.of(name)
    assert (sample.ended is None) is (name in _ENDLESS)
    for made, steps in (
        (sample.running, (STARTS, AGAIN)),
        (sample.stopped, (STOPS,)),
        (sample.ended or {}, (ENDS,)),
    ):
        real = {one for at, said in recorded.entries if at in steps for one in shape(said)}
        assert set(shape(made)) <= real, f"{kind}: {made}"


def shape(status: Any, path: str = "") -> Iterator[str]:
    """The members of a status by path, with what is said in words; numbers and names differ."""
    if isinstance(status, Mapping):
        if "type" in status:
            yield f"{path} {status['type']}={status['status']} {status.get('reason', '')}"
            return
        for key, one in status.items():
            if key not in MADE:
                yield from shape(one, f"{path}.{key}")
    elif isinstance(status, list):
        for one in status:
            yield from shape(one, f"{path}[]")
    elif isinstance(status, int) or path.endswith(".name"):
        yield path
    else:
        yield f"{path} {status}"
