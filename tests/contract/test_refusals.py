"""Which error a wrong request gives, and the server's words for it."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from admission.base import patches
from admission.kube import errors, resources
from admission.kube.api import Api
from tests.builders.pods import make_pod
from tests.contract import objects
from tests.controlplane import programs

Action = Callable[[Api, str], object]


@dataclass(frozen=True)
class Case:
    """A request, in a namespace with a gated pod and a LocalQueue named ``taken``.

    Attributes:
        does: sends the request.
        error: what it raises.
        reason: of the refusal; empty for any.
        message: part of its text.
        elsewhere: the same part in versions of Kubernetes other than 1.36.
    """

    does: Action
    error: type[errors.ApiError]
    reason: str
    message: str
    elsewhere: tuple[str, ...] = ()


def creates(document: objects.Document) -> Action:
    return lambda api, namespace: api.create(resources.PODS, document, namespace)


def merges(document: objects.Document) -> Action:
    return lambda api, namespace: api.patch(
        resources.PODS, "taken", patches.merge(document), namespace
    )


def operates(*operations: objects.Document) -> Action:
    return lambda api, namespace: api.patch(
        resources.PODS, "taken", patches.json_patch(operations), namespace
    )


def named(**metadata: object) -> objects.Document:
    return make_pod("a") | {"metadata": metadata}


MISSING = resources.Resource("example.com", "v1", "things", "Thing")

CASES = {
    "an unknown object": Case(
        lambda api, ns: api.get(resources.PODS, "nix", ns),
        errors.NotFoundError, "NotFound", 'pods "nix" not found',
    ),
    "an unknown custom object": Case(
        lambda api, ns: api.get(resources.WORKLOADS, "nix", ns),
        errors.NotFoundError, "NotFound", 'workloads.kueue.x-k8s.io "nix" not found',
    ),
    "deleting an unknown object": Case(
        lambda api, ns: api.delete(resources.PODS, "nix", ns),
        errors.NotFoundError, "NotFound", 'pods "nix" not found',
    ),
    "patching an unknown object": Case(
        lambda api, ns: api.patch(resources.PODS, "nix", patches.merge({}), ns),
        errors.NotFoundError, "NotFound", 'pods "nix" not found',
    ),
    "replacing an unknown object": Case(
        lambda api, ns: api.replace(resources.PODS, named(name="nix", namespace=ns)),
        errors.NotFoundError, "NotFound", 'pods "nix" not found',
    ),
    "an unknown namespace": Case(
        lambda api, _: api.create(resources.PODS, make_pod("a"), "no-such-namespace"),
        errors.NotFoundError, "NotFound", 'namespaces "no-such-namespace" not found',
    ),
    "a resource that is not served": Case(
        lambda api, ns: api.list(MISSING, ns), errors.NotFoundError, "", "",
    ),
    "a name that is taken": Case(
        creates(make_pod("taken")),
        errors.AlreadyExistsError, "AlreadyExists", 'pods "taken" already exists',
    ),
    "a custom name that is taken": Case(
        lambda api, ns: api.create(resources.LOCAL_QUEUES, objects.local_queue("taken"), ns),
        errors.AlreadyExistsError, "AlreadyExists",
        'localqueues.kueue.x-k8s.io "taken" already exists',
    ),
    "no name": Case(
        creates(named()), errors.InvalidError, "Invalid",
        'Pod "" is invalid: metadata.name: Required value: name or generateName is required',
    ),
    "a bad name": Case(
        creates(make_pod("Bad_Name")), errors.InvalidError, "Invalid",
        'Pod "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name": a lowercase RFC '
        "1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'",
    ),
    "another namespace": Case(
        creates(named(name="x", namespace="other")), errors.BadRequestError, "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "a version on creation": Case(
        creates(named(name="x", resourceVersion="5")), errors.ServerError, "",
        "resourceVersion should not be set on objects to be created",
    ),
    "no containers": Case(
        creates(make_pod("x", containers=[])), errors.InvalidError, "Invalid",
        'Pod "x" is invalid: spec.containers: Required value',
    ),
    "negative GPUs": Case(
        creates(make_pod("a", limits={"nvidia.com/gpu": -1})), errors.InvalidError, "Invalid",
        'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "-1": must be '
        "greater than or equal to 0",
    ),
    "fractional GPUs": Case(
        creates(make_pod("a", limits={"nvidia.com/gpu": "0.5"})), errors.InvalidError, "Invalid",
        'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an '
        "integer",
        ("limits[nvidia.com/gpu]: Invalid value: resource.Quantity{",),
    ),
    "GPUs without a limit": Case(
        creates(make_pod("a", requests={"nvidia.com/gpu": 1})), errors.InvalidError, "Invalid",
        "spec.containers[0].resources.limits: Required value: Limit must be set for non "
        "overcommitable resources",
    ),
    "GPU request and limit that differ": Case(
        creates(make_pod("a", requests={"nvidia.com/gpu": 1}, limits={"nvidia.com/gpu": 2})),
        errors.InvalidError, "Invalid",
        'spec.containers[0].resources.requests: Invalid value: "1": must be equal to '
        "nvidia.com/gpu limit of 2",
    ),
    "an old version in a merge patch": Case(
        merges({"metadata": {"resourceVersion": "1"}}), errors.ConflictError, "Conflict",
        'Operation cannot be fulfilled on pods "taken": the object has been modified; please '
        "apply your changes to the latest version and try again",
    ),
    "another uid in a merge patch": Case(
        merges({"metadata": {"uid": "1"}}), errors.InvalidError, "Invalid",
        'Pod "taken" is invalid: metadata.uid: Invalid value: "1": field is immutable',
    ),
    "another name in a merge patch": Case(
        merges({"metadata": {"name": "q"}}), errors.BadRequestError, "BadRequest",
        "the name of the object (q) does not match the name on the URL (taken)",
    ),
    "a test that fails": Case(
        operates(patches.test("/metadata/name", "x")), errors.InvalidError, "Invalid",
        "the server rejected our request due to an error in our request",
    ),
    "a removal of nothing": Case(
        operates({"op": "remove", "path": "/metadata/nix"}), errors.InvalidError, "Invalid",
        "the server rejected our request due to an error in our request",
    ),
    "an unknown operation": Case(
        operates({"op": "bad", "path": "/metadata/nix"}), errors.InvalidError, "Invalid",
        "the server rejected our request due to an error in our request",
    ),
    "a merge patch that is a list": Case(
        lambda api, ns: api.patch(
            resources.PODS, "taken", patches.Patch(patches.PatchType.MERGE, b"[]"), ns
        ),
        errors.BadRequestError, "BadRequest", "error decoding patch: ",
    ),
    "a JSON patch that is an object": Case(
        lambda api, ns: api.patch(
            resources.PODS, "taken", patches.Patch(patches.PatchType.JSON, b"{}"), ns
        ),
        errors.BadRequestError, "BadRequest", "error decoding patch: ",
    ),
    "half a patch": Case(
        lambda api, ns: api.patch(
            resources.PODS, "taken", patches.Patch(patches.PatchType.MERGE, b"{"), ns
        ),
        errors.BadRequestError, "BadRequest", "error decoding patch: ", ("invalid JSON patch",),
    ),
    "a label selector that is none": Case(
        lambda api, ns: api.list(resources.PODS, ns, label_selector="a b c"),
        errors.BadRequestError, "BadRequest", "unable to parse requirement: ",
    ),
    "a field that cannot be selected": Case(
        lambda api, ns: api.list(resources.PODS, ns, field_selector="spec.foo=1"),
        errors.BadRequestError, "BadRequest", "field label not supported: spec.foo",
    ),
    "a page token of nobody": Case(
        lambda api, ns: api.list(resources.PODS, ns, continue_="abc"),
        errors.BadRequestError, "BadRequest",
        "invalid continue token: continue key is not valid",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_wrong_request_is_refused_in_the_servers_words(api: Api, namespace: str, case: Case):
    api.create(resources.PODS, make_pod("taken", gates=[objects.GATE]), namespace)
    api.create(resources.LOCAL_QUEUES, objects.local_queue("taken"), namespace)
    with pytest.raises(case.error) as refused:
        case.does(api, namespace)
    texts = [case.message]
    if programs.minor() != (1, 36):
        texts += case.elsewhere
    assert any(text in str(refused.value) for text in texts), refused.value
    assert type(refused.value) is case.error
    if case.reason:
        assert refused.value.reason == case.reason


def test_an_invalid_object_names_the_fields(api: Api, namespace: str):
    with pytest.raises(errors.InvalidError) as refused:
        api.create(resources.PODS, make_pod("x", containers=[]), namespace)
    details = refused.value.details
    assert (details["name"], details["kind"]) == ("x", "Pod")
    assert details["causes"] == [
        {
            "reason": "FieldValueRequired",
            "message": "Required value",
            "field": "spec.containers",
        }
    ]


def test_a_namespace_that_is_going_takes_nothing_new(api: Api, namespace: str):
    api.create(
        resources.LOCAL_QUEUES,
        objects.local_queue() | {"metadata": {"name": "a", "finalizers": ["example.com/a"]}},
        namespace,
    )
    api.delete(resources.NAMESPACES, namespace)
    with pytest.raises(errors.ForbiddenError, match="because it is being terminated") as refused:
        api.create(resources.PODS, make_pod("a"), namespace)
    assert errors.is_namespace_ending(refused.value)
