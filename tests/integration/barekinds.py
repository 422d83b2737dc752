"""A cluster that holds nothing but the CustomResourceDefinitions."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from admission.objects import crds
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP: Final = "/apis/kueue.x-k8s.io"


@contextmanager
def started() -> Iterator[Cluster]:
    """The cluster, inside the block; every kind is served."""
    with Cluster.start() as cluster:
        names = [document["metadata"]["name"] for document in crds.documents()]
        for name, document in zip(names, crds.documents(), strict=True):
            cluster.api.patch(
                f"{CRDS}/{name}?fieldManager=test&fieldValidation=Strict",
                document,
                "application/apply-patch+yaml",
            )
        for name in names:
            waiting.until(partial(_is_served, cluster, name), what=f"{name} served")
        waiting.until(lambda: cluster.kinds("kueue.x-k8s.io") == _served(), what="discovery")
        yield cluster


def _served() -> dict[str, set[str]]:
    """Kinds by version, as discovery is to tell them."""
    found: dict[str, set[str]] = {}
    for document in crds.documents():
        for version in document["spec"]["versions"]:
            if version["served"]:
                kind = document["spec"]["names"]["kind"]
                found.setdefault(version["name"], set()).add(kind)
    return found


def _is_served(cluster: Cluster, crd: str) -> bool:
    found = cluster.api.get(f"{CRDS}/{crd}")
    conditions = {c["type"]: c["status"] for c in found.get("status", {}).get("conditions", ())}
    plural = found["spec"]["names"]["plural"]
    return conditions.get("Established") == "True" and cluster.api.answers(
        f"{GROUP}/v1beta2/{plural}"
    )
