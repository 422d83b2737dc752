"""How a ClusterQueue counts GPUs: which amounts, in which flavor, and why not."""

# Plain text stands for typed names here.
# mypy: disable-error-code="arg-type,dict-item,index,comparison-overlap"

import pytest

from admission.base import names
from admission.gpu import catalogue
from admission.objects import gpu_transformation, views
from admission.objects.cluster_queue import ClusterQueue, ClusterQueueSpec
from admission.objects.gpu_transformation import GpuTransformation
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.resource_group import FlavorQuotasSpec, ResourceGroupSpec
from admission.scheduling import model, podsets

CATALOGUE = catalogue.load()
GPU, MEMORY, SLICES = names.GPU_RESOURCE, names.GPU_MEMORY, names.GPU_SLICES
MIG = "nvidia.com/mig-1g.10gb"
GIB = 2**30


def prices(*covered: str, **products: str) -> GpuTransformation | None:
    """Of a queue that covers resources, over flavors with their products."""
    flavors = tuple(FlavorQuotasSpec(name=name) for name in products)
    group = ResourceGroupSpec(covered_resources=covered, flavors=flavors)
    queue = ClusterQueue(spec=ClusterQueueSpec(resource_groups=(group,)))
    known = {
        name: ResourceFlavor(
            metadata=views.ObjectMeta(name=name, annotations={names.FLAVOR_PRODUCT: product})
        )
        for name, product in products.items()
        if product
    }
    return gpu_transformation.pricing(queue, known, CATALOGUE)


def asking(**requests: int) -> model.Workload:
    known = {"gpu": GPU, "mig": MIG, "cpu": "cpu", "odd": "nvidia.com/mig-9g.1gb"}
    pod_set = model.PodSet(
        name="main", requests={names.ResourceName(known[k]): v for k, v in requests.items()}
    )
    key = names.WorkloadKey("ml", "w")
    queue = names.LocalQueueKey("ml", "q")
    return model.Workload(key=key, uid="u", queue=queue, pod_sets=(pod_set,))


def pod_set(workload: model.Workload) -> model.PodSet:
    (only,) = workload.pod_sets
    return only


def test_a_queue_without_virtual_resources_counts_devices_as_they_are():
    assert prices(GPU, "cpu", a="A100-80GB") is None
    asked = asking(gpu=1)
    assert gpu_transformation.priced(asked, None) is asked


def test_the_highest_amount_is_the_request_and_the_others_stand_by_flavor():
    found = pod_set(
        gpu_transformation.priced(asking(gpu=2, cpu=1), prices(MEMORY, a="A100-80GB", b="T4"))
    )
    assert found.requests == {"cpu": 1, MEMORY: 160 * GIB}
    assert found.requests_by_flavor == {"b": {MEMORY: 32 * GIB}}
    assert found.unsuited == {}


def test_devices_listed_beside_are_kept():
    found = pod_set(gpu_transformation.priced(asking(gpu=2), prices(GPU, SLICES, a="A100-80GB")))
    assert found.requests == {GPU: 2, SLICES: 14}


def test_a_flavor_that_cannot_serve_sets_no_amount():
    found = pod_set(
        gpu_transformation.priced(asking(mig=1), prices(MEMORY, a="A100-80GB", b="T4"))
    )
    assert found.requests == {MEMORY: 10 * GIB}
    assert found.requests_by_flavor == {}
    assert list(found.unsuited) == ["b"]


def test_a_name_that_nobody_has_is_ruled_out_everywhere():
    found = pod_set(gpu_transformation.priced(asking(odd=1), prices(MEMORY, a="A100-80GB")))
    assert found.unsuited["a"].startswith("flavor a")


def test_a_pod_without_gpus_is_left_alone():
    asked = asking(cpu=1)
    assert gpu_transformation.priced(asked, prices(MEMORY, a="A100-80GB")) is asked
    zero = asking(gpu=0, cpu=1)
    assert gpu_transformation.priced(zero, prices(MEMORY, a="A100-80GB")) == zero


def test_missing_flavors_are_left_out():
    found = prices(MEMORY, a="A100-80GB", gone="")
    assert found is not None
    assert list(found.tariffs) == ["a"]


def test_equal_queues_have_equal_prices_whatever_was_asked_of_them():
    first, second = prices(MEMORY, a="A100-80GB"), prices(MEMORY, a="A100-80GB")
    gpu_transformation.priced(asking(gpu=1), first)
    assert first == second
    assert first != prices(MEMORY, a="A100-40GB")
    assert first != prices(SLICES, a="A100-80GB")


@pytest.mark.parametrize("count", [1, 3])
def test_totals_of_several_pods_are_multiples(count: int):
    asked = asking(gpu=1)
    many = model.PodSet(name="main", count=count, requests={GPU: 1})
    priced = gpu_transformation.priced(
        model.Workload(key=asked.key, uid="u", queue=asked.queue, pod_sets=(many,)),
        prices(MEMORY, a="A100-80GB", b="T4"),
    )
    (demand,) = podsets.demands(priced)
    assert demand.in_flavor("a", MEMORY) == count * 80 * GIB
    assert demand.in_flavor("b", MEMORY) == count * 16 * GIB
