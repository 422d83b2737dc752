"""Command ``manifests``: the objects of an installation as YAML."""

from collections.abc import Mapping
from pathlib import Path

import click

from admission.admin import chart, manifests
from admission.cli import install_options, options, output
from admission.config import reading


@click.command(
    "manifests",
    epilog="""\b
Examples:
  gpu-admission manifests --image registry.example.com/gpu-admission:0.2.0 \\
      | kubectl apply --server-side -f -
  gpu-admission manifests --config config.yaml --out base && kubectl kustomize base
  gpu-admission manifests --config config.yaml --chart chart && helm lint chart
""",
)
@options.config_option
@install_options.image_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a kustomize base to this folder. Default: print all manifests.",
)
@click.option(
    "--chart",
    "chart_folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a Helm chart to this folder. Its values choose image, modes and certificates.",
)
def manifests_command(
    config_file: Path | None, image: str | None, out: Path | None, chart_folder: Path | None
) -> None:
    """Print or write the manifests of an installation.

    Needs no cluster. They do not contain the webhook's certificate: make it with `gpu-admission
    install` or with cert-manager, which also put its CA into the webhook configurations and the
    CRDs.
    """
    with output.reported(options.CONFIG_ADVICE):
        settings = reading.load_logged(config_file)
        image = image or manifests.DEFAULT_IMAGE
        if out is None and chart_folder is None:
            click.echo(manifests.stream(settings, image), nl=False)
        if out is not None:
            _write(out, manifests.files(settings, image))
        if chart_folder is not None:
            _write(chart_folder, chart.files(settings))


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        click.echo(str(path), err=True)
