"""What the older version stored is taken over by this one, and by the older one again.

The file holds the objects of a cluster in which the older version ran (`tests.upgrade.record`),
as they were at one moment: work of every kind that runs, waits, starts and ends.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest

from admission.base import conditions, names
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Json
from tests.integration.installed import Installed
from tests.upgrade import judge, record, stored
from tests.upgrade.judge import is_gated, is_true, name_of
from tests.upgrade.load import Load
from tests.upgrade.scene import BLUE, RED, Scene

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900)]

WAITING: Final = {"waits", "apart-0", "parked", "off", "checked", "high"}
CONDITION: Final = conditions.POD_ADMITTED
ADDED: Final = {
    "ClusterQueue": {"gpus", "withoutNode"},
    "LocalQueue": {"clusterQueueMaxPerUser", "nominalQuota"},
}
"""Fields of a status that the older version does not know; this one writes them anew."""


@dataclass(frozen=True)
class Upgraded:
    """A cluster that the older version filled and in which this one runs.

    Attributes:
        system: this version.
        before: what was stored, by key.
    """

    system: Installed
    before: Mapping[str, Json]


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    before = stored.load(record.FILE)
    with Cluster.start() as cluster:
        stored.write(cluster, before)
        cluster.start_whole()
        system = Installed(cluster, tmp_path_factory.mktemp("upgraded"))
        system.install()
        try:
            system.start()
            yield Upgraded(system, before)
        finally:
            system.stop()


def test_the_file_holds_work_in_every_state() -> None:
    found = stored.load(record.FILE)
    pods = {name_of(pod): pod for pod in stored.of(found, stored.PODS)}
    assert {name for name, pod in pods.items() if is_gated(pod)} >= WAITING | {"releasing"}
    leaving = {name for name, pod in pods.items() if "deletionTimestamp" in pod["metadata"]}
    assert leaving == {"ends", "low"}
    workloads = list(stored.of(found, stored.WORKLOADS))
    for type_ in ("Admitted", "Evicted", "Finished", "QuotaReserved"):
        assert any(is_true(one, type_) for one in workloads), type_
    for kind in (stored.JOBS, *record.ROWS):
        assert len(list(stored.of(found, kind))) == 2, kind


def test_what_runs_goes_on_and_nothing_is_decided_again(upgraded: Upgraded) -> None:
    system = upgraded.system
    system.wait_released(RED, "releasing")
    Scene(system).await_decision()
    assert judge.lost(upgraded.before, system.api) == []
    assert judge.over_quota(system.api) == []


def test_what_waited_waits_and_says_why(upgraded: Upgraded) -> None:
    for name in sorted(WAITING):
        namespace = BLUE if name == "high" else RED
        assert upgraded.system.is_gated(namespace, name), name
        if name != "checked":  # it has quota, and waits for somebody else
            assert upgraded.system.wait_condition(namespace, name)["status"] == "False"


def test_what_waited_starts_once_there_is_room(upgraded: Upgraded) -> None:
    load = Load()
    with load.on(upgraded.system, BLUE):
        Scene(upgraded.system).make_room()
    assert load.asked > 10
    assert not load.failed
    assert judge.over_quota(upgraded.system.api) == []


def test_the_older_version_can_store_and_serve_what_this_one_stored(upgraded: Upgraded) -> None:
    """Last: its webhooks do not run."""
    api, kinds = upgraded.system.api, stored.KUEUE
    upgraded.system.stop()
    for kind in stored.WEBHOOKS:
        for one in api.get(kind.path)["items"]:
            api.delete(kind.object_path(one))
    written = stored.read(api, kinds)
    for crd in stored.of(upgraded.before, stored.CRDS):
        if crd["spec"]["group"] == names.KUEUE_GROUP:
            path = stored.CRDS.object_path(crd)
            current = api.get(path)
            served = api.put(path, {**current, "spec": crd["spec"]})
            assert served["spec"] == crd["spec"]
            waiting.until(partial(is_established, api, path), what=f"{path} is established")
    for kind in kinds:
        for key, document in stored.read(api, (kind,)).items():
            known = without_added(written[key])
            assert without_version(document) == without_version(known), key
            again = api.put(f"{kind.object_path(document)}?fieldValidation=Strict", document)
            assert contents(again) == contents(known), key


def is_established(api: Any, path: str) -> bool:
    return is_true(api.get(path), "Established")


def without_added(document: Json) -> Json:
    added = ADDED.get(document["kind"], set())
    if "status" not in document:
        return document
    status = {k: v for k, v in document["status"].items() if k not in added}
    return {**document, "status": status}


def without_version(document: Json) -> Json:
    kept = {k: v for k, v in document["metadata"].items() if k != "resourceVersion"}
    return {**document, "metadata": kept}


def contents(document: Json) -> Json:
    return {k: v for k, v in document.items() if k != "metadata"}
