"""The dashboard over HTTP: who sees what, how one signs in, and how large pages get."""

import re

import pytest

from admission.base.names import WorkloadKey
from admission.gpu import catalogue
from admission.scheduling.overview import Overview
from admission.visibility.dashboard import app, gpu_map, sessions, streams
from tests.visibility import dashboards
from tests.visibility.builders import waiting
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
    assert "those that wait ask for 24 gpu" in text
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


def test_a_queue_shows_who_waits_at_which_place_and_why_and_who_holds_most(board):
    text = board.text("/queues/research")
    assert re.search(r">1</td>.*train-0.*8 gpu.*needs 8 nvidia.com/gpu, 3 free", text, re.DOTALL)
    assert text.index("train-0") < text.index("train-1") < text.index("train-2")
    assert text.index("serve-0") < text.index("train-old")
    assert "about to leave" in text


def test_workloads_of_a_namespace_are_for_those_who_may_list_them():
    may = ("get clusterqueues research", "list workloads ml")
    assert "train-0" in Dashboard(*may).sign_in().text("/queues/research")
    text = Dashboard(may[0]).sign_in().text("/queues/research")
    assert text.count("a Workload that you may not see") == 5
    assert not re.search("train-|serve-0|8 nvidia", text)


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("/queues/research", "get clusterqueues research"),
        ("/namespaces/ml/workloads/train-0", "get workloads ml train-0"),
        ("/gpus", "list nodes"),
        ("/", "list clusterqueues"),
    ],
)
def test_each_page_needs_the_right_that_kubectl_needs(path, right):
    allowed = {*everything()} - {right, "list workloads"}
    answer = Dashboard(*allowed).sign_in().client.get(path)
    assert (answer.status_code, "cannot" in answer.text) == (403, True)
    assert Dashboard(right).sign_in().client.get(path).status_code == 200


def test_a_page_of_what_does_not_exist_says_so_only_to_those_who_may_know(board):
    board.reviews.allowed |= {"get clusterqueues gone", "get workloads ml gone"}
    board.known.gone.add(WorkloadKey("ml", "gone"))
    assert board.client.get("/queues/gone").status_code == 404
    assert board.client.get("/queues/other").status_code == 403


def test_a_workload_shows_its_place_its_reason_and_its_life(board):
    text = board.text("/namespaces/ml/workloads/train-0")
    assert "needs 8 nvidia.com/gpu" in text
    assert "for Pod train-0" in text


def test_gpus_are_drawn_with_holders_and_the_sick_ones_marked(board):
    text = board.text("/gpus")
    assert text.count("gpu: held by ml/train-0") == 5 * 2
    assert text.count("gpu: held outside of quota") == 2
    assert text.count("gpu: free, sick") == 2
    assert "XID 79" in text


def test_holders_of_gpus_are_named_to_those_who_may_list_the_pods():
    text = Dashboard("list nodes", "list pods other").sign_in().text("/gpus")
    assert "train-0" not in text
    assert text.count("gpu: held&#34;") + text.count("gpu: held<") >= 5


def test_instances_are_drawn_as_wide_as_the_memory_that_they_have(board):
    node = gpu_map.of(board.known.nodes[1], catalogue.load(), lambda *_: "")
    drawn = [[(one.label, one.start, one.span) for one in card.parts] for card in node.cards]
    assert drawn == [
        [("gpu", 1, 1)],
        [("3g.40gb", 1, 4), ("3g.40gb", 5, 4)],
        [("1g.10gb", number, 1) for number in range(1, 8)],
    ]


def test_the_largest_queue_and_the_largest_cluster_have_small_pages():
    members = [waiting(f"{'w' * 60}-{number:05}", at=number) for number in range(10_000)]
    board = Dashboard(*everything(), members=members).sign_in()
    for page in (1, 77, 200):
        text = board.text(f"/queues/research?page={page}")
        assert f">{(page - 1) * 50 + 1}</td>" in text
        assert len(text.encode()) < app.MOST_BYTES
    held = [("n" * 60, "p" * 60, {str(dashboards.GPU): 8})]
    board.known.nodes = tuple(
        dashboards.node(f"{'n' * 60}-{n}", {dashboards.GPU: 16}, held) for n in range(1_000)
    )
    assert len(board.text("/gpus?page=25").encode()) < app.MOST_BYTES
    assert "25 of 25" in board.text("/gpus?page=99")


def test_streams_tell_of_changes_and_nothing_else():
    board = Dashboard(*everything()).sign_in()
    answer = board.client.get("/changes", buffered=False)
    assert answer.content_type == "text/event-stream"
    events = iter(answer.iter_encoded())
    assert next(events) == b"retry: 3000\ndata: 0\n\n"
    assert next(events) == b": nothing new\n\n"
    board.known.changes = 7
    assert next(events) == b"data: 7\n\n"
    assert next(events) == b": nothing new\n\n"
    board.ending.set()
    assert list(events) == []


def test_a_page_says_which_revision_it_shows_and_a_stream_begins_with_the_present_one():
    board = Dashboard(*everything()).sign_in()
    assert 'data-revision="0"' in board.text("/")
    board.known.changes = 1
    events = iter(board.client.get("/changes", buffered=False).iter_encoded())
    assert b"data: 1\n" in next(events)
    assert 'data-revision="1"' in board.text("/queues/research")


def test_streams_are_few_and_those_that_end_make_room(board):
    opened = [board.client.get("/changes", buffered=False) for _ in range(streams.MOST)]
    assert {answer.status_code for answer in opened} == {200}
    assert board.client.get("/changes").status_code == 503
    opened[0].close()
    opened[1].close()
    assert board.client.get("/changes", buffered=False).status_code == 200


def test_a_stream_ends_by_itself(board):
    made = streams.Streams(lambda: 1, lambda _: False)
    with board.app.test_request_context():
        told = list(made.answer().iter_encoded())
    assert len(told) == 1 + streams.MOST_SECONDS / 2


def test_a_stream_needs_a_caller():
    assert Dashboard(*everything()).client.get("/changes").status_code == 303
