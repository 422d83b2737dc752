"""The order of the guides: what is run again by name runs in it, too."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put guides into the order of their table: the first hour needs a cluster without queues."""
    places = [at for at, item in enumerate(items) if _number(item) is not None]
    guides = sorted((items[at] for at in places), key=lambda item: _number(item) or 0)
    for at, item in zip(places, guides, strict=True):
        items[at] = item


def _number(item: pytest.Item) -> int | None:
    """Return the place of a guide in its table; None for other tests."""
    table = getattr(item, "callspec", None)
    return None if table is None else table.indices.get("guide")
