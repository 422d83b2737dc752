"""Command ``manifests``: the objects of an installation as YAML."""

from pathlib import Path

import click

from admission.cli import options, output
from admission.config import reading
from admission.install import manifests


@click.command(
    "manifests",
    epilog="""\b
Examples:
  gpu-admission manifests --image registry.example.com/gpu-admission:0.1.0 \\
      | kubectl apply --server-side -f -
  gpu-admission manifests --config config.yaml --out base && kubectl kustomize base
""",
)
@options.config_option
@options.image_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a kustomize base to this folder. Default: print all manifests.",
)
def manifests_command(config_file: Path | None, image: str, out: Path | None) -> None:
    """Print or write the manifests of an installation.

    Needs no cluster. They do not contain the webhook's certificate: make it with `gpu-admission
    install` or with cert-manager, which also put its CA into the webhook configurations and the
    CRDs.
    """
    with output.reported(options.CONFIG_ADVICE):
        settings = reading.load_logged(config_file)
        if out is None:
            click.echo(manifests.stream(settings, image), nl=False)
            return
        out.mkdir(parents=True, exist_ok=True)
        for name, text in manifests.files(settings, image).items():
            (out / name).write_text(text, "utf-8")
            click.echo(str(out / name), err=True)
