"""A type of contract for import-linter: which packages may import a library.

import-linter's own type ``protected`` takes one list of importers for all of its modules, so each
library would need its own contract.
"""

from collections.abc import Iterable
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from typing_extensions import override


class HomesContract(Contract):
    """Each library is imported by the packages named behind it, and by nothing else.

    Only direct imports count.
    """

    homes: Any = fields.ListField(subfield=fields.StringField())

    @override
    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        found = [
            f"{importer} imports {library}"
            for library, homes in (_parsed(line) for line in self.homes)
            for importer in sorted(_importers(graph, library))
            if not _is_in(importer, [library, *homes])
        ]
        return ContractCheck(kept=not found, metadata={"found": found})

    @override
    def render_broken_contract(self, check: ContractCheck) -> None:
        for line in check.metadata["found"]:
            output.print_error(line)


def _parsed(line: str) -> tuple[str, list[str]]:
    library, _, homes = line.partition(":")
    return library.strip(), [home.strip() for home in homes.split(",")]


def _importers(graph: ImportGraph, library: str) -> set[str]:
    imported = [module for module in graph.modules if _is_in(module, [library])]
    return {
        importer
        for module in imported
        for importer in graph.find_modules_that_directly_import(module)
    }


def _is_in(module: str, packages: Iterable[str]) -> bool:
    return any(module == one or module.startswith(f"{one}.") for one in packages)
