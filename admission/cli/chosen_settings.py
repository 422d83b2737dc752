"""The settings that a command installs: those of a file, else as installed before; then options.

Without ``--config`` the configuration that is installed stays as it is. With it, the file is the
configuration, and each setting that it changes is said. The mode, and what becomes of pods while
the webhook is down, are of the command line too: a file that does not say them leaves them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from admission.admin import holding, installed_settings, manifests, modes, operators
from admission.admin.installed_settings import InstalledSettings
from admission.cli import confirming, install_options
from admission.config.derived import Settings
from admission.config.gpu_configuration import HOLD, REFUSE, Modes
from admission.config.kueue_configuration import FairSharingSettings
from admission.kube.api import Api


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingOptions:
    """What the command line says about settings.

    Attributes:
        file: of --config; None for none.
        mode: of --mode; None if nobody said.
        while_down: of --while-webhook-down; None if nobody said.
        fair_sharing: of --fair-sharing; None if nobody said.
        dashboard: of --dashboard; None if nobody said.
        is_outside: whether webhook and controller run outside of the cluster: they read a file of
            their own, and the cluster has none.
    """

    file: Path | None
    mode: str | None
    while_down: str | None
    fair_sharing: bool | None = None
    dashboard: bool | None = None
    is_outside: bool = False

    def refuse_twice(self, configured: Settings) -> None:
        """Refuse an option for what the file says, too.

        Raises:
            UsageError: there is one.
        """
        says = {
            f"--mode {self.mode}": (self.mode, configured.gpu.modes, "modes"),
            f"--while-webhook-down {self.while_down}": (
                self.while_down, configured.gpu.while_webhook_down, "whileWebhookDown",
            ),
            "--fair-sharing": (
                self.fair_sharing, configured.kueue.fair_sharing, "fairSharing"
            ),
            "--dashboard": (
                self.dashboard, configured.gpu.dashboard_bind_address or None,
                "dashboardBindAddress",
            ),
        }  # fmt: skip
        for option, (value, in_file, field) in says.items():
            if value is not None and in_file is not None:
                raise click.UsageError(f"{option}: {self.file} has {field}, too; leave one out")


def choose(api: Api, configured: Settings, command_line: SettingOptions) -> Settings:
    """Return the settings to install, and say where they come from and what they change.

    Args:
        api: the cluster.
        configured: what the file says; the defaults without one.
        command_line: what options say.

    Raises:
        UsageError: without a file, the configuration that is installed cannot be read.
    """
    before = InstalledSettings(namespace=configured.namespace)
    if not command_line.is_outside:
        before = installed_settings.of(api, configured.namespace)
    settings = _base(before, configured, command_line)
    settings = _with_sharing(settings, command_line.fair_sharing)
    settings = _with_dashboard(settings, command_line.dashboard)
    settings = _with_outage(api, settings, configured, command_line)
    settings = _with_modes(api, settings, configured, command_line, before)
    settings = _without_operators(api, settings)
    if command_line.file is not None:
        _tell_changes(before, settings, command_line.file)
    return settings


def _base(
    before: InstalledSettings, configured: Settings, command_line: SettingOptions
) -> Settings:
    if command_line.file is not None:
        return configured
    if before.problem:
        raise click.UsageError(
            f"without --config the installed configuration stays, and {before.problem}; say with "
            "--config FILE what it is to be"
        )
    if before.settings is None:
        return configured
    click.echo(
        f"configuration: as installed before (ConfigMap {before.namespace}/"
        f"{manifests.CONFIG_MAP}); --config replaces it",
        err=True,
    )
    return before.settings


def _tell_changes(before: InstalledSettings, settings: Settings, file: Path) -> None:
    """Say what of the installed configuration goes away or changes, before it does."""
    if before.problem:
        click.echo(
            f"warning: {file} replaces a configuration that cannot be read: {before.problem}",
            err=True,
        )
    if before.settings is None:
        return
    changes = list(installed_settings.changes(before.settings, settings))
    if changes:
        click.echo(f"{file} changes the installed configuration:", err=True)
    for change in changes:
        click.echo(f"  {change}", err=True)


def _with_sharing(settings: Settings, chosen: bool | None) -> Settings:
    """Return the settings with how quota is shared that others do not use."""
    if chosen is None:
        return settings
    fair_sharing = (settings.kueue.fair_sharing or FairSharingSettings()) if chosen else None
    kueue = settings.kueue.model_copy(update={"fair_sharing": fair_sharing})
    return settings.model_copy(update={"kueue": kueue})


def _with_dashboard(settings: Settings, chosen: bool | None) -> Settings:
    """Return the settings with where the controller serves the dashboard."""
    if chosen is None or (chosen and settings.gpu.dashboard_bind_address):
        return settings
    address = install_options.DASHBOARD_ADDRESS if chosen else ""
    return _changed(settings, dashboard_bind_address=address)


def _with_outage(
    api: Api, settings: Settings, configured: Settings, command_line: SettingOptions
) -> Settings:
    """Return the settings with what becomes of pods while the webhook does not answer."""
    if command_line.while_down is not None:
        outage = install_options.WHILE_DOWN[command_line.while_down]
        return _changed(settings, while_webhook_down=None if outage == REFUSE else outage)
    if configured.gpu.while_webhook_down is None and holding.is_installed(api):
        click.echo("while the webhook is down: hold, as installed before", err=True)
        return _changed(settings, while_webhook_down=HOLD)
    return settings


def _with_modes(
    api: Api,
    settings: Settings,
    configured: Settings,
    command_line: SettingOptions,
    before: InstalledSettings,
) -> Settings:
    """Return the settings with what holds in namespaces."""
    if command_line.mode is not None:
        return _of_mode(settings, command_line.mode)
    if configured.gpu.modes is not None:
        return settings
    kept = modes.installed(api)
    if kept is None and before.settings is not None:
        kept = before.settings.gpu.effective_modes  # break-glass took the annotation away
    if kept is not None:
        click.echo(f"mode: as installed before: {modes.to_text(kept)}", err=True)
        # Where both mean the same, the file stays as it is, so that its pods are not replaced.
        same = kept == settings.gpu.effective_modes
        return settings if same else _changed(settings, modes=kept)
    return _of_mode(settings, _asked() if confirming.has_terminal() else modes.DEFAULT)


def _of_mode(settings: Settings, mode: str) -> Settings:
    click.echo(f"mode {mode}: {modes.MODES[mode]}", err=True)
    chosen = modes.of(mode, settings)
    return _changed(settings, modes=None if chosen == Modes() else chosen)


def _asked() -> str:
    click.echo("Which mode do namespaces get whose labels set none?", err=True)
    for name, meaning in modes.MODES.items():
        click.echo(f"  {name}: {meaning}", err=True)
    choices = click.Choice(list(modes.MODES))
    answer: str = click.prompt("Mode", type=choices, default=modes.DEFAULT, err=True)
    return answer


def _without_operators(api: Api, settings: Settings) -> Settings:
    """Return the settings without the namespaces of GPU operators, with a line about each."""
    excluded = set(settings.gpu.excluded_namespaces)
    for operator in operators.find(api):
        if operator.namespace in settings.managed_namespaces.unmanaged:
            continue
        sign = f"namespace {operator.namespace}: {operator.sign} belongs to a GPU operator"
        if operator.has_queue:
            text = f"not excluded: {sign}, but it has a LocalQueue; see excludedNamespaces"
        else:
            text = f"excluded: {sign}"
            excluded.add(operator.namespace)
        click.echo(text, err=True)
    return _changed(settings, excluded_namespaces=sorted(excluded))


def _changed(settings: Settings, **changes: Any) -> Settings:
    return settings.model_copy(update={"gpu": settings.gpu.model_copy(update=changes)})
