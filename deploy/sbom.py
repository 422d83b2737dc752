"""Prints what is installed beside this Python as an SBOM (CycloneDX 1.6, JSON).

Run by deploy/Dockerfile with the Python of the image. It lists Python packages; those of the base
image are in the SBOM of the base image. The same packages give the same text.
"""

import json
import re
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any


def component_of(package: metadata.Distribution) -> dict[str, Any]:
    """Return a package as a component."""
    name = re.sub(r"[-_.]+", "-", package.name).lower()
    purl = f"pkg:pypi/{name}@{package.version}"
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": package.version,
        "purl": purl,
    }
    fields = ("License-Expression", "License")
    license_name = next((package.metadata[key] for key in fields if key in package.metadata), "")
    if license_name and "\n" not in license_name:
        component["licenses"] = [{"license": {"name": license_name}}]
    return component


def document(
    program: str = "gpu-admission", folders: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the SBOM of everything that is installed, with the program as its subject.

    Args:
        program: name of the package that is the subject.
        folders: where packages are installed; None means beside this Python.
    """
    packages = metadata.distributions(path=sys.path if folders is None else list(folders))
    components = {item["purl"]: item for item in map(component_of, packages)}
    ordered = [components[purl] for purl in sorted(components)]
    subject = next((item for item in ordered if item["name"] == program), None)
    if subject is None:
        raise SystemExit(f"{program} is not installed beside {sys.executable}")
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**subject, "type": "application"}},
        "components": [item for item in ordered if item is not subject],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(document(), indent=2) + "\n")
