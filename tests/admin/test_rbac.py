"""Roles follow what the code watches."""

from collections.abc import Iterable

import pytest

from admission.admin import rbac
from admission.base import names
from admission.controller import watched
from admission.installed import cabundles
from admission.kube import resources
from admission.kube.resources import Resource
from admission.owners import integrations
from admission.webhook import lister, owner_admissions


def granted(account: str, *verbs: str) -> set[tuple[str, str]]:
    """Group and resource of everything on which an account may do all the verbs."""
    return {
        (group, resource)
        for document in rbac.documents()
        if document["kind"] == "ClusterRole" and document["metadata"]["name"] == account
        for rule in document["rules"]
        if set(verbs) <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.mark.parametrize(
    ("account", "watched"),
    [
        (
            rbac.CONTROLLER_ACCOUNT,
            {**watched.WATCHED, **watched.OPTIONAL, **watched.rows(integrations.DEFAULT)},
        ),
        (
            rbac.WEBHOOK_ACCOUNT,
            (*lister.WATCHED, *map(owner_admissions.resource_of, integrations.DEFAULT.checked)),
        ),
    ],
)
def test_a_process_may_follow_exactly_what_it_watches(
    account: str, watched: Iterable[Resource]
) -> None:
    assert granted(account, "list", "watch") == {(one.group, one.plural) for one in watched}
    assert granted(account, "list") == granted(account, "watch")


def test_the_webhook_may_do_nothing_else() -> None:
    for verb in ("create", "delete", "patch", "update"):
        assert granted(rbac.WEBHOOK_ACCOUNT, verb) == set()
    hooks = (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)
    assert granted(rbac.WEBHOOK_ACCOUNT, "get") == {(one.group, one.plural) for one in hooks}


def test_the_rights_on_certificates_are_limited_by_names() -> None:
    rules = [rule for one in rbac.certificates("quota") for rule in one.get("rules", ())]
    assert rules
    assert all(rule["resourceNames"] and rule["verbs"] == ["get", "patch"] for rule in rules)


def test_the_rights_on_certificates_are_on_what_holds_a_ca_bundle() -> None:
    role, *_ = rbac.certificates("quota")
    named = {rule["resources"][0]: tuple(rule["resourceNames"]) for rule in role["rules"]}
    assert named == {one.plural: listed for one, listed in cabundles.NAMES.items()}


def test_without_rotation_the_controller_has_no_right_on_certificates() -> None:
    named = {one["metadata"]["name"] for one in rbac.documents(rotates=False)}
    assert rbac.CERTIFICATES_ROLE not in named
    assert named | {rbac.CERTIFICATES_ROLE} == {
        one["metadata"]["name"] for one in rbac.documents()
    }


def test_the_roles_that_commands_name_to_people_are_installed() -> None:
    installed = {
        one["metadata"]["name"] for one in rbac.documents() if one["kind"] == "ClusterRole"
    }
    assert {*names.VIEWER_ROLES.values(), names.PENDING_VIEWER_ROLE} <= installed
