"""``kubectl gpu why``: where a pod stands."""

from contextlib import closing
from dataclasses import asdict
from typing import Final

import click

from admission.cli import output
from admission.cli.kubectl import EXITS
from admission.run import connection
from admission.visibility import why as insight_why
from admission.visibility.why import Answer

_TIMEOUT_SECONDS: Final = 30.0


@click.command(
    epilog=f"""\b
Examples:
  kubectl gpu why train-0 -n research
  kubectl gpu why train-0 -n research -o json

{EXITS}"""
)
@click.argument("pod")
@click.option("-n", "--namespace", help="Of the pod. Default: that of the context.")
@output.kubeconfig_option
@click.option("--context", help="Context of the kubeconfig. Default: its current one.")
@output.output_option
def why(
    pod: str, namespace: str | None, kubeconfig: str | None, context: str | None, form: str
) -> None:
    """Say where a pod stands: admitted and on what, or waiting and why."""
    target = connection.Target(kubeconfig, context)
    with output.reported():
        namespace = namespace or target.namespace()
    with output.reported(f"see the pods there are: kubectl get pods -n {namespace}"):
        api = target.connect(connections=1, timeout_seconds=_TIMEOUT_SECONDS)
        with closing(api):
            answer = insight_why.explain(api, namespace, pod)
    if form == "json":
        output.print_json(asdict(answer))
        return
    for line in _lines(answer):
        click.echo(line)


def _lines(answer: Answer) -> list[str]:
    place = " -> ".join(name for name in (answer.queue, answer.cluster_queue) if name)
    flavors = ", ".join(f"{resource} on {flavor}" for resource, flavor in answer.flavors.items())
    told = ": ".join(text for text in (answer.reason, answer.message) if text)
    rows = {
        "state": f"{answer.state} since {answer.since}" if answer.since else answer.state,
        "queue": place,
        "flavors": flavors,
        "why": told,
        "workload": answer.workload,
        "do": answer.advice,
    }
    return [f"pod {answer.pod}", *(f"  {key:<9}{text}" for key, text in rows.items() if text)]
