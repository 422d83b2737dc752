"""What an image holds besides the program: versions, licences, and who needs it."""

import functools
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repo import tree

_LOCK: Final = tree.ROOT / "deploy" / "requirements.lock"
_PROGRAM: Final = """
import sys
import admission.cli.serve, admission.run.controller, admission.webhook.server
print(*sys.modules)
"""
"""What controller and webhook import when they start in a pod."""
_OLDEST: Final = {"extra": "", "python_version": "3.11", "python_full_version": "3.11.0"}
"""The page says the same on every Python: what the oldest one needs."""
_CLASSIFIER: Final = "License :: OSI Approved :: "


def pins() -> dict[str, str]:
    """Return the version of each package by its name."""
    return dict(re.findall(r"^([a-z0-9._-]+)==([^\s;]+)", _LOCK.read_text(), re.MULTILINE))


@functools.cache
def rows() -> tuple[tuple[str, ...], ...]:
    """Name, version, licence, what needs it, and whether it is loaded, of each package."""
    return tuple(_rows(pins()))


def _rows(pinned: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    needed: dict[str, set[str]] = {name: set() for name in pinned}
    for name in (*pinned, "gpu-admission"):
        for text in metadata.requires(name) or ():
            requirement = Requirement(text)
            wanted = canonicalize_name(requirement.name)
            applies = requirement.marker is None or requirement.marker.evaluate(_OLDEST)
            if wanted in needed and applies:
                needed[wanted].add("us" if name == "gpu-admission" else name)
    running = loaded()
    for name, version in sorted(pinned.items()):
        by = ", ".join(sorted(needed[name], key=lambda one: (one != "us", one)))
        yield f"`{name}`", version, licence(name), by, "yes" if name in running else "no"


def licence(name: str) -> str:
    """Return the licence that a package says it has."""
    about = metadata.metadata(name)
    found = (about.get_all("License-Expression") or [""])[0]
    named = [one for one in about.get_all("Classifier") or () if one.startswith(_CLASSIFIER)]
    classified = ", ".join(one.removeprefix(_CLASSIFIER) for one in named)
    text = found or classified or (about.get_all("License") or [""])[0].strip()
    return text.splitlines()[0] if text else "unknown"


@functools.cache
def loaded() -> frozenset[str]:
    """Return the packages of which controller and webhook import something when they start."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )
    modules = {name.partition(".")[0] for name in done.stdout.split()}
    homes = metadata.packages_distributions()
    return frozenset(canonicalize_name(one) for name in modules for one in homes.get(name, ()))
