"""A configuration file's text to its documents, with everything wrong in it in one error."""

import difflib
import json
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import override

from admission.base import logs, names
from admission.base.errors import AdmissionError
from admission.config import derived, gpu_configuration, kueue_configuration, rules
from admission.config.derived import Settings
from admission.config.gpu_configuration import GpuConfiguration
from admission.config.kueue_configuration import Configuration
from admission.config.model import ConfigModel, Unused
from admission.objects import owner_rows

_SERVED: Final = (
    *kueue_configuration.ALWAYS_SERVED,
    *kueue_configuration.SERVING,
    *(row.framework for row in (*owner_rows.ROWS, *owner_rows.MODULES)),
)
"""Kinds of jobs that are looked at themselves."""
_PREFIX: Final = "Value error, "
_Model = TypeVar("_Model", bound=ConfigModel)


class ConfigurationError(AdmissionError):
    """A configuration file cannot be used.

    Attributes:
        source: the file.
        problems: what is wrong, each with its path and rule.
    """

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        super().__init__(f"{source}: {'; '.join(problems)}")
        self.source = source
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedField:
    """A field of a file that changes nothing here.

    Attributes:
        path: as ``clientConnection.qps``.
        why: what holds instead.
    """

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """The effective configuration after a file was read.

    Attributes:
        settings: the settings.
        unused: fields of the file that are set and change nothing, sorted by path.
    """

    settings: Settings = field(default_factory=Settings)
    unused: tuple[UnusedField, ...] = ()


def load(path: Path | None) -> Effective:
    """Return the configuration of a file; without a file, the defaults.

    Raises:
        ConfigurationError: it cannot be read, or breaks a rule.
    """
    if path is None:
        return Effective()
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(str(path), [f"cannot be read: {error}"]) from error
    return read(text, str(path))


def load_logged(path: Path | None) -> Settings:
    """Return the settings of a file, and name what in it changes nothing, in one line of the log.

    Raises:
        ConfigurationError: it cannot be read, or breaks a rule.
    """
    effective = load(path)
    log_unused(effective, path)
    return effective.settings


def log_unused(effective: Effective, path: Path | None) -> None:
    """Name what in a file changes nothing, in one line of the log; nothing if all has effect."""
    if effective.unused:
        logs.get("configuration").warning(
            "fields without effect",
            file=str(path),
            fields=[f"{setting.path} ({setting.why})" for setting in effective.unused],
        )


def read(text: str, source: str) -> Effective:
    """Return the configuration in YAML documents: at most one of each kind, in any order.

    Raises:
        ConfigurationError: the text is not YAML, a document is of another kind or version, a field
            is unknown, or values break rules; all of them are named.
    """
    configurations: dict[str, ConfigModel] = {}
    unused: list[UnusedField] = []
    problems: list[str] = []
    for number, document in enumerate(_load(text, source)):
        model = _model_of(document, source, number)
        kind = document["kind"]
        if kind in configurations:
            raise ConfigurationError(source, [f"two documents of kind {kind}"])
        configurations[kind] = _validate(document, model, source)
        unused += _unused(document, model)
        if kind == kueue_configuration.KIND:
            unused += _not_served(document)
        if model is kueue_configuration.ConfigurationV1Beta1:
            unused += _not_waiting(document)
            problems += rules.of_v1beta1(document)
            configurations[kind] = _validate(
                kueue_configuration.converted(document), Configuration, source
            )
    kueues = configurations.get(kueue_configuration.KIND, Configuration())
    gpu = configurations.get(gpu_configuration.KIND, GpuConfiguration())
    assert isinstance(kueues, Configuration)
    assert isinstance(gpu, GpuConfiguration)
    problems += rules.problems(kueues, gpu)
    if problems:
        raise ConfigurationError(source, sorted(problems))
    return Effective(
        settings=derived.settled(kueues, gpu),
        unused=tuple(sorted(unused, key=lambda setting: setting.path)),
    )


# --------------------------------------------------------------------------------------- YAML


class _Loader(yaml.SafeLoader):
    """YAML as JSON has it: no dates, and no key twice."""

    @override
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    mark = key.start_mark
                    raise yaml.MarkedYAMLError(problem=f"{key.value}: twice", problem_mark=mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _load(text: str, source: str) -> list[Any]:
    try:
        documents = list(yaml.load_all(text, _Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f"line {mark.line + 1}: "
        raise ConfigurationError(source, [f"{where}invalid YAML: {error.problem}"]) from error
    except yaml.YAMLError as error:
        raise ConfigurationError(source, [f"invalid YAML: {error}"]) from error
    return [document for document in documents if document is not None]


def _model_of(document: Any, source: str, number: int) -> type[ConfigModel]:
    place = f"document {number + 1}"
    if not isinstance(document, dict):
        raise ConfigurationError(source, [f"{place}: must be an object with apiVersion and kind"])
    version, kind = str(document.get("apiVersion")), str(document.get("kind"))
    if version in kueue_configuration.VERSIONS and kind == kueue_configuration.KIND:
        return kueue_configuration.VERSIONS[version]
    if version == gpu_configuration.API_VERSION and kind == gpu_configuration.KIND:
        return GpuConfiguration
    choices = [f"{version} {kueue_configuration.KIND}" for version in kueue_configuration.VERSIONS]
    choices.append(f"{gpu_configuration.API_VERSION} {gpu_configuration.KIND}")
    problem = f"{place} is apiVersion {version}, kind {kind}; known are {', '.join(choices)}"
    raise ConfigurationError(source, [problem])


# ------------------------------------------------------------------------------------- values


def _validate(document: Any, model: type[_Model], source: str) -> _Model:
    try:
        # JSON, because there a list may become a tuple and a text a choice, and nothing else.
        return model.model_validate_json(
            json.dumps(document, default=str), by_alias=True, by_name=False
        )
    except ValidationError as error:
        problems = sorted(
            _problem(model, detail)
            for detail in error.errors()
            if detail["type"] != "default_factory_not_called"
        )
        raise ConfigurationError(source, problems) from error


def _problem(model: type[ConfigModel], detail: ErrorDetails) -> str:
    path = path_text(detail["loc"])
    match detail["type"]:
        case "extra_forbidden":
            return f"{path}: unknown field; {_siblings(model, detail['loc'])}"
        case "missing":
            return f"{path}: is required"
        case "value_error":
            return f"{path}: {detail['msg'].removeprefix(_PREFIX)}"
        case "literal_error":
            return f"{path}: {_choices(detail)}"
        case _:
            message = detail["msg"]
            return f"{path}: {detail['input']!r}: {message[:1].lower()}{message[1:]}"


def _choices(detail: ErrorDetails) -> str:
    """Return what may be written, as it is to be written, and what was probably meant."""
    expected, written = detail["ctx"]["expected"], str(detail["input"])
    choices = re.findall(r"'([^']*)'", expected)
    meant = [choice for choice in choices if choice.lower() == written.lower()]
    meant = meant or difflib.get_close_matches(written, choices, n=1)
    advice = f"did you mean {meant[0]}? " if meant else ""
    return f"{detail['input']!r}: {advice}must be {expected}"


def path_text(location: Sequence[int | str]) -> str:
    """Return a path as people write it: ``resources.transformations[0].input``."""
    parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in location]
    return "".join(parts).removeprefix(".")


def _siblings(model: type[ConfigModel], location: Sequence[int | str]) -> str:
    """Return a hint with the known fields of the same section, most similar first."""
    for step in location[:-1]:
        if isinstance(step, str) and (field := _fields(model).get(step)) is not None:
            model = field
    names = sorted(info.alias or name for name, info in model.model_fields.items())
    meant = difflib.get_close_matches(str(location[-1]), names, n=1)
    advice = f"did you mean {meant[0]}? " if meant else ""
    return f"{advice}known here: {', '.join(names)}"


def _fields(model: type[ConfigModel]) -> dict[str, type[ConfigModel] | None]:
    """The models below a model, by wire name."""
    return {
        info.alias or name: next(_models(info.annotation), None)
        for name, info in model.model_fields.items()
    }


def _models(annotation: Any) -> Iterator[type[ConfigModel]]:
    if isinstance(annotation, type) and issubclass(annotation, ConfigModel):
        yield annotation
    elif get_origin(annotation) in {list, Union, UnionType}:
        for argument in get_args(annotation):
            yield from _models(argument)


# ------------------------------------------------------------------------------ without effect


def _unused(
    document: Mapping[str, Any], model: type[ConfigModel], path: str = ""
) -> Iterator[UnusedField]:
    """Fields that are set and unused; of an object below one, each that is set.

    Null, the empty text and an empty object set nothing: Go programs write them for every field.
    """
    fields = {info.alias or name: info for name, info in model.model_fields.items()}
    for name, content in document.items():
        below, info = f"{path}.{name}".removeprefix("."), fields[name]
        inner = next(_models(info.annotation), None)
        mark = next((marker for marker in info.metadata if isinstance(marker, Unused)), None)
        if mark is not None:
            for leaf in _leaves(content, inner, below):
                yield UnusedField(path=leaf, why=mark.why)
        elif inner is not None and isinstance(content, dict):
            yield from _unused(content, inner, below)
        elif inner is not None and isinstance(content, list):
            for index, item in enumerate(content):
                yield from _unused(item, inner, f"{below}[{index}]")


def _leaves(content: Any, model: type[ConfigModel] | None, path: str) -> Iterator[str]:
    if content is None or content == "":
        return
    if model is None or not isinstance(content, dict):
        yield path
        return
    models = _fields(model)
    for name, value in content.items():
        yield from _leaves(value, models[name], f"{path}.{name}")


def _not_served(document: Mapping[str, Any]) -> Iterator[UnusedField]:
    """Each kind of job that Kueue's document asks for and that is not served."""
    for listed in (document.get("integrations") or {}).get("frameworks") or ():
        name = listed or ""
        if name not in _SERVED:
            why = (
                f"{name} is not served: its pods run outside quota unless their template has "
                f"the label {names.QUEUE_LABEL}"
            )
            yield UnusedField(path=f"integrations.frameworks[{name}]", why=why)


def _not_waiting(document: Mapping[str, Any]) -> Iterator[UnusedField]:
    """Fields that say how to wait for pods in a file of v1beta1 that does not wait."""
    options = document.get("waitForPodsReady") or {}
    for name, content in options.items():
        if not options.get("enable") and name != "enable" and content is not None:
            yield UnusedField(
                path=f"waitForPodsReady.{name}", why="waitForPodsReady.enable is not true"
            )
