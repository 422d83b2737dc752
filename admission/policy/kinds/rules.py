"""What a rule is: one row of a table, with the words in which it is reported.

A row with a message of ours is a `Rule`; one whose words come from Kubernetes (label keys,
conditions) is a `Syntax`. Tables are run in their order.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from admission.base.fielderrors import OMITTED, ErrorType, FieldError, FieldPath, Value

Subject = TypeVar("Subject")


@dataclass(frozen=True, slots=True)
class Finding:
    """A place that breaks a rule.

    Attributes:
        path: the field.
        value: what stands there.
        words: what the message's placeholders stand for.
    """

    path: FieldPath
    value: Value = OMITTED
    words: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rule(Generic[Subject]):
    """One row.

    Attributes:
        id: kind and number of the rule in docs/rules.md: ``ClusterQueue 4``. A word may follow
            where several rows make up one rule.
        type: kind of the error.
        message: detail of the error; ``{...}`` are filled by the finding.
        find: every place of the subject that breaks the rule.
    """

    id: str
    type: ErrorType
    message: str
    find: Callable[[Subject], Iterable[Finding]]

    def errors(self, subject: Subject) -> list[FieldError]:
        """The errors of a subject."""
        return [
            FieldError(self.type, one.path, one.value, self.message.format(**one.words))
            for one in self.find(subject)
        ]


@dataclass(frozen=True, slots=True)
class Syntax(Generic[Subject]):
    """One row whose words are not ours.

    Attributes:
        id: as for a `Rule`.
        check: the errors of a subject.
    """

    id: str
    check: Callable[[Subject], Iterable[FieldError]]

    def errors(self, subject: Subject) -> list[FieldError]:
        """The errors of a subject."""
        return list(self.check(subject))


Row = Rule[Subject] | Syntax[Subject]


def errors(table: Iterable[Row[Subject]], subject: Subject) -> list[FieldError]:
    """The errors of all rows, in the order of the table."""
    return [error for row in table for error in row.errors(subject)]


def text(found: Iterable[FieldError]) -> str:
    """One text for all errors in their order: that of a single one, else ``[first, second]``.

    Equal texts are told once. Source: k8s.io/apimachinery pkg/util/errors (aggregate).
    """
    texts = list(dict.fromkeys(error.text() for error in found))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
