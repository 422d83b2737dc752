"""Reads and checks the catalogue's document (parsed JSON or YAML).

Every problem is found and reported at once, each with its product and field.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from admission.base.errors import InvalidValueError
from admission.gpu import names, placement
from admission.gpu.products import DEFAULT_SLICES, Product, Profile


def read_products(doc: Mapping[str, Any]) -> dict[str, Product]:
    """The products of one document by name, checked.

    Raises:
        InvalidValueError: the document is malformed or contradicts itself; lists all problems.
    """
    entries = doc.get("products")
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise InvalidValueError("products", "must be a list of products")
    products = [_product(entry) for entry in entries]
    problems = [problem for product in products for problem in check_product(product)]
    problems += check_names(products)
    if problems:
        raise InvalidValueError("catalogue", "; ".join(problems))
    return {product.name: product for product in products}


def check_names(products: Sequence[Product]) -> list[str]:
    """Names and aliases that more than one product claims."""
    owner: dict[str, str] = {}
    problems = []
    for product in products:
        for name in (product.name, *product.aliases):
            if name in owner:
                problems.append(f"{product.name}: name {name} also means {owner[name]}")
            owner.setdefault(name, product.name)
    return problems


def check_product(product: Product) -> Iterator[str]:
    """What is wrong with one product, in the order of its fields."""
    if product.memory_gb <= 0 or product.compute_slices <= 0:
        yield f"{product.name}: memoryGb and computeSlices must be positive"
    for pattern in product.labels:
        if not _compiles(pattern):
            yield f"{product.name}: labels: {pattern!r} is no regular expression"
    for alias, target in product.profile_aliases.items():
        if target not in product.profiles:
            yield f"{product.name}: profileAliases: {alias} means unknown {target}"
        if alias in product.profiles:
            yield f"{product.name}: profileAliases: {alias} is a profile itself"
    problems = [p for profile in product.profiles.values() for p in _check(product, profile)]
    yield from problems
    if not problems:
        yield from _unplaceable(product)


def _check(product: Product, profile: Profile) -> Iterator[str]:
    where = f"{product.name}: {profile.name}"
    try:
        parsed = names.parse(profile.name)
    except InvalidValueError as error:
        yield f"{where}: {error.rule}"
        return
    if parsed.text != profile.name or parsed.is_compute_instance:
        yield f"{where}: must be written {parsed.text} and name a whole GPU instance"
    if (parsed.slices, parsed.memory_gb) != (profile.compute_slices, profile.memory_gb):
        yield f"{where}: computeSlices and memoryGb must be those of the name"
    if profile.max_instances < 1 or profile.size < 1 or not profile.starts:
        yield f"{where}: max, size and starts must be given and positive"
    if any(start < 0 or start + profile.size > product.axis for start in profile.starts):
        yield f"{where}: a start leaves the axis of {product.axis} units"
    if profile.compute_slices > product.compute_slices:
        yield f"{where}: more compute slices than the product has"
    if profile.memory_slices > product.memory_slices:
        yield f"{where}: more memory slices than the product has"


def _unplaceable(product: Product) -> Iterator[str]:
    """Profiles whose most instances cannot be placed together."""
    for profile in product.profiles.values():
        problem = placement.why_never(product, {profile.name: profile.max_instances})
        if problem:
            yield f"{product.name}: {profile.name}: max: {problem}"


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _product(entry: Mapping[str, Any]) -> Product:
    name = str(entry.get("id", ""))
    try:
        return Product(
            name=name,
            memory_gb=int(entry["memoryGb"]),
            compute_slices=int(entry.get("computeSlices", DEFAULT_SLICES)),
            memory_slices=int(entry.get("memorySlices", 0)),
            axis=int(entry.get("axis", 0)),
            engines=_counts(entry.get("engines", {})),
            profiles={str(p["name"]): _profile(p) for p in entry.get("profiles", ())},
            profile_aliases={str(k): str(v) for k, v in entry.get("profileAliases", {}).items()},
            aliases=tuple(str(alias) for alias in entry.get("aliases", ())),
            pci_ids=tuple(str(identity) for identity in entry.get("pciDeviceIds", ())),
            labels=tuple(str(label) for label in entry.get("labels", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidValueError(name or "product", f"malformed: {error!r}") from error


def _profile(entry: Mapping[str, Any]) -> Profile:
    return Profile(
        name=str(entry["name"]),
        compute_slices=int(entry["computeSlices"]),
        memory_slices=int(entry["memorySlices"]),
        memory_gb=int(entry["memoryGb"]),
        max_instances=int(entry["max"]),
        size=int(entry["size"]),
        starts=tuple(sorted(int(start) for start in entry["starts"])),
        engines=_counts(entry.get("engines", {})),
    )


def _counts(entry: Mapping[str, Any]) -> dict[str, int]:
    return {str(key): int(value) for key, value in entry.items()}
