"""The conversion webhook: bytes of a ConversionReview to bytes of its answer.

Stored objects are v1beta2, so only clients of v1beta1 come here. What is no ConversionReview is
answered with an HTTP status, unless it was cut off and its beginning has a uid to repeat.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from admission.base import logs, structs
from admission.base.clock import Clock
from admission.base.errors import InvalidValueError
from admission.objects import conversion
from admission.webhook import decoding
from admission.webhook.decoding import MalformedError
from admission.webhook.metrics import WebhookMetrics

PATH: Final = "/convert"

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""An API server sends all objects of a list in one review; this is some 15,000 Workloads."""

BODY_SECONDS: Final = 20.0
"""In which a ConversionReview must arrive; the API server waits 30 s for the answer."""

_log = logs.get("webhook")
_ENCODER: Final = msgspec.json.Encoder()


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    desired_api_version: str = msgspec.field(default="", name="desiredAPIVersion")
    objects: tuple[msgspec.Raw, ...] = ()


class _ConversionReview(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    request: _Request | None = None


_REVIEW: Final = structs.decoder(_ConversionReview)
_OBJECT: Final = structs.decoder(Any)


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """Answers ConversionReviews; knows nothing of the cluster.

    Attributes:
        metrics: where conversions are counted, as reviews.
        clock: source of time.
        max_body_bytes: larger bodies are refused.
    """

    metrics: WebhookMetrics
    clock: Clock
    max_body_bytes: int = MAX_BODY_BYTES

    def convert(self, body: bytes, content_type: str) -> bytes:
        """Return the answer to a ConversionReview; an object that cannot be converted is one.

        Raises:
            MalformedError: the body is no ConversionReview.
        """
        start = self.clock.monotonic()
        review = decoding.read(_REVIEW, body, content_type, max_bytes=self.max_body_bytes)
        answer = _answer(review)
        result = answer["response"]["result"]
        outcome = "allowed" if result["status"] == "Success" else "denied"
        if outcome == "denied":
            _log.warning("conversion_failed", error=result["message"])
        self.metrics.reviewed(PATH, outcome, self.clock.monotonic() - start)
        return _ENCODER.encode(answer)

    def refuse(self, error: MalformedError) -> str:
        """Count a request that is no ConversionReview; return the text for its sender."""
        _log.warning("review_malformed", path=PATH, code=error.code, error=error.message)
        self.metrics.reviewed(PATH, "malformed", 0)
        return f"{error.message}\n"

    def failed(self, error: MalformedError) -> bytes:
        """Return the answer to a ConversionReview of which only the uid was read."""
        result = {"status": "Failure", "message": error.message}
        response = {"uid": error.uid, "convertedObjects": [], "result": result}
        return _ENCODER.encode(
            {
                "apiVersion": conversion.API_VERSION,
                "kind": "ConversionReview",
                "response": response,
            }
        )


def _answer(review: _ConversionReview) -> dict[str, Any]:
    """The answer, made object by object: decoded, a long list would take ten times its size."""
    request = review.request or _Request()
    answer = _review_of(review, [])
    converted: list[msgspec.Raw] = []
    for raw in request.objects:
        single = _review_of(review, [_OBJECT.decode(raw)])
        if single["response"]["result"]["status"] != "Success":
            return single
        converted.append(msgspec.Raw(_ENCODER.encode(single["response"]["convertedObjects"][0])))
    answer["response"]["convertedObjects"] = converted
    return answer


def _review_of(review: _ConversionReview, objects: list[Any]) -> dict[str, Any]:
    request = review.request and {
        "uid": review.request.uid,
        "desiredAPIVersion": review.request.desired_api_version,
        "objects": objects,
    }
    try:
        return conversion.answer({"kind": review.kind, "request": request})
    except InvalidValueError as error:
        raise MalformedError(decoding.BAD_REQUEST, str(error)) from error
