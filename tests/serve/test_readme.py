"""The picture in the README shows what its text says: both are of the scene `small`."""

import html
import re

from tests.repo import tree
from tests.serve import scenes

README = (tree.ROOT / "README.md").read_text()
_PICTURE = re.compile(r"!\[(?P<text>[^\]]+)\]\(docs/pictures/small-overview-\d+-\w+\.png\)")
_SENTENCE = re.compile(r"<h1[^>]*>(.*?)</h1>", re.DOTALL)


def test_the_numbers_in_the_text_of_a_picture_are_those_of_its_page() -> None:
    (said,) = _PICTURE.findall(README)
    (shown,) = _SENTENCE.findall(scenes.small().sign_in().text("/"))
    numbers = re.findall(r"\d+ of \d+ GPUs of quota allocated", html.unescape(shown))
    assert numbers
    assert re.findall(r"\d+ of \d+ GPUs of quota allocated", said) == numbers
