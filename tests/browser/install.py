"""Finds Chromium, or has the system's package manager install it: ``make browser``."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_HINT: Final = (
    "tests of pages need Chromium: install it so that one of these is on PATH: "
    f"{', '.join(_NAMES)} (Debian: apt-get install chromium)"
)


class NoBrowserError(Exception):
    """There is no Chromium, and none could be installed; the message says what to do."""


def find() -> Path:
    """Path of Chromium.

    Raises:
        NoBrowserError: it is not on PATH.
    """
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        raise NoBrowserError(_HINT)
    return Path(found)


def install() -> Path:
    """Path of Chromium, after Debian's package is installed where there is none.

    Raises:
        NoBrowserError: it cannot be installed here.
    """
    try:
        return find()
    except NoBrowserError:
        if os.geteuid() or shutil.which("apt-get") is None:
            raise
    settings = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["update", "-q"],
        ["install", "-q", "-y", "--no-install-recommends", "chromium"],
    ):
        done = subprocess.run(["apt-get", *command], stdout=sys.stderr, env=settings, check=False)
        if done.returncode:
            raise NoBrowserError(_HINT)
    return find()


if __name__ == "__main__":
    try:
        print(install())
    except NoBrowserError as error:
        sys.exit(str(error))
