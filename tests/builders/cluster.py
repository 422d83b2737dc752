"""Namespaces, nodes, limit ranges and priority classes."""

from collections.abc import Mapping
from typing import Any

import msgspec

from admission.objects import views
from tests.builders.metadata import CREATED, Document, make_metadata


def make_namespace(name: str = "ml", labels: Mapping[str, str] | None = None) -> Document:
    """Return a namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": make_metadata(name, labels=labels),
    }


def namespace_view(
    name: str = "team-a", labels: Mapping[str, str] | None = None, *, created: str = CREATED
) -> views.Namespace:
    """Return what the program decodes a namespace to."""
    document = make_namespace(name, labels)
    document["metadata"]["creationTimestamp"] = created
    return msgspec.convert(document, views.Namespace)


def make_node(
    name: str, labels: Mapping[str, str] | None = None, units: Mapping[str, Any] | None = None
) -> Document:
    """Return a Ready node that offers `units` by resource."""
    amounts = {resource: str(count) for resource, count in (units or {}).items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": make_metadata(name, labels=labels),
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def make_limit_range(name: str = "limits", *items: Document, namespace: str = "") -> Document:
    """Return a LimitRange of those items."""
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": make_metadata(name, namespace),
        "spec": {"limits": list(items)},
    }


def make_core_class(name: str, value: int, *, default: bool = False) -> Document:
    """Return a PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": make_metadata(name),
        "value": value,
        "globalDefault": default,
    }
