"""Prints what is installed beside this Python as an SBOM (CycloneDX 1.6, JSON).

Run by deploy/Dockerfile with the Python of the image. It lists Python packages; those of the base
image are in the SBOM of the base image. The same packages give the same text.
"""

import json
import re
import sys
from importlib import metadata
from typing import Any


def component(found: metadata.Distribution) -> dict[str, Any]:
    """Return a package as a component."""
    name = re.sub(r"[-_.]+", "-", found.name).lower()
    purl = f"pkg:pypi/{name}@{found.version}"
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": found.version,
        "purl": purl,
    }
    said = found.metadata.get("License-Expression") or found.metadata.get("License") or ""
    if said and "\n" not in said:
        made["licenses"] = [{"license": {"name": said}}]
    return made


def document(program: str = "gpu-admission") -> dict[str, Any]:
    """Return the SBOM of everything that is installed, with the program as its subject."""
    found = {one["purl"]: one for one in map(component, metadata.distributions())}
    ordered = [found[key] for key in sorted(found)]
    subject = next((one for one in ordered if one["name"] == program), None)
    if subject is None:
        raise SystemExit(f"{program} is not installed beside {sys.executable}")
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**subject, "type": "application"}},
        "components": [one for one in ordered if one is not subject],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(document(), indent=2) + "\n")
