"""Objects that several kinds share: conditions, selectors, taints, tolerations, weights."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from admission.api import markers, scalars
from admission.api.markers import Rule
from admission.api.model import Model
from admission.api.scalars import Int64, Message, Quantity, Timestamp

_EFFECTS = "['NoSchedule', 'PreferNoSchedule', 'NoExecute']"
_EFFECT_MESSAGE = "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"


class Condition(Model):
    """One aspect of the object's state."""

    type: Annotated[str, StringConstraints(pattern=scalars.QUALIFIED_NAME_PATTERN, max_length=316)]
    """Which aspect."""

    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""

    reason: Annotated[
        str,
        StringConstraints(pattern=scalars.REASON_PATTERN, min_length=1, max_length=1024),
    ]
    """Why, as one word for programs."""

    message: Message
    """Why, as a sentence for people; may be empty."""

    last_transition_time: Timestamp
    """When the status last changed."""

    observed_generation: Annotated[Int64, Field(ge=0)] | None = None
    """Generation of the object that the condition speaks of."""


Conditions = Annotated[list[Condition], markers.list_map("type", at_most=16)]


class LabelSelectorRequirement(Model):
    """One expression over labels."""

    key: str
    """The label."""

    operator: str
    """In, NotIn, Exists or DoesNotExist."""

    values: Annotated[list[str], markers.list_atomic()] | None = None
    """Operands of In and NotIn; none for the others."""


class LabelSelector(Model):
    """Selects by labels; an empty selector selects everything."""

    match_expressions: Annotated[list[LabelSelectorRequirement], markers.list_atomic()] | None = (
        None
    )
    """Expressions that must all hold."""

    match_labels: dict[str, str] | None = None
    """Labels that must all be there with these values."""


class Taint(Model):
    """A taint of a node."""

    key: str
    """Key of the taint."""

    value: str | None = None
    """Value of the taint."""

    effect: str
    """What happens to pods that do not tolerate it."""

    time_added: Timestamp | None = None
    """When the taint was added."""


NODE_TAINT_RULES = markers.rules(
    Rule(f"self.all(taint, taint.effect in {_EFFECTS})", _EFFECT_MESSAGE)
)
"""Rule ``Taint 1`` of docs/rules.md."""


class Toleration(Model):
    """What a pod tolerates."""

    key: str | None = None
    """Key of the tolerated taint; absent means every key."""

    operator: str | None = None
    """Equal (the default) or Exists."""

    value: str | None = None
    """Value of the tolerated taint; absent with Exists."""

    effect: str | None = None
    """Effect of the tolerated taint; absent means every effect."""

    toleration_seconds: Int64 | None = None
    """How long a NoExecute taint is tolerated."""


TOLERATION_RULES = markers.rules(
    Rule(
        "self.all(t, has(t.key) || (has(t.operator) && t.operator == 'Exists'))",
        "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
    ),
    Rule(
        "self.all(t, !has(t.tolerationSeconds) || (has(t.effect) && t.effect == 'NoExecute'))",
        "effect must be 'NoExecute' when 'tolerationSeconds' is set",
    ),
    Rule(
        "self.all(t, !has(t.operator) || t.operator in ['Equal', 'Exists'])",
        "supported toleration values: 'Equal'(default), 'Exists'",
    ),
    Rule(
        "self.all(t, !has(t.operator) || t.operator != 'Exists' || !has(t.value))",
        "a value must be empty when 'operator' is 'Exists'",
    ),
    Rule(f"self.all(t, !has(t.effect) || t.effect in {_EFFECTS})", _EFFECT_MESSAGE),
)
"""Rules ``Toleration 1`` to ``Toleration 5`` of docs/rules.md, in that order.

Source: kueue apis/kueue/v1beta2/resourceflavor_types.go. The guards with ``has`` let a toleration
without key or effect be refused by a rule instead of failing the expression.
"""

Tolerations = Annotated[list[Toleration], markers.list_atomic(at_most=8), TOLERATION_RULES]


class FairSharing(Model):
    """Place in fair sharing."""

    weight: Quantity | None = Field(default=None, json_schema_extra={"default": 1})
    """Share relative to the others; 0 means last. Without fair sharing it has no effect."""


class FairSharingStatus(Model):
    """Current share."""

    weighted_share: Int64
    """Largest ratio of borrowed to lendable quota over all resources, times 1000, divided by the
    weight. 0 means within quota; the largest number means weight 0 and borrowing."""
