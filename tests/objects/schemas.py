"""The schemas by kind and version."""

from functools import cache
from typing import Any

from admission.objects import crds

_CONVERSION = crds.ConversionConfig(client_config={"url": "https://127.0.0.1:9443/convert"})


@cache
def of_version(name: str) -> dict[str, dict[str, Any]]:
    return {
        document["spec"]["names"]["kind"]: version["schema"]["openAPIV3Schema"]
        for document in crds.documents(_CONVERSION)
        for version in document["spec"]["versions"]
        if version["name"] == name
    }


def stored() -> dict[str, dict[str, Any]]:
    return of_version("v1beta2")
