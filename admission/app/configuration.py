"""The configuration file of a process: read once, at its start."""

from pathlib import Path
from typing import Final

from admission.config import configuration, reading
from admission.config import documents as printed
from admission.config.configuration import Effective
from admission.config.reading import ConfigurationError
from admission.config.settings import Settings
from admission.obs import logs

__all__ = [
    "ConfigurationError",
    "Effective",
    "documents",
    "load",
    "load_logged",
    "to_text",
    "to_yaml",
]

documents: Final = printed.documents
"""Kueue's document and ours that give the settings."""
to_text: Final = printed.to_text
to_yaml: Final = printed.to_yaml


def load(path: Path | None) -> Effective:
    """Reads the file; without one, the defaults.

    Raises:
        ConfigurationError: it cannot be read, or breaks a rule.
    """
    if path is None:
        return Effective(settings=Settings())
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(str(path), [f"cannot be read: {error}"]) from error
    return configuration.settings_of(reading.read(text, str(path)))


def load_logged(path: Path | None) -> Settings:
    """Reads the file and names what in it changes nothing, in one line of the log.

    Raises:
        ConfigurationError: it cannot be read, or breaks a rule.
    """
    effective = load(path)
    if effective.unused:
        logs.get("configuration").warning(
            "fields without effect", file=str(path), fields=[one.path for one in effective.unused]
        )
    return effective.settings
