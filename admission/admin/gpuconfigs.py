"""GPU configurations in YAML files, found and checked before they reach a node or a namespace.

A file may hold mig-parted and device plugin configurations, ConfigMaps of either, LimitRanges
and ResourceQuotas, in any number.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml

from admission.base import structs
from admission.base.errors import AdmissionError, InvalidValueError
from admission.gpu import migparted, pluginconfig
from admission.gpu.catalogue import Catalogue
from admission.gpu.findings import Finding
from admission.gpu.products import Product
from admission.objects import limit_range, resource_quota, views
from admission.objects.resource_quota import NamespaceQuota

_AS_LIMIT_RANGE: Final = structs.converter(views.LimitRange)
_AS_QUOTA: Final = structs.converter(NamespaceQuota)


class UnreadableError(AdmissionError):
    """The text is no YAML, or holds nothing that can be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDocument:
    """One configuration and what is wrong with it.

    Attributes:
        name: its place: ``ConfigMap/mig-parted-config data[config.yaml]``.
        kind: ``mig-parted``, ``device-plugin``, ``LimitRange`` or ``ResourceQuota``.
        findings: in the order of its entries.
    """

    name: str
    kind: str
    findings: tuple[Finding, ...]


def check(
    text: str, catalogue: Catalogue, product: Product | None = None
) -> tuple[CheckedDocument, ...]:
    """Return every configuration of a text, in its order.

    Args:
        text: of a YAML file with one or several documents.
        catalogue: of GPUs.
        product: the GPU that MIG geometries are meant for; None: some GPU must fit.

    Raises:
        UnreadableError: the text is no YAML, or holds nothing that can be checked.
    """
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise UnreadableError(f"invalid YAML: {error}") from error
    checked = check_documents(documents, catalogue, product)
    if not checked:
        raise UnreadableError(
            "contains no mig-parted configuration (mig-configs), no device plugin configuration"
            " (sharing), and no ConfigMap, LimitRange or ResourceQuota with GPUs"
        )
    return checked


def check_documents(
    documents: Iterable[Any], catalogue: Catalogue, product: Product | None = None
) -> tuple[CheckedDocument, ...]:
    """Return every configuration in parsed documents, in order; other arguments as of `check`."""
    checker = _Checker(catalogue, product)
    return tuple(
        problem
        for index, document in enumerate(documents)
        if isinstance(document, Mapping)
        for problem in checker.document(index, document)
    )


@dataclass(frozen=True, slots=True)
class _Checker:
    catalogue: Catalogue
    product: Product | None

    def document(self, index: int, document: Mapping[str, Any]) -> Iterator[CheckedDocument]:
        kind = str(document.get("kind", ""))
        if kind.endswith("List"):
            for item in document.get("items") or ():
                yield from self.document(index, item)
            return
        name = f"{kind}/{_name(document)}" if kind else f"document {index + 1}"
        if kind == "ConfigMap":
            yield from self._config_map(name, document)
        elif kind == "LimitRange":
            yield CheckedDocument(name=name, kind=kind, findings=_limit_range(document))
        elif kind == "ResourceQuota":
            yield CheckedDocument(name=name, kind=kind, findings=_quota(document))
        else:
            yield from self._config(name, document)

    def _config_map(self, name: str, document: Mapping[str, Any]) -> Iterator[CheckedDocument]:
        data = document.get("data")
        for key, text in (data if isinstance(data, Mapping) else {}).items():
            where = f"{name} data[{key}]"
            try:
                config = yaml.safe_load(text) if isinstance(text, str) else None
            except yaml.YAMLError as error:
                finding = Finding(rule="yaml", field=key, text=f"invalid YAML: {error}")
                yield CheckedDocument(name=where, kind="unknown", findings=(finding,))
                continue
            if isinstance(config, Mapping):
                yield from self._config(where, config)

    def _config(self, name: str, config: Mapping[str, Any]) -> Iterator[CheckedDocument]:
        if "mig-configs" in config:
            findings = migparted.check(config, self.catalogue, self.product)
            yield CheckedDocument(name=name, kind="mig-parted", findings=findings)
        elif "sharing" in config or "flags" in config:
            yield CheckedDocument(
                name=name, kind="device-plugin", findings=pluginconfig.check(config)
            )


def _name(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""


def _limit_range(document: Mapping[str, Any]) -> tuple[Finding, ...]:
    try:
        (limit_range_,) = limit_range.read([_AS_LIMIT_RANGE(document)])
    except (msgspec.ValidationError, InvalidValueError) as error:
        return (Finding(rule="shape", field="spec.limits", text=str(error)),)
    return (
        *limit_range.invalid(limit_range_),
        *limit_range.traps(limit_range.as_written(limit_range_)),
    )


def _quota(document: Mapping[str, Any]) -> tuple[Finding, ...]:
    try:
        quota = _AS_QUOTA(document)
    except msgspec.ValidationError as error:
        return (Finding(rule="shape", field="spec.hard", text=str(error)),)
    return resource_quota.quota_traps(quota.spec.hard or {})
