"""The dashboard over HTTP: who sees what, how one signs in, and how large pages get."""

import re

import pytest

from admission.scheduling.overview import Overview
from admission.visibility.dashboard import app, sessions
from tests.visibility import dashboards
from tests.visibility.dashboards import TOKEN, Dashboard, everything


@pytest.fixture
def board() -> Dashboard:
    return Dashboard(*everything()).sign_in()


def test_whoever_is_not_known_is_asked_to_sign_in():
    answer = Dashboard(*everything()).client.get("/")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login")


def test_a_token_that_is_not_good_in_a_header_is_refused():
    board = Dashboard(*everything())
    assert board.client.get("/", headers={"Authorization": "Bearer bad"}).status_code == 401


def test_a_proxy_may_send_the_token_of_the_caller():
    board = Dashboard(*everything())
    answer = board.client.get("/", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200


def test_a_good_token_goes_into_a_cookie_that_neither_scripts_nor_other_sites_use():
    answer = Dashboard(*everything()).client.post("/login", data={"token": TOKEN})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"{sessions.COOKIE}={TOKEN};")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Expires" not in cookie


@pytest.mark.parametrize(
    ("token", "said"),
    [("bad", "does not accept"), ("", "does not accept"), ("x" * 4_000, "too long for a cookie"),
     ("a b", "does not accept"), ("ü", "does not accept")],
)  # fmt: skip
def test_a_token_that_cannot_be_used_is_told_so_and_not_kept(token, said):
    answer = Dashboard(*everything()).client.post("/login", data={"token": token})
    assert answer.status_code == 401
    assert said in answer.text
    assert "Set-Cookie" not in answer.headers


def test_signing_out_forgets_the_token(board):
    assert board.client.post("/logout").headers["Location"] == "/login"
    assert board.client.get("/").status_code == 303


def test_no_page_runs_scripts_of_others_or_is_kept(board):
    for path in ("/", "/login", "/nothing"):
        headers = board.client.get(path).headers
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
        assert "unsafe" not in headers["Content-Security-Policy"]


def test_pages_have_no_script_or_style_of_their_own(board):
    for path in ("/", "/login"):
        text = board.client.get(path).text
        assert not re.search(r"<script(?! src)|<style|\sstyle=|\son[a-z]+=", text)


def test_nothing_but_signing_in_and_out_can_be_posted(board):
    assert board.client.post("/").status_code == 405


def test_a_caller_who_may_not_list_cluster_queues_is_told_what_is_missing():
    answer = Dashboard("list cohorts").sign_in().client.get("/")
    assert answer.status_code == 403
    assert "cannot list resource" in answer.text
    assert "research" not in answer.text


def test_the_quota_of_cohorts_is_for_those_who_may_list_them():
    seen = []
    for allowed in (everything(), ("list clusterqueues",)):
        board = Dashboard(*allowed).sign_in()
        board.known.found = Overview((), (dashboards.cohort("gpus", nominal=77),))
        seen.append("77" in board.text("/"))
    assert seen == [True, False]


def test_the_tree_shows_what_is_used_borrowed_given_back_and_awaited(board):
    text = board.text("/")
    places = [text.index(f">{name}<") for name in ("gpus", "research", "serving", "lab")]
    assert places == sorted(places)
    assert "12 of 8 used, 4 of it borrowed" in text
    assert "2 of 8 used, 2 about to be given back" in text
    assert "14 of 16 used" in text
    assert "wait for 24 gpu" in text
    assert "does not admit" in text


def test_names_are_text_and_never_markup(board):
    board.known.found = Overview((dashboards.queue("<img src=x>"),), ())
    assert "<img" not in board.text("/")


@pytest.mark.parametrize("page", ["1", "9", "17", "18", "-1", "x", "99999999999999999999"])
def test_with_a_thousand_queues_a_page_stays_small(page):
    board = Dashboard(*everything()).sign_in()
    flavors = [f"flavor-{number}" for number in range(16)]
    quotas = {
        pair: one
        for flavor in flavors
        for pair in dashboards.on(flavor, 8)
        for one in dashboards.queue("x").quotas.values()
    }
    used = dict.fromkeys(quotas, 9)
    board.known.found = Overview(
        tuple(
            dashboards.queue(f"{'q' * 50}-{n:04}", f"cohort-{n % 9}", quotas=quotas, amounts=used)
            for n in range(1_000)
        ),
        tuple(dashboards.cohort(f"cohort-{n}") for n in range(9)),
    )
    assert len(board.text(f"/?page={page}").encode()) < app.MOST_BYTES
