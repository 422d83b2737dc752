"""Pages of the records of GPU-time, each with the rows of one namespace alone.

A page is in the order of names, as a list of an API server; its token is that of the API server.
Records that end before the namespace was created are left out: a namespace of the same name that
was deleted used what they say.
See docs/adr/0290-members-read-the-gpu-time-of-their-namespace.md.
"""

from http import HTTPStatus
from typing import Any, Final

from admission.base import clock, logs, names
from admission.kube import errors, resources
from admission.kube.api import Api, Document
from admission.objects import usage_record
from admission.serve import statuses

MOST: Final = 16
"""Records that are read for one answer: 10 MB at most."""
_log = logs.get("visibility")


class UsageRecords:
    """The records that an installation has written, of which each namespace gets its own rows."""

    def __init__(self, api: Api, namespace: str) -> None:
        """Read nothing yet.

        Args:
            api: where the records are.
            namespace: of the program.
        """
        self._api = api
        self._namespace = namespace

    def page(self, namespace: str, version: str, limit: int, token: str) -> dict[str, Any]:
        """Return some records as a list.

        Args:
            namespace: whose rows are shown.
            version: of the API.
            limit: records at most; without one, and above it, a page has `MOST`.
            token: of the page; empty for the first one.

        Raises:
            RefusedError: the token is none or too old, or the records cannot be read now.
        """
        try:
            created = self._created(namespace)
            page = self._api.list(
                resources.CONFIG_MAPS,
                self._namespace,
                label_selector=names.USAGE_LABEL,
                limit=limit if 0 < limit < MOST else MOST,
                continue_=token,
            )
        except (errors.GoneError, errors.BadRequestError) as error:
            code = HTTPStatus(error.status)
            raise statuses.RefusedError(code, error.reason, error.message) from error
        except errors.KubeError as error:
            _log.warning("usage records not read", error=str(error))
            raise statuses.not_ready("the records of GPU-time cannot be read now") from error
        api_version = f"{names.VISIBILITY_GROUP}/{version}"
        records = (
            {} if created is None else _of_namespace(document, namespace, created)
            for document in page.items
        )
        head = {"apiVersion": api_version, "kind": resources.USAGE_RECORDS.kind}
        return {
            "kind": f"{resources.USAGE_RECORDS.kind}List",
            "apiVersion": api_version,
            "metadata": {"continue": page.continue_} if page.continue_ else {},
            "items": [{**head, **record} for record in records if record],
        }

    def _created(self, namespace: str) -> int | None:
        """Return the second in which a namespace was created; None where there is none.

        The program's account may list namespaces, and not get one.
        """
        selector = f"metadata.name={namespace}"
        for document in self._api.list(resources.NAMESPACES, field_selector=selector).items:
            created = document["metadata"]["creationTimestamp"]
            return int(clock.from_wire(created).timestamp())
        return None


def _of_namespace(document: Document, namespace: str, created: int) -> Document:
    """Return what is shown of a record: without data where it cannot be read; else its rows.

    Nothing is shown of one that ends before the namespace was created.
    """
    period = usage_record.period_of(document)
    if period is None:
        return {}
    try:
        whole = usage_record.read(document)
        if whole.until <= created:
            return {}
        record = usage_record.of_namespace(whole, namespace)
    except ValueError:
        metadata = {
            "name": document["metadata"]["name"],
            "namespace": namespace,
            "labels": {names.USAGE_LABEL: period.value},
        }
        return {"metadata": metadata, "data": {}}
    shown = usage_record.document(record, period, namespace)
    return {"metadata": shown["metadata"], "data": shown["data"]}
