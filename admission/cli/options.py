"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

CONFIG_ADVICE: Final = (
    "check the file with: gpu-admission config --config FILE; see every field with its default: "
    "gpu-admission config --print"
)

config_option: Final[Callable[[Any], Any]] = click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with Kueue's Configuration, our GpuConfiguration, or both. Default: none.",
)
