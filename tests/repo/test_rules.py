"""What code and tests refer to is in the repository: rules, decision records, files."""

import re
from functools import cache

import pytest

from tests.repo import rules, tree

MODULES = list(tree.modules("admission", "certs", "tests"))
DOCUMENTS = [path for path in tree.files() if path.suffix == ".md"]
ELSEWHERE = {
    "a contract that is not in the repository": re.compile(
        r"\bthe contract'?s\b|\bof the contract\b|\bcontract of\b|\bcontract rules\b"
        r"|\bthe contract numbers\b"
    ),
    "a numbered section": re.compile(r"\b(?:sections?|facts?|chapter) \d|§ ?\d"),
    "a rule without its kind": re.compile(r"\brules? (?:\d|[a-z] to [a-z]\b)"),
}
"""Ways to cite a list of which nobody can tell where it is."""


@cache
def cited() -> dict[str, set[str]]:
    """Return the ids that each module or test cites, by its path."""
    paths = [path for path in MODULES if "tests/repo" not in tree.name(path)]
    return {tree.name(path): rules.cited(path.read_text()) for path in paths}


def test_every_rule_that_is_cited_is_listed() -> None:
    known = rules.listed()
    found = {f"{name} cites {id_}" for name, ids in cited().items() for id_ in ids - known}
    assert found == set()


def test_every_listed_rule_is_cited_by_a_module_or_a_test() -> None:
    assert rules.listed() - set().union(*cited().values()) == set()


def test_every_place_that_the_page_names_exists() -> None:
    assert {path for path in rules.paths() if not (tree.ROOT / path).exists()} == set()


def test_a_test_that_a_requirement_names_cites_it() -> None:
    wrong = {
        f"{id_}: {path}"
        for id_, path in rules.places()
        if re.match(r"req_|T\d", id_) and path.startswith("tests/") and id_ not in cited()[path]
    }
    assert wrong == set()


def test_no_file_cites_a_list_that_is_not_in_the_repository() -> None:
    found = [
        f"{tree.name(path)}:{text.count(chr(10), 0, match.start()) + 1} cites {what}: {match[0]}"
        for path in [*MODULES, *DOCUMENTS]
        if tree.name(path) != "tests/repo/test_rules.py"
        for text in [path.read_text()]
        for what, pattern in ELSEWHERE.items()
        for match in pattern.finditer(text)
    ]
    assert found == []


ADR = tree.ROOT / "docs" / "adr"
CITED_RECORDS = re.compile(r"\bADRs? ((?:\d{4}(?:, (?:and )?| and )?(?:ADR )?)+)|\badr/(\d{4})")


def numbers_of_records() -> dict[str, str]:
    """Return the file of the record to which the index leads from each number."""
    index = (ADR / "README.md").read_text()
    return dict(re.findall(r"(?m)^\| \[(\d{4})\]\(([^)]+)\) \|", index))


def cited_records(text: str) -> set[str]:
    """Return the numbers of the decision records that a text cites."""
    lists = ("".join(groups) for groups in CITED_RECORDS.findall(text))
    return {number for numbers in lists for number in re.findall(r"\d{4}", numbers)}


def test_every_decision_that_is_cited_leads_to_a_record() -> None:
    numbers = numbers_of_records()
    nowhere: set[str] = set()
    for path in tree.files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if tree.name(path) != "tests/repo/test_rules.py":
            nowhere |= {
                f"{tree.name(path)} cites ADR {number}"
                for number in cited_records(text)
                if not (ADR / numbers.get(number, "no record")).is_file()
            }
    assert nowhere == set()


def test_every_way_of_citing_a_record_is_found() -> None:
    text = "(ADR 0001, 0002). See ADRs 0003 and 0004, docs/adr/0005; ADR 0006, and ADR 0007."
    assert cited_records(text) == {f"000{digit}" for digit in range(1, 8)}
    assert cited_records("10 of 1000 pods, and [0099](0099.md)") == set()


def test_the_index_leads_from_every_number_to_the_record_that_holds_it() -> None:
    numbers = numbers_of_records()
    assert list(numbers) == sorted(numbers), "one row for each number, in order"
    held: dict[str, str] = {}
    for path in sorted(ADR.glob("[0-9]*.md")):
        status = re.search(r"(?m)^Status: .*? Holds (.*), too\.$", path.read_text())
        for number in [path.name[:4], *re.findall(r"\d{4}", status[1] if status else "")]:
            assert number not in held, f"{number} is in two records"
            held[number] = path.name
    assert numbers == held


def test_every_decision_record_stands_under_one_subject() -> None:
    subjects, _ = (ADR / "README.md").read_text().split("\n## Numbers\n")
    listed = re.findall(r"(?m)^\* \[[^]]+\]\(([^)]+)\)", subjects)
    assert sorted(listed) == sorted(path.name for path in ADR.glob("[0-9]*.md"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=tree.name)
def test_a_document_links_only_to_what_exists(document) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = (document.parent / path).resolve() if path else document
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found.read_text()), target


def test_every_family_of_recorded_decisions_is_explained() -> None:
    folder = tree.ROOT / "tests" / "parity"
    rows = re.findall(r"(?m)^\| ([A-Z]\d\d) \|", (folder / "README.md").read_text())
    assert rows == sorted(path.name[:3] for path in (folder / "cases").glob("*.jsonl.gz"))


GUIDES = [path for path in DOCUMENTS if path.parent.name != "adr"]
BASES = ("", "admission", "admission/controller")


@pytest.mark.parametrize("document", GUIDES, ids=tree.name)
def test_a_guide_names_only_paths_that_exist(document) -> None:
    """Paths of the program may leave out ``admission`` and ``admission/controller``."""
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    named = set(re.findall(r"`((?:[\w.-]+/)+[\w.-]*\.(?:py|json|yaml|md|toml))`", text))
    missing = {
        path for path in named if not any((tree.ROOT / base / path).exists() for base in BASES)
    }
    assert missing == set()


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one).strip().lower().replace(" ", "-") for one in headings}


def test_every_way_of_citing_a_rule_is_found() -> None:
    source = '''
"""Follows ``Taint 1`` to ``Taint 3``, W1 to W3 and (T8)."""
RULES = (Rule("quota 5 without a cohort", 1), Syntax("Pod 1-2", 2))
FOUND = [Finding(rule="ratio", field="x"), Finding(rule=rule), make("resize", "y")]
def _sure(rule): ...
def test_req_11_and_req_12_are_read(): ...
def test_trap_10_and_11_are_told(): ...
'''
    assert rules.cited(source) == {
        "Taint 1", "Taint 2", "Taint 3", "W1", "W2", "W3", "T8", "quota 5", "Pod 1", "Pod 2",
        "ratio", "resize", "req_11", "req_12", "T10", "T11",
    }  # fmt: skip


def test_a_word_of_the_glossary_is_in_its_module() -> None:
    page = (tree.ROOT / "docs" / "internals" / "glossary.md").read_text()
    rows = re.findall(r"^\| ((?:`[^`]+`,? ?)+)\| `([\w/]+\.py)` \|", page, re.MULTILINE)
    assert rows
    wrong = {
        f"{word}: {module}"
        for words, module in rows
        for word in re.findall(r"`([^`]+)`", words)
        if word not in f"{module} {(tree.ROOT / 'admission' / module).read_text()}"
    }
    assert wrong == set()
