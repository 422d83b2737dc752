"""What is asked about: ``[KIND/]NAME`` as people type it, and the object that it names."""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from admission.base.answers import ErrorCode
from admission.base.errors import AdmissionError
from admission.kube import errors, resources
from admission.kube.api import Api, Document
from admission.kube.resources import Resource
from admission.objects import owner_rows
from admission.owners import serving
from admission.owners.serving import ServingKind

_SHORT: Final = {
    "po": "pods",
    "deploy": "deployments",
    "sts": "statefulsets",
    "rs": "replicasets",
    "lws": "leaderworkersets",
    "cq": "clusterqueues",
    "lq": "localqueues",
    "queue": "localqueues",
    "queues": "localqueues",
    "wl": "workloads",
    "vcjob": "jobs.batch.volcano.sh",
    "rj": "rayjobs",
    "flavor": "resourceflavors",
    "flavors": "resourceflavors",
    "rf": "resourceflavors",
    "no": "nodes",
}
"""Short names that kubectl takes, too."""


class SubjectError(AdmissionError):
    """What was typed names no kind, no object, or several."""

    def __init__(self, message: str, advice: str, code: ErrorCode) -> None:
        super().__init__(message)
        self.advice = advice
        self.error_code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An object that is asked about.

    Attributes:
        resource: its kind.
        document: the object.
    """

    resource: Resource
    document: Document

    @property
    def name(self) -> str:
        """Return its name."""
        found: str = self.document["metadata"]["name"]
        return found

    @property
    def namespace(self) -> str:
        """Return its namespace; empty for none."""
        found: str = self.document["metadata"].get("namespace", "")
        return found


@cache
def kinds() -> tuple[Resource, ...]:
    """Return every kind that may be asked about: pods, owners that are served, Kueue's."""
    rows = (*owner_rows.ROWS, *owner_rows.MODULES)
    found = [
        resources.PODS,
        resources.JOBS,
        *(Resource(one.group, one.version, one.plural, one.kind) for one in rows),
        *map(_serving, serving.KINDS),
        resources.REPLICA_SETS,
        resources.WORKLOADS,
        resources.CLUSTER_QUEUES,
        resources.LOCAL_QUEUES,
    ]
    return tuple(dict.fromkeys(found))


_ELSEWHERE: Final = {
    resources.COHORTS: "its quota and its ClusterQueues: kubectl gpu top {name}",
    resources.RESOURCE_FLAVORS: (
        "its quota, its nodes and sick GPUs: kubectl gpu top; it: kubectl describe resourceflavor "
        "{name}"
    ),
    resources.NODES: "who holds its GPUs: kubectl gpu who {name}",
}
"""Kinds that neither wait nor admit, and where they are shown."""


def _serving(one: ServingKind) -> Resource:
    group, _, version = one.kind.api_version.rpartition("/")
    return Resource(group, version, one.kind.plural, one.kind.name)


def serves(resource: Resource) -> bool:
    """Return whether the pods of such owners are admitted, rather than they as a whole."""
    return resource == resources.REPLICA_SETS or resource in map(_serving, serving.KINDS)


def find(api: Api, namespace: str, what: str) -> Subject:
    """Return the object that ``[KIND/]NAME`` names.

    A name alone is that of a pod or, if there is no such pod, of the only other object of the
    namespace with that name, a LocalQueue last.

    Raises:
        NotFoundError: there is no such object.
        SubjectError: the kind is not known, or several objects have the name.
        KubeError: the API server refused or did not answer.
    """
    kind, _, name = what.rpartition("/")
    if not name:
        raise SubjectError(
            f"{what!r} has no name", "say KIND/NAME, such as job/train, or the name alone",
            ErrorCode.UNKNOWN_KIND,
        )  # fmt: skip
    if kind:
        among = of_kind(kind)
        if not among:
            return _of_other_kind(api, namespace, kind, name)
        return _only(api, name, list(_named(api, namespace, among, name)), among, namespace)
    try:
        return _get(api, resources.PODS, namespace, name)
    except errors.NotFoundError:
        others = tuple(one for one in kinds() if one.namespaced and one not in _LAST_OF_NAME)
    found = list(_named(api, namespace, others, name))
    if not found:  # a LocalQueue is often called as what is in it
        found = list(_named(api, namespace, (resources.LOCAL_QUEUES,), name))
    return _only(api, name, found, others, namespace)


_LAST_OF_NAME: Final = (resources.PODS, resources.LOCAL_QUEUES)


def of_kind(typed: str) -> tuple[Resource, ...]:
    """Return the known kinds that a word means, as kubectl takes it: ``job``, ``jobs.batch``."""
    return _called(typed, kinds())


def _called(typed: str, among: Iterable[Resource]) -> tuple[Resource, ...]:
    word = _SHORT.get(typed.lower(), typed.lower())
    return tuple(one for one in among if word in _words(one))


def _of_other_kind(api: Api, namespace: str, typed: str, name: str) -> Subject:
    """Return the Workload of an owner of a kind that an installation has added.

    Raises:
        SubjectError: no Workload of the namespace has such an owner, or the kind is shown
            elsewhere.
    """
    for other in _called(typed, _ELSEWHERE):
        advice = _ELSEWHERE[other].format(name=name)
        raise SubjectError(
            f"a {other.kind} neither waits nor admits", advice, ErrorCode.UNKNOWN_KIND
        )
    word = typed.lower().partition(".")[0]
    for one in api.list(resources.WORKLOADS, namespace).items:
        for owner in one["metadata"].get("ownerReferences", []):
            kind = owner["kind"].lower()
            if owner["name"] == name and word in (kind, f"{kind}s", f"{kind}es"):
                return Subject(resource=resources.WORKLOADS, document=one)
    known = ", ".join(sorted({one.kind.lower() for one in kinds()}))
    raise SubjectError(
        f"kind {typed!r} is not known, and no Workload of namespace {namespace} has such an owner "
        f"named {name!r}",
        f"kinds that are known: {known}",
        ErrorCode.UNKNOWN_KIND,
    )


def _words(one: Resource) -> Iterator[str]:
    for word in (one.kind.lower(), one.plural):
        yield word
        yield f"{word}.{one.group}"
        yield f"{word}.{one.version}.{one.group}"


def _named(api: Api, namespace: str, among: tuple[Resource, ...], name: str) -> Iterator[Subject]:
    """Yield the objects of that name; a kind that is not served, or may not be read, has none."""
    for one in among:
        try:
            yield _get(api, one, namespace, name)
        except errors.NotFoundError:
            continue
        except errors.ForbiddenError:
            if len(among) == 1:
                raise


def _get(api: Api, resource: Resource, namespace: str, name: str) -> Subject:
    found = api.get(resource, name, namespace if resource.namespaced else "")
    return Subject(resource=resource, document=found)


def _only(
    api: Api, name: str, found: list[Subject], among: tuple[Resource, ...], namespace: str
) -> Subject:
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(f"{_typed(one.resource)}/{one.name}" for one in found)
        raise SubjectError(
            f"{name!r} may be any of {listed}", "say which one", ErrorCode.AMBIGUOUS
        )
    of, is_one_word = among[0], len({one.kind for one in among}) == 1
    where = f" in namespace {namespace}" if of.namespaced else ""
    if not is_one_word:
        meant = similar(name, _listed(api, namespace, _LIKELY))
        raise SubjectError(
            f"no pod {name!r}{where}, nor anything else of that name that can wait",
            f"{meant}see those there are: kubectl get pods,jobs,workloads -n {namespace}",
            ErrorCode.NOT_FOUND,
        )
    plural = of.qualified if len(among) == 1 else of.plural
    option = f" -n {namespace}" if of.namespaced else ""
    meant = similar(name, _listed(api, namespace, among))
    raise SubjectError(
        f'{plural} "{name}" not found{where}',
        f"{meant}see those there are: kubectl get {plural}{option}",
        ErrorCode.NOT_FOUND,
    )


_LIKELY: Final = (
    resources.PODS, resources.JOBS, resources.DEPLOYMENTS, resources.WORKLOADS,
    resources.LOCAL_QUEUES,
)  # fmt: skip
"""Kinds of which names are looked through for one that was mistyped."""
_MOST_NAMES: Final = 500
_MOST_SIMILAR: Final = 3


def _listed(api: Api, namespace: str, among: Iterable[Resource]) -> Iterator[str]:
    """Yield the names of objects that may be listed, some of each kind."""
    for one in among:
        at = namespace if one.namespaced else ""
        try:
            found = api.list(one, at, limit=_MOST_NAMES).items
        except errors.ApiError:
            continue  # it is not served, or may not be listed
        yield from (each["metadata"]["name"] for each in found)


def similar(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean train or train-2? ``; empty where no name is similar."""
    found = difflib.get_close_matches(name, sorted(set(known)), n=_MOST_SIMILAR)
    return f"did you mean {' or '.join(found)}? " if found else ""


def _typed(one: Resource) -> str:
    is_unique = sum(other.kind == one.kind for other in kinds()) == 1
    word = one.kind.lower()
    return word if is_unique else f"{word}.{one.group}"
