"""Which namespaces are managed follows from their names and labels."""

import pytest

from admission.base import names
from admission.base.namespaces import MANAGED, ManagedNamespaces
from admission.base.selectors import Requirement

LABELLED = ManagedNamespaces(frozenset({"lab"}), (Requirement("team", "Exists"),))


@pytest.mark.parametrize("name", ["kube-system", names.SYSTEM_NAMESPACE])
def test_the_systems_own_namespaces_are_never_managed(name: str) -> None:
    assert MANAGED.leave_out(name, {})
    assert not MANAGED.include(name, {})


@pytest.mark.parametrize(
    ("name", "labels", "managed"),
    [
        ("ml", {"team": "a"}, True),
        ("ml", {}, False),
        ("lab", {"team": "a"}, False),
    ],
)
def test_name_and_labels_must_both_be_chosen(
    name: str, labels: dict[str, str], managed: bool
) -> None:
    assert LABELLED.include(name, labels) is managed
    assert LABELLED.leave_out(name, labels) is not managed


def test_of_a_namespace_that_was_not_seen_only_the_name_counts() -> None:
    assert (LABELLED.include("ml", None), LABELLED.leave_out("ml", None)) == (False, False)
    assert (LABELLED.include("lab", None), LABELLED.leave_out("lab", None)) == (False, True)
    assert (MANAGED.include("ml", None), MANAGED.leave_out("ml", None)) == (True, False)


def test_excluded_names_are_listed_with_those_that_are_never_managed() -> None:
    assert LABELLED.unmanaged == (names.SYSTEM_NAMESPACE, "kube-system", "lab")
