"""Runs the controller as the command line does, with settings of the caller's choice.

Arguments: kubeconfig, port of the pages, settings as JSON, ``elect`` or ``alone``.
"""

import sys

from admission.base import logs
from admission.config.addresses import Address
from admission.config.derived import Settings
from admission.run import processes
from admission.run.connection import ApiServerTarget


def main(kubeconfig: str, port: str, settings: str, election: str) -> None:
    """Runs until a signal."""
    logs.configure("info")
    processes.run_controller(
        ApiServerTarget(kubeconfig),
        Address("127.0.0.1", int(port)),
        Settings.model_validate_json(settings),
        leader_election=election == "elect",
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
