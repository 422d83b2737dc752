"""The program, which names a port of this machine wherever it has the webhook's Service asked.

Nothing else of it is changed. As a script: ``addressed.py PORT ARGUMENTS...``. The Service itself
is pointed to this machine by `Charted.move_addresses`.
"""

import sys

from admission.admin import manifests
from admission.admin.rendering import Document
from admission.cli.main import main
from admission.config.derived import Settings

_REFERENCE = manifests.service_reference


def _moved(settings: Settings) -> Document:
    found = _REFERENCE(settings)
    return {**found, "service": {**found["service"], "port": int(sys.argv[1])}}


if __name__ == "__main__":
    manifests.service_reference = _moved
    main(sys.argv[2:])
