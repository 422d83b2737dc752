"""Command ``init``: flavors and queues for the nodes of a cluster."""

import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from admission.admin import (
    fair_sharing,
    manifests,
    proposal,
    proposal_differences,
    quota_changes,
    quota_takeover,
)
from admission.admin.proposal import ClusterNode, Document, ProposalError, Proposed, Supply, Team
from admission.base import names
from admission.base.errors import AdmissionError
from admission.cli import clusters, options, output, tables
from admission.cli.sharing import TeamSharing
from admission.cli.tables import TableColumn
from admission.config import reading
from admission.config.derived import Settings
from admission.gpu import resources as gpu_resources
from admission.kube import apply, errors, resources
from admission.kube.api import Api, every, every_served
from admission.objects import nodes, values, views
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.resource_quota import NamespaceQuota
from admission.run.connection import ApiServerTarget

_ADVICE: Final = (
    "your user needs the right to list nodes and, with --apply, to create ResourceFlavors, "
    "Topologies, Cohorts, ClusterQueues and LocalQueues, and for several teams to change the "
    "configuration of the installation (--no-fair-sharing leaves it). These kinds are created by: "
    "gpu-admission install"
)
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_KEPT: Final = "kept"
_KUBECTL: Final = "kubectl"
_WIDTH: Final = 96


class InitError(AdmissionError):
    """There is nothing to propose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A proposed object beside the one in the cluster.

    Attributes:
        proposed: the object.
        present: the one in the cluster; None for none.
        differences: what the cluster has otherwise, by field, and --overwrite changes.
        additions: what only the cluster has, by field, and --overwrite leaves.
    """

    proposed: Proposed
    present: Document | None
    differences: tuple[str, ...] = ()
    additions: tuple[str, ...] = ()

    @property
    def exists(self) -> bool:
        """Whether there is one in the cluster."""
        return self.present is not None

    @property
    def less(self) -> str:
        """Return which quota becomes less, and what may follow; empty where none does."""
        lowered = quota_changes.lowered(self.proposed.document, self.present or {})
        if not lowered:
            return ""
        changes = ", ".join(change.text() for change in lowered)
        return (
            f"{self.proposed.identity} gets less: {changes}; running workloads above the new "
            "quota may be stopped"
        )


@click.command(
    epilog="""\b
Examples:
  gpu-admission init
  gpu-admission init --team research --team vision=vision-dev,vision-prod > queues.yaml
  gpu-admission init --team research:48 --team vision:32 --apply
  gpu-admission init --team research:a100-80gb=40,h100-80gb=8 --team vision
  gpu-admission init --like resourcequota
"""
)
@clusters.cluster_options
@options.config_option
@click.option(
    "--team",
    "team_options",
    multiple=True,
    metavar="NAME[=NAMESPACE,...][:GPUS]",
    help="A team and its namespaces; default: the namespace NAME. Repeat it for each team: all "
    "GPUs, cpu and memory are divided equally. With :GPUS it gets that many, and the same part of "
    "everything else; what nobody gets is lent to all. Where nodes have several GPU products, "
    "GPUS may say how many of each: a100-80gb=16,h100-80gb=8, by the names of the proposed "
    "flavors. Without --team: one ClusterQueue for everybody.",
)
@click.option(
    "--like",
    type=click.Choice(["resourcequota"]),
    help="Give each namespace what its ResourceQuota on GPUs gives it now.",
)
@click.option(
    "--apply/--dry-run",
    "applies",
    default=False,
    help="Create the proposed objects, or only show them (the default).",
)
@click.option(
    "--overwrite",
    is_flag=True,
    help="With --apply: also change existing objects that differ. Without --overwrite they are "
    "kept, and the differences are shown.",
)
@click.option(
    "--fair-sharing/--no-fair-sharing",
    "shares",
    default=True,
    show_default=True,
    help="With --apply and several teams: turn fair sharing on in the installation, so that what "
    "a team does not use is shared evenly. --no-fair-sharing leaves it as it is.",
)
@output.output_option
def init(
    target: ApiServerTarget,
    config_file: Path | None,
    team_options: tuple[str, ...],
    like: str | None,
    applies: bool,
    overwrite: bool,
    shares: bool,
    form: str,
) -> None:
    """Propose flavors and queues that fit the nodes of the cluster.

    Nodes that offer the same GPUs become a ResourceFlavor; each team gets a ClusterQueue, and
    each of its namespaces a LocalQueue. cpu and memory are divided like the GPUs. With several
    teams fair sharing is turned on. Shows commented YAML, and changes nothing without --apply.
    """
    if team_options and like:
        raise click.UsageError("--team and --like exclude each other; leave one out")
    if overwrite and not applies:
        raise click.UsageError("--overwrite has no effect without --apply; add --apply")
    with output.reported(options.CONFIG_ADVICE):
        settings = reading.load_logged(config_file)
    teams = _teams(team_options, settings)
    with clusters.connected(target, _ADVICE) as api:
        try:
            objects, notes = _proposed(api, settings, teams, like)
        except ProposalError as error:
            output.fail(
                str(error),
                "ask for less or for flavors that are there, or name a team without an amount",
            )
        compared = _less_first([_compare(api, proposed) for proposed in objects])
        if applies and not objects:
            raise InitError("; ".join(notes) or "no node offers GPUs")
        queues = _cluster_queues(proposed.document for proposed in objects)
        sharing = TeamSharing.of(api, settings, queues, config_file, is_wanted=shares)
        if not applies:
            repeat = _repeat(team_options, like, config_file, shares=shares)
            _show(compared, notes, form, sharing, repeat)
            return
        _apply(api, compared, notes, sharing, overwrite=overwrite, form=form)


def _repeat(
    team_options: Sequence[str], like: str | None, config_file: Path | None, *, shares: bool
) -> str:
    """Return the same command, with --apply."""
    words = ["gpu-admission", "init"]
    for text in team_options:
        words += ["--team", text]
    if like:
        words += ["--like", like]
    if config_file is not None:
        words += ["--config", str(config_file)]
    if not shares:
        words.append("--no-fair-sharing")
    return clusters.again(shlex.join([*words, "--apply"]))


# ------------------------------------------------------------------------------------- reading


def _teams(team_options: Sequence[str], settings: Settings) -> list[Team]:
    """The teams of the command line.

    Raises:
        UsageError: a name is none, or stands twice.
    """
    teams: list[Team] = []
    seen: set[str] = set()
    for text in team_options:
        whole, colon, number = text.partition(":")
        of_flavors = _of_flavors(text, number) if "=" in number else {}
        if colon and not of_flavors and not _is_number(number):
            raise click.UsageError(
                f"--team {text}: {number!r} is no number of GPUs, and no FLAVOR=NUMBER,..."
            )
        name, mark, listed = whole.partition("=")
        spaces = [namespace.strip() for namespace in listed.split(",")] if mark else [name]
        for label in (name, *spaces):
            if not _NAME.fullmatch(label):
                raise click.UsageError(
                    f"--team {text}: {label!r} is not a name: use lower-case letters, digits and -"
                )
        for label in spaces:
            if label in seen:
                raise click.UsageError(f"--team {text}: namespace {label} belongs to two teams")
            if label in settings.managed_namespaces.unmanaged:
                raise click.UsageError(
                    f"--team {text}: namespace {label} is excluded by the configuration"
                )
            seen.add(label)
        if name in {team.name for team in teams}:
            raise click.UsageError(f"--team {text}: there are two teams {name}")
        gpus = sum(of_flavors.values()) if of_flavors else int(number) if colon else None
        teams.append(Team(name=name, namespaces=tuple(spaces), gpus=gpus, of_flavors=of_flavors))
    return teams


def _of_flavors(text: str, listed: str) -> dict[str, int]:
    """Return how many GPUs of each flavor a team is to get.

    Args:
        text: what was typed of the team.
        listed: the end of it, such as ``a100-80gb=16,h100-80gb=8``.

    Raises:
        UsageError: a number is none, or a flavor stands twice.
    """
    of_flavors: dict[str, int] = {}
    for part in listed.split(","):
        name, _, number = part.strip().partition("=")
        if not name or not _is_number(number):
            raise click.UsageError(f"--team {text}: {part!r} is not FLAVOR=NUMBER")
        if name in of_flavors:
            raise click.UsageError(f"--team {text}: flavor {name} stands twice")
        of_flavors[name] = int(number)
    return of_flavors


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _proposed(
    api: Api, settings: Settings, teams: Sequence[Team], like: str | None
) -> tuple[Sequence[Proposed], list[str]]:
    """The objects, and what people should know about them."""
    supply_ = supply(api, settings)
    notes = list(supply_.notes)
    if not supply_.flavors:
        notes.append(
            "nothing to propose: no node offers GPUs that its labels describe; check that the "
            "device plugin and GPU feature discovery run on the nodes: "
            "kubectl get nodes -L nvidia.com/gpu.product"
        )
        return (), notes
    existing = {document["metadata"]["name"] for document in every(api, resources.NAMESPACES)}
    if like:
        quotas = every(api, resources.RESOURCE_QUOTAS, into=NamespaceQuota)
        unmanaged = frozenset(settings.managed_namespaces.unmanaged)
        taken = quota_takeover.take_over(supply_, quotas, unmanaged)
        notes += (*taken.notes, *taken.after)
        if not taken.shares:
            notes.append("no namespace has a ResourceQuota on GPUs; name teams with --team")
            return (), notes
        return proposal.objects(supply_, taken.shares, left_over=taken.left_over), notes
    if not teams:
        notes.append(
            "no namespace gets a LocalQueue yet; name teams with --team NAME=NAMESPACE, or create "
            f"a LocalQueue called default with spec.clusterQueue: {proposal.EVERYBODY}"
        )
    named = {namespace for team in teams for namespace in team.namespaces}
    shares, left_over = proposal.shares(supply_, teams)
    objects = proposal.objects(supply_, shares, left_over=left_over, missing=named - existing)
    return objects, [*_promised_twice(api, objects), *notes]


def _promised_twice(api: Api, objects: Sequence[Proposed]) -> Iterator[str]:
    """Yield a note where ClusterQueues that are not named have quota of the proposed flavors."""
    proposed_names = {
        (proposed.document["kind"], proposed.document["metadata"]["name"]) for proposed in objects
    }
    promised: dict[str, int] = {}
    queues = []
    for document in every_served(api, resources.CLUSTER_QUEUES):
        name = document["metadata"]["name"]
        if (resources.CLUSTER_QUEUES.kind, name) in proposed_names:
            continue
        amounts = [
            (quota["name"], values.amount_or_zero(quota["name"], quota.get("nominalQuota", 0)))
            for group in (document.get("spec") or {}).get("resourceGroups") or ()
            for flavor in group["flavors"]
            if (resources.RESOURCE_FLAVORS.kind, flavor["name"]) in proposed_names
            for quota in flavor["resources"]
            if gpu_resources.is_device(quota["name"])
        ]
        if any(value for _, value in amounts):
            queues.append(name)
        for resource, value in amounts:
            promised[resource] = promised.get(resource, 0) + value
    if queues:
        gpus = ", ".join(f"{value} {name}" for name, value in sorted(promised.items()) if value)
        yield (
            f"not named: ClusterQueue {', '.join(sorted(queues))} with {gpus}, which this promises"
            " a second time. Name all teams, those that have a queue, too: --team NAME=NAMESPACE "
            "for each"
        )


def supply(api: Api, settings: Settings) -> Supply:
    """Return what the nodes of a cluster have."""
    nodes = [_node(view) for view in every(api, resources.NODES, into=views.Node)]
    return proposal.supply(
        nodes,
        settings.gpu.catalogue(),
        settings.gpu.health.policy,
        settings.gpu.toleration_key,
        every_served(api, resources.RESOURCE_FLAVORS, into=ResourceFlavor),
    )


def _node(view: views.Node) -> ClusterNode:
    return ClusterNode(
        facts=nodes.node_facts(view),
        allocatable={
            name: values.amount_or_zero(name, value)
            for name, value in (view.status.allocatable or {}).items()
        },
        taints=view.spec.taints or (),
    )


# ----------------------------------------------------------------------------------- comparing


def _compare(api: Api, proposed: Proposed) -> Compared:
    resource, name, namespace = apply.locate(proposed.document)
    try:
        present = api.get(resource, name, namespace)
    except errors.NotFoundError:
        return Compared(proposed=proposed, present=None)
    if resource == resources.COHORTS and (present.get("spec") or {}).get("resourceGroups"):
        # without quota of its own: that of an earlier run goes, whoever wrote it
        spec = {"resourceGroups": [], **proposed.document["spec"]}
        proposed = replace(proposed, document={**proposed.document, "spec": spec})
    differences = proposal_differences.compare(proposed.document, present)
    return Compared(
        proposed=proposed,
        present=present,
        differences=tuple(each.text for each in differences if not each.stays),
        additions=tuple(each.text for each in differences if each.stays),
    )


def _less_first(compared: Sequence[Compared]) -> list[Compared]:
    """Return objects with those whose quota rises after all others that have quota.

    So a cohort never has more quota at once than before or after. All other objects stay where
    they are: ClusterQueues come after their flavors, LocalQueues after their ClusterQueue.
    """
    having = [
        place
        for place, comparison in enumerate(compared)
        if comparison.proposed.document["kind"] in quota_changes.QUOTA_KINDS
    ]
    in_order = sorted(
        (compared[place] for place in having),
        key=lambda comparison: quota_changes.rises(
            comparison.proposed.document, comparison.present
        ),
    )
    ordered = list(compared)
    for place, comparison in zip(having, in_order, strict=True):
        ordered[place] = comparison
    return ordered


# ------------------------------------------------------------------------------------- showing


def _show(
    compared: Sequence[Compared],
    notes: Sequence[str],
    form: str,
    sharing: TeamSharing,
    repeat: str,
) -> None:
    """Print the objects as YAML for kubectl, with notes and differences as comments.

    Args:
        compared: the objects.
        notes: what people should know about them.
        form: ``text`` or ``json``.
        sharing: how several teams share.
        repeat: the command that makes the objects.
    """
    if form == "json":
        output.print_json(_as_json(compared, notes, sharing.state(applies=False)))
        return
    plan = _plan(compared)
    click.echo("# Proposed by gpu-admission init from the nodes of this cluster.")
    click.echo(_comment(f"Nothing was changed. {plan}"))
    for note in notes:
        click.echo(_comment(f"Note: {note}"))
    for comparison in compared:
        click.echo("---")
        click.echo(_comment(comparison.proposed.why))
        for difference in comparison.differences:
            click.echo(_comment(f"Exists, but differs: {difference}"))
        if comparison.less:
            click.echo(_comment(f"With --overwrite: {comparison.less}."))
        for addition in comparison.additions:
            click.echo(_comment(f"Exists, with more than is proposed: {addition}"))
        if comparison.exists and not (comparison.differences or comparison.additions):
            click.echo("# Exists, with the same content.")
        click.echo(manifests.plain_yaml(comparison.proposed.document), nl=False)
    if not compared:
        return
    queues = _cluster_queues(comparison.proposed.document for comparison in compared)
    lines = [
        "Only a proposal, nothing was changed. Quota that each team would have:",
        *_shares(queues),
        *sharing.text(applies=False),
        "",
        f"Nothing was changed. {plan}",
    ]
    if sharing.is_turned_on or not all(comparison.exists for comparison in compared):
        apply_file = clusters.again("kubectl apply --server-side -f FILE")
        lines.append(f"Create it: {repeat}")
        lines.append(f"Or put the YAML into a file, edit it, and: {apply_file}")
    if any(comparison.differences for comparison in compared):
        lines.append(f"Change also what exists and differs: {repeat} --overwrite")
    click.echo("\n".join(lines), err=True)


def _plan(compared: Sequence[Compared]) -> str:
    """Return what --apply would make and keep, as sentences."""
    if not compared:
        return "There is nothing to create."
    created = _by_kind(comparison for comparison in compared if not comparison.exists)
    sentences = [
        f"--apply would create {created}." if created else "--apply would create nothing."
    ]
    unchanged = [each for each in compared if each.exists and not each.differences]
    same = sum(not comparison.additions for comparison in unchanged)
    if same:
        sentences.append(f"{tables.counted(same, 'object')} with the same content would stay.")
    larger = [comparison for comparison in unchanged if comparison.additions]
    if larger:
        identities = tables.listed(comparison.proposed.identity for comparison in larger)
        sentences.append(
            f"{tables.counted(len(larger), 'object')} with more than is proposed would stay: "
            f"{identities}."
        )
    differing = [comparison for comparison in compared if comparison.differences]
    if differing:
        identities = tables.listed(comparison.proposed.identity for comparison in differing)
        sentences.append(
            f"{tables.counted(len(differing), 'object')} with differences would stay as in the "
            f"cluster without --overwrite: {identities}."
        )
    return " ".join(sentences)


def _by_kind(compared: Iterable[Compared]) -> str:
    counts = Counter(comparison.proposed.document["kind"] for comparison in compared)
    return ", ".join(
        f"{count:,} {kind}" if count == 1 else f"{count:,} {_plural(kind)}"
        for kind, count in counts.items()
    )


def _plural(kind: str) -> str:
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"


def _cluster_queues(documents: Iterable[Document]) -> list[Document]:
    return [
        document for document in documents if document["kind"] == resources.CLUSTER_QUEUES.kind
    ]


def _comment(text: str) -> str:
    lines = (
        part
        for line in text.splitlines()
        for part in textwrap.wrap(line, _WIDTH, break_long_words=False, break_on_hyphens=False)
    )
    return "\n".join(f"# {line}" for line in lines)


def _shares(queues: Sequence[Document]) -> list[str]:
    """Return a table of the nominal quota of each team; nothing where there is none."""
    shares: dict[tuple[str, str], dict[str, str]] = {}
    for queue in queues:
        for group in queue["spec"].get("resourceGroups") or ():
            for flavor in group["flavors"]:
                for resource in flavor["resources"]:
                    row = shares.setdefault((flavor["name"], resource["name"]), {})
                    row[queue["metadata"]["name"]] = str(resource["nominalQuota"])
    teams = [queue["metadata"]["name"] for queue in queues]
    columns = (
        TableColumn("FLAVOR"),
        TableColumn("RESOURCE"),
        *(TableColumn(team, right=True, goes=place) for place, team in enumerate(teams)),
    )
    rows = [[*key, *(row.get(team, "0") for team in teams)] for key, row in shares.items()]
    return tables.table(columns, rows, tables.width()) if rows else []


def _apply(
    api: Api,
    compared: Sequence[Compared],
    notes: Sequence[str],
    sharing: TeamSharing,
    *,
    overwrite: bool,
    form: str,
) -> None:
    """Create what is missing; what differs only where that was said."""
    effects: list[tuple[Compared, str]] = []
    for comparison in compared:
        if overwrite and comparison.less:
            click.echo(f"warning: {comparison.less}", err=True)
    for comparison in compared:
        try:
            effect = _effect(api, comparison, overwrite=overwrite)
        except AdmissionError:
            click.echo(_stopped(effects, comparison, len(compared)), err=True)
            raise
        effects.append((comparison, effect))
        if form == "text":
            click.echo(f"{comparison.proposed.identity} {effect}")
            for difference in (*comparison.differences, *comparison.additions):
                click.echo(f"  {difference}")
    kept = sum(effect == _KEPT for _, effect in effects)
    if sharing.is_turned_on:
        for change in fair_sharing.turn_on(api, sharing.namespace):
            if form == "text":
                where = f"{change.kind}/{change.name} -n {change.namespace}"
                click.echo(f"{where} {change.effect.value}")
    if form == "json":
        report = _as_json(compared, notes, sharing.state(applies=True))
        for document, (_, effect) in zip(report["objects"], effects, strict=True):
            document["effect"] = effect
        output.print_json(report)
        return
    for note in notes:
        click.echo(f"note: {note}", err=True)
    if kept:
        click.echo(
            f"{tables.counted(kept, 'object')} with differences kept as they were; --overwrite "
            "changes them",
            err=True,
        )
    queues = _cluster_queues(
        comparison.present or comparison.proposed.document
        if effect == _KEPT
        else comparison.proposed.document
        for comparison, effect in effects
    )
    summary = ("Nominal quota of each team:", *_shares(queues), *sharing.text(applies=True))
    click.echo("\n".join(("", *summary, "", *_next(compared))))


def _stopped(effects: Sequence[tuple[Compared, str]], at: Compared, total: int) -> str:
    """Return what was done before an object that could not be applied."""
    written = {apply.Effect.CREATED.value, apply.Effect.CONFIGURED.value}
    done = [
        f"{comparison.proposed.identity} {effect}"
        for comparison, effect in effects
        if effect in written
    ]
    return (
        f"stopped at {at.proposed.identity}, object {len(effects) + 1} of {total}; done before "
        f"it: {', '.join(done) or 'nothing'}; the same command goes on from there"
    )


def _effect(api: Api, comparison: Compared, *, overwrite: bool) -> str:
    if comparison.exists and not comparison.differences:
        return apply.Effect.UNCHANGED.value
    if comparison.exists and not overwrite:
        return _KEPT
    # What is new belongs to kubectl: an administrator goes on with kubectl apply --server-side,
    # which changes only what it has applied. From what is there, nothing is taken that others set.
    manager = names.FIELD_MANAGER if comparison.exists else _KUBECTL
    return apply.apply(api, comparison.proposed.document, field_manager=manager).value


def _next(compared: Iterable[Compared]) -> list[str]:
    """What to do once queues are there."""
    queues = [comparison.proposed.document for comparison in compared]
    spaces = [queue["metadata"]["namespace"] for queue in queues if queue["kind"] == "LocalQueue"]
    if not spaces:
        return ["next: create a LocalQueue in each namespace of a team, for example with --team"]
    return [
        f"next: create a pod with a GPU in namespace {spaces[0]}, then",
        f"  {clusters.again(f'kubectl gpu why POD -n {spaces[0]}')}",
        f"  {clusters.again('kubectl gpu top')}",
    ]


def _as_json(
    compared: Iterable[Compared], notes: Sequence[str], shares: str | None
) -> dict[str, Any]:
    return {
        "objects": [
            {
                "object": comparison.proposed.document,
                "why": comparison.proposed.why,
                "exists": comparison.exists,
                "differences": list(comparison.differences),
                "additions": list(comparison.additions),
            }
            for comparison in compared
        ],
        "notes": list(notes),
        "fairSharing": shares,
    }
