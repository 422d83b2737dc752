"""Commands ``migrate``: come from another quota system."""

import click

from admission.cli.migrate_kueue import kueue
from admission.cli.migrate_resource_quota import resource_quota


@click.group()
def migrate() -> None:
    """Come from another quota system, with what runs and waits there."""


migrate.add_command(kueue)
migrate.add_command(resource_quota)
