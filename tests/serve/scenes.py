"""Dashboards as they are looked at: nothing, a small cluster, a large one, and hostile names."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from admission.base.causes import NoFlavor, QuotaInUse, RefusedPodSet, Shortage
from admission.base.conditions import WaitReason
from admission.base.names import (
    ClusterQueueName,
    FlavorName,
    LocalQueueKey,
    PodSetName,
    WorkloadKey,
)
from admission.gpu.inventory import GpuNode
from admission.scheduling.decisions import Wait
from admission.scheduling.model import Workload
from admission.scheduling.overview import LocalOverview, Overview, QueueOverview
from admission.scheduling.starts import QuotaEnd
from tests.serve import dashboards
from tests.serve.builders import waiting
from tests.serve.dashboards import GPU, Dashboard, ago, everything, on

DAY = 86_400
_RECORDED_DAYS = 6
_HOSTILE = "averylongnamewithoutanyplacetobreakit" * 6
_MARKUP = "<b onclick='x'>\N{RIGHT-TO-LEFT OVERRIDE}abc&amp;"


def _board() -> Dashboard:
    board = Dashboard(
        *everything(), "get clusterqueues speech", "get clusterqueues team-0006",
        "get workloads speech train-large", "get nodes a100-1", "list localqueues speech",
        "get workloads ns-0006 job-team-0006-5", "get nodes gpu-0007", "list localqueues ns-0006",
    )  # fmt: skip
    board.known.clear()
    board.known.found, board.known.nodes, board.known.locals = Overview(), (), ()
    board.known.holding = ()
    return board


def _shortage(asks: int, free: int, reach: int, *holders: tuple[str, int]) -> Shortage:
    return Shortage(
        pod_set=PodSetName("main"), resource=GPU, flavor=FlavorName("a100"), requested=asks,
        available=free, limit=reach, nominal=8,
        holders=tuple((ClusterQueueName(name), used) for name, used in holders),
    )  # fmt: skip


def _wait(board: Dashboard, one: Workload, queue: str, shortage: Shortage) -> None:
    never = shortage.requested > shortage.limit
    reason = WaitReason.EXCEEDS_MAX_QUOTA if never else WaitReason.WAITING_FOR_QUOTA
    refusal = QuotaInUse(shortage.resource, shortage.flavor, shortage.missing)
    board.known.told[one.workload_key] = Wait(
        workload=one.workload_key, cluster_queue=ClusterQueueName(queue),
        why=NoFlavor(reason, (RefusedPodSet("main", (refusal,)),)),
        requests=((PodSetName("main"), {GPU: shortage.requested}),), shortages=(shortage,),
    )  # fmt: skip
    board.known.asked[one.workload_key] = shortage.requested


def _end(queue: str, gpus: int, hours: int) -> QuotaEnd:
    return QuotaEnd(
        cluster_queue=ClusterQueueName(queue), usage=tuple(on("a100", gpus).items()),
        at_us=ago(-hours),
    )  # fmt: skip


def _node(name: str, held: dict[str, int], **more: object) -> GpuNode:
    place = {"rack": f"rack-{name.rpartition('-')[2][-1]}", "zone": "eu-1a"}
    pods = [(queue, f"{queue}-{name}", {str(GPU): n}) for queue, n in held.items()]
    found = dashboards.node(name, {str(GPU): 8}, pods, **{**place, **more})  # type: ignore[arg-type]
    owned = tuple(replace(pod, queue=pod.namespace) for pod in found.pods)
    return type(found)(facts=found.facts, part=found.part, pods=owned, others=found.others)


def empty() -> Dashboard:
    """Nothing was made yet."""
    return _board()


def small() -> Dashboard:
    """Three queues, a node that fails, and four that wait, one of which never starts.

    Of 32 GPUs 2 are sick, and the quota is 30: 27 are held, 3 are free.
    """
    board = _board()
    large = waiting("train-large", namespace="speech", at=ago(52))
    others = [
        waiting("job-sweep-11", namespace="speech", at=ago(5)),
        waiting("job-sweep-12", namespace="speech", at=ago(4)),
    ]
    notebook = waiting("notebook-kim", namespace="vision", at=ago(1))
    holders = (("speech", 12), ("serving", 8), ("vision", 7))
    _wait(board, large, "speech", _shortage(64, 3, 30))
    for one in others:
        _wait(board, one, "speech", _shortage(8, 3, 30, *holders))
    _wait(board, notebook, "vision", _shortage(7, 3, 30, *holders))
    board.known.add_line("speech", large, *others)
    board.known.add_line("vision", notebook)
    mixed = {**dashboards.quota_of("a100", 10), **dashboards.quota_of("any-node", 64_000, "cpu")}
    used = {**on("a100", 12), **on("any-node", 18_000, "cpu")}
    board.known.found = Overview(
        (
            dashboards.queue("serving", "research", 10, 8),
            dashboards.queue(
                "speech",
                "research",
                quotas=mixed,
                amounts=used,
                leaving=on("a100", 3),
                pending=3,
                holding=2,
                requested={GPU: 80},
            ),
            dashboards.queue("vision", "research", 10, 7, pending=1, requested={GPU: 7}),
        ),
        (dashboards.cohort("research"),),
    )
    board.known.holding = (
        dashboards.reserving("job-asr-7", 9, "speech", reserved_us=ago(30)),
        dashboards.reserving("job-old", 3, "speech", reserved_us=ago(70), evicted=True),
    )  # fmt: skip
    board.known.held_in = "speech"
    board.known.ends = (_end("serving", 4, 3), _end("speech", 9, 20))
    board.known.locals = (
        LocalOverview(
            key=LocalQueueKey("speech", "default"), cluster_queue=ClusterQueueName("speech"),
            used=on("a100", 12), admitted=on("a100", 12), running=2, pending=3,
        ),
    )  # fmt: skip
    board.known.nodes = (
        _node("a100-0", {"serving": 6, "speech": 2}),
        _node("a100-1", {"speech": 5}, healthy=6),
        _node("a100-2", {"vision": 6, "speech": 2}),
        _node("a100-3", {"speech": 3, "serving": 2, "vision": 1}),
        dashboards.node(
            "mig-0", {"nvidia.com/mig-3g.40gb": 2, "nvidia.com/mig-1g.10gb": 7},
            [("speech", "note", {"nvidia.com/mig-1g.10gb": 2})], queue="speech", rack="rack-3",
        ),
    )  # fmt: skip
    _record(
        board,
        {name: [(160 + 43 * (at + back) % 80) * (2 if back else 1) // 2
                for back in range(_RECORDED_DAYS)]
         for at, name in enumerate(["serving", "speech", "vision"])},
    )  # fmt: skip
    return board


def _record(board: Dashboard, hours: Mapping[str, Sequence[int]]) -> None:
    """Record the GPU-hours of each queue, of today and the days before."""
    today = int(dashboards.NOW.timestamp()) // DAY * DAY
    board.known.of_gpu_time = tuple(
        dashboards.record(today - back * DAY, {name: days[back] for name, days in hours.items()})
        for back in range(_RECORDED_DAYS)
    )


def large() -> Dashboard:
    """A thousand queues, three thousand that wait, five thousand nodes; the numbers agree.

    Of 40,000 GPUs 50 are sick and 13 are free; the queues hold the others. Those of a Cohort leave
    7, and whoever waits asks for 8.
    """
    board = _board()
    queues: list[QueueOverview] = []
    members: dict[str, list[Workload]] = {}
    for number in range(1_000):
        name, waits, nominal = f"team-{number:04}", number % 7, 8 * (3 + number % 5)
        more = 0 if number >= 9 else 3 if number == 0 else 2
        members[name] = [
            waiting(
                f"job-{name}-{at}", namespace=f"ns-{number:04}", at=ago(1 + (number * at) % 90)
            )
            for at in range(waits)
        ]
        queues.append(
            dashboards.queue(
                name,
                f"cohort-{number % 9}",
                nominal,
                nominal - 4 + number // 9 % 9 + more,
                pending=waits,
                requested={GPU: 8 * waits} if waits else {},
            )
        )
    for start in range(9):
        cohort = queues[start::9]
        quota = sum(q.nominal for queue in cohort for q in queue.quotas.values())
        used = {str(queue.name): sum(queue.used.values()) for queue in cohort}
        largest = sorted(used.items(), key=lambda item: (-item[1], item[0]))[:2]
        shortage = _shortage(8, quota - sum(used.values()), quota, *largest)
        for name in filter(members.get, used):
            for workload in members[name]:
                _wait(board, workload, name, shortage)
            board.known.add_line(name, *members[name])
    board.known.found = Overview(
        tuple(queues), tuple(dashboards.cohort(f"cohort-{n}") for n in range(9))
    )
    board.known.holding = tuple(
        dashboards.reserving(f"job-{at}", 8 - at % 8, "ns-0006", reserved_us=ago(at))
        for at in range(18)
    )
    board.known.held_in = "team-0006"
    board.known.locals = tuple(
        LocalOverview(
            key=LocalQueueKey(f"ns-{number:04}", "default"),
            cluster_queue=ClusterQueueName(f"team-{number:04}"),
            used=on("a100", 8), admitted=on("a100", 8), running=1, pending=number % 7,
        )
        for number in range(1_000)
    )  # fmt: skip
    held = (str(queue.name) for queue in queues for n in queue.used.values() for _ in range(n))
    board.known.nodes = tuple(
        _node(
            f"gpu-{number:04}",
            Counter(islice(held, 8 - (number % 100 == 0) - (number % 400 == 17))),
            rack=f"rack-{number // 32:03}", zone=f"eu-1{'abc'[number % 3]}",
            **({"healthy": 7} if number % 100 == 0 else {}),
        )
        for number in range(5_000)
    )  # fmt: skip
    assert next(held, None) is None, "every GPU that a queue holds is on a node"
    _record(
        board,
        {str(queue.name): [sum(queue.used.values()) * (22 - at * back % 5)
                           for back in range(_RECORDED_DAYS)]
         for at, queue in enumerate(queues)},
    )  # fmt: skip
    return board


def hostile() -> Dashboard:
    """Names as long as they may be, and some that try to be markup."""
    board = _board()
    queue = _HOSTILE[:220]
    work = waiting(_HOSTILE[:240], namespace=_HOSTILE[:63], at=ago(999))
    bad = waiting(_MARKUP, namespace="x", at=ago(998))
    for one in (work, bad):
        _wait(board, one, queue, _shortage(10**15, 3, 10**16, (queue, 9), (_MARKUP, 3)))
    board.known.add_line(queue, work, bad)
    board.known.found = Overview(
        (
            dashboards.queue(queue, _HOSTILE[:200], 10**15, 3 * 10**14, pending=2,
                             requested={GPU: 2 * 10**15}),
            dashboards.queue(_MARKUP, active=False, problem=f"{_HOSTILE} {_MARKUP}"),
        ),
        (dashboards.cohort(_HOSTILE[:200]),),
    )  # fmt: skip
    board.known.nodes = (_node(_HOSTILE[:240], {_HOSTILE[:60]: 5}, rack=_HOSTILE[:63]),)
    board.known.told[WorkloadKey("x", "gone")] = board.known.told[work.workload_key]
    return board
