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
    help="Write a kustomize base into this folder. Default: one stream of documents.",
)
def manifests_command(config_file: Path | None, image: str, out: Path | None) -> None:
    """Show or write everything that runs in a cluster, without talking to one.

    The webhook's certificate is not part of it: make it with `gpu-admission install` or with
    cert-manager, which also put its CA into the webhook configurations and the CRDs.
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
