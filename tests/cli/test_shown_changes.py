"""What `install` shows of many objects: a line for each kind, in the order of what happens."""

from collections.abc import Iterator

import pytest

from admission.base.errors import AdmissionError
from admission.cli import install
from admission.kube.apply import Applied, Effect


def change(kind: str, name: str, effect: Effect = Effect.CREATED, namespace: str = "") -> Applied:
    return Applied(kind=kind, name=name, namespace=namespace, effect=effect)


CHANGES = (
    change("Namespace", "gpu-admission-system"),
    *(change("ClusterRole", f"role-{number}") for number in range(40)),
    change("ClusterRole", "last", Effect.UNCHANGED),
    change("Deployment", "controller", namespace="gpu-admission-system"),
)


def test_equal_effects_on_objects_of_a_kind_are_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    install.show(CHANGES, "text", by_kind=True)
    assert capsys.readouterr().out.splitlines() == [
        "Namespace/gpu-admission-system created",
        "ClusterRole (40) created",
        "ClusterRole/last unchanged",
        "Deployment/controller -n gpu-admission-system created",
        "done: 42 created, 1 unchanged",
    ]


def test_what_was_done_before_an_error_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    def failing() -> Iterator[Applied]:
        yield from CHANGES[:3]
        raise AdmissionError("the API server is away")

    with pytest.raises(AdmissionError, match="is away"):
        install.show(failing(), "text", by_kind=True)
    assert capsys.readouterr().out.splitlines()[-1] == "ClusterRole (2) created"


def test_few_changes_are_shown_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    install.show(CHANGES[:3], "text")
    assert capsys.readouterr().out.splitlines()[1:3] == [
        "ClusterRole/role-0 created",
        "ClusterRole/role-1 created",
    ]


def test_each_line_of_a_dry_run_says_that_it_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    install.show(CHANGES[-2:], "text", is_dry_run=True)
    assert capsys.readouterr().out.splitlines() == [
        "Deployment/controller -n gpu-admission-system created (dry run)",
        "would be done: 1 created, 1 unchanged",
    ]
