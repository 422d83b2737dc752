"""In a group that serves, a pod that ended is a pod that is gone, whatever its phase."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base import conditions, names
from admission.objects import views
from admission.objects.workload import Workload
from admission.owners import pod_group
from admission.owners.pod_group import Departed, PodGroupOwner
from tests.builders.metadata import make_condition
from tests.builders.pods import group_pod
from tests.builders.workloads import make_pod_set, make_workload

SERVING = {names.POD_GROUP_SERVING: "true"}
ENDINGS = "Succeeded", "Failed", "gone"


def pod(index: int, state: str, total: int) -> views.Pod:
    """A pod in a state: gated, running, ending, or the phase in which it ended."""
    document: dict[str, Any] = group_pod(f"p{index}", "serve", total, annotations=SERVING)
    document["metadata"]["uid"] = f"uid-{index}"
    if state == "gated":
        return msgspec.convert(document, views.Pod)
    document["spec"]["schedulingGates"] = []
    document["spec"]["nodeName"] = "node"
    document["status"] = {"phase": state if state in ENDINGS else "Running"}
    if state == "ending":
        document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return msgspec.convert(document, views.Pod)


def workload(total: int, remembers: dict[str, Any] | None = None) -> Workload:
    document = make_workload("serve", make_pod_set("gpus1", total, gpus=1))
    document["metadata"]["annotations"] = {
        names.IS_GROUP_WORKLOAD: "true",
        names.GROUP_MEMBERS: msgspec.json.encode(remembers or {}).decode(),
    }
    document["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p"}
    ]
    document["status"] = {
        "conditions": [
            make_condition(conditions.QUOTA_RESERVED, "True"),
            make_condition(conditions.ADMITTED, "True"),
        ],
        "admission": {
            "clusterQueue": "gpus",
            "podSetAssignments": [{"name": "gpus1", "count": total}],
        },
    }
    return msgspec.convert(document, Workload)


@given(
    size=st.integers(1, 4),
    changes=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from((*ENDINGS, "ending", "replaced", "started"))),
        max_size=12,
    ),
)
def test_what_a_serving_group_lacks_is_its_size_less_what_lives(
    size: int, changes: list[tuple[int, str]]
) -> None:
    pods = dict.fromkeys(range(size), "running")  # by UID
    slots = {slot: slot for slot in range(size)}
    departed: dict[str, Departed] = {}
    made = workload(size)
    for slot, change in changes:
        index = slots.get(slot)
        if index is None:
            continue
        state = pods.get(index)
        match change:
            case "replaced" if state in {None, "Succeeded", "Failed"}:
                slots[slot] = max([*pods, *slots.values()]) + 1
                pods[slots[slot]] = "gated"
            case "started" if state == "gated":
                pods[index] = "running"
            case "gone" if state is not None:
                seen = pod_group.departed(pod(index, state, size))
                if seen is not None:
                    departed[f"uid-{index}"] = seen
                del pods[index]
            case "Succeeded" | "Failed" | "ending" if state in {"running", "ending"}:
                pods[index] = change
        there = [pod(number, known, size) for number, known in sorted(pods.items())]
        if not there:
            continue
        owner = PodGroupOwner(
            pod_group.read(there), made, departed=departed, is_ending=lambda _: True
        )
        living = [known for known in pods.values() if known in {"gated", "running", "ending"}]
        released = [known for known in living if known != "gated"]
        assert owner.lacks(made) == max(0, size - len(living))
        is_waiting = "gated" in pods.values()
        assert owner.may_start(made) == (is_waiting and len(released) < size)
        assert owner.finished() is None
        assert owner.reclaims() is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_takes_the_place_of_one_that_ended_in_a_serving_group(phase: str) -> None:
    made = workload(2)
    there = [pod(0, "running", 2), pod(1, phase, 2), pod(2, "gated", 2)]
    owner = PodGroupOwner(pod_group.read(there), made)
    assert owner.to_start(made).metadata.name == "p2"


def test_what_a_serving_group_remembered_before_is_dropped() -> None:
    made = workload(2, {"succeeded": {"gpus1": ["uid-8", "uid-9"]}, "notRetriable": True})
    owner = PodGroupOwner(pod_group.read([pod(0, "running", 2), pod(1, "gated", 2)]), made)
    assert owner.may_start(made)
    changes = owner.unrecorded(made)
    assert changes is not None
    assert changes["annotations"] == {names.GROUP_MEMBERS: "{}"}
