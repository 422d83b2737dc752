"""The guide "Why does it wait" has a heading for each reason of the catalogue, and no other."""

import re

from admission.reasons import next_steps
from admission.reasons.next_steps import CATALOGUE
from tests.repo import tree

PAGE = tree.ROOT / next_steps.GUIDE


def test_every_reason_has_a_heading_in_the_order_of_the_catalogue() -> None:
    found = re.findall(r"^## (.+)$", PAGE.read_text(), re.MULTILINE)
    assert found == [f"{reason.title} (`{code}`)" for code, reason in CATALOGUE.items()]


def test_every_heading_shows_a_sentence_and_says_what_to_do() -> None:
    sections = PAGE.read_text().split("\n## ")[1:]
    for section in sections:
        head, *told = [part for part in section.split("\n\n") if part.strip()]
        assert "\n> " in head, head
        assert told, head
