"""Command ``migrate storage``: objects of an older version are stored in the present one."""

from typing import Final

import click

from admission.admin import storage
from admission.cli import clusters, tables
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
""",
)
@clusters.cluster_options
@click.option("--apply", "applies", is_flag=True, help="Do it; without it only the plan is shown.")
def storage_command(target: ApiServerTarget, applies: bool) -> None:
    """Write objects in v1beta2 that are stored in an older version, as an older Kueue did.

    Stored objects are rewritten, so that v1beta1 can be switched off (install
    --no-older-versions). The webhook must run: it converts what is read.
    """
    with clusters.connected(target, _ADVICE) as api:
        old_objects = storage.find(api)
        if not old_objects:
            click.echo("nothing to do: everything is stored in v1beta2")
            return
        for old in old_objects:
            versions = ", ".join(old.versions)
            if not applies:
                objects = tables.counted(old.objects, "object")
                click.echo(f"{old.crd}: stored in {versions}; {objects} to write")
                continue
            count = sum(1 for _ in storage.migrate(api, old))
            click.echo(
                f"{old.crd}: {tables.counted(count, 'object')} written; all are stored in v1beta2"
            )
        if not applies:
            does = clusters.again("gpu-admission migrate storage --apply")
            click.echo(f"nothing was changed; do it with: {does}", err=True)
