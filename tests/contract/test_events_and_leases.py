"""What recorder and election write is what a server takes."""

from admission.base.clock import SystemClock
from admission.base.events import Event
from admission.kube import resources
from admission.kube.api import Api
from admission.kube.events import EventRecorder
from admission.kube.lease import Election
from tests.builders.pods import make_pod
from tests.clocks import FakeClock
from tests.contract import objects


def test_events_are_taken_and_repeats_become_a_series(api: Api, namespace: str):
    pod = api.create(resources.PODS, make_pod("a", gates=[objects.GATE]), namespace)
    regarding = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": namespace,
        "name": "a",
        "uid": pod["metadata"]["uid"],
    }
    recorder = EventRecorder(api, "gpu-admission", SystemClock())
    for note in ("Admitted by clusterQueue q", "Admitted by clusterQueue q", "ä" * 2000):
        recorder.event(regarding, Event("Normal", "Started", note))
    recorder.drain()
    assert recorder.failed == 0
    events = {event["note"][:3]: event for event in api.list(resources.EVENTS, namespace).items}
    assert set(events) == {"Adm", "äää"}
    assert events["Adm"]["regarding"]["uid"] == pod["metadata"]["uid"]
    assert events["Adm"]["series"]["count"] == 2


def test_events_of_cluster_scoped_objects_are_taken(api: Api, namespace: str):
    recorder = EventRecorder(api, "gpu-admission", SystemClock())
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "name": namespace}
    recorder.event(queue, Event("Warning", "Stopped", "no flavor"))
    recorder.drain()
    assert recorder.failed == 0


def test_a_lease_is_taken_renewed_and_given_back(api: Api, namespace: str):
    clock = FakeClock()
    a = Election(api, "a", clock, namespace=namespace)
    b = Election(api, "b", clock, namespace=namespace)

    def holder() -> str:
        lease = api.get(resources.LEASES, "gpu-admission", namespace)
        found: str = lease["spec"].get("holderIdentity", "")
        return found

    assert a.attempt()
    assert not b.attempt()
    clock.advance(2)
    assert a.attempt()
    assert holder() == "a"
    a.release(is_drained=True)
    assert holder() == ""
    assert b.attempt()
    assert holder() == "b"
    clock.advance(20)
    assert not a.attempt()
    clock.advance(15)
    assert a.attempt()
    assert holder() == "a"


def test_two_candidates_at_once_get_one_leader(api: Api, namespace: str):
    candidates = [Election(api, name, FakeClock(), namespace=namespace) for name in "abc"]
    assert [candidate.attempt() for candidate in candidates] == [True, False, False]
