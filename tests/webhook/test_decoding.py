"""What a log line says of a review."""

import pytest

from admission.objects import views
from admission.webhook import decoding
from admission.webhook.decoding import GroupVersionKind, Request, UserInfo

POD = GroupVersionKind(version="v1", kind="Pod")


def make_request(asked: str, *, stored: str = "", begins: str = "") -> Request[views.Pod]:
    metadata = views.ObjectMeta(name=stored, generate_name=begins)
    return Request(
        uid="u-1", kind=POD, operation="CREATE", name=asked, namespace="ml",
        object=views.Pod(metadata=metadata),
        user_info=UserInfo(username="ann"), dry_run=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (make_request("asked", stored="stored"), "asked"),
        (make_request("", stored="stored", begins="train-"), "stored"),
        (make_request("", begins="train-"), "train-*"),
    ],
    ids=["by the request", "by the object", "by what its name begins with"],
)
def test_an_object_is_named_by_what_is_known_of_its_name(
    request_: Request[views.Pod], named: str
) -> None:
    assert decoding.describe(request_) == {
        "request_uid": "u-1",
        "operation": "CREATE",
        "namespace": "ml",
        "pod": named,
        "user": "ann",
        "dry_run": False,
    }
