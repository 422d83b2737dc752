"""Collects the information for a support request in one file: bounded, and without secrets.

No Secret is read for it. What is left out, and why, stands in ``left-out.txt`` of the file.
"""

import io
import json
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from admission.admin.doctor import picture as pictures
from admission.admin.doctor import redacting
from admission.admin.doctor.findings import Diagnosis
from admission.admin.doctor.looking import Server
from admission.admin.doctor.picture import Picture, name_of
from admission.base import clock as clocks
from admission.base import names
from admission.kube import errors, resources
from admission.kube.api import DOCUMENT, PAGE, Document
from admission.kube.resources import Resource

MOST_BYTES: Final = 64 * 2**20
"""Longest content before it is compressed."""
_MOST_OBJECTS: Final = 2000
_LOG_LINES: Final = 5000
_LOG_BYTES: Final = 2 * 2**20
_PRIVATE: Final = 0o600

_READ: Final = (
    resources.CLUSTER_QUEUES,
    resources.COHORTS,
    resources.LOCAL_QUEUES,
    resources.RESOURCE_FLAVORS,
    resources.WORKLOADS,
    resources.WORKLOAD_PRIORITY_CLASSES,
    resources.ADMISSION_CHECKS,
    resources.TOPOLOGIES,
    resources.NODES,
    resources.NAMESPACES,
    resources.RESOURCE_SLICES,
    resources.LIMIT_RANGES,
    resources.RESOURCE_QUOTAS,
    resources.MUTATING_WEBHOOKS,
    resources.VALIDATING_WEBHOOKS,
)
"""Kinds of which all namespaces are read."""
_SEEN: Final = (
    resources.DEPLOYMENTS,
    resources.LEASES,
    resources.ROLES,
    resources.ROLE_BINDINGS,
    resources.API_SERVICES,
    pictures.OWN_CONFIG,
    pictures.OWN_PODS,
)
"""Kinds of which the picture has what is needed."""
_OUR_EVENTS: Final = ("gpu-admission", "kueue")
_README: Final = """gpu-admission must-gather, {now}

doctor.json    what `gpu-admission doctor` found
versions.json  of gpu-admission and of the API server
objects/       queues, flavors, Workloads, nodes, GPU pods, and what is installed
events.json    of gpu-admission, and of its namespace
logs/          of its pods, the last {lines} lines; a program outside the cluster has its log there
left-out.txt   what could not be read, or would have made this file too large

No Secret was read. Values of variables, command lines and annotations of users' pods are taken
out, and so is whatever looks like a credential. Names of users, namespaces and images are not.
"""


@dataclass(slots=True)
class _Bundle:
    """Files by name, as long as there is room."""

    files: dict[str, bytes] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, name: str, content: bytes) -> None:
        if self.size + len(content) > MOST_BYTES:
            self.left_out.append(f"{name}: no room for {len(content)} bytes")
            return
        self.files[name] = content
        self.size += len(content)

    def add_json(self, name: str, content: Any) -> None:
        self.add(name, json.dumps(content, indent=1, sort_keys=True, default=str).encode())


def gather(api: Server, picture: Picture, diagnosis: Diagnosis) -> Mapping[str, bytes]:
    """Return the content of the bundle by the name of the file.

    Args:
        api: the cluster.
        picture: of the cluster.
        diagnosis: of the picture.
    """
    bundle = _Bundle()
    now = clocks.to_wire(picture.now)
    bundle.add("README.txt", _README.format(now=now, lines=_LOG_LINES).encode())
    bundle.add_json("doctor.json", _cleaned(diagnosis.document()))
    bundle.add_json("versions.json", _versions(api, bundle))
    for resource in _SEEN:
        name = f"objects/{_file(resource)}"
        bundle.add_json(name, [redacting.document(document) for document in picture.of(resource)])
    for resource in _READ:
        documents = _listed(api, resource, bundle)
        bundle.add_json(
            f"objects/{_file(resource)}", [redacting.document(document) for document in documents]
        )
    bundle.add_json("objects/gpu-pods.json", list(_gpu_pods(api, picture, bundle)))
    bundle.add_json("objects/definitions.json", list(_definitions(picture)))
    bundle.add_json("events.json", list(_events(api, picture, bundle)))
    _logs(api, picture, bundle)
    bundle.left_out += sorted(set(picture.unseen.values()))
    # Said in any case: it is short.
    left_out = "".join(f"{redacting.text(line)}\n" for line in bundle.left_out)
    return {**bundle.files, "left-out.txt": left_out.encode()}


def write(path: Path, files: Mapping[str, bytes], moment: datetime) -> None:
    """Write a new file, which only its owner may read.

    Raises:
        OSError: there is such a file already, or it cannot be written.
    """
    folder = path.name.removesuffix(".gz").removesuffix(".tgz").removesuffix(".tar")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    with (
        os.fdopen(descriptor, "wb") as raw,
        tarfile.open(fileobj=raw, mode="w:gz") as archive,
    ):
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode, entry.mtime = len(content), _PRIVATE, int(moment.timestamp())
            archive.addfile(entry, io.BytesIO(content))


def _cleaned(document: Any) -> Any:
    """Return what was found without what looks like a credential in its texts."""
    if isinstance(document, dict):
        return {key: _cleaned(value) for key, value in document.items()}
    if isinstance(document, list):
        return [_cleaned(value) for value in document]
    return redacting.text(document) if isinstance(document, str) else document


def _versions(api: Server, bundle: _Bundle) -> dict[str, Any]:
    versions: dict[str, Any] = {"gpu-admission": metadata.version("gpu-admission")}
    try:
        versions["kubernetes"] = json.loads(api.text("/version"))
    except (errors.KubeError, ValueError) as error:
        bundle.left_out.append(f"version of the API server: {error}")
    return versions


def _file(resource: Resource) -> str:
    part = f"{resource.part}-" if resource.part else ""
    return f"{part}{'.'.join(filter(None, (resource.plural, resource.group)))}.json"


def _listed(
    api: Server, resource: Resource, bundle: _Bundle, namespace: str = "", fields: str = ""
) -> Iterator[Document]:
    """Yield objects of a kind, up to a limit; what cannot be read is noted."""
    token, count = "", 0
    while count < _MOST_OBJECTS:
        try:
            page = api.list(
                resource, namespace, field_selector=fields, limit=min(PAGE, _MOST_OBJECTS),
                continue_=token, into=DOCUMENT,
            )  # fmt: skip
        except errors.NotFoundError:
            return
        except errors.KubeError as error:
            bundle.left_out.append(f"{resource.plural}: {error}")
            return
        count += len(page.items)
        yield from page.items
        token = page.continue_
        if not token:
            return
    bundle.left_out.append(f"{resource.plural}: more than the first {count}")


def _gpu_pods(api: Server, picture: Picture, bundle: _Bundle) -> Iterator[Document]:
    """Yield the pods that hold GPUs or wait for them."""
    del picture
    for pod in _listed(api, resources.PODS, bundle, fields=_NOT_ENDED):
        gates = pod["spec"].get("schedulingGates") or ()
        labels = pictures.labels_of(pod)
        is_ours = names.MANAGED_LABEL in labels or names.PODSET_LABEL in labels
        if is_ours or any(gate["name"] == names.ADMISSION_GATE for gate in gates) or _asks(pod):
            yield redacting.document(pod)


_NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"


def _asks(pod: Document) -> bool:
    lists = (pod["spec"].get("initContainers") or (), pod["spec"]["containers"])
    return any(
        resource.startswith(("nvidia.com/", names.OWN_DOMAIN))
        for listed in lists
        for listed_resource in listed
        for resource in (listed_resource.get("resources") or {}).get("limits") or ()
    )


def _definitions(picture: Picture) -> Iterator[Document]:
    """Yield the CustomResourceDefinitions without their schemas."""
    for definition in picture.of(resources.CRDS):
        versions = [
            {key: version.get(key) for key in ("name", "served", "storage")}
            for version in definition["spec"]["versions"]
        ]
        yield {
            "name": name_of(definition),
            "versions": versions,
            "status": definition.get("status"),
        }


def _events(api: Server, picture: Picture, bundle: _Bundle) -> Iterator[Document]:
    for event in _listed(api, resources.EVENTS, bundle):
        reporter = str(event.get("reportingController") or "")
        namespace = event["metadata"].get("namespace", "")
        if namespace == picture.namespace or reporter.startswith(_OUR_EVENTS):
            yield redacting.document(event)


def _logs(api: Server, picture: Picture, bundle: _Bundle) -> None:
    for pod in picture.of(pictures.OWN_PODS):
        name = pod["metadata"]["name"]
        for container in _containers(pod):
            for previous in ("", "&previous=true"):
                path = (
                    f"{resources.PODS.path(picture.namespace, name, 'log')}?container={container}"
                    f"&tailLines={_LOG_LINES}&limitBytes={_LOG_BYTES}{previous}"
                )
                file_name = f"logs/{name}-{container}{'-previous' if previous else ''}.log"
                try:
                    content = api.text(path)
                except errors.KubeError as error:
                    if not previous:
                        bundle.left_out.append(f"{file_name}: {error}")
                    continue
                bundle.add(file_name, redacting.text(content).encode())


def _containers(pod: Document) -> Iterable[str]:
    return (container["name"] for container in pod["spec"]["containers"])
