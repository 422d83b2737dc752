"""A place in a queue is given exactly up to 10, then to one digit."""

import pytest

from admission.reasons import sentences


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (1, "1st"),
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (10, "10th"),
        (11, "about 10th"),
        (14, "about 10th"),
        (15, "about 20th"),
        (94, "about 90th"),
        (95, "about 100th"),
        (149, "about 100th"),
        (437, "about 400th"),
        (2_500, "about 3,000th"),
        (9_999, "about 10,000th"),
    ],
)
def test_a_place_in_words(found: int, text: str) -> None:
    assert sentences.place(found) == text


def test_few_of_many_places_change_when_one_ahead_leaves() -> None:
    """One who leaves a queue of 10,000 changes what 37 of the others say, and not 10,000."""
    words = [sentences.place(place) for place in range(1, 10_001)]
    changed = sum(before != after for before, after in zip(words[1:], words, strict=False))
    assert changed == 37
