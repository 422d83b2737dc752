"""What follows from a kind that is held: reviews, webhooks, and no warning about its label."""

from itertools import product
from typing import Any, Final

import jsonpatch
import pytest

from admission.admin import rbac, warnpolicies, webhooks
from admission.base import names
from admission.base.namespaces import ManagedNamespaces
from admission.config.derived import Settings
from admission.controller import watched
from admission.gpu.resources import DEFAULT_MANAGED
from admission.objects import owner_rows
from admission.objects.owner_rows import Row
from admission.owners import integrations, serving
from admission.owners.serving import ServingKind
from tests.webhook import reviews

MUTATE = "/mutate-jobset-x-k8s-io-v1alpha2-jobset"
VALIDATE = "/validate-jobset-x-k8s-io-v1alpha2-jobset"
PROTECT = "/protect-jobset-x-k8s-io-v1alpha2-jobset"
KIND = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet"}


def make_set(**metadata: Any) -> dict[str, Any]:
    amounts = {"nvidia.com/gpu": "1"}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    job = {"spec": {"template": {"metadata": {}, "spec": {"containers": [container]}}}}
    return {
        "metadata": {"name": "train", "namespace": "team-a", **metadata},
        "spec": {"replicatedJobs": [{"name": "workers", "replicas": 2, "template": job}]},
    }


def hooks() -> dict[str, dict[str, Any]]:
    config = {"url": "https://127.0.0.1:9443", "caBundle": "Q0E="}
    made = webhooks.documents(config, DEFAULT_MANAGED, ManagedNamespaces(), "controller")
    return {hook["name"]: hook for document in made for hook in document["webhooks"]}


def conditions(hook: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["expression"] for one in hook["matchConditions"]}


def test_it_is_reviewed_at_paths_of_its_own() -> None:
    client, owner = reviews.make_app().test_client(), make_set()
    answer = reviews.post(client, MUTATE, reviews.make_review(owner, kind=KIND))
    after = jsonpatch.apply_patch(owner, reviews.patch_of(answer))
    assert after["spec"]["suspend"] is True
    assert after["metadata"]["labels"] == {names.QUEUE_LABEL: "default"}

    old, new = (make_set(labels={names.QUEUE_LABEL: queue}) for queue in ("a", "b"))
    update = reviews.make_review(new, kind=KIND, operation="UPDATE", oldObject=old)
    response = reviews.post(client, VALIDATE, update)["response"]
    assert "field is immutable" in response["status"]["message"]


def test_reviews_of_other_kinds_are_refused_there() -> None:
    job = {"group": "batch", "version": "v1", "kind": "Job"}
    client = reviews.make_app().test_client()
    response = reviews.post(client, MUTATE, reviews.make_review({}, kind=job))["response"]
    assert response["status"]["message"] == (
        "request is about batch/v1 Job, expected jobset.x-k8s.io/v1alpha2 JobSet"
    )


@pytest.mark.parametrize(
    ("name", "path", "operations"),
    [
        ("mjobset.kb.io", MUTATE, ["CREATE"]),
        ("vjobset.kb.io", VALIDATE, ["CREATE", "UPDATE"]),
        ("pjobset.kb.io", PROTECT, ["UPDATE"]),
    ],
)
def test_webhooks_send_it_there(name: str, path: str, operations: list[str]) -> None:
    hook = hooks()[name]
    assert hook["clientConfig"]["url"] == f"https://127.0.0.1:9443{path}"
    assert hook["rules"] == [
        {
            "apiGroups": ["jobset.x-k8s.io"],
            "apiVersions": ["v1alpha2"],
            "operations": operations,
            "resources": ["jobsets"],
            "scope": "Namespaced",
        }
    ]


def test_webhooks_look_at_each_of_its_pod_templates() -> None:
    expression = conditions(hooks()["mjobset.kb.io"])["concerns-us"]
    assert "object.spec.replicatedJobs.exists(m, " in expression
    assert "m.template.spec.template.spec.containers.exists(c, " in expression
    assert "size(object.spec.replicatedJobs) > 500" in expression


def test_only_owners_of_jobs_are_held_by_us() -> None:
    expression = conditions(hooks()["mchildjob.kb.io"])["has-a-job-as-its-controller"]
    assert "o.kind == 'Job' && o.apiVersion == 'batch/v1'" in expression
    assert "JobSet" not in expression
    assert "mchildjobset.kb.io" not in hooks()


def test_nobody_is_warned_that_its_queue_label_is_not_read() -> None:
    (policy,) = (
        one
        for one in warnpolicies.documents(Settings())
        if one["metadata"]["name"] == warnpolicies.OWNERS_POLICY
        and one["kind"] == "ValidatingAdmissionPolicy"
    )
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    assert [(rule["apiGroups"], rule["resources"]) for rule in rules] == [
        (["kubeflow.org"], ["mxjobs"])
    ]


SERVED: Final = ("pod", "batch/job", "jobset.x-k8s.io/jobset")
LISTED: Final = Settings.model_validate({"kueue": {"integrations": {"frameworks": list(SERVED)}}})
EVERY: Final[tuple[Row | ServingKind, ...]] = (
    *owner_rows.ROWS, *owner_rows.MODULES, *serving.KINDS,
)  # fmt: skip
OTHERS: Final = [one for one in EVERY if one.framework and one.framework not in SERVED]


@pytest.mark.parametrize("kind", OTHERS, ids=lambda one: one.framework)
def test_a_kind_that_is_not_listed_is_neither_followed_nor_reviewed_nor_written(
    kind: Row | ServingKind,
) -> None:
    name = (
        (kind.group, kind.plural) if isinstance(kind, Row) else (kind.kind.group, kind.kind.plural)
    )
    kinds = integrations.kinds_of(LISTED)
    config = {"url": "https://127.0.0.1:9443", "caBundle": "Q0E="}
    made = webhooks.documents(config, DEFAULT_MANAGED, ManagedNamespaces(), "controller", kinds)
    reviewed = [rule for one in made for hook in one["webhooks"] for rule in hook["rules"]]
    granted = [rule for one in rbac.documents(kinds=kinds) for rule in one.get("rules", ())]

    assert name not in {(one.group, one.plural) for one in watched.rows(kinds)}
    for rule in (*reviewed, *granted):
        assert name not in product(rule.get("apiGroups", ()), rule.get("resources", ()))
