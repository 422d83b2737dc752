"""The contract about homes of libraries finds who imports one elsewhere."""

import pytest
from grimp import ImportGraph

from tests.repo.homes import HomesContract

LINES = ["flask: admission.webhook, admission.serve", "admission: admission"]


@pytest.mark.parametrize(
    ("importer", "imported", "found"),
    [
        ("admission.webhook.server", "flask", []),
        ("admission.serve.visibility", "flask", []),
        ("admission.webhooks", "flask", ["admission.webhooks imports flask"]),
        ("certs.keys", "admission.base.names", ["certs.keys imports admission"]),
        ("admission.kube.api", "admission.base.names", []),
    ],
)
def test_a_library_is_imported_at_home_only(
    importer: str, imported: str, found: list[str]
) -> None:
    graph = ImportGraph()
    graph.add_import(importer=importer, imported=imported)
    contract = HomesContract(name="homes", session_options={}, contract_options={"homes": LINES})

    check = contract.check(graph, verbose=False)

    assert check.kept is (not found)
    assert check.metadata["found"] == found
