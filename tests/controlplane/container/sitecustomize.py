"""Makes a process what a container of the image is: fewer packages, and the account of a pod.

Python imports a module of this name when it starts, in child processes too. `Kubelet` puts the
folder on ``PYTHONPATH``.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

from typing_extensions import override

LACKS = frozenset(os.environ["CONTAINER_LACKS"].split(","))
"""Top-level modules of packages that the image does not have."""


class _Lacking(MetaPathFinder):
    """Finds nothing of what the image lacks, wherever it is on this machine."""

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Refuse a module that the image lacks; leave all others to the next finder."""
        if fullname.partition(".")[0] in LACKS:
            raise ModuleNotFoundError(f"the image has no module named {fullname}", name=fullname)


sys.meta_path.insert(0, _Lacking())

from admission.kube import service_account  # noqa: E402 - with what the image has

service_account._FOLDER = Path(os.environ["CONTAINER_ACCOUNT"])  # type: ignore[misc]
