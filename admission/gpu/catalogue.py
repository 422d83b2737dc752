"""The MIG table: which product has which profiles, and what a device costs.

Cost is a function of (product, profile), never of the profile alone. An unknown name is an error
that lists the known ones; nothing costs 0 by accident.

Source: see ``sources`` in gpu-models.json; product labels: k8s-device-plugin internal/lm.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from typing import Any, Final

from admission.base import names
from admission.base.errors import InvalidValueError
from admission.gpu import mig_profile_names as profile_names
from admission.gpu import placement
from admission.gpu.products import DEFAULT_SLICES, Cost, Product, Profile

_MIG_MARK: Final = "-MIG-"
_SHARED_MARK: Final = "-SHARED"
_INVALID_MARK: Final = "INVALID"
_MAKER: Final = re.compile(r"^(nvidia-)?(tesla-)?")
"""How others begin the name of a model."""
_MIB_PER_GIB: Final = 1024


class UnknownProductError(InvalidValueError):
    """A product that is not in the catalogue."""


class UnknownProfileError(InvalidValueError):
    """A profile that the product does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelReading:
    """The meaning of a node's product label.

    Attributes:
        model: the label without suffixes.
        profile: canonical profile name after ``-MIG-`` (single strategy); empty if none.
        shared: whether it ends in ``-SHARED``: shared without a new resource name.
        invalid: whether it says ``MIG-INVALID``: the node's MIG layout offers nothing.
    """

    model: str
    profile: str = ""
    shared: bool = False
    invalid: bool = False


def read_label(label: str) -> LabelReading:
    """Split a GPU feature discovery product label; a profile it cannot read makes it invalid."""
    shared = label.endswith(_SHARED_MARK)
    model, mark, profile = label.removesuffix(_SHARED_MARK).partition(_MIG_MARK)
    if not mark:
        return LabelReading(model=model, shared=shared)
    if profile == _INVALID_MARK:
        return LabelReading(model=model, shared=shared, invalid=True)
    try:
        parsed = profile_names.parse(profile)
    except InvalidValueError:
        return LabelReading(model=model, shared=shared, invalid=True)
    return LabelReading(model=model, profile=parsed.text, shared=shared)


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """All known GPU products.

    Attributes:
        version: of the document it came from.
        products: by name, in the order of the document.
    """

    version: str
    products: Mapping[str, Product]

    @cached_property
    def _by_name(self) -> dict[str, Product]:
        return {
            name: product
            for product in self.products.values()
            for name in (product.name, *product.aliases)
        }

    @cached_property
    def _by_model(self) -> dict[str, Product]:
        """Products by their names in small letters."""
        return {name.lower(): product for name, product in self._by_name.items()}

    @cached_property
    def _patterns(self) -> tuple[tuple[re.Pattern[str], Product], ...]:
        return tuple(
            (re.compile(label), product)
            for product in self.products.values()
            for label in product.labels
        )

    @cached_property
    def _by_label(self) -> dict[str, Product]:
        """Labels of known products read so far; a cluster has few."""
        return {}

    def find(self, text: str) -> Product | None:
        """Return the product of that name, alias, or suffixed product label; None if unknown."""
        product_ = self._by_name.get(text) or self._by_label.get(text)
        if product_ is None:
            product_ = self._match(read_label(text).model)
            if product_ is not None:
                self._by_label[text] = product_
        return product_

    def find_loosely(self, text: str) -> Product | None:
        """Return the product that a label of somebody else names: ``nvidia-tesla-t4``, ``a10g``.

        None for a model that the table has with several amounts of memory.
        """
        model = _MAKER.sub("", text.lower())
        products = self._by_model.get(model)
        if products is not None or not model:
            return products
        spelled = (text, *(f"{maker}{model.upper()}" for maker in ("NVIDIA-", "Tesla-")))
        return next((product for product in map(self.find, spelled) if product is not None), None)

    def product(self, text: str) -> Product:
        """Return the product that ``find`` finds.

        Raises:
            UnknownProductError: lists the known products.
        """
        product_ = self.find(text)
        if product_ is None:
            raise UnknownProductError(
                text, f"unknown GPU product; known are {', '.join(self.products)}"
            )
        return product_

    def product_of_labels(self, labels: Mapping[str, str]) -> Product | None:
        """Return the product a node's labels name; the memory label decides for an unknown model.

        Such an estimate has no MIG profiles and weighs as a seven-slice GPU. None without a
        product label, or when neither the table nor the memory label knows the model.
        """
        label = labels.get(names.GPU_PRODUCT_LABEL, "")
        if not label:
            return None
        reading = read_label(label)
        product_ = self.find(label)
        mib = labels.get(names.GPU_MEMORY_LABEL, "")
        if product_ is not None or not mib.isdecimal() or int(mib) == 0 or reading.profile:
            return product_
        gib = -(-int(mib) // _MIB_PER_GIB)
        return Product(name=reading.model, memory_gb=gib, estimated=True)

    def profile(self, product: Product, text: str) -> Profile:
        """Return the profile of the product, from any spelling or alias.

        Raises:
            InvalidValueError: the text is no profile at all, or a compute instance.
            UnknownProfileError: the product has no such profile; lists those it has.
        """
        parsed = profile_names.parse(text)
        refusal = profile_names.refuse_compute_instance(parsed)
        if refusal:
            raise InvalidValueError(text, refusal)
        profile_of_product = product.find(parsed.text)
        if profile_of_product is None:
            profiles = ", ".join(product.profiles) or "none (no MIG)"
            raise UnknownProfileError(
                text, f"{product.name} has no such profile; it has {profiles}"
            )
        return profile_of_product

    def cost(self, product: str, profile: str = "") -> Cost:
        """Return the cost of one device: an instance of the profile, or the whole GPU.

        Args:
            product: name, alias or label of the product.
            profile: any spelling; empty = the whole GPU.

        Raises:
            UnknownProductError: lists the known products.
            UnknownProfileError: lists the product's profiles.
        """
        product_ = self.product(product)
        return self.profile(product_, profile).cost if profile else product_.whole

    def candidates(self, profile: str) -> tuple[tuple[Product, Profile], ...]:
        """Return every product that has a profile of this canonical name, with that profile."""
        pairs = ((product, product.find(profile)) for product in self.products.values())
        return tuple((product, profile_) for product, profile_ in pairs if profile_ is not None)

    def _match(self, model: str) -> Product | None:
        if model in self._by_name:
            return self._by_name[model]
        return next((p for pattern, p in self._patterns if pattern.fullmatch(model)), None)


def from_document(doc: Mapping[str, Any], override: Mapping[str, Any] | None = None) -> Catalogue:
    """Return a catalogue from parsed documents.

    Args:
        doc: the base table.
        override: products that replace those of the same ``id`` or are added; checked alike.

    Raises:
        InvalidValueError: lists every problem of the documents.
    """
    return _catalogue(doc, read_products(doc), override)


def _catalogue(
    doc: Mapping[str, Any], products: dict[str, Product], override: Mapping[str, Any] | None
) -> Catalogue:
    version = str(doc.get("version", ""))
    if override is not None:
        products |= read_products(override)
        problems = check_names(tuple(products.values()))
        if problems:
            raise InvalidValueError("catalogue", "; ".join(problems))
        version = f"{version}+{override.get('version', 'local')}"
    return Catalogue(version=version, products=products)


@lru_cache(maxsize=1)
def builtin_document() -> Mapping[str, Any]:
    """Return the parsed table that ships with the package."""
    text = resources.files(__package__).joinpath("gpu-models.json").read_text("utf-8")
    parsed: Mapping[str, Any] = json.loads(text)
    return parsed


def load(override: Mapping[str, Any] | None = None) -> Catalogue:
    """Return the catalogue that ships with the package, with an optional override.

    A test checks the table of the package. Only the override is checked here: a check takes
    longer than any other step of a short command.

    Args:
        override: as for `from_document`.

    Raises:
        InvalidValueError: lists every problem of the override.
    """
    document = builtin_document()
    products = {product.name: product for product in _products(document)}
    return _catalogue(document, products, override)


# ------------------------------------------------------------------- reading of a document


def read_products(doc: Mapping[str, Any]) -> dict[str, Product]:
    """Return the products of one document by name, checked.

    Raises:
        InvalidValueError: the document is malformed or contradicts itself; lists all problems.
    """
    products = _products(doc)
    problems = [problem for product in products for problem in check_product(product)]
    problems += check_names(products)
    if problems:
        raise InvalidValueError("catalogue", "; ".join(problems))
    return {product.name: product for product in products}


def _products(doc: Mapping[str, Any]) -> list[Product]:
    entries = doc.get("products")
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise InvalidValueError("products", "must be a list of products")
    return [_product(entry) for entry in entries]


def check_names(products: Sequence[Product]) -> list[str]:
    """Return names and aliases that more than one product claims."""
    owner: dict[str, str] = {}
    problems = []
    for product in products:
        for name in (product.name, *product.aliases):
            if name in owner:
                problems.append(f"{product.name}: name {name} also means {owner[name]}")
            owner.setdefault(name, product.name)
    return problems


def check_product(product: Product) -> Iterator[str]:
    """Yield the problems of one product, in the order of its fields."""
    if product.memory_gb <= 0 or product.compute_slices <= 0:
        yield f"{product.name}: memoryGb and computeSlices must be positive"
    for pattern in product.labels:
        if not _compiles(pattern):
            yield f"{product.name}: labels: {pattern!r} is not a regular expression"
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
        parsed = profile_names.parse(profile.name)
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
