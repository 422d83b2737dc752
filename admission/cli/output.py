"""The output of commands: tables and sentences or JSON, and errors with the next step."""

import errno
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from admission.base import json_answers
from admission.base.clock import Clock, SystemClock
from admission.base.errors import AdmissionError
from admission.base.json_answers import ErrorCode
from admission.kube import errors

if TYPE_CHECKING:
    import rich.console

_ADVICE: Final = (
    (
        errors.KubeConfigurationError,
        "check the file of --kubeconfig, or $KUBECONFIG: kubectl config view --kubeconfig FILE",
    ),
    (
        errors.TransportError,
        "check that the API server is up and can be reached from here: kubectl get --raw /readyz",
    ),
    (
        errors.UnauthorizedError,
        "the API server does not accept the credentials of the kubeconfig; log in again",
    ),
    (
        errors.ForbiddenError,
        "you lack a right: try -n NAMESPACE, or list your rights: kubectl auth can-i --list",
    ),
    (errors.TooManyRequestsError, "the API server is overloaded; try again in a minute"),
    (errors.ServerError, "the API server, or a service behind it, failed; see its log"),
)
_CODES: Final = (
    (errors.KubeConfigurationError, ErrorCode.INVALID_KUBECONFIG),
    (errors.TransportError, ErrorCode.UNREACHABLE),
    (errors.UnauthorizedError, ErrorCode.UNAUTHORIZED),
    (errors.ForbiddenError, ErrorCode.FORBIDDEN),
    (errors.NotFoundError, ErrorCode.NOT_FOUND),
    (errors.TooManyRequestsError, ErrorCode.OVERLOADED),
    (errors.ServerError, ErrorCode.SERVER_FAILED),
)
_WEBHOOK: Final = "the webhook of gpu-admission does not answer, or not yet: "
_OURS: Final = ".kb.io"
_SERVICE: Final = re.compile(r"https://([^./:]+)\.([^./:]+)\.svc\b")
"""The Service of a webhook and its namespace, in what the API server says."""
_IN_USE: Final = "another process uses this address; stop it, or choose another address"

# What would move the cursor, change colors or turn the order of characters around.
_CONTROLS: Final = (
    *range(0x20),
    *range(0x7F, 0xA0),
    *range(0x2028, 0x202F),  # ends of lines, and directions
    *range(0x2066, 0x206A),
)
_SHOWN: Final = dict.fromkeys(_CONTROLS, "\N{REPLACEMENT CHARACTER}") | dict.fromkeys(
    map(ord, "\t\n\r"), " "
)

FAILED: Final = 1
USAGE: Final = 2

WIDE: Final = "wide"
_TEXT: Final = "text"
_JSON: Final = "json"
_YAML: Final = "yaml"
_AS_YAML: Final = f"{__name__}.yaml"
_AS_WIDE: Final = f"{__name__}.wide"


def form_option(
    *more_forms: str, wide_tables: bool = False, help_text: str = "Output format."
) -> Callable[[Any], Any]:
    """Return the option ``-o``: a command sees ``text``, one of its own, or ``json``.

    YAML is the document of JSON, written otherwise by `print_json`.

    Args:
        more_forms: forms of the command's own.
        wide_tables: whether ``wide`` is text whose tables keep all of their columns, however
            narrow the terminal is.
        help_text: help text.
    """

    def told(context: click.Context, _: click.Parameter, form: str) -> str:
        context.meta[_AS_YAML] = form == _YAML
        context.meta[_AS_WIDE] = wide_tables and form == WIDE
        if form == _YAML:
            return _JSON
        return _TEXT if context.meta[_AS_WIDE] else form

    forms = (_TEXT, *([WIDE] if wide_tables else []), *more_forms, _JSON, _YAML)

    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(forms),
        default=_TEXT,
        show_default=True,
        callback=told,
        help=help_text,
    )


output_option: Final[Callable[[Any], Any]] = form_option()
table_option: Final[Callable[[Any], Any]] = form_option(
    wide_tables=True,
    help_text="Output format; wide has every column, however narrow the terminal is.",
)


def is_wide() -> bool:
    """Return whether tables are to keep all of their columns."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_AS_WIDE))


kubeconfig_option: Final[Callable[[Any], Any]] = click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False),
    envvar="KUBECONFIG",
    help="Path of the kubeconfig. Default: $KUBECONFIG, ~/.kube/config, or the pod's service "
    "account.",
)


@cache
def console() -> "rich.console.Console":
    """Return the rich console of standard output; few commands need it: the import is slow.

    It shows texts as they are: users write names, and none of them is markup.
    """
    import rich.console  # noqa: PLC0415

    return rich.console.Console(highlight=False, soft_wrap=True, markup=False, emoji=False)


def print_json(document: Any) -> None:
    """Print one document on standard output: as JSON, or as YAML where that was asked for."""
    text = json.dumps(document, indent=2, default=str)
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(_AS_YAML):
        import yaml  # noqa: PLC0415 - few need it

        text = yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True).rstrip()
    click.echo(text)


def clock() -> Clock:
    """Return the clock of the command: the one that it was called with, else the machine's."""
    context = click.get_current_context(silent=True)
    passed = None if context is None else context.find_root().obj
    return passed if isinstance(passed, Clock) else SystemClock()


def one_line(text: str) -> str:
    """Return a text that is safe to print: one line, without control characters.

    Messages quote names and annotations that other users wrote. These must not move the cursor or
    add lines on a terminal. The length stays the same, for tables.
    """
    return text if text.isascii() and text.isprintable() else text.translate(_SHOWN)


def fail(message: str, advice: str = "", *, code: ErrorCode = ErrorCode.OTHER) -> NoReturn:
    """End the command with exit code 1, a message, and what to do next.

    With ``-o json``, standard output has the same as a document. Commands in the texts are for
    the cluster that the present one was told to use.
    """
    from admission.cli import clusters  # noqa: PLC0415 - it imports this module

    message, advice = clusters.repeated(message), clusters.repeated(advice)
    if _wants_json():
        print_json(
            {
                "apiVersion": json_answers.API_VERSION,
                "kind": "Error",
                "code": code,
                "message": message,
                "next": advice,
            }
        )
    lines = map(one_line, message.split("\n"))  # errors in a file have several
    click.echo("\n".join((f"error: {next(lines)}", *lines)), err=True)
    if advice:
        click.echo(f"hint: {one_line(advice)}", err=True)
    sys.exit(FAILED)


def _wants_json() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and context.params.get("form") == "json"


@contextmanager
def reported(advice: str = "") -> Iterator[None]:
    """Turn the program's own exceptions into a message and exit code 1.

    Args:
        advice: what to do next where the error itself suggests nothing better.
    """
    try:
        yield
    except BrokenPipeError:  # as from `| head`: click ends quietly
        raise
    except (AdmissionError, OSError) as error:
        fail(str(error), advice_on(error) or advice, code=_code(error))


def _code(error: Exception) -> ErrorCode:
    if isinstance(error, AdmissionError) and error.error_code:
        return error.error_code
    return next((code for kind, code in _CODES if isinstance(error, kind)), ErrorCode.OTHER)


def advice_on(error: Exception) -> str:
    """Return the next step after an error of any command; empty where there is no advice."""
    if isinstance(error, AdmissionError) and error.advice:
        return error.advice
    if isinstance(error, OSError):
        return _IN_USE if error.errno == errno.EADDRINUSE else ""
    if isinstance(error, errors.ForbiddenError) and (namespace := _typed_namespace()):
        return f"you lack a right; list those you have: kubectl auth can-i --list -n {namespace}"
    if isinstance(error, errors.ServerError) and (text := _about_webhook(error.message)):
        return text
    return next((text for kind, text in _ADVICE if isinstance(error, kind)), "")


def _typed_namespace() -> str:
    context = click.get_current_context(silent=True)
    return "" if context is None else context.params.get("namespace") or ""


def _about_webhook(message: str) -> str:
    """What to do if our webhook could not be called; empty if it was another one, or none."""
    from admission.admin import manifests  # noqa: PLC0415

    if not errors.failed_webhook(message).endswith(_OURS):
        return ""
    service = _SERVICE.search(message)
    if service is None:  # it is called by a URL
        return (
            f"{_WEBHOOK}start it (gpu-admission run), then repeat the command; if it runs, see "
            "what is wrong: gpu-admission doctor"
        )
    if service[1] != manifests.WEBHOOK:
        return ""
    return (
        f"{_WEBHOOK}wait until its pods are ready (kubectl get pods -n {service[2]}), then repeat "
        "the command; if they are ready, see what is wrong: gpu-admission doctor"
    )
