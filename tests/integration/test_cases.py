"""What people who do this job wrote, on a real control plane: a manifest, and what becomes of it.

The words in which a file of ``cases`` states what is expected are in `tests.integration.stated`.
``waiting_for`` names what a case needs that the product does not have yet.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.controlplane import features, nodes
from tests.controlplane.rest import Json
from tests.integration import teams
from tests.integration.another_webhook import another_webhook
from tests.integration.installed import Installed
from tests.integration.stated import NODES, Case

pytestmark = pytest.mark.controlplane

EXPECTED_ERRORS = ("write refused",)  # webhooks and policies of others

FOLDER = Path(__file__).parent / "cases"
BASE = "base"


def read(name: str) -> tuple[Json, list[Json]]:
    """What is expected, and the objects of a case."""
    first, *rest = yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text())
    return first["expected"], rest


_NEEDS: Final = {"23-dra-claims": [features.needs_claims]}
"""What a case needs of the Kubernetes version."""


def _cases() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.yaml")):
        if path.stem == BASE:
            continue
        expected, _ = read(path.stem)
        reason = expected.get("waiting_for", "")
        marks = [pytest.mark.xfail(reason=reason, run=False)] if reason else []
        marks += _NEEDS.get(path.stem, [])
        yield pytest.param(path.stem, marks=marks)


@pytest.fixture(scope="module")
def system(
    whole_installation: Installed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    cluster = whole_installation.cluster
    for name, product in NODES.items():
        cluster.add_gpu_node(name, product=product, taints=[nodes.GPU_TAINT])
    slices = {"1g.10gb": 7, "3g.40gb": 2}
    cluster.add_gpu_node("m1", gpus=0, mig=slices, taints=[nodes.GPU_TAINT])
    teams.add_editor(whole_installation)
    Case(whole_installation, {}, yaml.safe_load_all((FOLDER / f"{BASE}.yaml").read_text())).run()
    for namespace in ("lab", "full"):
        whole_installation.wait_for_queue(namespace)
    with another_webhook(whole_installation.api, tmp_path_factory.mktemp("another")):
        yield whole_installation


@pytest.mark.parametrize("name", list(_cases()))
def test_what_people_wrote_does_what_they_expect(system: Installed, name: str) -> None:
    case = Case(system, *read(name))
    try:
        case.run()
    finally:
        case.delete()
