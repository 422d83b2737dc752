"""GPUs that pods without a node hold are the same number wherever they are shown."""

from dataclasses import replace

from admission.admin.doctor import queues as doctor
from admission.admin.doctor.picture import Picture
from admission.answers import cluster, quota_use, why
from admission.answers.cluster import Wanted
from admission.base import metrics, patches
from admission.kube import resources
from admission.serve.dashboard import overview_page
from tests.builders.queues import make_cluster_queue, make_local_queue
from tests.controller.test_capacity import add, bind, make_world, node
from tests.controller.test_one_currency import GPU
from tests.controller.world import World

SAID = "3 nvidia.com/gpu in flavor a100 are held by pods of ClusterQueue gpus that are on no node"


def world() -> World:
    made = make_world(node("n0", gpu=4), make_cluster_queue(quota=4), make_local_queue())
    add(made, "first", gpus=3)
    add(made, "second", gpus=2)
    made.pass_time(32)
    return made


def top(made: World) -> int:
    wanted = Wanted(namespace="ml", pods=cluster.RELEASED)
    use = quota_use.of(cluster.relate(cluster.read(made.store, wanted)))
    (line,) = [line for flavor in use.flavors for line in flavor.lines if line.resource == GPU]
    assert line.without_node == quota_use.total(use, GPU).without_node
    return line.without_node


def tile(made: World) -> str:
    use = quota_use.of_overview(made.core.present.overview())
    tiles = overview_page.tiles(quota_use.total(use, GPU), 0, 0, "", None)
    return next(one.value for one in tiles if one.label == "Held without a node")


def metric() -> float | None:
    found = metrics.QUOTA_WITHOUT_NODE.collect()
    samples = [one for family in found for one in family.samples]
    return next((one.value for one in samples if one.labels["cluster_queue"] == "gpus"), None)


def told_by_doctor(made: World, minutes: int) -> list[str]:
    documents = tuple(made.store.list(resources.CLUSTER_QUEUES, into=dict).items)
    now = made.clock.now()
    picture = Picture(now=now, objects={resources.CLUSTER_QUEUES: documents})
    later = replace(picture, now=now.fromtimestamp(now.timestamp() + 60 * minutes, now.tzinfo))
    return [finding.what for finding in doctor.without_node(later)]


def test_all_say_the_same_of_a_pod_that_is_admitted_and_on_no_node() -> None:
    made = world()
    assert made.admitted() == {"first"}

    assert top(made) == 3
    assert tile(made) == "3"
    assert metric() == 3
    (finding,) = told_by_doctor(made, 10)
    assert finding.startswith(f"{SAID}; the oldest was admitted at 20")
    assert any(note.startswith(SAID) for note in why.explain(made.store, "ml", "second").notes)
    assert any(
        note.startswith(SAID) for note in why.explain(made.store, "", "clusterqueue/gpus").notes
    )


def test_all_say_nothing_once_it_is_bound() -> None:
    made = world()

    bind(made, "first", "n0")
    made.pass_time(4)

    assert top(made) == 0
    assert tile(made) == "0"
    assert metric() is None
    assert told_by_doctor(made, 10) == []
    assert not any("on no node" in one for one in why.explain(made.store, "ml", "second").notes)


def test_the_doctor_waits_as_long_as_scheduling_may_take() -> None:
    assert told_by_doctor(world(), 1) == []


def test_a_bound_pod_that_is_reported_again_writes_nothing() -> None:
    made = world()
    bind(made, "first", "n0")
    made.pass_time(4)
    sent = len(made.sent)

    change = patches.merge({"metadata": {"annotations": {"reported": "again"}}})
    made.store.patch(resources.PODS, "first", change, "ml")
    made.settle()
    made.pass_time(4)

    assert [one for one in made.sent[sent:] if one.name == "gpus"] == []
