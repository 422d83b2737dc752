"""A memo computes once per key, and forgets rather than grows."""

from admission.base.memo import Memo


def test_a_result_is_computed_once_per_key_even_if_it_is_none():
    asked = []
    memo: Memo[str | None] = Memo()

    def compute(value: str | None) -> str | None:
        asked.append(value)
        return value

    for _ in range(2):
        assert memo.get("a", lambda: compute("x")) == "x"
        assert memo.get("b", lambda: compute(None)) is None
    assert asked == ["x", None]


def test_it_never_holds_more_than_its_size():
    memo: Memo[int] = Memo(size=2)
    for key in range(5):
        assert memo.get(key, lambda key=key: key) == key  # type: ignore[misc]
        assert len(memo._results) <= 2
    assert memo.get(4, lambda: -1) == 4
