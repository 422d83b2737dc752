"""Our own part of a configuration file: what Kueue's ``Configuration`` has no place for."""

from typing import Annotated, Final, Literal

from pydantic import Field

from admission.base import names
from admission.base.namespaces import BypassChoice
from admission.config.durations import Duration
from admission.config.model import ConfigModel

API_VERSION: Final = names.CONFIG_API_VERSION
KIND: Final = "GpuConfiguration"
ACTIVE: Final = "Active"
PAUSED: Final = "Paused"
POD_END: Final = "PodEnd"
POD_TERMINATING: Final = "PodTerminating"


class Controller(ConfigModel):
    """How the controller works; see ``admission.config.settings.ControllerSettings``."""

    writers: Annotated[int, Field(ge=1, le=256)] | None = None
    request_timeout: Annotated[Duration, Field(gt=0)] | None = None
    watch_silence: Annotated[Duration, Field(gt=0)] | None = None
    waiting_after: Annotated[Duration, Field(ge=0)] | None = None
    waiting_refresh: Annotated[Duration, Field(ge=0)] | None = None
    status_interval: Annotated[Duration, Field(ge=0)] | None = None
    outside_interval: Annotated[Duration, Field(gt=0)] | None = None
    audit_interval: Annotated[Duration, Field(gt=0)] | None = None
    secure_metrics: bool | None = None


class Health(ConfigModel):
    """What counts as sickness of a GPU; see ``admission.config.settings.HealthSettings``."""

    ignored_xids: list[Annotated[int, Field(ge=0)]] | None = None
    reported_xids: list[Annotated[int, Field(ge=0)]] | None = None
    node_conditions: dict[str, Literal["True", "False", "Unknown"]] | None = None
    label: Annotated[str, Field(min_length=1)] | None = None
    hot_celsius: int | None = None
    cool_celsius: int | None = None
    loss_grace: Annotated[Duration, Field(ge=0)] | None = None
    gain_grace: Annotated[Duration, Field(ge=0)] | None = None


class Profile(ConfigModel):
    """A MIG profile of a product; see ``admission.gpu.products.Profile``."""

    name: str
    compute_slices: int
    memory_slices: int
    memory_gb: int
    max: int
    size: int
    starts: list[int]
    engines: dict[str, int] = Field(default_factory=dict)


class Product(ConfigModel):
    """A GPU that replaces the one of the same id, or is added; see ``admission.gpu.products``."""

    id: Annotated[str, Field(min_length=1)]
    memory_gb: int
    compute_slices: int | None = None
    memory_slices: int | None = None
    axis: int | None = None
    aliases: list[str] = Field(default_factory=list)
    labels: list[str] = Field(default_factory=list)
    engines: dict[str, int] = Field(default_factory=dict)
    profiles: list[Profile] = Field(default_factory=list)
    profile_aliases: dict[str, str] = Field(default_factory=dict)


class Webhook(ConfigModel):
    """How the webhook serves; see ``admission.config.settings.WebhookSettings``."""

    threads: Annotated[int, Field(ge=1, le=256)] | None = None
    max_body_bytes: Annotated[int, Field(ge=1024)] | None = None
    secure_metrics: bool | None = None
    client_authority: str | None = None
    health_probe_bind_address: str | None = None


class Certificates(ConfigModel):
    """How long certificates are valid; see ``admission.config.settings.CertificateSettings``."""

    authority_lifetime: Annotated[Duration, Field(gt=0)] | None = None
    serving_lifetime: Annotated[Duration, Field(gt=0)] | None = None


class NamespaceMode(ConfigModel):
    """What holds in a namespace; see ``admission.config.settings.NamespaceMode``."""

    bypass: BypassChoice | None = None
    enforce: bool | None = None


class Modes(ConfigModel):
    """What holds where labels say nothing; see ``admission.config.settings.ModeSettings``."""

    with_queue: NamespaceMode | None = None
    without_queue: NamespaceMode | None = None


class GpuConfiguration(ConfigModel):
    """The document; a missing field has its default. See ``settings.GpuSettings``."""

    api_version: str = ""
    kind: str = ""
    admission: Literal["Active", "Paused"] | None = None
    release_on: Literal["PodEnd", "PodTerminating"] | None = None
    lost_node_after: Annotated[Duration, Field(ge=0)] | None = None
    max_stops_per_minute: Annotated[int, Field(ge=0, le=60_000)] | None = None
    managed_resources: Annotated[list[str], Field(min_length=1)] | None = None
    excluded_namespaces: list[str] | None = None
    modes: Modes | None = None
    toleration_key: str | None = None
    products: list[Product] | None = None
    health: Health | None = None
    controller: Controller | None = None
    webhook: Webhook | None = None
    certificates: Certificates | None = None
