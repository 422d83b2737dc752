"""What a pod's annotations wish for."""

import pytest

from admission.gpu import request_annotations
from admission.gpu.request_annotations import GpuAnnotations
from tests.gpu.builders import GIB

PROFILE = "gpu-admission.dev/mig-profile"
MEMORY = "gpu-admission.dev/gpu-memory"


def test_a_pods_wish_is_that_of_every_container_and_its_own_wins():
    found = request_annotations.read(
        {PROFILE: "1g.10gb", f"{PROFILE}.b": "3g.40gb", MEMORY: "8Gi", "other": "x"}, ["a", "b"]
    )
    assert found.problems == ()
    assert found.by_container == {
        "a": GpuAnnotations(profile="1g.10gb", memory_bytes=8 * GIB),
        "b": GpuAnnotations(profile="3g.40gb", memory_bytes=8 * GIB, own=True),
    }


def test_container_names_may_hold_dots_of_other_keys_only_as_whole_names():
    found = request_annotations.read({f"{MEMORY}.a.b": "1Gi"}, ["a.b"])
    assert found.by_container["a.b"].memory_bytes == GIB


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({PROFILE: "large"}, "must be a MIG profile"),
        ({PROFILE: "1c.3g.40gb"}, "compute instance"),
        ({MEMORY: "much"}, "must be a Kubernetes quantity"),
        ({MEMORY: "-1Gi"}, "must be positive"),
        ({MEMORY: "0"}, "must be positive"),
        ({f"{PROFILE}.x": "1g.10gb"}, "the pod has no container 'x'; it has a"),
    ],
)
def test_req_23_bad_annotations_name_themselves(annotations, text):
    (problem,) = request_annotations.read(annotations, ["a"]).problems
    assert text in problem
    assert problem.startswith(f"metadata.annotations[{next(iter(annotations))}]")


def test_two_bad_annotations_are_two_problems():
    annotations = {PROFILE: "x", MEMORY: "x", f"{PROFILE}.a": "y"}
    assert len(request_annotations.read(annotations, ["a", "b"]).problems) == 3
