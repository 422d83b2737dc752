"""Which namespaces have a LocalQueue is written on them, once it is known of all."""

from typing import Any

from admission.base import names, patches
from admission.controller.core import LeaderStarted, WatchMessage
from admission.kube import errors, resources
from admission.kube.reflector import Change, Deleted, Replaced, Upserted
from admission.kube.resources import Resource
from admission.objects import views
from admission.objects.local_queue import LocalQueue
from admission.run.queuemarks import QueueMarks
from admission.sandbox.store import Store
from tests.builders.queues import local_queue_view


class Marked:
    """A store with namespaces, and what writes their labels."""

    def __init__(self, *spaces: str, marked: tuple[str, ...] = ()) -> None:
        self.store = Store()
        self.leads = True
        for name in spaces:
            labels = {names.HAS_QUEUE_LABEL: "true"} if name in marked else {"team": name}
            self.store.create(resources.NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        self.marks = QueueMarks(self.store, lambda: self.leads)

    def list_namespaces(self) -> None:
        found = self.store.list(resources.NAMESPACES, into=views.Namespace).items
        self.on_update(resources.NAMESPACES, Replaced(tuple(found)))

    def on_update(self, resource: Resource, change: Change[Any]) -> None:
        self.marks.on_update(WatchMessage(resource, change))

    def labels(self, namespace: str) -> dict[str, str]:
        found: dict[str, str] = self.store.get(resources.NAMESPACES, namespace)["metadata"].get(
            "labels", {}
        )
        return found


def queue(namespace: str, name: str = "default") -> LocalQueue:
    return local_queue_view(name, namespace=namespace)


def test_nothing_is_written_before_both_kinds_are_known() -> None:
    system = Marked("a", "b", marked=("b",))
    system.list_namespaces()
    assert system.marks.step()
    assert names.HAS_QUEUE_LABEL in system.labels("b")
    system.on_update(resources.LOCAL_QUEUES, Replaced((queue("a"),)))
    assert system.marks.step()
    assert system.labels("a").items() >= {"team": "a", names.HAS_QUEUE_LABEL: "true"}.items()
    assert names.HAS_QUEUE_LABEL not in system.labels("b")


def test_the_last_queue_that_goes_takes_the_label_along() -> None:
    system = Marked("a")
    system.list_namespaces()
    system.on_update(resources.LOCAL_QUEUES, Replaced((queue("a"), queue("a", "other"))))
    system.marks.step()
    system.on_update(resources.LOCAL_QUEUES, Deleted(queue("a")))
    system.marks.step()
    assert names.HAS_QUEUE_LABEL in system.labels("a")
    system.on_update(resources.LOCAL_QUEUES, Deleted(queue("a", "other")))
    system.marks.step()
    assert names.HAS_QUEUE_LABEL not in system.labels("a")


def test_a_label_that_somebody_takes_off_is_put_back() -> None:
    system = Marked("a")
    system.list_namespaces()
    system.on_update(resources.LOCAL_QUEUES, Replaced((queue("a"),)))
    system.marks.step()
    without = patches.merge({"metadata": {"labels": {names.HAS_QUEUE_LABEL: None}}})
    found = system.store.patch(resources.NAMESPACES, "a", without, into=views.Namespace)
    system.on_update(resources.NAMESPACES, Upserted(found))
    system.marks.step()
    assert names.HAS_QUEUE_LABEL in system.labels("a")


def test_who_does_not_lead_writes_nothing_and_does_it_all_once_it_leads() -> None:
    system = Marked("a")
    system.leads = False
    system.marks.on_update(LeaderStarted())
    system.list_namespaces()
    system.on_update(resources.LOCAL_QUEUES, Replaced((queue("a"),)))
    system.marks.step()
    assert names.HAS_QUEUE_LABEL not in system.labels("a")
    system.leads = True
    system.marks.step()
    assert names.HAS_QUEUE_LABEL in system.labels("a")


def test_a_failure_is_told_and_tried_again(monkeypatch: Any) -> None:
    system = Marked("a")
    system.list_namespaces()
    system.on_update(resources.LOCAL_QUEUES, Replaced((queue("a"),)))

    def refuse(*_: Any, **__: Any) -> None:
        raise errors.ForbiddenError(403, "Forbidden", "no")

    with monkeypatch.context() as patch:
        patch.setattr(system.store, "patch", refuse)
        assert not system.marks.step()
    assert system.marks.step()
    assert names.HAS_QUEUE_LABEL in system.labels("a")


def test_a_namespace_that_is_gone_is_no_failure() -> None:
    system = Marked("a")
    system.list_namespaces()
    system.on_update(resources.LOCAL_QUEUES, Replaced((queue("a"),)))
    system.store.delete(resources.NAMESPACES, "a")
    assert system.marks.step()
