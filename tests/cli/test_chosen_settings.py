"""Which settings `install` takes: those of a file, else as installed before; then options."""

from pathlib import Path

import click
import pytest

from admission.admin import manifests, modes
from admission.base import names
from admission.cli import chosen_settings
from admission.cli.chosen_settings import SettingOptions
from admission.config import reading
from admission.config.derived import Settings
from admission.config.gpu_configuration import Modes
from admission.kube import resources
from admission.sandbox.store import Store

OURS = "apiVersion: config.gpu-admission.dev/v1alpha1\nkind: GpuConfiguration\n"
KUEUES = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
ELSEWHERE = "gpus"
PLACE = f"ConfigMap {names.SYSTEM_NAMESPACE}/{manifests.CONFIG_MAP}"


def read(*documents: str) -> Settings:
    return reading.read("---\n".join(documents), "file").settings


def installed(settings: Settings, mode: str = "warn") -> Store:
    """Return a cluster in which settings were installed with a mode."""
    kept = modes.of(mode, settings)
    gpu = settings.gpu.model_copy(update={"modes": None if kept == Modes() else kept})
    settings = settings.model_copy(update={"gpu": gpu})
    store = Store()
    store.create(resources.NAMESPACES, manifests.namespace(settings))
    store.create(resources.CONFIG_MAPS, manifests.config_map(settings), settings.namespace)
    place = manifests.service_reference(settings)
    mutating, *_ = manifests.webhook_configurations(place, settings)
    store.create(resources.MUTATING_WEBHOOKS, mutating)
    return store


def options(
    file: Path | None = None,
    *,
    mode: str | None = None,
    while_down: str | None = None,
    fair_sharing: bool | None = None,
    dashboard: bool | None = None,
    is_outside: bool = False,
) -> SettingOptions:
    return SettingOptions(
        file=file,
        mode=mode,
        while_down=while_down,
        fair_sharing=fair_sharing,
        dashboard=dashboard,
        is_outside=is_outside,
    )


BOARD = f"{OURS}dashboardBindAddress: 0.0.0.0:8000\n"
FAIR = f"{KUEUES}fairSharing: {{preemptionStrategies: [LessThanInitialShare]}}\n"


def test_without_a_file_what_is_installed_stays(capsys: pytest.CaptureFixture[str]) -> None:
    store = installed(read(BOARD, FAIR))
    before = store.get(resources.CONFIG_MAPS, manifests.CONFIG_MAP, names.SYSTEM_NAMESPACE)
    chosen = chosen_settings.choose(store, Settings(), options())
    assert manifests.config_map(chosen)["data"] == before["data"]
    told = capsys.readouterr().err
    assert f"configuration: as installed before ({PLACE}); --config replaces it" in told
    assert "mode: as installed before" in told
    assert "->" not in told


def test_options_change_what_is_installed_and_nothing_else() -> None:
    store = installed(read(BOARD, FAIR))
    given = options(mode="deny", while_down="hold", fair_sharing=False)
    chosen = chosen_settings.choose(store, Settings(), given)
    assert chosen.gpu.dashboard_bind_address == "0.0.0.0:8000"
    assert chosen.gpu.effective_modes == modes.of("deny", Settings())
    assert chosen.gpu.holds_while_down
    assert chosen.kueue.fair_sharing is None
    again = chosen_settings.choose(store, Settings(), options(fair_sharing=True))
    assert again.kueue.fair_sharing == read(FAIR).kueue.fair_sharing, "it is on already"


def test_the_dashboard_is_turned_on_and_off_where_it_is_served() -> None:
    store = installed(Settings())
    chosen = chosen_settings.choose(store, Settings(), options(dashboard=True))
    assert chosen.gpu.dashboard_bind_address == "127.0.0.1:8083"
    store = installed(read(BOARD))
    kept = chosen_settings.choose(store, Settings(), options(dashboard=True))
    assert kept.gpu.dashboard_bind_address == "0.0.0.0:8000"
    none = chosen_settings.choose(store, Settings(), options(dashboard=False))
    assert none.gpu.dashboard_bind_address == ""


def test_the_dashboard_is_not_chosen_twice(tmp_path: Path) -> None:
    given = options(tmp_path / "cfg.yaml", dashboard=True)
    with pytest.raises(click.UsageError, match=r"--dashboard: .*has dashboardBindAddress, too"):
        given.refuse_twice(read(BOARD))


def test_each_setting_that_a_file_changes_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = installed(read(BOARD, FAIR))
    file = tmp_path / "cfg.yaml"
    configured = read(f"{OURS}releaseOn: PodTerminating\n", f"{KUEUES}webhook: {{port: 9000}}\n")
    chosen_settings.choose(store, configured, options(file))
    told = capsys.readouterr().err.splitlines()
    assert told[-5:] == [
        f"{file} changes the installed configuration:",
        "  webhook.port: 9443 -> 9000",
        '  fairSharing: {"preemptionStrategies": ["LessThanInitialShare"]} -> nothing',
        "  releaseOn: PodEnd -> PodTerminating",
        "  dashboardBindAddress: 0.0.0.0:8000 -> nothing",
    ]
    chosen_settings.choose(store, read(BOARD, FAIR), options(file))
    assert "changes the installed" not in capsys.readouterr().err


def test_a_mode_that_the_file_does_not_say_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = installed(Settings(), "deny-strict")
    chosen = chosen_settings.choose(store, Settings(), options(tmp_path / "cfg.yaml"))
    assert chosen.gpu.effective_modes == modes.of("deny-strict", Settings())
    assert "->" not in capsys.readouterr().err


def test_the_mode_is_known_also_while_the_glass_is_broken() -> None:
    store = installed(Settings(), "warn")
    (hook,) = store.list(resources.MUTATING_WEBHOOKS).items
    store.delete(resources.MUTATING_WEBHOOKS, hook["metadata"]["name"])
    chosen = chosen_settings.choose(store, Settings(), options())
    assert chosen.gpu.effective_modes == modes.of("warn", Settings())


def test_an_installation_in_another_namespace_is_found() -> None:
    store = installed(read(f"{KUEUES}namespace: {ELSEWHERE}\n", BOARD))
    chosen = chosen_settings.choose(store, Settings(), options())
    assert chosen.namespace == ELSEWHERE
    assert chosen.gpu.dashboard_bind_address == "0.0.0.0:8000"


def test_outside_of_the_cluster_the_program_reads_a_file_of_its_own() -> None:
    chosen = chosen_settings.choose(installed(read(BOARD)), Settings(), options(is_outside=True))
    assert chosen.gpu.dashboard_bind_address == ""


def test_a_configuration_that_cannot_be_read_is_replaced_by_a_file_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = installed(Settings())
    document = store.get(resources.CONFIG_MAPS, manifests.CONFIG_MAP, names.SYSTEM_NAMESPACE)
    text = f"{OURS}fromALaterVersion: 1\n"
    store.replace(resources.CONFIG_MAPS, {**document, "data": {"config.yaml": text}})
    with pytest.raises(click.UsageError, match=r"fromALaterVersion.*--config FILE"):
        chosen_settings.choose(store, Settings(), options(fair_sharing=True))
    file = tmp_path / "cfg.yaml"
    chosen_settings.choose(store, Settings(), options(file))
    assert "replaces a configuration that cannot be read" in capsys.readouterr().err
