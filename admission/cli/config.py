"""Command ``config``: what a configuration file means."""

from dataclasses import asdict
from pathlib import Path
from typing import Literal

import click

from admission.cli import options, output
from admission.config import reading
from admission.config.reading import Effective


@click.command(
    epilog="""\b
Examples:
  gpu-admission config --config config.yaml
  gpu-admission config --print
  gpu-admission config --print --config config.yaml -o json
"""
)
@options.config_option
@click.option(
    "--print", "shown", is_flag=True, help="Print the effective configuration as a file."
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="Output format.",
)
def config(config_file: Path | None, shown: bool, form: Literal["yaml", "json"]) -> None:
    """Check a configuration file, or show the effective configuration.

    --print prints a configuration file with every default filled in; it contains no secrets.
    Fields of Kueue's Configuration that are accepted without effect are listed, with the reason.
    """
    with output.reported(options.CONFIG_ADVICE):
        effective = reading.load(config_file)
    if not shown:
        click.echo(f"{config_file or 'the defaults'}: valid")
        for setting in effective.unused:
            click.echo(f"  without effect: {setting.path} ({setting.why})")
    elif form == "json":
        _print_json(effective)
    else:
        for setting in effective.unused:
            click.echo(f"# without effect: {setting.path} ({setting.why})")
        click.echo(effective.settings.to_yaml(), nl=False)


def _print_json(effective: Effective) -> None:
    kueue, gpu = effective.settings.documents()
    unused = [asdict(setting) for setting in effective.unused]
    output.print_json({"configuration": kueue, "gpuConfiguration": gpu, "unused": unused})
