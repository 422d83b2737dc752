"""Command ``migrate storage``: objects of an older version are stored in the present one."""

from typing import Any, Final

import click

from admission.admin import storage
from admission.admin.storage import Old
from admission.cli import clusters, output, tables
from admission.kube.client import Client
from admission.run.connection import ApiServerTarget

_ADVICE: Final = (
    "the command may be repeated: what was done is not done again. It needs a user who may update "
    "queues, Workloads and CustomResourceDefinitions"
)


@click.command(
    name="storage",
    epilog="""\b
Examples:
  gpu-admission migrate storage
  gpu-admission migrate storage --apply
  gpu-admission migrate storage -o json
""",
)
@clusters.cluster_options
@click.option("--apply", "applies", is_flag=True, help="Do it; without it only the plan is shown.")
@output.output_option
def storage_command(target: ApiServerTarget, applies: bool, form: str) -> None:
    """Write objects in v1beta2 that are stored in an older version, as an older Kueue did.

    Stored objects are rewritten, so that v1beta1 can be switched off (install
    --no-older-versions). The webhook must run: it converts what is read.
    """
    with clusters.connected(target, _ADVICE) as api:
        moves = [_move(api, old, applies=applies, form=form) for old in storage.find(api)]
    if form == "json":
        output.print_json(moves)
    elif not moves:
        click.echo("nothing to do: everything is stored in v1beta2")
    if moves and not applies:
        does = clusters.again("gpu-admission migrate storage --apply")
        click.echo(f"nothing was changed; do it with: {does}", err=True)


def _move(api: Client, old: Old, *, applies: bool, form: str) -> dict[str, Any]:
    """Write the objects of a kind if that is wanted, say so, and return what was done."""
    count = sum(1 for _ in storage.migrate(api, old)) if applies else old.objects
    objects = tables.counted(count, "object")
    if form != "json":
        click.echo(
            f"{old.crd}: {objects} written; all are stored in v1beta2"
            if applies
            else f"{old.crd}: stored in {', '.join(old.versions)}; {objects} to write"
        )
    return {
        "crd": old.crd,
        "storedVersions": list(old.versions),
        "objects": count,
        "written": applies,
    }
