"""Which API server a command asks, and as whom: the options, and the target they make."""

from collections.abc import Callable
from typing import Any, Final

import click

from admission.kube.impersonation import Identity
from admission.run.connection import ApiServerTarget

_USER: Final = "as"
_GROUPS: Final = "as-group"
_META: Final = "admission.identity."


def identity_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options by which kubectl acts as somebody else."""
    for name, is_multiple, text in (
        (_GROUPS, True, "Group of the user of --as; may be repeated."),
        (_USER, False, "Ask as this user, such as system:serviceaccount:team-a:ci."),
    ):
        option = click.option(
            f"--{name}",
            name.replace("-", "_"),
            metavar="NAME",
            multiple=is_multiple,
            expose_value=False,
            callback=_keep,
            help=text,
        )
        command = option(command)
    return command


def chosen(kubeconfig: str | None, context: str | None) -> ApiServerTarget:
    """Return the API server of options of the present command, and whom it acts as.

    Raises:
        UsageError: groups were given, and no user.
    """
    user, groups = _typed(_USER), _typed(_GROUPS)
    if groups and not user:
        raise click.UsageError("--as-group needs --as: name the user, too")
    identity = Identity(user=user, groups=groups) if user else None
    return ApiServerTarget(kubeconfig, context, identity)


def typed() -> list[str]:
    """Return the options as they were typed, for a command to type next."""
    user, groups = _typed(_USER), _typed(_GROUPS)
    return [
        *(("--as", user) if user else ()),
        *(part for group in groups for part in ("--as-group", group)),
    ]


def _typed(name: str) -> Any:
    context = click.get_current_context(silent=True)
    return () if context is None else context.meta.get(_META + name, ())


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    if value:
        name = (parameter.name or "").replace("_", "-")
        context.meta[_META + name] = value
    return value
