"""Whatever a pod has and a flavor says, a release only tightens, or it is a conflict."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base import names
from admission.objects.resource_flavor import ResourceFlavor
from admission.owners import injection
from admission.owners import pod as pod_owner
from tests.builders.metadata import make_condition
from tests.builders.pods import pod_view
from tests.builders.workloads import make_admission, workload_of_pod

KEYS = st.sampled_from(["nvidia.com/gpu.product", "pool", "zone"])
VALUES = st.sampled_from(["a", "b"])
SELECTORS = st.dictionaries(KEYS, VALUES, max_size=3)
TOLERATION = st.fixed_dictionaries(
    {"key": KEYS, "operator": st.just("Exists")}, optional={"effect": st.just("NoSchedule")}
)
TOLERATIONS = st.lists(TOLERATION, max_size=3)
GATES = st.lists(st.sampled_from(["example.com/a", "example.com/b"]), max_size=2, unique=True)
TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}
    }
}


def merged(spec: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The spec after a merge patch that changes members of the selector and whole lists."""
    selector = {**spec["nodeSelector"], **change.get("nodeSelector", {})}
    return {**spec, **change, "nodeSelector": selector}


@given(SELECTORS, TOLERATIONS, GATES, SELECTORS, TOLERATIONS)
def test_req_21_a_release_only_tightens_or_is_a_conflict(
    own: dict[str, str],
    tolerated: list[dict[str, str]],
    gates: list[str],
    labels: dict[str, str],
    offered: list[dict[str, str]],
) -> None:
    listed = [{"name": name} for name in (names.ADMISSION_GATE, *gates)]
    spec = {
        "nodeSelector": own,
        "tolerations": tolerated,
        "schedulingGates": listed,
        "affinity": AFFINITY,
    }
    pod = pod_view(spec=spec)
    flavor = msgspec.convert(
        {"metadata": {"name": "a100"}, "spec": {"nodeLabels": labels, "tolerations": offered}},
        ResourceFlavor,
    )
    workload = workload_of_pod(pod, make_condition("Admitted", "True"), admission=make_admission())
    given = injection.injection(workload, "main", {"a100": flavor})
    contradicts = any(own.get(key, value) != value for key, value in labels.items())

    if contradicts:
        with pytest.raises(injection.InjectionConflictError, match="conflict for nodeSelector"):
            pod_owner.release(pod, given)
        return
    after = merged(spec, json.loads(pod_owner.release(pod, given).body)["spec"])

    assert after["nodeSelector"] == {**own, **labels}
    assert after["tolerations"][: len(tolerated)] == tolerated
    assert all(one in after["tolerations"] for one in offered)
    assert after["schedulingGates"] == [{"name": name} for name in gates]
    assert after["affinity"] == AFFINITY
