"""What admitted workloads hold whose pods are on no node: counted by what changes, exactly."""

import random

from admission.base.names import ClusterQueueName, FlavorName, FlavorResource
from admission.scheduling.decisions import Admit
from admission.scheduling.places.model import Place
from tests.scheduling.test_nodes_decide import GPU, Cluster, asking, cluster, node

A = FlavorResource(FlavorName("a"), GPU)
Q = ClusterQueueName("q")


def held(made: Cluster) -> int:
    """GPUs that the status of the ClusterQueue says to be held without a node."""
    told = made.world.state.cluster_queue_status(Q).without_node
    assert {pair: one.amount for pair, one in told.items()} == {
        pair: one.amount
        for pair, one in made.world.state.overview().queues[0].without_node.items()
    }
    return told[A].amount if A in told else 0


def test_who_is_admitted_and_not_bound_is_counted_pod_by_pod():
    made = cluster(node("n1", 8))
    made.world.add(asking("gang", 2, count=3))
    (admit,) = made.world.cycle().admitted
    assert held(made) == 6

    made.bind("gang", Place(admit.places[0].pod_set, "n1", 2))
    assert held(made) == 2

    made.finish("gang")
    assert held(made) == 0


def test_the_queue_is_told_of_as_changed_when_a_pod_is_bound():
    made = cluster(node("n1", 8))
    made.world.add(asking("one", 2))
    (admit,) = made.world.cycle().admitted
    held(made)
    made.world.state.take_changed()
    assert Q not in made.world.state.take_changed().cluster_queues

    made.bind("one", *admit.places)

    assert Q in made.world.state.take_changed().cluster_queues


def test_it_is_said_since_when_the_oldest_waits_for_a_node():
    made = cluster(node("n1", 8))
    made.world.add(asking("first", 1), asking("second", 1))
    admits: dict[str, Admit] = {}
    for _ in range(2):
        admits |= {one.workload.name: one for one in made.world.cycle().admitted}
    status = made.world.state.cluster_queue_status
    first = status(Q).without_node[A].since_us

    made.bind("first", *admits["first"].places)

    assert status(Q).without_node[A].since_us > first


def test_the_sum_is_what_all_workloads_hold_whatever_happens():
    for seed in range(20):
        chance, made = random.Random(seed), cluster(node("n1", 40), node("n2", 40))
        unbound: dict[str, int] = {}
        admitted: dict[str, Admit] = {}
        for step in range(30):
            action = chance.choice(("add", "bind", "end"))
            if action == "add" or not admitted:
                name = f"w{step}"
                count = chance.randint(1, 3)
                made.world.add(asking(name, 1, count=count))
                for one in made.world.cycle().admitted:
                    admitted[one.workload.name] = one
                    unbound[one.workload.name] = sum(place.count for place in one.places)
            elif action == "bind":
                name = chance.choice(sorted(admitted))
                if unbound[name]:
                    made.bind(name, *admitted[name].places)
                    unbound[name] = 0
            else:
                name = chance.choice(sorted(admitted))
                made.finish(name)
                del admitted[name], unbound[name]
            assert held(made) == sum(unbound.values()), (seed, step, action)
