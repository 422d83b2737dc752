"""The pages of the dashboard: which rights each needs, and what is put on it."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

import flask

from admission.answers import estimates, owning, quota_use
from admission.base import durations, logs
from admission.base.clock import Clock, from_wire, to_wire
from admission.base.names import ClusterQueueName, LocalQueueKey, WorkloadKey
from admission.gpu import resources as devices
from admission.gpu.catalogue import Catalogue
from admission.kube import resources
from admission.kube.errors import KubeError
from admission.objects.usage_record import Record
from admission.scheduling.overview import Overview, QueueOverview
from admission.scheduling.pending import PendingSnapshot
from admission.scheduling.reserving import ReservingWorkload
from admission.serve import lists, statuses
from admission.serve.dashboard import (
    gpu_map,
    holding_rows,
    node_map,
    overview_page,
    shades,
    team_page,
    timeline,
    tree,
    trend,
    waiting_rows,
    words,
)
from admission.serve.dashboard.holding_rows import Holding
from admission.serve.dashboard.source import Source
from admission.serve.dashboard.tree import PAGE, Tree
from admission.serve.dashboard.trend import Trend
from admission.serve.dashboard.viewers import Viewer
from admission.serve.dashboard.waiting_rows import Waiter, WaitingRow

NO_ANSWER: Final = "The API server did not say who you are or what you may see. Try again."
_TURN_SECONDS: Final = 10.0
_DIGITS: Final = 6
_LONGEST: Final = 253
"""Characters of a text that is looked for; no name is longer."""
_ACCOUNT: Final = "system:serviceaccount:"


class Pages:
    """Makes pages, one at a time: many who look leave the core its share of the processor."""

    def __init__(self, source: Source, clock: Clock, catalogue: Catalogue, namespace: str) -> None:
        """Makes none yet.

        Args:
            source: of what is shown.
            clock: the present.
            catalogue: of GPU products.
            namespace: that holds the records of GPU-time.
        """
        self._source = source
        self._clock = clock
        self._catalogue = catalogue
        self._namespace = namespace
        self._making = threading.Lock()
        self._log = logs.get("dashboard")

    # ------------------------------------------------------------------------ all of the cluster

    def overview(self) -> Any:
        """Return page 1; who may not list ClusterQueues is sent to the page of their team."""
        with self._turn() as viewer:
            if not viewer.may("list", resources.CLUSTER_QUEUES):
                return flask.redirect(flask.url_for("teams"), HTTPStatus.SEE_OTHER)
            overview = self._visible(viewer)
            use = quota_use.of_overview(overview)
            resource = overview_page.chosen(use, flask.request.args.get("resource", ""))
            total = quota_use.total(use, resource)
            lines = self._source.pending()
            text = _asked()
            waiters = waiting_rows.in_order(lines)
            matches = self._matching(viewer, waiters, text)
            cut = _cut(matches, overview_page.ROWS)
            rows = self._rows(viewer, [*waiters[:1], *cut["rows"]], lines, overview.queues)
            first = rows.pop(0) if rows else None
            queues = overview_page.queue_rows(use, resource)
            if text:
                queues = overview_page.matching(queues, text, {waiter.queue for waiter in matches})
            shown = _cut(queues, overview_page.QUEUES, "queues")
            stock = self._source.stock() if viewer.may("list", resources.NODES) else None
            return self._page(
                "overview.html",
                headline=overview_page.headline(total, len(waiters)),
                first=first,
                then=None if text else overview_page.first_that_starts(rows),
                tiles=overview_page.tiles(
                    total,
                    len(waiters),
                    sum(waiter.may_ask_for(resource) for waiter in waiters),
                    first.since if first else "",
                    stock,
                ),
                choices=overview_page.choices(use),
                resource=resource,
                unit=words.unit(resource),
                short=words.short(resource),
                text=text,
                waiting=rows,
                found=len(matches),
                every=len(waiters),
                pages=cut,
                queues=overview_page.drawn(shown["rows"], resource),
                queue_count=len(queues),
                queue_pages=shown,
                all_queues=len(use.queues),
                trend=self._trend(viewer, resource),
                namespace=self._namespace,
            )

    def _visible(self, viewer: Viewer) -> Overview:
        overview = self._source.overview()
        if viewer.may("list", resources.COHORTS):
            return overview
        return Overview(
            overview.queues, tuple(cohort.without_quotas() for cohort in overview.cohorts)
        )

    def _trend(self, viewer: Viewer, resource: str) -> Trend | None:
        if not viewer.may("list", resources.CONFIG_MAPS, self._namespace):
            return None
        records = self._records()
        if records is None:
            return None
        return trend.of(records, resource, self._ranking(records), flask.g.now)

    def _records(self) -> tuple[Record, ...] | None:
        try:
            return self._source.records()
        except KubeError as error:
            self._log.warning("usage not read", error=str(error))
            return None

    def _ranking(self, records: Sequence[Record] | None) -> list[str]:
        """Return the ClusterQueues in the order in which they get colours."""
        nominal = {
            str(queue.name): sum(
                quota.nominal
                for pair, quota in queue.quotas.items()
                if devices.is_device(pair.resource)
            )
            for queue in self._source.overview().queues
        }
        return shades.ranking(trend.gpu_time(records or (), flask.g.now), nominal)

    def _matching(self, viewer: Viewer, waiters: Sequence[Waiter], text: str) -> list[Waiter]:
        """Return those that have a text in their names, of what the caller may see."""
        if not text:
            return list(waiters)
        namespaces = list(dict.fromkeys(waiter.key.namespace for waiter in waiters))
        if not viewer.may("list", resources.WORKLOADS):
            some = namespaces[: team_page.MOST_NAMESPACES]
            namespaces = [ns for ns in some if viewer.may_list(resources.WORKLOADS, ns)]
        seen = frozenset(namespaces)
        return [
            waiter for waiter in waiters if waiter.key.namespace in seen and waiter.matches(text)
        ]

    def _rows(
        self,
        viewer: Viewer,
        shown: Sequence[Waiter],
        lines: Mapping[ClusterQueueName, PendingSnapshot],
        overviews: Iterable[QueueOverview],
    ) -> list[WaitingRow]:
        def may_see(namespace: str) -> bool:
            return viewer.may_list(resources.WORKLOADS, namespace)

        now: datetime = flask.g.now
        queues = {waiter.queue for waiter in shown if may_see(waiter.key.namespace)}
        starts = estimates.of_source(self._source, queues, now)
        passing = {overview.name for overview in overviews if not overview.is_strict}
        return waiting_rows.rows(shown, lines, self._source, may_see, starts, now, passing)

    def quota(self) -> str:
        """Return the tree of cohorts and queues."""
        with self._turn() as viewer:
            viewer.need("list", resources.CLUSTER_QUEUES)
            visible = self._visible(viewer)
            use = quota_use.of_overview(visible)
            resource = overview_page.chosen(use, flask.request.args.get("resource", ""))
            rows = list(Tree(visible, resource).rows())
            cut = _cut(rows, PAGE)
            cut["rows"] = [make() for make in cut["rows"]]
            return self._page(
                "quota.html",
                **cut,
                count=len(visible.queues),
                choices=overview_page.choices(use),
                resource=resource,
                unit=words.unit(resource),
                short=words.short(resource),
            )

    def queue(self, name: str) -> str:
        """Return the page of a ClusterQueue."""
        with self._turn() as viewer:
            viewer.need("get", resources.CLUSTER_QUEUES, name=name)
            queue = next(
                (queue for queue in self._source.overview().queues if queue.name == name), None
            )
            line = self._source.line(ClusterQueueName(name))
            if queue is None or line is None:
                raise statuses.unknown_queue("clusterqueue", name)
            order = [
                Waiter(item=item, queue=queue.name)
                for item in sorted(line.members, key=line.sort_key())
            ]
            cut = _cut(order, holding_rows.PAGE)
            holders = holding_rows.in_order(self._source.holders(queue.name))
            return self._page(
                "queue.html",
                queue=queue,
                bars=tree.all_bars(queue),
                asks=waiting_rows.asked_together(line, queue.requested),
                waiting=self._rows(viewer, cut["rows"], {queue.name: line}, [queue]),
                first=(cut["page"] - 1) * holding_rows.PAGE,
                holding=[
                    self._holding(viewer, workload) for workload in holders[: holding_rows.PAGE]
                ],
                more=len(holders) > holding_rows.PAGE,
                page=cut["page"],
                last=cut["last"],
            )

    def _holding(self, viewer: Viewer, workload: ReservingWorkload) -> Holding:
        row = holding_rows.holding(workload)
        kind = resources.PODS if workload.is_pod else resources.WORKLOADS
        if viewer.may_list(kind, workload.key.namespace):
            return row
        return replace(row, key=None)

    def workload(self, namespace: str, name: str) -> str:
        """Return the page of a Workload."""
        with self._turn() as viewer:
            viewer.need("get", resources.WORKLOADS, namespace, name)
            key = WorkloadKey(namespace, name)
            (view,) = self._source.workloads((key,))
            if view is None:
                raise statuses.unknown_path()
            (wait,) = self._source.waits((key,))
            queue = LocalQueueKey(namespace, view.spec.queue_name)
            line = self._source.line(queue) if wait else None
            members = () if line is None else line.members
            item = next((member for member in members if member.key == key), None)
            places = lists.places(line) if line is not None else ()
            place = next((entry.place or 0 for entry in places if entry.workload == key), 0)
            user = owning.requester_of(view.metadata)
            admission = view.status.admission
            verdict, never = waiting_rows.said(wait, view)
            now: datetime = flask.g.now
            queues = () if wait is None else (wait.cluster_queue,)
            start = estimates.of_source(self._source, queues, now).get(key)
            waits = wait is not None or view.is_pending()
            return self._page(
                "workload.html",
                key=key,
                workload=view,
                cluster_queue=admission.cluster_queue
                if admission is not None
                else (wait.cluster_queue if wait is not None else ""),
                place=0 if never else place,
                user="" if user == owning.UNKNOWN else user,
                since="" if line is None else waiting_rows.since(line, key),
                start="" if start is None else to_wire(start),
                start_within="" if start is None else durations.within(start - now),
                asks="" if wait is None else waiting_rows.asks(item, wait),
                why=verdict if waits else "",
                never=never and waits,
                held_by=waiting_rows.holders(wait),
                moments=timeline.of(view),
            )

    # ------------------------------------------------------------------------------------ nodes

    def nodes(self) -> str:
        """Return the map of the nodes with GPUs."""
        with self._turn() as viewer:
            viewer.need("list", resources.NODES)
            stock = self._source.stock()
            text = _asked()
            labels = node_map.levels(stock) or [node_map.PRODUCT]
            level_named = flask.request.args.get("by", "")
            level = level_named if level_named in labels else node_map.default_level(stock, labels)
            group = flask.request.args.get("group")
            chosen = node_map.matching(stock, text) if text else list(stock)
            if group is not None:
                chosen = [node for node in chosen if node_map.value_of(node, level) == group]
            draws = group is not None or len(chosen) <= node_map.PAGE
            in_order = sorted(chosen, key=lambda node: (node_map.value_of(node, level), node.name))
            cut = _cut(in_order, node_map.PAGE)
            shown = cut["rows"] if draws else []
            gpu_nodes = self._source.gpu_nodes(tuple(node.name for node in shown))
            may_name = viewer.may("list", resources.CLUSTER_QUEUES)
            by_queue = node_map.held_by_queue(gpu_nodes) if may_name else {}
            legend = shades.of(by_queue, self._ranking(self._records())) if by_queue else ()
            colours = shades.by_name(legend)
            if not may_name:
                gpu_nodes = tuple(
                    replace(node, pods=tuple(replace(pod, queue="") for pod in node.pods))
                    for node in gpu_nodes
                )
            by_name = {node.facts.name: node for node in gpu_nodes}
            drawn = {
                node.name: node_map.draw(by_name[node.name], node, colours)
                for node in shown
                if node.name in by_name
            }
            every = node_map.groups(shown if draws else chosen, level, drawn)
            groups = _cut(every, node_map.GROUPS) if not draws else {"rows": every, **_ONE}
            return self._page(
                "nodes.html",
                count=len(stock),
                matching=len(chosen),
                groups=groups["rows"],
                levels=labels,
                by=level,
                group=group,
                text=text,
                draws=draws,
                legend=legend,
                page=cut["page"] if draws else groups["page"],
                last=cut["last"] if draws else groups["last"],
            )

    def node(self, name: str) -> str:
        """Return one node: who holds its GPUs, and how they may lie."""
        with self._turn() as viewer:
            viewer.need("get", resources.NODES, name=name)
            stock = next((node for node in self._source.stock() if node.name == name), None)
            gpu_nodes = self._source.gpu_nodes((name,))
            if stock is None or not gpu_nodes:
                raise statuses.unknown_path()

            def name_of(namespace: str, pod: str) -> str:
                return f"{namespace}/{pod}" if viewer.may_list(resources.PODS, namespace) else ""

            pods = [
                (
                    name_of(pod.namespace, pod.name),
                    words.in_words(pod.amounts),
                    pod.outside,
                )
                for pod in gpu_nodes[0].pods
            ]
            return self._page(
                "node.html",
                node=gpu_map.of(gpu_nodes[0], self._catalogue, name_of),
                pods=pods,
                others=words.in_words(gpu_nodes[0].others),
                labels=[(key, stock.labels[key]) for key in node_map.levels((stock,))],
            )

    # ------------------------------------------------------------------------------------- teams

    def teams(self) -> Any:
        """Return the namespaces whose LocalQueues the caller may list."""
        with self._turn() as viewer:
            namespace_named = flask.request.args.get("namespace", "").strip()
            if namespace_named:
                return flask.redirect(
                    flask.url_for("team", namespace=namespace_named), HTTPStatus.SEE_OTHER
                )
            every = team_page.namespaces(self._source.local_queues())
            seen = every
            if not viewer.may("list", resources.LOCAL_QUEUES):
                own_namespaces = [ns for ns in every if ns == _own_namespace(viewer.caller.name)]
                some = [*own_namespaces, *(ns for ns in every if ns not in own_namespaces)]
                seen = [
                    ns
                    for ns in some[: team_page.MOST_NAMESPACES]
                    if viewer.may("list", resources.LOCAL_QUEUES, ns)
                ]
            return self._page(
                "teams.html",
                namespaces=seen,
                is_part=len(every) > team_page.MOST_NAMESPACES and seen != every,
                sees_all=viewer.may("list", resources.CLUSTER_QUEUES),
            )

    def team(self, namespace: str) -> str:
        """Return the LocalQueues of a namespace, who waits in them, and who holds their quota."""
        with self._turn() as viewer:
            viewer.need("list", resources.LOCAL_QUEUES, namespace)
            every = self._source.local_queues()
            rows = team_page.rows(every, namespace)
            may_see = viewer.may_list(resources.WORKLOADS, namespace)
            behind = dict.fromkeys(
                local_queue.cluster_queue
                for local_queue in every
                if local_queue.key.namespace == namespace
            )
            lines = {q: line for q, line in self._source.pending().items() if q in behind}
            waiters = [
                line
                for line in waiting_rows.in_order(lines)
                if line.item.workload.queue.namespace == namespace
            ]
            cut = _cut(waiters if may_see else [], holding_rows.PAGE)
            names_queues = viewer.may("list", resources.CLUSTER_QUEUES)
            overviews = self._source.overview().queues if names_queues else ()
            holders = [
                holder
                for queue in (behind if may_see else ())
                for holder in self._source.holders(queue)
                if holder.local_queue.namespace == namespace
            ]
            return self._page(
                "team.html",
                namespace=namespace,
                headline=team_page.headline(rows),
                queues=rows,
                may_see=may_see,
                waiting=self._rows(viewer, cut["rows"], lines, overviews),
                count=len(waiters),
                holding=[
                    self._holding(viewer, holder)
                    for holder in holding_rows.in_order(holders)[: holding_rows.PAGE]
                ],
                held=len(holders),
                names_queues=names_queues,
                page=cut["page"],
                last=cut["last"],
            )

    # -------------------------------------------------------------------------------- all pages

    def _page(self, template: str, **values: Any) -> str:
        viewer = flask.g.viewer
        return flask.render_template(
            template, viewer=viewer.caller.name, now=overview_page.moment(flask.g.now), **values
        )

    @contextmanager
    def _turn(self) -> Iterator[Viewer]:
        if not self._making.acquire(timeout=_TURN_SECONDS):
            raise statuses.not_ready("Too many pages are asked for. Try again.")
        try:
            flask.g.revision = self._source.revision()  # first: what changes later is told again
            flask.g.now = self._clock.now()  # once, so that all ages of a page agree
            yield flask.g.viewer
        except KubeError as error:
            self._log.warning("caller not checked", error=str(error))
            raise statuses.not_ready(NO_ANSWER) from error
        finally:
            self._making.release()


_PARAMETERS: Final = ("resource", "q", "page", "queues", "by", "group")
"""What the address of a page may say; Flask gives others, such as ``_scheme``, a meaning."""
_ONE: Final[Mapping[str, int]] = {"page": 1, "last": 1}


def _own_namespace(user: str) -> str:
    """Return the namespace of a ServiceAccount; empty for other users."""
    return user.removeprefix(_ACCOUNT).partition(":")[0] if user.startswith(_ACCOUNT) else ""


def _asked() -> str:
    """Return the text that is looked for, in lower case."""
    return flask.request.args.get("q", "").strip().lower()[:_LONGEST]


def _cut(rows: Sequence[Any], size: int, parameter: str = "page") -> dict[str, Any]:
    """Return the part of a list that a page shows, and which pages there are."""
    last = max(1, -(-len(rows) // size))
    page = min(_number(parameter), last)
    return {"rows": list(rows[(page - 1) * size : page * size]), "page": page, "last": last}


def _number(parameter: str) -> int:
    """Return which page of a list is asked for, counted from 1."""
    page_named = flask.request.args.get(parameter, "1")
    return max(int(page_named), 1) if page_named.isdecimal() and len(page_named) <= _DIGITS else 1


def with_parameters(**changed: Any) -> str:
    """Return the address of this page with some parameters changed; None takes one away."""
    present = flask.request.args
    kept = {**{key: present[key] for key in _PARAMETERS if key in present}, **changed}
    arguments = {**(flask.request.view_args or {}), **{k: v for k, v in kept.items() if v}}
    assert flask.request.endpoint is not None
    return flask.url_for(flask.request.endpoint, **arguments)


def ago(value: str) -> str:
    """Return how long before a page was made a time of the API server is; empty for no time."""
    try:
        return durations.age(flask.g.now - from_wire(value)) if value else ""
    except ValueError:
        return ""
