"""What the doctor reads, and how often."""

from collections import Counter
from typing import Any

from typing_extensions import override

from admission.admin import break_glass
from admission.admin.doctor import looking
from admission.base import names
from admission.config.derived import Settings
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import crds
from admission.sandbox.store import Store
from tests.admin.doctor.clusters import SYSTEM
from tests.builders.cluster import make_namespace
from tests.builders.pods import make_pod
from tests.clocks import FakeClock


class CountingStore(Store):
    """A store that counts which kinds are listed in all namespaces."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(crds=crds.documents(), clock=clock)
        self.listed: Counter[str] = Counter()

    @staticmethod
    def text(path: str) -> str:  # noqa: ARG004
        return ""

    @override
    def list(self, resource: Resource, namespace: str = "", **how: Any) -> Any:
        if not namespace:
            self.listed[resource.plural] += 1
        return super().list(resource, namespace, **how)


def test_all_pods_are_listed_once_also_while_the_glass_is_broken() -> None:
    clock = FakeClock()
    store = CountingStore(clock)
    for namespace in (SYSTEM, "ml"):
        store.create(resources.NAMESPACES, make_namespace(namespace))
    marks = {names.OUTSIDE_QUOTA: "2026-01-01T00:00:00Z"}
    store.create(resources.PODS, make_pod("let-run", annotations=marks), "ml")
    list(break_glass.open_gates(store, Settings(), clock))
    store.create(resources.PODS, make_pod("created", gpus=1), "ml")
    store.listed.clear()
    picture = looking.look(store, Settings(), clock)
    assert [each.label for each in picture.glass.let_run] == ["ml/let-run"]
    assert [each.label for each in picture.glass.created_meanwhile] == ["ml/created"]
    assert store.listed["pods"] == 1
