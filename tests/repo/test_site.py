"""The site of the guides has every page, and every link between pages leads somewhere."""

import re
from pathlib import Path

import pathspec
import pytest
import yaml

from tests.repo import tree

DOCS = tree.ROOT / "docs"
PAGES = [path for path in tree.files(DOCS) if path.suffix == ".md"]
SITE = yaml.safe_load((tree.ROOT / "mkdocs.yml").read_text())
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def listed(nav: object) -> set[str]:
    """The pages of a part of the navigation."""
    if isinstance(nav, list):
        return set().union(*map(listed, nav))
    if isinstance(nav, dict):
        return set().union(*map(listed, nav.values()))
    return {str(nav)}


def anchors(page: Path) -> set[str]:
    """What a link may name behind ``#``, as the site makes it."""
    texts = _HEADING.findall(_BLOCK.sub("", page.read_text()))
    kept = (re.sub(r"[^\w\s-]", "", re.sub(r"[`*]", "", text)).strip().lower() for text in texts)
    return {re.sub(r"[-\s]+", "-", text) for text in kept}


def broken(page: Path) -> list[str]:
    found = []
    for link in _LINK.findall(_CODE.sub("", page.read_text())):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        is_there = target.is_file() and target.is_relative_to(DOCS)
        if not is_there or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=tree.name)
def test_a_link_leads_to_a_page_of_the_site(page: Path) -> None:
    assert broken(page) == [], "the site is made of docs/ only; name other files as code"


def test_every_page_is_in_the_navigation() -> None:
    beside = pathspec.GitIgnoreSpec.from_lines(SITE["not_in_nav"].splitlines())
    pages = {str(page.relative_to(DOCS)) for page in PAGES}
    left_out = {page for page in pages if beside.match_file(page)}
    assert pages - left_out - listed(SITE["nav"]) == set(), "add the page to nav in mkdocs.yml"
    assert listed(SITE["nav"]) - pages == set(), "nav in mkdocs.yml names pages that are not there"
