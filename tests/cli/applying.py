"""A store that takes server-side apply, as far as commands need it."""

from typing import Any

import msgspec
from typing_extensions import override

from admission.base.patches import Patch, PatchType
from admission.kube import errors
from admission.kube.resources import Resource
from admission.objects import crds
from admission.sandbox.store import Store


class ApplyingStore(Store):
    """A store in which an applied document is created, or its parts replace those of the old one.

    Attributes:
        applied: kind and name of what was applied, in the order of the requests.
    """

    def __init__(self) -> None:
        super().__init__(crds=crds.documents())
        self.applied: list[str] = []

    @override
    def patch(
        self, resource: Resource, name: str, patch: Patch, namespace: str = "", **how: Any
    ) -> Any:
        if patch.type is not PatchType.APPLY:
            return super().patch(resource, name, patch, namespace, **how)
        self.applied.append(f"{resource.kind}/{name}")
        document = msgspec.json.decode(patch.body)
        into = {"into": how["into"]} if "into" in how else {}
        try:
            before = self.get(resource, name, namespace)
        except errors.NotFoundError:
            return self.create(resource, document, namespace, **into)
        metadata = {**before["metadata"], **document["metadata"]}
        return self.replace(resource, {**before, **document, "metadata": metadata}, **into)
