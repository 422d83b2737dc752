"""The measurements: one pod, many pods, the yardstick, reviews."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from admission.base import names
from tests.bench import driver, figures, metrics, processes, reviews
from tests.bench.figures import Figures
from tests.bench.stage import POD, QUEUES, Stage, helper
from tests.webhook.reviews import MUTATE, VALIDATE, make_review

RUN_SECONDS: Final = 0.5
"""How long a pod of (b) and (c) runs."""

_ONE_BY_ONE: Final = 100
_MANY: Final = 1000
_WARM_UP: Final = 40
_GANGS: Final = 500
_GANG: Final = 20
_REVIEWS: Final = 4000
_QUESTIONS: Final = 64
_CONNECTIONS: Final = (1, 8, 32)
_RATE_PER_SECOND: Final = 100
_GIVEN: Final = ("uid", "resourceVersion", "creationTimestamp", "generation")


class Bench:
    """Measures parts on a stage.

    Args:
        stage: where.
        scale: multiplies the numbers of pods and reviews.
        say: tells of progress.
    """

    def __init__(self, stage: Stage, scale: float, say: Callable[[str], None]) -> None:
        self._stage = stage
        self._scale = scale
        self._say = say

    def run(self, part: str, runs: int) -> Figures:
        """The medians of one part; ``bc`` measures (b) and (c) by turns."""
        found = []
        for number in range(1, runs + 1):
            self._say(f"({part}) run {number} of {runs}")
            found.append(_PARTS[part](self))
            self._say(f"({part}) {_gist(found[-1])}")
        return figures.median(found)

    def _count(self, count: int) -> int:
        return max(1, round(count * self._scale))

    # Pods

    def one_by_one(self) -> Figures:
        """(a) One pod on an idle cluster, again and again."""
        with self._stage.system():
            self._load({**POD}, _WARM_UP)
            report, _ = self._load({**POD}, self._count(_ONE_BY_ONE), one_by_one=True)
        return {"release": figures.milliseconds(report.release_seconds)} | {
            "create": figures.milliseconds(report.create_seconds)
        }

    def many(self) -> Figures:
        """(b) Many pods at once."""
        with self._stage.system():
            return self._crowd({**POD})

    def yardstick(self) -> Figures:
        """(c) The same pods under the bare loop, as the webhook would have changed them."""
        with self._stage.system():
            pod = _as_created(self._stage.tried())
        with self._stage.yardstick():
            return self._crowd(pod)

    def compared(self) -> Figures:
        """(b) and (c) in turn, and how they compare."""
        ours, bare = self.many(), self.yardstick()
        return {
            "system": ours,
            "yardstick": bare,
            "ratio": {
                "pods_per_second": round(ours["pods_per_second"] / bare["pods_per_second"], 3),
                "release_p50": round(ours["release"]["p50_ms"] / bare["release"]["p50_ms"], 3),
            },
        }

    def _crowd(self, pod: dict[str, Any]) -> Figures:
        self._load(pod, _WARM_UP)
        pods = self._count(_MANY)
        report, used = self._load(pod, pods)
        return {
            "pods": pods,
            "pods_per_second": round(pods / report.wall_seconds, 1),
            "wall_seconds": round(report.wall_seconds, 2),
            "all_released_seconds": round(report.all_released_seconds, 2),
            "release": figures.milliseconds(report.release_seconds),
            "create": figures.milliseconds(report.create_seconds),
            **used,
        }

    def _load(
        self, pod: dict[str, Any], pods: int, *, one_by_one: bool = False, gang: int = 1
    ) -> tuple[driver.Report, Figures]:
        stage, cluster = self._stage, self._stage.cluster
        load = driver.Load(
            port=cluster.port,
            ca_file=str(cluster.ca_file),
            token=cluster.admin_token,
            namespace=stage.namespace,
            queues=QUEUES,
            queue_label=names.QUEUE_LABEL,
            pods=pods,
            run_seconds=0 if one_by_one else RUN_SECONDS,
            pod=pod,
            one_by_one=one_by_one,
            gang=gang,
        )
        before, controller = stage.settle(), stage.controller_metrics()
        pids = stage.pids()
        cpu = _cpu(pids)
        answer = helper("tests.bench.driver", msgspec.json.encode(load))
        report = msgspec.convert(answer, driver.Report)
        used = {name: round(value - cpu[name], 2) for name, value in _cpu(pids).items()}
        after = stage.settle()
        counted = metrics.writes(before, after, report.writes)
        return report, {
            "cpu_seconds": {**used, "driver": round(report.cpu_seconds, 2)},
            "peak_mib": {name: processes.peak_mib(found) for name, found in pids.items()},
            "writes_per_pod": {"total": round(counted.total() / pods, 2)}
            | figures.per(counted, pods),
            "controller_writes": dict(_purposes(controller, stage.controller_metrics(), pods)),
        }

    def gangs(self) -> Figures:
        """(f) Many pod groups at once."""
        with self._stage.system():
            self._load({**POD}, _WARM_UP)
            pods = self._count(_GANGS) * _GANG
            report, used = self._load({**POD}, pods, gang=_GANG)
        return {
            "gangs": len(report.gang_seconds),
            "pods": pods,
            "pods_per_second": round(pods / report.wall_seconds, 1),
            "wall_seconds": round(report.wall_seconds, 2),
            "create_to_last_release": figures.milliseconds(report.gang_seconds),
            **used,
        }

    # Reviews

    def ask_reviews(self) -> Figures:
        """(d) Reviews over connections that stay open, then at a fixed rate."""
        questions = _questions(_as_created(self._stage.tried()), self._stage.namespace)
        found: Figures = {}
        with self._stage.webhook_alone():
            for connections in _CONNECTIONS:
                found[f"{connections} connections"] = self._ask(questions, connections)
            paced = self._ask(questions, 8, per_second=_RATE_PER_SECOND)
            found[f"{_RATE_PER_SECOND}/s"] = paced
        return found

    def _ask(
        self, questions: tuple[reviews.Question, ...], connections: int, per_second: float = 0
    ) -> Figures:
        installed = self._stage.installed
        count = self._count(1000 if per_second else _REVIEWS)
        load = reviews.Load(
            port=installed.webhook_port,
            ca_file=str(installed.certificates / "ca.crt"),
            connections=connections,
            warm_up=max(connections, count // 10),
            reviews=count,
            questions=questions,
            per_second=per_second,
        )
        pids = {"webhook": self._stage.pids()["webhook"]}
        report, cpu = _asked(load, lambda: _cpu(pids)["webhook"])
        seconds = [value for values in report.seconds.values() for value in values]
        return {
            "reviews_per_second": round(count / report.wall_seconds),
            **figures.milliseconds(seconds),
            "mutate": figures.milliseconds(report.seconds[MUTATE]),
            "validate": figures.milliseconds(report.seconds[VALIDATE]),
            "cpu_us_per_review": round(1e6 * cpu / count),
            "generator_cpu_us_per_review": round(1e6 * report.cpu_seconds / count),
        }


def _asked(load: reviews.Load, webhook_cpu: Callable[[], float]) -> tuple[reviews.Report, float]:
    """The report, and the CPU seconds of the webhook in the time that counts."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.reviews"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(msgspec.json.encode(load) + b"\n")
    process.stdin.flush()
    first = process.stderr.readline()
    before = webhook_cpu()
    output, errors = process.communicate(b"\n")
    used = webhook_cpu() - before
    if process.returncode != 0:
        raise RuntimeError(f"reviews: {(first + errors).decode()}")
    return msgspec.json.decode(output, type=reviews.Report), used


def _questions(pod: dict[str, Any], namespace: str) -> tuple[reviews.Question, ...]:
    """Reviews of pods of different names, as they follow each other when a pod is created."""
    found = []
    for number in range(_QUESTIONS):
        metadata = {**pod["metadata"], "name": f"review-{number}", "namespace": namespace}
        bare = {**pod, "metadata": metadata}
        gates = [{"name": names.ADMISSION_GATE}]
        gated = {**bare, "spec": {**pod["spec"], "schedulingGates": gates}}
        for path, body in ((MUTATE, bare), (VALIDATE, gated)):
            review = make_review(body, namespace=namespace, name=f"review-{number}")
            raw = msgspec.Raw(msgspec.json.encode(review))
            found.append(reviews.Question(path, raw))
    return tuple(found)


def _as_created(pod: dict[str, Any]) -> dict[str, Any]:
    """A pod as stored, as if it were to be created."""
    metadata = {k: v for k, v in pod["metadata"].items() if k not in {*_GIVEN, "name"}}
    return {**pod, "metadata": metadata}


def _cpu(pids: Mapping[str, tuple[int, ...]]) -> dict[str, float]:
    return {name: processes.cpu_seconds(found) for name, found in pids.items()}


def _purposes(before: str, after: str, pods: int) -> Iterator[tuple[str, Figures]]:
    for purpose, count, seconds in metrics.purposes(before, after):
        yield (
            purpose,
            {
                "per_pod": round(count / pods, 3),
                "mean_ms": round(1e3 * seconds / count, 1),
            },
        )


def _gist(found: Figures) -> str:
    """A run in one line."""
    parts: list[str] = []
    for name, value in found.items():
        if isinstance(value, Mapping):
            inner = value.get("pods_per_second", value.get("p50_ms"))
            parts += [f"{name} {inner}"] if inner is not None else []
        elif name == "pods_per_second":
            parts.append(f"{value} pods/s")
    return ", ".join(parts)


_PARTS: Final[dict[str, Callable[[Bench], Figures]]] = {
    "a": Bench.one_by_one,
    "b": Bench.many,
    "c": Bench.yardstick,
    "bc": Bench.compared,
    "d": Bench.ask_reviews,
    "f": Bench.gangs,
}
