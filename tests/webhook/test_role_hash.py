"""The role hash equals Kueue's where Kueue's is known, and depends on what it should."""

import pytest

from admission.objects import role_hash
from tests.builders.pods import make_pod
from tests.webhook import builders

DEFAULT_TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{name}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for name in ("not-ready", "unreachable")
]


def digest(**fields: object) -> str:
    fields = {"priority": 0, "tolerations": DEFAULT_TOLERATIONS, **fields}
    return role_hash.of(builders.read(make_pod(**fields)).spec)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("requests", "expected"),
    [({}, "bf90803c"), ({"cpu": "1"}, "4b0469f7"), ({"cpu": "100m"}, "5949e52e")],
    ids=["no requests", "one cpu", "a tenth of a cpu"],
)
def test_known_values_of_kueue(requests, expected):
    """Source: pods written by Kueue ff69552e."""
    assert digest(requests=requests) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"requests": {"cpu": "2"}},
        {"nodeSelector": {"a": "b"}},
        {"affinity": {"nodeAffinity": {}}},
        {"priority": 1},
        {"runtimeClassName": "x"},
        {"tolerations": []},
        {"overhead": {"cpu": "1"}},
        {"resourceClaims": [{"name": "x"}]},
        {"topologySpreadConstraints": [{"maxSkew": 1}]},
        {"resources": {}},
        {"initContainers": [{"name": "i"}]},
        {"containers": [{"name": "main", "ports": [{"containerPort": 80}]}]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_it_changes_with_what_scheduling_depends_on(change):
    assert digest(**change) != digest()


@pytest.mark.parametrize(
    "change",
    [
        {"limits": {"cpu": "9"}},
        {"labels": {"a": "b"}},
        {"volumes": [{"name": "v"}]},
        {"containers": [{"name": "other", "image": "other", "env": [{"name": "x"}]}]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_it_does_not_change_with_the_rest(change):
    assert digest(**change) == digest()


def test_maps_are_sorted_and_marks_escaped_as_go_does():
    one = digest(nodeSelector={"a": "<&>", "b": "2"})
    assert one == digest(nodeSelector={"b": "2", "a": "<&>"})
    assert one == "e87a1425"
