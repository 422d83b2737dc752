"""What is found of Kueue, and what is not taken over."""

import pytest

from admission.admin import kueue_found
from admission.kube import resources
from admission.objects import crds
from admission.sandbox.store import Store


def test_kueue_before_016_which_stores_v1beta1_is_not_taken_over() -> None:
    store = Store(crds=crds.documents())
    (document,) = (crd for crd in crds.documents() if crd["spec"]["names"]["kind"] == "Workload")
    (stored,) = document["spec"]["versions"]
    older = {**stored, "name": "v1beta1"}
    document["spec"]["versions"] = [older, {**stored, "storage": False}]
    store.create(resources.CRDS, document)

    with pytest.raises(kueue_found.NoKueueError) as refused:
        kueue_found.survey(store)

    assert str(refused.value) == (
        "CustomResourceDefinition workloads.kueue.x-k8s.io: stores v1beta1: first upgrade Kueue "
        "to 0.16 or newer, which stores v1beta2"
    )
