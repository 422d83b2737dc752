"""Reviews of callers: the sandbox knows one person, who may do everything."""

from collections.abc import Callable, Mapping
from typing import Final

from admission.kube import resources
from admission.kube.api import Document
from admission.kube.resources import Resource

NAME: Final = "you"


def answers(token: str) -> Mapping[Resource, Callable[[Document], Document]]:
    """Return what answers reviews, by resource.

    Args:
        token: the person's.
    """

    def of_token(review: Document) -> Document:
        is_known = review.get("spec", {}).get("token") == token
        user = {"user": {"username": NAME}} if is_known else {}
        return {**review, "status": {"authenticated": is_known, **user}}

    def of_access(review: Document) -> Document:
        return {**review, "status": {"allowed": True}}

    return {resources.TOKEN_REVIEWS: of_token, resources.SUBJECT_ACCESS_REVIEWS: of_access}
