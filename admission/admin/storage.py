"""Objects of Kueue's kinds that etcd has in an older version are written in the stored one.

A cluster that once ran Kueue may have them. While a CustomResourceDefinition says that a version
is stored, the API server refuses to serve the kind without it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from admission.base import names, patches
from admission.kube import errors, resources
from admission.kube.api import Api, every
from admission.objects import crds, kinds

_STATUS: Final = "status"


@dataclass(frozen=True, slots=True, kw_only=True)
class Old:
    """A kind of which etcd may have objects in an older version.

    Attributes:
        crd: name of its CustomResourceDefinition.
        kind: the kind.
        versions: those that are said to be stored.
        objects: how many there are.
    """

    crd: str
    kind: str
    versions: tuple[str, ...]
    objects: int


def find(api: Api) -> list[Old]:
    """Return the kinds that are said to be stored in an older version.

    Raises:
        KubeError: the API server refused.
    """
    old: list[Old] = []
    for document in crds.documents():
        name = document["metadata"]["name"]
        try:
            crd = api.get(resources.CRDS, name)
        except errors.NotFoundError:
            continue
        versions = tuple((crd.get(_STATUS) or {}).get("storedVersions") or ())
        if set(versions) - {kinds.STORED}:
            kind = document["spec"]["names"]["kind"]
            count = sum(1 for _ in every(api, _resource(kind)))
            old.append(Old(crd=name, kind=kind, versions=versions, objects=count))
    return old


def migrate(api: Api, old: Old) -> Iterator[tuple[str, str]]:
    """Have the API server write every object of a kind, and then say that all are.

    An empty patch changes nothing: the API server writes what it would store otherwise. What is
    created meanwhile is stored in the right version. Yields namespace and name of each object.

    Raises:
        KubeError: the API server refused; a second run goes on.
    """
    resource, nothing = _resource(old.kind), patches.merge({})
    crd = api.get(resources.CRDS, old.crd)
    for item in every(api, resource):
        metadata = item["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        try:
            api.patch(resource, name, nothing, namespace)
        except errors.NotFoundError:
            continue  # deleted just now
        yield namespace, name
    version = crd["metadata"]["resourceVersion"]  # refused where another version is stored by now
    change = {
        "metadata": {"resourceVersion": version},
        _STATUS: {"storedVersions": [kinds.STORED]},
    }
    api.patch(resources.CRDS, old.crd, patches.merge(change), subresource=_STATUS)


def _resource(kind: str) -> resources.Resource:
    resource = resources.of_kind(f"{names.KUEUE_GROUP}/{kinds.STORED}", kind)
    assert resource is not None, kind
    return resource
