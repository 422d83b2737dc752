"""Commands ``gpu profiles`` and ``gpu check-config``: what GPUs can be cut into."""

import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import rich.table
from click.shell_completion import CompletionItem

from admission.admin import gpuconfigs
from admission.admin.gpuconfigs import CheckedDocument
from admission.base import names
from admission.cli import options, output
from admission.config import reading
from admission.gpu import catalogue
from admission.gpu import mig_profile_names as profile_names
from admission.gpu.catalogue import Catalogue
from admission.gpu.products import Cost, Product, Profile


def _products_named(
    context: click.Context, _: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Return the names of known GPUs."""
    del context
    products = sorted(catalogue.load().products)
    return [CompletionItem(name) for name in products if name.lower().startswith(typed.lower())]


_config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Configuration file whose GpuConfiguration adds or replaces products.",
)
_product_option = click.option(
    "--product",
    default="",
    metavar="NAME",
    shell_complete=_products_named,
    help="GPU model, by name (A100-80GB) or node label (NVIDIA-A100-SXM4-80GB).",
)


@click.group()
def gpu() -> None:
    """Show MIG profiles, and check GPU configurations.

    Needs no cluster.
    """


@gpu.command(
    epilog="""\b
Examples:
  gpu-admission gpu profiles
  gpu-admission gpu profiles --product A100-80GB
  gpu-admission gpu profiles --product NVIDIA-H100-80GB-HBM3 -o json
  gpu-admission gpu profiles --config config.yaml --product OUR-GPU
"""
)
@_product_option
@_config_option
@output.output_option
def profiles(product: str, config_file: Path | None, form: str) -> None:
    """Show the MIG profiles of every known GPU and what they cost in quota.

    Slices and memory are what one instance costs in gpu-admission.dev/gpu-slices and
    gpu-admission.dev/gpu-memory. Positions are the memory slices at which an instance can begin.
    """
    shown = _products(product, config_file)
    if form == "json":
        output.print_json([_document(profile) for profile in shown])
        return
    for profile in shown:
        output.console().print(_table(profile))


@gpu.command(
    "check-config",
    epilog="""\b
Examples:
  gpu-admission gpu check-config mig-parted.yaml --product A100-80GB
  gpu-admission gpu check-config time-slicing-configmap.yaml
  kubectl get limitrange,resourcequota -n team -o yaml | gpu-admission gpu check-config -
""",
)
@click.argument("file", type=click.File(encoding="utf-8"))
@_product_option
@_config_option
@output.output_option
def check_config(file: Any, product: str, config_file: Path | None, form: str) -> None:
    """Check GPU configurations in FILE (- is standard input); exit code 1 if something is wrong.

    It understands configurations of mig-parted and of the device plugin, as they are or in a
    ConfigMap, and LimitRanges and ResourceQuotas that name GPUs. MIG geometries are checked
    against the positions that slices can have on the GPU; without --product, on every GPU that
    has the profiles.
    """
    catalogue_ = _catalogue(config_file)
    with output.reported():
        chosen = catalogue_.product(product) if product else None
        checked = gpuconfigs.check(_read(file), catalogue_, chosen)
    if form == "json":
        output.print_json([asdict(document) for document in checked])
    else:
        _show(checked)
    if any(document.findings for document in checked):
        sys.exit(output.FAILED)


def _read(file: Any) -> str:
    try:
        return str(file.read())
    except UnicodeDecodeError as error:
        raise gpuconfigs.UnreadableError(f"{file.name}: is not text: {error}") from error


def _catalogue(config_file: Path | None) -> Catalogue:
    with output.reported(options.CONFIG_ADVICE):
        return reading.load(config_file).settings.gpu.catalogue()


def _products(text: str, config_file: Path | None) -> tuple[Product, ...]:
    catalogue_ = _catalogue(config_file)
    if not text:
        return tuple(catalogue_.products.values())
    with output.reported("list the names with: gpu-admission gpu profiles"):
        return (catalogue_.product(text),)


def _table(product: Product) -> rich.table.Table:
    table = rich.table.Table(title=_title(product), title_justify="left", box=None, pad_edge=False)
    for heading in ("PROFILE", "RESOURCE"):
        table.add_column(heading)
    for heading in ("SLICES", "MEMORY", "MOST"):
        table.add_column(heading, justify="right")
    table.add_column("POSITIONS")
    table.add_row("(whole)", names.GPU_RESOURCE, *_amounts(product.whole), "1", "")
    for profile in product.profiles.values():
        table.add_row(
            profile.name,
            _resource(profile),
            *_amounts(profile.cost),
            str(profile.max_instances),
            ",".join(map(str, profile.starts)),
        )
    return table


def _title(product: Product) -> str:
    also = f" (also {', '.join(product.aliases)})" if product.aliases else ""
    return f"{product.name}{also}" + ("" if product.has_mig else ": no MIG")


def _amounts(cost: Cost) -> tuple[str, str]:
    return str(cost.slices), f"{cost.memory_bytes // 2**30}Gi"


def _resource(profile: Profile) -> str:
    return profile_names.parse(profile.name).resource


def _document(product: Product) -> dict[str, Any]:
    return {
        "product": product.name,
        "aliases": list(product.aliases),
        "cost": _cost(product.whole),
        "profiles": [
            {
                "name": profile.name,
                "resource": _resource(profile),
                "cost": _cost(profile.cost),
                "most": profile.max_instances,
                "positions": list(profile.starts),
            }
            for profile in product.profiles.values()
        ],
    }


def _cost(cost: Cost) -> dict[str, int]:
    return {names.GPU_SLICES: cost.slices, names.GPU_MEMORY: cost.memory_bytes}


def _show(checked: Iterable[CheckedDocument]) -> None:
    for document in checked:
        count = len(document.findings)
        verdict = "nothing wrong" if not count else f"{count} finding{'s' if count > 1 else ''}"
        click.echo(f"{document.name} ({document.kind}): {verdict}")
        for finding in document.findings:
            click.echo(f"  {finding.field}: {finding.text} ({finding.rule})")
