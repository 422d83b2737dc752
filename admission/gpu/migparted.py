"""Offline check of mig-parted configurations: can the GPUs be cut that way at all?

Source: NVIDIA/mig-parted v0.15 api/spec/v1 (``mig-configs``, ``device-filter``, ``devices``).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from admission.base.errors import InvalidValueError
from admission.gpu import mig_profile_names, placement
from admission.gpu.catalogue import Catalogue
from admission.gpu.findings import Finding
from admission.gpu.products import Product

_CONFIGS: Final = "mig-configs"
_KEYS: Final = ("device-filter", "devices", "mig-enabled", "mig-devices")


def check(
    config: Mapping[str, Any], catalogue: Catalogue, product: Product | None = None
) -> tuple[Finding, ...]:
    """Return the problems of a configuration, in the order of its entries.

    Args:
        config: the parsed document.
        catalogue: of products.
        product: the GPU it is meant for. Without one an entry must fit at least one product
            that its device filter admits.
    """
    configs = config.get(_CONFIGS)
    if not isinstance(configs, Mapping):
        return (Finding(rule="shape", field=_CONFIGS, text="must map names to lists of entries"),)
    findings: list[Finding] = []
    for name, entries in configs.items():
        if not isinstance(entries, Sequence) or isinstance(entries, str):
            text = "must be a list of entries"
            findings.append(Finding(rule="shape", field=f"{_CONFIGS}.{name}", text=text))
            continue
        for index, entry in enumerate(entries):
            path = f"{_CONFIGS}.{name}[{index}]"
            findings += _entry(path, entry, _candidates(entry, catalogue, product), catalogue)
    return tuple(findings)


def _candidates(entry: Any, catalogue: Catalogue, product: Product | None) -> tuple[Product, ...]:
    """The products an entry may be meant for: the given one, or those of its device filter."""
    mig_products = tuple(p for p in catalogue.products.values() if p.has_mig)
    pool = (product,) if product is not None else mig_products
    filters = entry.get("device-filter") if isinstance(entry, Mapping) else None
    if not filters:
        return pool
    filter_list = [filters] if isinstance(filters, str) else list(filters)
    listed = {p.name for p in mig_products if _is_listed(p, filter_list)}
    return tuple(p for p in pool if p.name in listed or not p.pci_ids)


def _is_listed(product: Product, filter_list: Sequence[str]) -> bool:
    """Filters are device id and vendor id in one number: ``0x20B210DE``."""
    upper = [text.upper() for text in filter_list]
    return any(text.startswith(identity.upper()) for identity in product.pci_ids for text in upper)


def _entry(
    path: str, entry: Any, products: Sequence[Product], catalogue: Catalogue
) -> Iterator[Finding]:
    if not isinstance(entry, Mapping):
        yield Finding(rule="shape", field=path, text="must be a mapping")
        return
    for key in sorted(set(entry) - set(_KEYS)):
        text = f"unknown key; known are {', '.join(_KEYS)}"
        yield Finding(rule="key", field=f"{path}.{key}", text=text)
    devices = entry.get("mig-devices") or {}
    field = f"{path}.mig-devices"
    if not isinstance(devices, Mapping):
        yield Finding(rule="shape", field=field, text="must map profiles to counts")
        return
    if devices and not entry.get("mig-enabled"):
        text = "instances need mig-enabled: true"
        yield Finding(rule="disabled", field=field, text=text)
    want, problems = _want(field, devices)
    yield from problems
    if want and not problems and products:
        yield from _feasible(field, want, products, catalogue)


def _want(field: str, devices: Mapping[str, Any]) -> tuple[dict[str, int], list[Finding]]:
    want: dict[str, int] = {}
    problems = []
    for text, count in devices.items():
        where = f"{field}[{text}]"
        try:
            profile = mig_profile_names.parse(str(text))
        except InvalidValueError as error:
            problems.append(Finding(rule="name", field=where, text=str(error)))
            continue
        refusal = mig_profile_names.refuse_compute_instance(profile)
        if refusal:
            problems.append(Finding(rule="T7", field=where, text=refusal))
        elif not isinstance(count, int) or isinstance(count, bool) or count < 0:
            problems.append(Finding(rule="shape", field=where, text="must be a count"))
        else:
            want[profile.text] = want.get(profile.text, 0) + count
    return want, problems


def _feasible(
    field: str, want: Mapping[str, int], products: Sequence[Product], catalogue: Catalogue
) -> Iterator[Finding]:
    """Nothing if one product can be cut so; else the reason, and what would work."""
    having = [p for p in products if all(p.find(name) is not None for name in want)]
    if not having:
        yield Finding(rule="T5", field=field, text=_foreign(want, products, catalogue))
        return
    answers = [placement.why_never(product, want) for product in having]
    if all(answers):
        text = f"{answers[0]}; {_nearest(having[0], want)}"
        yield Finding(rule="T3", field=field, text=text)


def _foreign(want: Mapping[str, int], products: Sequence[Product], catalogue: Catalogue) -> str:
    if len(products) > 1:
        return f"no GPU has all of {', '.join(sorted(want))}"
    missing = placement.unknown_profiles(products[0], want)
    owners = sorted(
        {p.name for name in want for p, _ in catalogue.candidates(name)} - {products[0].name}
    )
    return f"{missing}; the profiles belong to {', '.join(owners)}" if owners else missing


def _nearest(product: Product, want: Mapping[str, int]) -> str:
    """The largest part of the wish that fits: most instances, then most compute."""
    want_vector = placement.vector(product, want)
    weights = [profile.compute_slices for profile in product.profiles.values()]
    parts = [
        part
        for part in placement.addable(product, ())
        if all(p <= w for p, w in zip(part, want_vector, strict=True))
    ]
    best = max(
        parts,
        key=lambda part: (
            sum(w * n for w, n in zip(weights, part, strict=True)),
            sum(part),
            part,
        ),
    )
    shown = ", ".join(f"{name}: {n}" for name, n in placement.names_of(product, best).items())
    return f"{{{shown}}} fits"
