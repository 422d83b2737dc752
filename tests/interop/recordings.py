"""What the real operators said of their objects, as files: ``make interop ARGS=--record``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from tests.controlplane.rest import Json
from tests.interop.cases import Recording
from tests.interop.modules import Module

FOLDER: Final = Path(__file__).parent / "recorded"


@dataclass(frozen=True)
class Recorded:
    """A file.

    Attributes:
        operator: module and version of what said it.
        entries: what was done then, and the status, in their order.
    """

    operator: str
    entries: tuple[tuple[str, Json], ...]

    def at_end_of(self, step: str) -> Json:
        """The last status of a step."""
        return [status for name, status in self.entries if name == step][-1]


def write(name: str, module: Module, recording: Recording) -> None:
    """Write the recording of a sample."""
    FOLDER.mkdir(exist_ok=True)
    entries = [{"step": step, "status": status} for step, status in recording.entries]
    content = {"operator": f"{module.path} {module.version}", "said": entries}
    (FOLDER / f"{name}.yaml").write_text(
        yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=96)
    )


def read(path: Path) -> Recorded:
    """Read a recording."""
    content = yaml.safe_load(path.read_text())
    entries = tuple((one["step"], one["status"]) for one in content["said"])
    return Recorded(content["operator"], entries)


def of(name: str) -> Recorded:
    """Read the recording of a sample."""
    return read(FOLDER / f"{name}.yaml")
