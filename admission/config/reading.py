"""A configuration file's text to its documents, with everything wrong in it in one error."""

import difflib
import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import override

from admission.base.errors import AdmissionError
from admission.config import gpu, kueue
from admission.config.gpu import GpuConfiguration
from admission.config.kueue import ConfigurationV1Beta1, ConfigurationV1Beta2
from admission.config.model import ConfigModel, Unused

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
class File:
    """What a file holds.

    Attributes:
        source: the file's name, for messages.
        kueue: Kueue's document; None when the file has none.
        gpu: our own document; None when the file has none.
        unused: fields that are set and change nothing, sorted by path.
    """

    source: str
    kueue: ConfigurationV1Beta1 | ConfigurationV1Beta2 | None = None
    gpu: GpuConfiguration | None = None
    unused: tuple[UnusedField, ...] = ()


def read(text: str, source: str) -> File:
    """Reads YAML documents: at most one of each kind, in any order.

    Raises:
        ConfigurationError: the text is no YAML, a document is of another kind or version, a field
            is unknown, or a value is of the wrong type.
    """
    found: dict[type[ConfigModel], ConfigModel] = {}
    for number, document in enumerate(_load(text, source)):
        model = _model_of(document, source, number)
        known = GpuConfiguration if model is GpuConfiguration else kueue.Configuration
        if known in found:
            raise ConfigurationError(source, [f"two documents of kind {document['kind']}"])
        found[known] = _validate(document, model, source)
    kueues = found.get(kueue.Configuration)
    own = found.get(GpuConfiguration)
    assert kueues is None or isinstance(kueues, ConfigurationV1Beta1 | ConfigurationV1Beta2)
    assert own is None or isinstance(own, GpuConfiguration)
    unused = () if kueues is None else sorted(_unused(kueues, ""), key=lambda one: one.path)
    return File(source=source, kueue=kueues, gpu=own, unused=tuple(unused))


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
        raise ConfigurationError(source, [f"{where}no YAML: {error.problem}"]) from error
    except yaml.YAMLError as error:
        raise ConfigurationError(source, [f"no YAML: {error}"]) from error
    return [document for document in documents if document is not None]


def _model_of(document: Any, source: str, number: int) -> type[ConfigModel]:
    place = f"document {number + 1}"
    if not isinstance(document, dict):
        raise ConfigurationError(source, [f"{place}: must be an object with apiVersion and kind"])
    version, kind = document.get("apiVersion"), document.get("kind")
    if version in kueue.VERSIONS and kind == kueue.KIND:
        return kueue.VERSIONS[version]
    if version == gpu.API_VERSION and kind == gpu.KIND:
        return GpuConfiguration
    choices = [f"{one} {kueue.KIND}" for one in kueue.VERSIONS]
    choices.append(f"{gpu.API_VERSION} {gpu.KIND}")
    problem = f"{place} is apiVersion {version}, kind {kind}; known are {', '.join(choices)}"
    raise ConfigurationError(source, [problem])


# ------------------------------------------------------------------------------------- values


def _validate(document: Any, model: type[_Model], source: str) -> _Model:
    try:
        # JSON, because there a list may become a tuple and a text a choice, and nothing else.
        return model.model_validate_json(json.dumps(document, default=str))
    except ValidationError as error:
        problems = sorted(_problem(model, detail) for detail in error.errors())
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
        case _:
            return f"{path}: {detail['input']!r}: {detail['msg'].lower()}"


def path_text(location: Sequence[int | str]) -> str:
    """``resources.transformations[0].input``."""
    parts = [f"[{one}]" if isinstance(one, int) else f".{one}" for one in location]
    return "".join(parts).removeprefix(".")


def _siblings(model: type[ConfigModel], location: Sequence[int | str]) -> str:
    """What may stand beside an unknown field, the likeliest first."""
    for step in location[:-1]:
        if isinstance(step, str) and (field := _fields(model).get(step)) is not None:
            model = field
    known = sorted(info.alias or name for name, info in model.model_fields.items())
    meant = difflib.get_close_matches(str(location[-1]), known, n=1)
    advice = f"did you mean {meant[0]}? " if meant else ""
    return f"{advice}known here: {', '.join(known)}"


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


def _unused(value: ConfigModel, path: str) -> Iterator[UnusedField]:
    """Fields that are set and unused; of a mapping or object below one, each that is set.

    Null, the empty text and an empty object set nothing: Go programs write them for every field.
    """
    for name in value.model_fields_set:
        info = type(value).model_fields[name]
        below = f"{path}.{info.alias or name}".removeprefix(".")
        content = getattr(value, name)
        mark = next((one for one in info.metadata if isinstance(one, Unused)), None)
        if mark is not None:
            yield from (UnusedField(path=one, why=mark.why) for one in _leaves(content, below))
        elif isinstance(content, ConfigModel):
            yield from _unused(content, below)
        elif isinstance(content, list):
            for index, one in enumerate(content):
                if isinstance(one, ConfigModel):
                    yield from _unused(one, f"{below}[{index}]")


def _leaves(content: Any, path: str) -> Iterator[str]:
    if content is None or content == "":
        return
    if not isinstance(content, ConfigModel):
        yield path
        return
    for name in content.model_fields_set:
        alias = type(content).model_fields[name].alias or name
        yield from _leaves(getattr(content, name), f"{path}.{alias}")
