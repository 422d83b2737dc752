"""ConversionReview: what the API server asks a conversion webhook, and the answer.

Source: apiextensions.k8s.io/v1 ConversionReview. All objects are converted or none is.
"""

from collections.abc import Mapping
from typing import Any, Final

from admission.base.errors import InvalidValueError
from admission.objects import conversion

API_VERSION: Final = "apiextensions.k8s.io/v1"


def answer(review: Mapping[str, Any]) -> dict[str, Any]:
    """The review with its response; a failure names the object and the rule.

    Args:
        review: the decoded body.

    Raises:
        InvalidValueError: the body is no ConversionReview; there is no uid to answer to.
    """
    request = review.get("request")
    if review.get("kind") != "ConversionReview" or not isinstance(request, Mapping):
        raise InvalidValueError(
            str(review.get("kind")), "must be a ConversionReview with a request"
        )
    return {
        "apiVersion": API_VERSION,
        "kind": "ConversionReview",
        "response": {"uid": request.get("uid", ""), **_outcome(request)},
    }


def _outcome(request: Mapping[str, Any]) -> dict[str, Any]:
    desired = str(request.get("desiredAPIVersion", ""))
    converted = []
    for document in request.get("objects") or ():
        try:
            converted.append(conversion.convert(document, desired))
        except InvalidValueError as error:
            return _failure(document, str(error))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            # A stored object may break a rule that came later: that is an answer, not a crash.
            return _failure(document, f"a field is missing or has the wrong type: {error}")
    return {"convertedObjects": converted, "result": {"status": "Success"}}


def _failure(document: Any, message: str) -> dict[str, Any]:
    return {"result": {"status": "Failure", "message": f"{_name(document)}: {message}"}}


def _name(document: Any) -> str:
    if not isinstance(document, Mapping):
        return "an object that is no JSON object"
    metadata = document.get("metadata") or {}
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    return f"{document.get('kind', '')} {f'{namespace}/' if namespace else ''}{name}"
