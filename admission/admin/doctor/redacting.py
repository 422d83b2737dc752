"""Removes possible credentials from objects and logs.

What users write into their pods is taken out as a whole where it may hold anything: values of
variables, command lines, annotations of other programs. Elsewhere it is what looks like one.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from admission.base import names
from admission.gpu import bypass_rules

REDACTED: Final = "REDACTED"

_WORDS: Final = r"(?:passw(?:or)?d|passphrase|secret|token|credential|(?:api|access)[-_.]?key)"
_SAID: Final = re.compile(
    rf"(?i)((?:[\w.-]*{_WORDS}[\w.-]*[\"']?\s*[=:]|--?[\w.-]*{_WORDS}[\w.-]*(?=\s))\s*)"
    r"(?:\"[^\"]*\"|'[^']*'|[^\s\"',;]+)"
)
"""A word for a credential, and what is said of it: ``--password x``, ``"token": "x"``."""
_LOOKS: Final = re.compile(
    r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?i:bearer|basic)\s+[\w.~+/=-]{8,}"
    r"|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"  # a token of a service account, or any other JWT
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\b(?:gh[pousr]_|github_pat_|glpat-|hf_|xox[abprs]-|sk-|nvapi-)[\w-]{12,}"
)
_IN_URL: Final = re.compile(r"(?<=://)[^\s/@]+@")
_KEY: Final = re.compile(rf"(?i){_WORDS}")
_HARMLESS: Final = re.compile(
    r"(?i)^(?:secret|secretName|secretRef|secretKeyRef|imagePullSecrets|automountServiceAccountToken"
    r"|serviceAccountToken|tokenExpirationSeconds)$"
)
"""Keys with a word for credentials whose value is a name or a switch."""
_WHOLE: Final = frozenset(
    {"httpHeaders", "volumeAttributes", "options", "stringData", "binaryData"}
)
_COMMANDS: Final = frozenset({"args", "command"})
_GONE: Final = frozenset({"managedFields"})
_OUR_KEYS: Final = re.compile(
    r"^(?:[\w.-]*\.)?(?:gpu-admission\.dev|kueue\.x-k8s\.io|nvidia\.com|kubernetes\.io|k8s\.io)/"
)
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def document(document_: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without what may be a credential."""
    metadata = document_.get("metadata") or {}
    is_ours = metadata.get("namespace") == names.SYSTEM_NAMESPACE
    kept = {
        key: _value(key, value, is_ours=is_ours)
        for key, value in document_.items()
        if key != "data"
    }
    if document_.get("kind") == "ConfigMap":
        kept["data"] = {key: text(value) for key, value in (document_.get("data") or {}).items()}
    return kept


def text(raw: str) -> str:
    """Return a text without what looks like a credential."""
    raw = _LOOKS.sub(REDACTED, str(raw))
    raw = _IN_URL.sub(f"{REDACTED}@", raw)
    return _SAID.sub(rf"\g<1>{REDACTED}", raw)


def _value(key: str, value: Any, *, is_ours: bool) -> Any:
    if key in _WHOLE or (key in _COMMANDS and not is_ours):
        return REDACTED if value else value
    if key == "env" and isinstance(value, list):
        return [_variable(item) for item in value]
    if key == "annotations" and isinstance(value, Mapping):
        return {name: _annotation(name, item) for name, item in value.items()}
    if isinstance(value, Mapping):
        return {
            name: _value(name, item, is_ours=is_ours)
            for name, item in value.items()
            if name not in _GONE
        }
    if isinstance(value, list):
        return _list(key, value, is_ours=is_ours)
    if isinstance(value, str):
        is_name = _HARMLESS.match(key) or _OUR_KEYS.match(key)
        is_secret = _KEY.search(key) is not None and is_name is None
        return REDACTED if is_secret and value else text(value)
    return value


def _list(key: str, values: list[Any], *, is_ours: bool) -> list[Any]:
    """Return the items; of a command line also without what follows the name of a credential."""
    items = [_value(key, value, is_ours=is_ours) for value in values]
    if key not in _COMMANDS:
        return items
    return [
        REDACTED if at and _is_named(items[at - 1]) else value for at, value in enumerate(items)
    ]


def _is_named(argument: Any) -> bool:
    shown = str(argument)
    return shown.startswith("-") and "=" not in shown and _KEY.search(shown) is not None


def _variable(variable: Any) -> Any:
    """Return a variable without its value, which only those that show GPUs keep."""
    if (
        not isinstance(variable, Mapping)
        or "value" not in variable
        or variable.get("name") in bypass_rules.VARIABLES
    ):
        return variable
    return {**variable, "value": REDACTED}


def _annotation(name: str, value: Any) -> Any:
    if name == _APPLIED or _OUR_KEYS.match(name) is None:
        return REDACTED
    return text(value)
