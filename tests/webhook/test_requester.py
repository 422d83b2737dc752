"""Who is named as the requester of a new object."""

import pytest

from admission.base import names
from admission.objects import views
from admission.webhook import requester
from admission.webhook.review_context import Context
from tests.webhook import builders

KUBE = "system:serviceaccount:kube-system:"
OWNED = (views.OwnerReference(kind="ReplicaSet", name="web", uid="u", controller=True),)


def stamped(user: str, said: str = "", *, owned: bool = False) -> str | None:
    """The name that the object has after the review; None for none."""
    present = {names.REQUESTER: said} if said else {}
    metadata = views.ObjectMeta(annotations=present, owner_references=OWNED if owned else None)
    context = Context(namespace="ml", now_us=0, user=user)
    return {**present, **requester.stamp(metadata, context, builders.RULES)}.get(names.REQUESTER)


@pytest.mark.parametrize("said", ["", "bob", "unknown"])
@pytest.mark.parametrize("user", ["ada", "system:admin", "system:serviceaccount:ml:pipeline"])
def test_who_creates_an_object_is_named_whatever_it_says(user: str, said: str) -> None:
    assert stamped(user, said) == user


def test_a_person_who_names_an_owner_is_named() -> None:
    assert stamped("ada", "bob", owned=True) == "ada"


@pytest.mark.parametrize(
    ("user", "owned"),
    [
        (f"{KUBE}job-controller", True),
        (f"{KUBE}cronjob-controller", True),
        (f"{KUBE}replicaset-controller", False),
        ("system:kube-controller-manager", True),
        ("system:node:n1", False),
        ("system:serviceaccount:ops:operator", True),
        ("", False),
    ],
)
def test_a_controller_is_never_named(user: str, owned: bool) -> None:
    assert stamped(user, "bob", owned=owned) == names.UNKNOWN_REQUESTER
    assert stamped(user, owned=owned) is None


@pytest.mark.parametrize("maker", ["replicaset-controller", "statefulset-controller"])
def test_pods_keep_the_name_of_the_template_that_a_review_has_seen(maker: str) -> None:
    assert stamped(KUBE + maker, "ada", owned=True) == "ada"


def test_a_name_that_is_there_does_not_change_and_may_go() -> None:
    def metadata(name: str) -> views.ObjectMeta:
        return views.ObjectMeta(annotations={names.REQUESTER: name} if name else {})

    for old, new, is_refused in (
        ("ada", "ada", False), ("ada", "", False), ("ada", "bob", True), ("", "bob", True),
    ):  # fmt: skip
        assert bool([*requester.changed(metadata(old), metadata(new))]) is is_refused
