"""Commands ``migrate``: come from another quota system, or from an older version."""

import click

from admission.cli.migrate_kueue import kueue
from admission.cli.migrate_resource_quota import resource_quota
from admission.cli.migrate_storage import storage_command


@click.group()
def migrate() -> None:
    """Move from Kueue or ResourceQuotas, and keep what runs and waits."""


migrate.add_command(kueue)
migrate.add_command(resource_quota)
migrate.add_command(storage_command)
