"""Warnings about labels and annotations of pods and owners that have no effect there.

They are keys of Kueue and of this project: misspelled, on the wrong kind of object, or a label
where an annotation is read. A key of Kueue that resembles none that people set is not doubted: it
may be of a version of Kueue that this program does not serve.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from admission.answers import queue_problems
from admission.base import durations, names
from admission.objects import run_times, views
from admission.reasons import sentences

LONGEST: Final = 200
"""Characters of a warning; kubectl cuts longer ones."""

_SHOWN: Final = 5
_COMPARED: Final = 20
"""Keys of Kueue that are compared with those that people set; more on one object are no slip."""

_LABEL: Final = "label"
_ANNOTATION: Final = "annotation"
_OTHER_SORT: Final[Mapping[str, str]] = {_LABEL: _ANNOTATION, _ANNOTATION: _LABEL}

_OF_CONTAINERS: Final = (names.MIG_PROFILE, names.GPU_MEMORY)
_OWN_KEYS: Final = (*_OF_CONTAINERS, names.MINIMUM_RUN_TIME, names.PREEMPTION_NOTICE)
_KUEUE_ANNOTATIONS: Final = (
    names.POD_GROUP_TOTAL_COUNT, names.POD_GROUP_FAST_ADMISSION, names.POD_GROUP_SERVING,
    names.RETRIABLE_IN_GROUP, names.ADMISSION_GATED_BY, names.ELASTIC_JOB,
    names.JOB_MIN_PARALLELISM, names.JOB_SYNC_COMPLETIONS, names.REQUIRED_TOPOLOGY,
    names.PREFERRED_TOPOLOGY, names.UNCONSTRAINED_TOPOLOGY, names.SLICE_REQUIRED_TOPOLOGY,
    names.PODSET_SLICE_SIZE, names.PODSET_SLICE_CONSTRAINTS, names.PODSET_GROUP_NAME,
)  # fmt: skip
_EITHER: Final = (names.POD_GROUP_NAME, names.PREBUILT_WORKLOAD)
_USER_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    _LABEL: (
        names.QUEUE_LABEL, names.PRIORITY_CLASS_LABEL, names.MAX_EXEC_TIME_LABEL, *_EITHER,
    ),
    _ANNOTATION: (*_OWN_KEYS, *_EITHER, *_KUEUE_ANNOTATIONS),
}  # fmt: skip
"""What people set on pods and owners, by where it is read."""

_KNOWN: Final = frozenset(
    text
    for text in vars(names).values()
    if isinstance(text, str) and text.startswith(names.OUR_PREFIXES)
)


def without_effect(metadata: Iterable[views.ObjectMeta]) -> tuple[str, ...]:
    """Return a warning for each label and annotation that has no effect; few of many.

    Args:
        metadata: of what is created, then of the templates of its pods, as the user wrote them.
    """
    created, *templates = metadata
    return _without_effect(created, templates, lambda _: True)


def of_update(
    before: Iterable[views.ObjectMeta], after: Iterable[views.ObjectMeta]
) -> tuple[str, ...]:
    """Return a warning for each key without effect that an update adds, changes or moves.

    What had no effect before, and stays as it is, was told at creation.

    Args:
        before: metadata of what is changed, then of the templates of its pods, as stored.
        after: likewise, as it would be stored.
    """
    changed, *templates = after
    stored, *stored_templates = before
    keys = {
        key
        for was, now in ((_written([stored]), _written([changed])),
                         (_written(stored_templates), _written(templates)))
        for _, key, _ in was ^ now
    }  # fmt: skip
    return _without_effect(changed, templates, keys.__contains__) if keys else ()


def _written(metadata: Iterable[views.ObjectMeta]) -> set[tuple[str, str, str]]:
    """Return labels and annotations as sort, key and value."""
    return {
        (sort, key, value)
        for each in metadata
        for sort, items in ((_LABEL, each.labels), (_ANNOTATION, each.annotations))
        for key, value in (items or {}).items()
    }


def _without_effect(
    written_on: views.ObjectMeta,
    templates: Sequence[views.ObjectMeta],
    is_told: Callable[[str], bool],
) -> tuple[str, ...]:
    """Return the warnings about those keys of an object and its templates that are to be told."""
    keys: dict[str, dict[str, None]] = {_LABEL: {}, _ANNOTATION: {}}
    for written in (written_on, *templates):
        keys[_LABEL].update(dict.fromkeys(written.labels or {}))
        keys[_ANNOTATION].update(dict.fromkeys(written.annotations or {}))
    return (
        *_not_on_pods(written_on, templates, is_told),
        *(
            text
            for sort in (_LABEL, _ANNOTATION)
            for text in _of_sort(
                sort, sorted(filter(is_told, keys[sort])), keys[_OTHER_SORT[sort]]
            )
        ),
    )


def _not_on_pods(
    written_on: views.ObjectMeta,
    templates: Sequence[views.ObjectMeta],
    is_told: Callable[[str], bool],
) -> Iterator[str]:
    """Yield a warning for each annotation that only the pods of an owner are asked for."""
    on_templates = {key for template in templates for key in template.annotations or {}}
    keys = (
        key
        for key in sorted(filter(is_told, written_on.annotations or {}))
        if templates and _is_of_containers(key) and key not in on_templates
    )
    for key in islice(keys, _SHOWN):
        text = f"Without effect: {key} belongs on the pods, so in metadata of the pod template"
        yield sentences.clipped(text, LONGEST)


def outside_queues(
    metadata: views.ObjectMeta, templates: Iterable[views.ObjectMeta] = ()
) -> tuple[str, ...]:
    """Return the warnings about what is in no queue; none where a controller makes it.

    Args:
        metadata: of the pod or owner.
        templates: metadata of its templates of pods.
    """
    if metadata.controller() is not None:
        return ()
    return without_effect((metadata, *templates))


def beyond_queue(
    metadata: Iterable[views.ObjectMeta],
    cluster_queue: views.ObjectMeta,
    local_queue: views.ObjectMeta | None,
) -> Iterator[str]:
    """Yield a warning for each time that is asked for and that the queue does not give.

    Args:
        metadata: of what is created, and of the templates of its pods, as the user wrote them.
        cluster_queue: of its ClusterQueue, which gives the times.
        local_queue: of its LocalQueue, which may shorten them; None where it is not known.
    """
    granted = run_times.readable(cluster_queue)
    shortened = run_times.RunTimes() if local_queue is None else run_times.readable(local_queue)
    times = [run_times.readable(each) for each in metadata]
    for key, limit, narrowing, stated in (
        (
            names.MINIMUM_RUN_TIME, granted.minimum, shortened.minimum,
            [each.minimum for each in times],
        ),
        (
            names.PREEMPTION_NOTICE, granted.notice, shortened.notice,
            [each.notice for each in times],
        ),
    ):  # fmt: skip
        longest = max((each for each in stated if each is not None), default=0)
        most_us = durations.narrowed(limit, narrowing)
        queue, short = sentences.name(cluster_queue.name), key.rpartition("/")[2]
        if longest and not limit:
            yield (
                f"Without effect: ClusterQueue {queue} has no {short}. Ask an administrator to set"
                f" {key} on it"
            )
        elif longest > most_us:
            yield (
                f"Cut to {durations.to_wire(most_us)}: its queue gives no longer {short}. Only an"
                f" administrator can raise {key} of ClusterQueue {queue}"
            )


def _of_sort(sort: str, keys: Iterable[str], other_keys: Collection[str]) -> list[str]:
    """Return the warnings about all labels, or about all annotations.

    Args:
        sort: which of the two.
        keys: theirs.
        other_keys: keys of the other sort.
    """
    own_texts = (
        text
        for key in keys
        if key.startswith(f"{names.OWN_DOMAIN}/") and (text := _about_own(sort, key, other_keys))
    )
    kueue_texts = _about_kueues(sort, keys, other_keys)
    texts = (*islice(own_texts, _SHOWN), *islice(kueue_texts, _SHOWN))
    return [sentences.clipped(text, LONGEST) for text in texts]


def _about_own(sort: str, key: str, other_keys: Collection[str]) -> str:
    """Return why a key of this project has no effect; empty where it has one."""
    if _is_of_users(key):
        is_wrong = sort == _LABEL and key not in other_keys
        return _other_sort(sort, key) if is_wrong else ""
    if key in run_times.OF_QUEUED:
        return ""  # the rules of pods refuse it as an annotation
    if home := queue_problems.home(key):
        return f"Without effect: {key} belongs on {home}"
    return "" if key in _KNOWN else _unknown(sort, key, _meant(sort, key))


def _about_kueues(sort: str, keys: Iterable[str], other_keys: Collection[str]) -> Iterator[str]:
    unknown = []
    for key in keys:
        if not key.startswith(f"{names.KUEUE_GROUP}/") or key in _USER_KEYS[sort]:
            continue
        if key in _USER_KEYS[_OTHER_SORT[sort]]:
            if key not in other_keys:
                yield _other_sort(sort, key)
        elif key not in _KNOWN:
            unknown.append(key)
    for key in unknown[:_COMPARED]:
        if meant := _meant(sort, key):
            yield _unknown(sort, key, meant)


def _is_of_users(key: str) -> bool:
    """Return whether people set it on pods and owners."""
    return key in _OWN_KEYS or _is_of_containers(key)


def _is_of_containers(key: str) -> bool:
    """Return whether it says which GPUs a pod gets; it may end in the name of a container."""
    return key in _OF_CONTAINERS or key.startswith(tuple(f"{each}." for each in _OF_CONTAINERS))


def _meant(sort: str, key: str) -> str:
    """Return which key was probably meant, with its sort where that is another one."""
    for other in (sort, _OTHER_SORT[sort]):
        if meant := queue_problems.similar_key(key, _USER_KEYS[other]):
            return meant if other == sort else f"the {other} {meant}"
    return ""


def _unknown(sort: str, key: str, meant: str) -> str:
    advice = f"; did you mean {meant}?" if meant else ""
    room = LONGEST - len(advice)
    return sentences.clipped(f"Without effect: {sort} {key} is not known", room) + advice


def _other_sort(sort: str, key: str) -> str:
    other = _OTHER_SORT[sort]
    article = "an" if other == _ANNOTATION else "a"
    back = "an" if sort == _ANNOTATION else "a"
    return f"Without effect: {key} is {article} {other}, not {back} {sort}"
