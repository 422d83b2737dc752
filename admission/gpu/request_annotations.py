"""GPU requests in a pod's annotations: a MIG profile or a minimum of memory.

``gpu-admission.dev/mig-profile: 1g.10gb`` speaks for every container that asks for a GPU,
``gpu-admission.dev/mig-profile.<container>`` for one and wins; ``gpu-memory`` likewise.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from admission.base import names, quantity
from admission.base.errors import InvalidValueError
from admission.gpu import mig_profile_names as profile_names

_NAMES_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAnnotations:
    """What the annotations ask of each GPU of one container.

    Attributes:
        profile: canonical MIG profile; empty = any.
        memory_bytes: least memory of each GPU; 0 = any.
        own: whether an annotation names this very container.
        is_default: whether the namespace says it, and not the pod.
    """

    profile: str = ""
    memory_bytes: int = 0
    own: bool = False
    is_default: bool = False

    def __bool__(self) -> bool:
        """Return whether anything is wished for."""
        return bool(self.profile or self.memory_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """Requests of the annotations by container name, and the errors in the annotations.

    Attributes:
        by_container: a wish for every container of the pod; an empty one where there is none.
        problems: one sentence per bad annotation, sorted by key.
    """

    by_container: Mapping[str, GpuAnnotations]
    problems: tuple[str, ...] = ()


def read(annotations: Mapping[str, str], containers: Iterable[str]) -> Wishes:
    """Read a pod's annotations.

    Args:
        annotations: of the pod.
        containers: names of its containers and init containers.
    """
    names_of_containers = dict.fromkeys(containers)
    problems: dict[str, str] = {}
    profile_keys = _keys(annotations, names.MIG_PROFILE, names_of_containers, problems)
    memory_keys = _keys(annotations, names.GPU_MEMORY, names_of_containers, problems)
    wishes = {}
    for container in names_of_containers:
        keys = (profile_keys.get(container, ""), memory_keys.get(container, ""))
        wishes[container] = GpuAnnotations(
            profile=_profile(keys[0], annotations, problems),
            memory_bytes=_bytes(keys[1], annotations, problems),
            own=any(key.endswith("." + container) for key in keys),
        )
    texts = (f"metadata.annotations[{key}]: {problems[key]}" for key in sorted(problems))
    return Wishes(by_container=wishes, problems=tuple(texts))


def _keys(
    annotations: Mapping[str, str],
    key: str,
    containers: Mapping[str, None],
    problems: dict[str, str],
) -> dict[str, str]:
    """The annotation that speaks for each container, its own before the pod's."""
    keys = dict.fromkeys(containers, key) if key in annotations else {}
    for name in annotations:
        if not name.startswith(key + "."):
            continue
        container = name.removeprefix(key + ".")
        if container in containers:
            keys[container] = name
        else:
            remainder = ", ..." if len(containers) > _NAMES_SHOWN else ""
            had = ", ".join(islice(containers, _NAMES_SHOWN)) + remainder
            problems[name] = f"the pod has no container {container!r}; it has {had}"
    return keys


def _profile(key: str, annotations: Mapping[str, str], problems: dict[str, str]) -> str:
    if not key:
        return ""
    try:
        parsed = profile_names.parse(annotations[key])
    except InvalidValueError as error:
        problems[key] = str(error)
        return ""
    refusal = profile_names.refuse_compute_instance(parsed)
    if refusal:
        problems[key] = refusal
        return ""
    return parsed.text


def _bytes(key: str, annotations: Mapping[str, str], problems: dict[str, str]) -> int:
    if not key:
        return 0
    try:
        amount = quantity.to_canonical("memory", annotations[key])
    except InvalidValueError as error:
        problems[key] = str(error)
        return 0
    if amount <= 0:
        problems[key] = f"{annotations[key]!r}: must be positive"
    return max(amount, 0)
