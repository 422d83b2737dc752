"""What is asked about: ``[NAMESPACE/][KIND/]NAME`` as people type it, and the object it names."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from admission.answers import without_queues
from admission.answers.spelling import similar
from admission.base import conditions, names
from admission.base.errors import AdmissionError
from admission.base.json_answers import ErrorCode
from admission.kube import errors, resources
from admission.kube.api import Api, Document
from admission.kube.resources import Resource
from admission.objects import owner_rows, views
from admission.owners import pod as pod_owner
from admission.owners import serving
from admission.owners.serving import ServingKind
from admission.reasons import added_conditions, next_steps, reading, sentences

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
class ExplainedObject:
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
        name: str = self.document["metadata"]["name"]
        return name

    @property
    def namespace(self) -> str:
        """Return its namespace; empty for none."""
        name: str = self.document["metadata"].get("namespace", "")
        return name


@cache
def kinds() -> tuple[Resource, ...]:
    """Return every kind that may be asked about: pods, owners that are served, Kueue's."""
    rows = (*owner_rows.ROWS, *owner_rows.MODULES)
    kinds_ = [
        resources.PODS,
        resources.JOBS,
        *(Resource(row.group, row.version, row.plural, row.kind) for row in rows),
        *map(_serving, serving.KINDS),
        resources.REPLICA_SETS,
        resources.WORKLOADS,
        resources.CLUSTER_QUEUES,
        resources.LOCAL_QUEUES,
    ]
    return tuple(dict.fromkeys(kinds_))


_ELSEWHERE: Final = {
    resources.COHORTS: "its quota and its ClusterQueues: kubectl gpu top {name}",
    resources.RESOURCE_FLAVORS: (
        "its quota, its nodes and sick GPUs: kubectl gpu top; it: kubectl describe resourceflavor "
        "{name}"
    ),
    resources.NODES: "who holds its GPUs: kubectl gpu who {name}{at}",
    Resource("batch", "v1", "cronjobs", "CronJob"): (
        "each of its Jobs does: kubectl get jobs{at}; kubectl gpu why job/NAME{at}"
    ),
}
"""Kinds that neither wait nor admit, and where they are shown."""


def _serving(kind: ServingKind) -> Resource:
    group, _, version = kind.kind.api_version.rpartition("/")
    return Resource(group, version, kind.kind.plural, kind.kind.name)


def serves(resource: Resource) -> bool:
    """Return whether the pods of such owners are admitted, rather than they as a whole."""
    return resource == resources.REPLICA_SETS or resource in map(_serving, serving.KINDS)


def find(api: Api, namespace: str, subject: str) -> ExplainedObject:
    """Return the object that ``[NAMESPACE/][KIND/]NAME`` names.

    One word before the name is a kind if there is such a kind, else a namespace. A name alone is
    that of a pod or, if there is no such pod, of the only other object of the namespace with that
    name, then of a group of pods that has no Workload yet, a LocalQueue last.
    Of a group it is the pod that says what the group waits for.

    Raises:
        NotFoundError: there is no such object.
        SubjectError: the kind is not known, or several objects have the name.
        KubeError: the API server refused or did not answer.
    """
    kind, _, name = subject.rpartition("/")
    if not name:
        raise SubjectError(
            f"{subject!r} has no name", "say KIND/NAME, such as job/train, or the name alone",
            ErrorCode.UNKNOWN_KIND,
        )  # fmt: skip
    outer, _, inner = kind.partition("/")
    if inner:
        return find(api, outer, f"{inner}/{name}")
    if kind:
        among = of_kind(kind)
        if not among:
            return _of_other_kind(api, namespace, kind, name)
        return _only(api, name, list(_named(api, namespace, among, name)), among, namespace)
    try:
        return _get(api, resources.PODS, namespace, name)
    except errors.NotFoundError:
        other_kinds = tuple(
            kind for kind in kinds() if kind.namespaced and kind not in _LAST_OF_NAME
        )
    subjects = list(_named(api, namespace, other_kinds, name))
    if not subjects:
        subjects = _in_group(api, namespace, name)
    if not subjects:  # a LocalQueue is often called as what is in it
        subjects = list(_named(api, namespace, (resources.LOCAL_QUEUES,), name))
    return _only(api, name, subjects, other_kinds, namespace)


_LAST_OF_NAME: Final = (resources.PODS, resources.LOCAL_QUEUES)


def of_kind(typed: str) -> tuple[Resource, ...]:
    """Return the known kinds that a word means, as kubectl takes it: ``job``, ``jobs.batch``."""
    return _called(typed, kinds())


def _called(typed: str, among: Iterable[Resource]) -> tuple[Resource, ...]:
    word = _SHORT.get(typed.lower(), typed.lower())
    return tuple(resource for resource in among if word in _words(resource))


def _of_other_kind(api: Api, namespace: str, typed: str, name: str) -> ExplainedObject:
    """Return the Workload of an owner of a kind that an installation has added.

    Where there is none, and the word is a namespace, it is the object of that name there.

    Raises:
        SubjectError: no Workload of the namespace has such an owner and the word is no namespace,
            or the kind is shown elsewhere.
        ForbiddenError: the same, and the Workloads of the namespace may not be read.
    """
    for other in _called(typed, _ELSEWHERE):
        at = next_steps.at(_readable(api, namespace))
        advice = _ELSEWHERE[other].format(name=name, at=at)
        raise SubjectError(
            f"a {other.kind} neither waits nor admits", advice, ErrorCode.UNKNOWN_KIND
        )
    word = typed.lower().partition(".")[0]
    refusal: errors.ForbiddenError | None = None
    workloads: Sequence[Document] = ()
    try:
        workloads = api.list(resources.WORKLOADS, namespace).items
    except errors.ForbiddenError as error:
        refusal = error
    for workload in workloads:
        for owner in workload["metadata"].get("ownerReferences", []):
            kind = owner["kind"].lower()
            if owner["name"] == name and word in (kind, f"{kind}s", f"{kind}es"):
                return ExplainedObject(resource=resources.WORKLOADS, document=workload)
    in_namespace = _in_namespace(api, typed, name)
    if in_namespace is not None:
        return in_namespace
    if refusal is not None:
        raise refusal
    kind_names = ", ".join(sorted({kind.kind.lower() for kind in kinds()}))
    raise SubjectError(
        f"kind {typed!r} is not known, and no Workload of namespace {namespace} has such an owner "
        f"named {name!r}; nor is {typed!r} a namespace that you may read",
        f"kinds that are known: {kind_names}",
        ErrorCode.UNKNOWN_KIND,
    )


def _in_namespace(api: Api, word: str, name: str) -> ExplainedObject | None:
    """Return the object of a name in the namespace that a word names; None where it names none.

    Raises:
        SubjectError: the namespace has no such object, or several.
    """
    try:
        api.get(resources.NAMESPACES, word)
    except errors.ForbiddenError:
        pass  # who may not read namespaces may read what is in one
    except errors.ApiError:
        return None  # there is none, or it is no name
    try:
        return find(api, word, name)
    except errors.ForbiddenError:
        return None


def _words(resource: Resource) -> Iterator[str]:
    for word in (resource.kind.lower(), resource.plural):
        yield word
        yield f"{word}.{resource.group}"
        yield f"{word}.{resource.version}.{resource.group}"


def _named(
    api: Api, namespace: str, among: tuple[Resource, ...], name: str
) -> Iterator[ExplainedObject]:
    """Yield the objects of that name; a kind that is not served, or may not be read, has none.

    Raises:
        ForbiddenError: there is none, and the first of several kinds with one name may not be
            read: the others are seldom served.
    """
    refusal: errors.ForbiddenError | None = None
    is_one_word, is_there = len({resource.kind for resource in among}) == 1, False
    for resource in among:
        try:
            object_of_name = _get(api, resource, namespace, name)
        except errors.NotFoundError:
            continue
        except errors.ForbiddenError as error:
            if not resource.namespaced:
                raise _unread(resource, name, _readable(api, namespace)) from error
            if resource == among[0]:
                refusal = error
            continue
        is_there = True
        yield object_of_name
    if refusal is not None and is_one_word and not is_there:
        raise refusal


def _readable(api: Api, namespace: str) -> str:
    """Return a namespace whose Workloads may be listed; else how one is called in a manual.

    Without a namespace in the context it is ``default``, which is seldom that of a team.
    """
    try:
        api.list(resources.WORKLOADS, namespace, limit=1)
    except errors.ForbiddenError:
        return _ANY_NAMESPACE
    except errors.ApiError:
        pass  # it is not served
    return namespace


_ANY_NAMESPACE: Final = "NAMESPACE"


def _unread(resource: Resource, name: str, namespace: str) -> SubjectError:
    """Return that an object of the cluster may not be read, and the role that shows it."""
    role = names.VIEWER_ROLES.get(resource.kind, "")
    shown = f"ClusterRole {role} shows it: ask an administrator for it; " if role else ""
    return SubjectError(
        f"you may not read {resource.kind} {name}",
        f"{shown}who waits in the queues of your namespace: kubectl gpu queue"
        f"{next_steps.at(namespace)}",
        ErrorCode.FORBIDDEN,
    )


def _in_group(api: Api, namespace: str, name: str) -> list[ExplainedObject]:
    """Return the pod that says what a group of pods of that name waits for, if there is one."""
    try:
        selector = f"{names.MANAGED_LABEL}={names.MANAGED_VALUE}"
        pods = api.list(resources.PODS, namespace, label_selector=selector, into=views.Pod).items
    except errors.ForbiddenError:
        return []
    members = {pod.metadata.name: pod for pod in pods if pod_owner.group_name(pod) == name}
    refers = {added_conditions.group_waits_as(member).message for member in members}
    first = min(members, key=lambda member: (_told(members[member]) in refers, member), default="")
    return [_get(api, resources.PODS, namespace, first)] if first else []


def _told(pod: views.Pod) -> str:
    """Return what a pod is told to wait for; empty for nothing."""
    listed = pod.status.conditions or ()
    return next((each.message for each in listed if each.type == conditions.POD_ADMITTED), "")


def _get(api: Api, resource: Resource, namespace: str, name: str) -> ExplainedObject:
    document = api.get(resource, name, namespace if resource.namespaced else "")
    return ExplainedObject(resource=resource, document=document)


def _only(
    api: Api,
    name: str,
    subjects: list[ExplainedObject],
    among: tuple[Resource, ...],
    namespace: str,
) -> ExplainedObject:
    if len(subjects) == 1:
        return subjects[0]
    if subjects:
        listed = ", ".join(f"{_typed(subject.resource)}/{subject.name}" for subject in subjects)
        raise SubjectError(
            f"{name!r} may be any of {listed}", "say which one", ErrorCode.AMBIGUOUS
        )
    resource, is_one_word = among[0], len({resource_.kind for resource_ in among}) == 1
    if resource.namespaced:
        _tell_gone(api, name, among if is_one_word else (resources.PODS, *among), namespace)
    where = f" in namespace {namespace}" if resource.namespaced else ""
    at = next_steps.at(namespace) if resource.namespaced else ""
    elsewhere = _elsewhere(api, name, among if is_one_word else _WAITING)
    if not is_one_word:
        meant = similar(name, _listed(api, namespace, _LIKELY))
        raise SubjectError(
            f"no pod {name!r}{where}, nor anything else of that name that can wait",
            f"{meant}{elsewhere}see those there are: kubectl get pods,jobs,workloads{at}; what is "
            "gone may still be in the events: kubectl get events" + at,
            ErrorCode.NOT_FOUND,
        )
    plural = resource.qualified if len(among) == 1 else resource.plural
    meant = similar(name, _listed(api, namespace, among))
    raise SubjectError(
        f'{plural} "{name}" not found{where}',
        f"{meant}{elsewhere}see those there are: kubectl get {plural}{at}",
        ErrorCode.NOT_FOUND,
    )


def _tell_gone(api: Api, name: str, among: Iterable[Resource], namespace: str) -> None:
    """Say of an object that is gone why it was stopped, if an event still tells it.

    Raises:
        SubjectError: one does.
    """
    kinds_meant = {resource.kind for resource in among}
    event = without_queues.last_stop(api, namespace, name, kinds_meant)
    if event is None:
        return
    text = sentences.text(reading.of_condition(event.reason, event.message))
    made_anew = (
        "a pod without an owner is deleted when it is stopped: create it again; "
        if event.kind == resources.PODS.kind
        else ""
    )
    moment = f" at {event.at[:19]}Z" if event.at else ""
    raise SubjectError(
        f"{event.kind.lower()} {name} is gone; it was told{moment}: {text.message}",
        f"{made_anew}what else was said of it: kubectl get events" + next_steps.at(namespace),
        ErrorCode.NOT_FOUND,
    )


_LIKELY: Final = (
    resources.PODS, resources.JOBS, resources.DEPLOYMENTS, resources.WORKLOADS,
    resources.LOCAL_QUEUES,
)  # fmt: skip
"""Kinds of which names are looked through for one that was mistyped."""
_WAITING: Final = (resources.PODS, resources.JOBS, resources.DEPLOYMENTS, resources.WORKLOADS)
"""Kinds that are looked for in other namespaces."""
_MOST_NAMES: Final = 500
_NAMESPACES_SHOWN: Final = 3


def _listed(api: Api, namespace: str, among: Iterable[Resource]) -> Iterator[str]:
    """Yield the names of objects that may be listed, some of each kind."""
    for resource in among:
        at = namespace if resource.namespaced else ""
        try:
            items = api.list(resource, at, limit=_MOST_NAMES).items
        except errors.ApiError:
            continue  # it is not served, or may not be listed
        yield from (each["metadata"]["name"] for each in items)


def _elsewhere(api: Api, name: str, among: Iterable[Resource]) -> str:
    """Return where else an object of that name is, as far as all may be listed; empty for nowhere.

    ``there is a Job of that name elsewhere: -n speech; ``
    """
    for resource in among:
        if not resource.namespaced:
            continue
        try:
            page = api.list(
                resource, field_selector=f"metadata.name={name}", limit=_NAMESPACES_SHOWN
            )
        except errors.ApiError:
            continue  # it is not served, or not all may be listed
        namespaces = sorted(document["metadata"]["namespace"] for document in page.items)
        if namespaces:
            where = " or ".join(f"-n {namespace}" for namespace in namespaces)
            return f"there is a {resource.kind} of that name elsewhere: {where}; "
    return ""


def _typed(resource: Resource) -> str:
    is_unique = sum(other.kind == resource.kind for other in kinds()) == 1
    word = resource.kind.lower()
    return word if is_unique else f"{word}.{resource.group}"
