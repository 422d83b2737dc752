"""The table of GPU names of other programs is unambiguous, complete in the guide, and in step."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from admission.gpu import foreign, resources
from admission.reasons import next_steps, sentences
from admission.webhook import pod_review
from admission.webhook.queueing import ManagementState
from admission.webhook.review_context import Context
from tests.builders.pods import make_pod
from tests.webhook.builders import NOW_US, RULES, make_cluster, read

GUIDE = Path(__file__).parents[2] / "docs" / "limits-of-support.md"
EXAMPLES = [name for row in foreign.TABLE for name in row.examples]


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_belongs_to_one_row_and_stands_in_the_guide(name: str) -> None:
    assert len([row for row in foreign.TABLE if re.fullmatch(row.pattern, name)]) == 1
    assert f"`{name}`" in GUIDE.read_text("utf-8")


@pytest.mark.parametrize(
    "name",
    ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "cpu", "memory",
     "rdma/hca", "nvidia.com/hostdev", "gpu-admission.dev/gpu-memory", "amd.com/gpux"],
)  # fmt: skip
def test_names_of_our_own_and_of_other_devices_are_none_of_them(name: str) -> None:
    assert not [row for row in foreign.TABLE if re.fullmatch(row.pattern, name)]


@pytest.mark.parametrize(
    ("name", "is_slip"),
    [
        ("nvidia.com/GPU", True), ("nvidia.com/Gpu", True), ("nvidia.com/gPu", True),
        ("nvidia.com/gpU", True), ("NVIDIA.com/gpu", True), ("Nvidia.com/gpu", True),
        ("nVidia.COM/gpu", True), ("NVIDIA.COM/GPU", True), ("nvidia.com/GPUs", True),
        ("nvidia/GPU", True), ("nvidia.com/gpu", False), ("nvidia.com/gpu.shared", False),
        ("nvidia.com/GA102GL_A10", False), ("nvidia.com/TU104GL_Tesla_T4", False),
        ("nvidia.com/GRID_T4-1Q", False), ("nvidia.com/gpumem", False),
    ],
)  # fmt: skip
def test_other_capitals_are_a_slip_and_a_device_of_a_virtual_machine_is_none(
    name: str, is_slip: bool
) -> None:
    rows = [row.vendor for row in foreign.TABLE if re.fullmatch(row.pattern, name)]
    assert (rows == ["misspelled"]) is is_slip
    assert (sentences.resources_misspelled([name]) is not None) is is_slip
    is_right = name.startswith("nvidia.com/gpu") and "mem" not in name and not is_slip
    assert bool(rows) is not is_right


@pytest.mark.parametrize(
    ("name", "right_name"),
    [
        ("nvidia.com/a100", "nvidia.com/gpu"), ("nvidia.com/h100", "nvidia.com/gpu"),
        ("nvidia.com/v100", "nvidia.com/gpu"), ("nvidia.com/l4", "nvidia.com/gpu"),
        ("nvidia.com/t4", "nvidia.com/gpu"), ("nvidia.com/l40s", "nvidia.com/gpu"),
        ("nvidia.com/a100-80gb", "nvidia.com/gpu"), ("nvidia.com/tesla-t4", "nvidia.com/gpu"),
        ("nvidia.com/gpu-h100", "nvidia.com/gpu"), ("nvidia.com/rtx-a6000", "nvidia.com/gpu"),
        ("amd.com/mi300x", "amd.com/gpu"), ("nvidia.com/gpu", ""), ("nvidia.com/gpumem", ""),
        ("nvidia.com/gpu-10gb", ""), ("nvidia.com/mig-1g.10gb", ""), ("amd.com/gpu", ""),
        ("nvidia.com/hostdev", ""), ("nvidia.com/pgpu", ""), ("example.com/a100", ""),
    ],
)  # fmt: skip
def test_a_product_as_a_resource_is_told_how_a_gpu_is_asked_for(
    name: str, right_name: str
) -> None:
    rows = [row.mend.value for row in foreign.TABLE if re.fullmatch(row.pattern, name)]
    of_product = [row for row in rows if row.startswith(f"ask for {right_name} with")]
    assert (rows == of_product and len(rows) == 1) is bool(right_name)
    instead = sentences.gpu_of_products([name])
    assert instead.partition(", and ")[0] == (f"a GPU is {right_name}" if right_name else "")


def test_a_product_without_quota_is_told_how_a_gpu_is_asked_for() -> None:
    assert sentences.resources_not_covered(["nvidia.com/a100"], "research") == (
        next_steps.Code.RESOURCE_MISSPELLED,
        (
            "Never starts as it is: queue research has no quota for nvidia.com/a100; a GPU is"
            " nvidia.com/gpu, and nodeSelector nvidia.com/gpu.product chooses its product."
        ),
    )


def test_what_is_misspelled_is_told_in_the_words_of_the_table() -> None:
    (row,) = (row for row in foreign.TABLE if row.mend is foreign.Mend.SPELL)
    for name in row.examples:
        text = sentences.resources_not_covered(["cpu", name], "research")
        assert text.message == f"Never starts as it is: {name} is {row.vendor}: {row.unit}."
        assert row.mend.value.endswith(next_steps.next_step(text.reason).partition(",")[0])


def test_a_name_that_is_managed_is_held_like_a_gpu() -> None:
    """What the warning tells an administrator to do."""
    managed = resources.managed([*resources.DEFAULT_MANAGED, "amd.com/gpu"])
    pod = read(make_pod(limits={"amd.com/gpu": "2"}, requests={"amd.com/gpu": "2"}))
    context = Context(namespace="team-a", now_us=NOW_US)
    cluster = make_cluster("default")
    assert pod_review.mutate(pod, context, RULES, cluster).standing is ManagementState.IN_DOUBT
    outcome = pod_review.mutate(pod, context, replace(RULES, managed=managed), cluster)
    assert outcome.standing is ManagementState.QUEUED
