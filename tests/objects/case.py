"""What a case of a rule is, and small objects to build cases from."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

Document = dict[str, Any]

NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or"
    " '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used"
    " for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One review.

    Attributes:
        rule: kind and number in docs/reference/rules.md, and what is special here.
        kind: of the object.
        new: metadata, spec and status as they would be.
        old: as they are; None for a creation.
        message: what the webhook says; empty if it has nothing to say.
        schema: field errors of the schema, which a real API server tells instead; None where it
            has none and the webhook is asked.
        is_status: the update is one of the status subresource.
        is_legacy: whether ``old`` breaks a rule itself, so that it must have been stored before
            the rule was there.
        has_default_queue: of a pod: whether its namespace has a LocalQueue named ``default``.
    """

    rule: str
    kind: str
    new: Document
    old: Document | None = None
    message: str = ""
    schema: frozenset[str] | None = None
    is_status: bool = False
    is_legacy: bool = False
    has_default_queue: bool = False

    @property
    def row(self) -> str:
        """Kind and number of the rule in docs/reference/rules.md: ``ClusterQueue 4``."""
        return " ".join(self.rule.split()[:2])

    @override
    def __str__(self) -> str:
        return f"{self.rule}{'' if self.message else ' is kept'}"


def identified(kind: str, document: Document, version: str = "v1beta2") -> Document:
    """A whole object, named ``x``."""
    namespace = {"namespace": "default"} if kind in {"Workload", "LocalQueue"} else {}
    metadata = {"name": "x", **namespace, **document.get("metadata", {})}
    return {
        "apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, **document, "metadata": metadata,
    }  # fmt: skip


# --------------------------------------------------------------------------------------- queues


def quota(name: str = "cpu", nominal: Any = 4, **limits: Any) -> Document:
    return {"name": name, "nominalQuota": nominal, **limits}


def flavor(name: str = "f", *resources: Document) -> Document:
    return {"name": name, "resources": list(resources or (quota(),))}


def group(*flavors: Document, covered: Iterable[str] = ("cpu",)) -> Document:
    return {"coveredResources": list(covered), "flavors": list(flavors or (flavor(),))}


def queue(*groups: Document, **spec: Any) -> Document:
    """A ClusterQueue or Cohort."""
    return {"spec": {"resourceGroups": list(groups or (group(),)), **spec}}


# ------------------------------------------------------------------------------------ workloads


def template(amounts: Document | None = None, **spec: Any) -> Document:
    """A pod template; ``amounts`` are the resources of its container."""
    container = {"name": "c", **({"resources": amounts} if amounts else {})}
    return {"spec": {"containers": [container], **spec}}


def pod_set(name: str = "main", count: int = 1, **fields: Any) -> Document:
    return {"name": name, "count": count, "template": template(), **fields}


def workload(
    *pod_sets: Document,
    status: Document | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Document:
    found: Document = {"spec": {"podSets": list(pod_sets or (pod_set(),)), **spec}}
    if annotations:
        found["metadata"] = {"annotations": annotations}
    if status is not None:
        found["status"] = status
    return found


def condition(type_: str = "QuotaReserved", status: str = "True", **fields: Any) -> Document:
    return {
        "type": type_,
        "status": status,
        "reason": "Because",
        "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
        **fields,
    }


def admission(*assignments: Document, queue: str = "cq") -> Document:
    return {"clusterQueue": queue, "podSetAssignments": list(assignments or (assigned(),))}


def assigned(name: str = "main", count: int = 1, **fields: Any) -> Document:
    return {"name": name, "count": count, **fields}


def holding(*assignments: Document, **status: Any) -> Document:
    """Status of a Workload with quota."""
    return {"conditions": [condition()], "admission": admission(*assignments), **status}


def check(
    state: str = "Ready", updates: list[Document] | None = None, name: str = "check"
) -> Document:
    found = {
        "name": name, "state": state, "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }  # fmt: skip
    return found if updates is None else {**found, "podSetUpdates": updates}
