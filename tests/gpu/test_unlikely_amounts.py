"""Which amounts are doubted for their unit, and what is said to write instead."""

import pytest

from admission.base import names
from admission.gpu import unlikely_amounts

GPU = names.GPU_RESOURCE
USUAL = [
    (GPU, "1"),
    (GPU, 8),
    (GPU, "1000m"),
    (GPU, "1e0"),
    (GPU, "0.001k"),
    (GPU, "2.0"),
    (GPU, "0"),
    ("nvidia.com/mig-1g.10gb", "7"),
    ("cpu", "500m"),
    ("cpu", "64"),
    ("memory", "0"),
    ("memory", "1Mi"),
    ("memory", "64Gi"),
    ("memory", "128974848"),
    (names.GPU_MEMORY, "80Gi"),
    (names.GPU_SLICES, "7"),
    ("example.com/whatever", "3"),
    (GPU, "no number"),
]
DOUBTED = [
    (GPU, "500m", "500m nvidia.com/gpu is a fraction and counts as 1. Write a whole number"),
    (GPU, "0.5", "is a fraction and counts as 1"),
    (GPU, "2.5", "is a fraction and counts as 3"),
    ("nvidia.com/mig-1g.10gb", "1500m", "counts as 2"),
    ("example.com/accelerator", "1.5", "counts as 2"),
    (names.GPU_SLICES, "3.5", "counts as 4"),
    (GPU, "16Gi", "16Gi nvidia.com/gpu is 17,179,869,184: Ki, Mi and Gi are for bytes"),
    ("nvidia.com/mig-1g.10gb", "1Ki", "is 1,024"),
    ("cpu", "4Gi", "is 4,294,967,296"),
    ("memory", "64", "64 memory is less than 1Mi: without a unit it counts bytes. Write 64Gi or"),
    ("memory", 512, "512 memory is less than 1Mi"),
    ("memory", "400m", "Write 400Gi or 400Mi"),
    ("memory", "512Ki", "512Ki memory is less than 1Mi. Write Gi or Mi"),
    ("ephemeral-storage", "10", "10 ephemeral-storage is less than 1Mi"),
    ("hugepages-2Mi", "4", "4 hugepages-2Mi is less than 1Mi"),
    (names.GPU_MEMORY, "80", "Write 80Gi or 80Mi"),
]


@pytest.mark.parametrize(("resource", "written"), USUAL)
def test_a_usual_amount_is_not_doubted(resource: str, written: str | int) -> None:
    assert unlikely_amounts.doubt(resource, written) == ""


@pytest.mark.parametrize(("resource", "written", "said"), DOUBTED)
def test_an_amount_in_a_unit_that_nobody_means_is_doubted(
    resource: str, written: str | int, said: str
) -> None:
    assert said in unlikely_amounts.doubt(resource, written)
