"""What a cap of any length costs a review."""

import pytest

from admission.base import names
from admission.base.errors import InvalidValueError
from admission.objects import caps, views

GPU = names.GPU_RESOURCE


@pytest.mark.parametrize(
    "text",
    [
        f"{GPU}=8{'0' * 5000}",
        f"{GPU}=0.{'1' * 5000}",
        "," * 250_000,
        ",".join(f"a{number}/b=1" for number in range(20_000)),
    ],
)
def test_a_cap_that_is_too_long_is_refused_in_few_words(text: str) -> None:
    queue = views.Object(metadata=views.ObjectMeta(annotations={names.MAX_PER_USER: text}))

    (error,) = caps.local_queue_errors(None, queue)
    assert "must have at most 4096 characters" in error.detail
    assert len(error.detail) + len(str(error.value)) < 100
    with pytest.raises(InvalidValueError, match="at most 4096 characters"):
        caps.read(queue.metadata, names.MAX_PER_USER)


def test_the_longest_number_of_a_cap_is_read() -> None:
    queue = views.ObjectMeta(annotations={names.MAX_PER_USER: f"{GPU}={'9' * 100}"})
    assert caps.read(queue, names.MAX_PER_USER) == {GPU: 2**63 - 1}
