"""Has the API server find the webhook's Service on this machine; a post-renderer of Helm, too.

The Service becomes a name of this machine, and who refers to it names another port. Nothing else
of what is installed is changed. As a script: ``addresses.py PORT`` from standard input to standard
output.
"""

import sys
from collections.abc import Iterator
from typing import Any, Final

import yaml

SERVICE: Final = "gpu-admission-webhook"
HERE: Final = {"type": "ExternalName", "externalName": "127.0.0.1"}
_CONFIGURATIONS: Final = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}


def move(document: Any, port: int) -> bool:
    """Change one document where it is, or refers to, the Service; return whether it did."""
    if document["kind"] == "Service" and document["metadata"]["name"] == SERVICE:
        document["spec"] |= HERE
        return True
    found = [one["service"] for one in _client_configs(document) if "service" in one]
    ours = [one for one in found if one["name"] == SERVICE]
    for service in ours:
        service["port"] = port
    return bool(ours)


def _client_configs(document: Any) -> Iterator[Any]:
    if document["kind"] in _CONFIGURATIONS:
        yield from (one["clientConfig"] for one in document["webhooks"])
    if document["kind"] == "CustomResourceDefinition":
        conversion = document["spec"].get("conversion", {})
        if conversion.get("strategy") == "Webhook":
            yield conversion["webhook"]["clientConfig"]


def main(port: str) -> None:
    """Pass documents on, changed where they have to be."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    documents = [one for one in yaml.load_all(sys.stdin, Loader=loader) if one]
    for one in documents:
        move(one, int(port))
    yaml.dump_all(documents, sys.stdout, Dumper=dumper, sort_keys=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
