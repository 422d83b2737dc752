"""Whom a request is answered for: only what the front proxy says, or the API server of a token."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from admission.kube.errors import TransportError
from admission.kube.resources import Resource
from admission.serve.callers import Caller, FrontProxy, Tokens
from tests.clocks import FakeClock

DATA = {
    "client-ca-file": "other",
    "requestheader-client-ca-file": "PEM",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}


def proxy(**changes: str) -> FrontProxy:
    found = FrontProxy.of(DATA | {f"requestheader-{key.replace('_', '-')}": text
                                  for key, text in changes.items()})  # fmt: skip
    assert found is not None
    return found


PROXY = proxy()
PEER = "front-proxy-client"
EVERYBODY = ("system:authenticated",)
ALICE = ("X-Remote-User", "alice")


def test_all_that_the_front_proxy_says_of_a_user_is_taken():
    headers = [
        ALICE,
        ("X-Remote-Uid", "7"),
        ("X-Remote-Group", "team"),
        ("x-remote-group", "system:authenticated"),
        ("X-Remote-Extra-Scopes", "a"),
        ("X-Remote-Extra-Scopes", "b"),
        ("X-Remote-Extra-acme.com%2fproject", "p"),
        ("Accept", "application/json"),
    ]
    assert PROXY.caller(PEER, headers) == Caller(
        name="alice",
        uid="7",
        groups=("team", "system:authenticated"),
        extra=(("acme.com/project", ("p",)), ("scopes", ("a", "b"))),
    )


@pytest.mark.parametrize(
    ("peer", "headers"),
    [
        (None, [ALICE]),
        ("somebody", [ALICE]),
        (PEER, []),
        (PEER, [("X-Remote-User", "")]),
        (PEER, [("X_Remote_User", "alice")]),
        (PEER, [("X-Remote-User", "caf\xe9")]),
    ],
    ids=["no certificate", "another name", "no user", "empty", "underscores", "no UTF-8"],
)
def test_nobody_else_can_say_who_asks(peer, headers):
    assert PROXY.caller(peer, headers) is None


def test_a_comma_in_a_group_does_not_make_two():
    found = PROXY.caller(PEER, [ALICE, ("X-Remote-Group", "a,system:masters")])
    assert found is not None
    assert found.groups == ("a,system:masters", "system:authenticated")


@pytest.mark.parametrize(
    ("name", "group", "expected"),
    [
        ("system:aggregator", "", ("system:authenticated",)),
        ("alice", "system:authenticated", ("system:authenticated",)),
        ("alice", "system:unauthenticated", ("system:unauthenticated",)),
        ("system:anonymous", "", ()),
    ],
)
def test_whoever_is_known_is_one_of_everybody(name, group, expected):
    found = PROXY.caller(PEER, [("X-Remote-User", name), ("X-Remote-Group", group)])
    assert found is not None
    assert found.groups == expected


def test_any_name_of_the_authority_is_good_where_none_is_listed():
    anyone = proxy(allowed_names="[]")
    assert anyone.caller("somebody", [ALICE]) == Caller(name="alice", groups=EVERYBODY)
    assert anyone.caller(None, [ALICE]) is None


def test_names_beyond_ascii_arrive_as_they_were():
    name = "zoë".encode().decode("latin-1")
    assert PROXY.caller(PEER, [("X-Remote-User", name)]) == Caller(name="zoë", groups=EVERYBODY)


def test_without_an_authority_there_is_no_front_proxy():
    assert FrontProxy.of({"client-ca-file": "PEM"}) is None
    assert FrontProxy.of({}) is None


def test_a_configuration_that_cannot_be_read_is_an_error():
    with pytest.raises(msgspec.DecodeError):
        proxy(group_headers="X-Remote-Group")
    assert proxy(uid_headers="").uid_headers == ()


class Api:
    """Answers reviews; counts them."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Any]] = []

    def create(self, resource: Resource, obj: Mapping[str, Any], /) -> dict[str, Any]:
        self.asked.append((resource.kind, obj["spec"]))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"status": answer}


BOB = {"authenticated": True, "user": {"username": "bob", "groups": ["g"], "extra": {"k": ["v"]}}}
BEARER = [("Authorization", "Bearer secret")]


def test_the_owner_of_a_token_is_asked_for_once_in_ten_seconds():
    clock, api = FakeClock(), Api(BOB, {"authenticated": False})
    tokens = Tokens(api, clock)
    bob = Caller(name="bob", groups=("g",), extra=(("k", ("v",)),))
    assert tokens.caller(BEARER) == bob
    clock.advance(9)
    assert tokens.caller(BEARER) == bob
    assert api.asked == [("TokenReview", {"token": "secret"})]
    clock.advance(2)
    assert tokens.caller(BEARER) is None


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Authorization", "Basic secret")],
        [("Authorization", "Bearer ")],
        [("Authorization", "Bearer a"), ("Authorization", "Bearer b")],
        [ALICE],
    ],
)
def test_without_one_good_token_nobody_is_asked(headers):
    assert Tokens(Api(), FakeClock()).caller(headers) is None


def test_a_question_that_was_not_answered_is_asked_again():
    tokens = Tokens(Api(TransportError("down"), BOB), FakeClock())
    with pytest.raises(TransportError):
        tokens.caller(BEARER)
    assert tokens.caller(BEARER) is not None


def test_a_token_is_not_kept():
    api = Api(BOB)
    tokens = Tokens(api, FakeClock())
    tokens.caller(BEARER)
    assert "secret" not in repr(tokens._known._known)
