"""The dashboard over HTTP: who sees what, how one signs in, and how large pages get."""

import itertools
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from admission.base import amount, names
from admission.base.conditions import Text
from admission.base.names import ClusterQueueName, LocalQueueKey, PodCharge, WorkloadKey
from admission.gpu import catalogue
from admission.scheduling.overview import LocalOverview, Overview
from admission.serve.dashboard import (
    app,
    gpu_map,
    node_map,
    overview_page,
    streams,
    trend,
    viewers,
    waiting_rows,
)
from tests.serve import dashboards, scenes
from tests.serve.builders import waiting
from tests.serve.dashboards import TOKEN, Dashboard, everything


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
    assert cookie.startswith(f"{viewers.COOKIE}={TOKEN};")
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


def test_a_caller_who_may_not_list_cluster_queues_is_led_to_the_page_of_their_team():
    board = Dashboard("list cohorts", "list localqueues ml", "list workloads ml").sign_in()
    answer = board.client.get("/")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/namespaces")
    assert 'href="/namespaces/ml"' in board.text("/namespaces")
    text = board.text("/namespaces/ml")
    assert "12 GPUs of a100" in text
    assert "train-0" in text
    assert 'href="/queues/' not in text


def test_a_team_page_shows_nothing_of_other_namespaces():
    board = Dashboard("list localqueues ml", "list workloads ml").sign_in()
    other = LocalQueueKey("blue", "team")
    board.known.locals += (
        LocalOverview(
            key=other, cluster_queue=ClusterQueueName("research"), used={}, admitted={},
            running=0, pending=1,
        ),
    )  # fmt: skip
    assert "blue" not in board.text("/namespaces") + board.text("/namespaces/ml")
    assert board.client.get("/namespaces/blue").status_code == 403


def test_whoever_may_list_no_workloads_sees_the_local_queues_of_a_namespace_only():
    text = Dashboard("list localqueues ml").sign_in().text("/namespaces/ml")
    assert "12 GPUs of a100" in text
    assert "you may not list Workloads" in text
    assert "train-0" not in text


def test_the_quota_of_cohorts_is_for_those_who_may_list_them():
    seen = []
    for allowed in (everything(), ("list clusterqueues",)):
        board = Dashboard(*allowed).sign_in()
        board.known.found = Overview((), (dashboards.cohort("gpus", nominal=77),))
        seen.append("77" in board.text("/quota"))
    assert seen == [True, False]


def test_the_tree_shows_what_is_used_borrowed_given_back_and_awaited(board):
    text = board.text("/quota")
    places = [text.index(f">{name}<") for name in ("gpus", "research", "serving", "lab")]
    assert places == sorted(places)
    assert "12 of 8 used, 4 of it borrowed" in text
    assert "2 of 8 used, 2 about to be given back" in text
    assert "14 of 16 used" in text
    assert "those that wait ask for 24 gpu" in text
    assert "Can&#39;t admit new workloads: is stopped." in text


def test_the_first_page_says_in_its_heading_who_waits_longest_and_why(board):
    text = board.text("/")
    head = re.sub(r"<[^>]+>|\s+", " ", text[text.index("<h1") : text.index('class="tiles"')])
    assert re.search(
        "18 of 24 GPUs of quota allocated; 3 Workloads wait, the longest for +3h", head
    )
    assert re.search(r"ml/ ?train-0.*asks for 8 GPUs in +research", head)
    assert "Needs 8 nvidia.com/gpu, 3 free of 16" in head


@pytest.mark.parametrize("path", ["/", "/queues/speech", "/namespaces/speech"])
def test_all_ages_of_a_page_are_of_one_moment(path, monkeypatch):
    shown = scenes.small().sign_in()
    moments = (dashboards.NOW + timedelta(hours=number) for number in itertools.count())
    monkeypatch.setattr(shown.clock, "now", moments.__next__)
    text = shown.text(path)
    ages = re.findall(r'<time class="ago" datetime="([^"]+)"[^>]*>([^<]+)', text)
    assert len(set(ages)) == len({since for since, _ in ages}) > 1
    if path == "/":
        assert text.count(">2d</time>") == 3, "heading, tile and row"
        assert not re.search(r"(longest|for) +\d+[smhd]", text), "the browser lets all grow"


def test_those_that_wait_longest_stand_first_whatever_their_queue(board):
    board.known.add_line("serving", waiting("early", at=dashboards.ago(50)))
    text = board.text("/")
    table = text[text.index('id="waiting"') :]
    places = [table.index(name) for name in ("early", "train-0", "train-1", "train-2")]
    assert places == sorted(places)
    assert ">2d</time>" in table


def test_numbers_about_nodes_are_unknown_to_those_who_may_not_list_nodes(board):
    def numbers(text: str) -> dict[str, str]:
        found = re.findall(r'"label">([^<]+)</span>\s*<span class="value"><b>([^<]+)<', text)
        return dict(found)

    known = numbers(board.text("/"))
    assert known["Free on one node"] == "1"
    assert known["Sick"] == "1"
    assert known["Held without a node"] == "5"
    text = Dashboard("list clusterqueues").sign_in().text("/")
    unknown = numbers(text)
    assert {unknown[one] for one in ("Free on one node", "Sick")} == {"?"}
    assert unknown["Held without a node"] == "5"
    assert "needs the right to list nodes" in text


def _tiles(board: Dashboard, path: str = "/") -> dict[str, str]:
    """What stands in each tile, without its label."""
    tiles = re.findall(
        r'<span class="label">([^<]+)</span>(.*?)</li>', board.text(path), re.DOTALL
    )
    return {
        label: " ".join(re.sub(r"<[^>]+>", " ", tile).split()).replace(" ;", ";")
        for label, tile in tiles
    }


def test_tiles_say_what_of_it_is_quota_what_of_it_ends_and_what_nobody_gets():
    board = scenes.small().sign_in()
    tiles = _tiles(board)
    assert tiles["Allocated quota"] == "27 of 30 3 of them held by what is ending"
    assert tiles["Sick"] == "2 on 1 node; not free for anybody"
    assert tiles["Waiting"] == "4 Workloads ask for 87 GPUs; longest 2d"


def test_the_tile_of_those_that_wait_counts_for_the_sum_only_those_that_ask_for_it():
    board = scenes.small().sign_in()
    for key in list(board.known.asked)[1:]:
        board.known.asked[key] = 0
    assert _tiles(board)["Waiting"].startswith("4 Workloads 1 of them asks for 87 GPUs;")
    lines = board.known.pending()
    board.known.clear()
    board.known.add_line("speech", lines[ClusterQueueName("speech")].members[0].workload)
    assert _tiles(board)["Waiting"] == "1 Workload asks for 87 GPUs; longest 2d"


def test_what_there_is_one_of_is_told_in_the_singular(board):
    alone = dashboards.queue("research", "", 1, 1, pending=1, requested={dashboards.GPU: 1})
    board.known.found = Overview((alone,), ())
    board.known.clear()
    board.known.add_line("research", waiting("late", at=dashboards.ago(1)))
    text = board.text("/")
    assert "1 of 1 GPU of quota allocated; 1 Workload waits" in text
    assert "asks for 1 GPU; longest" in text
    day = int(dashboards.NOW.timestamp()) // 86_400 * 86_400
    board.known.of_gpu_time = (dashboards.record(day, {f"q{n}": 10 - n for n in range(9)}),)
    assert "1 other queue <b>" in board.text("/")
    assert "which asks for 1 GPU</small>" in board.text("/queues/research")


def test_quota_without_a_limit_is_called_so(board):
    endless = dashboards.queue("endless", nominal=amount.UNLIMITED, used=3)
    board.known.found = Overview((endless,), ())
    assert "3 GPUs of unlimited quota allocated" in board.text("/")


def test_a_queue_that_counts_other_than_gpus_shows_what_it_counts(board):
    gi = 2**30
    memory = dashboards.queue(
        "memory",
        quotas=dashboards.quota_of("a100", 160 * gi, names.GPU_MEMORY),
        amounts=dashboards.on("a100", 80 * gi, names.GPU_MEMORY),
        pending=1,
    )
    nothing = dashboards.queue("nothing", quotas={}, amounts={}, pending=1)
    whole = dashboards.queue("whole", nominal=8, used=2)
    board.known.found = Overview((memory, nothing, whole), ())
    for path in ("/", "/quota"):
        rows = board.text(path).partition('class="queues')[2]
        assert '0<span class="of"> / 0</span>' not in rows
        assert "no quota" in rows
    rows = board.text("/").partition('id="queues"')[2]
    assert '80Gi<span class="of"> / 160Gi</span>' in rows
    assert '<span class="note">gpu-memory</span>' in rows
    assert '2<span class="of"> / 8</span>' in rows
    assert "+" not in rows.partition("</ul>")[0]


def test_that_something_never_starts_is_a_warning_with_red_words():
    board = scenes.small().sign_in()
    for path in ("/", "/namespaces/speech/workloads/train-large"):
        text = board.text(path)
        assert '<p class="verdict">' in text
        assert re.search(r'<span class="bad">(It never|Never) starts as it is\.</span>', text)


def test_queues_that_wait_for_most_stand_first_and_those_that_admit_nothing_say_why(board):
    text = board.text("/")
    rows = text[text.index('id="queues"') :]
    places = [rows.index(f">{name}<") for name in ("research", "lab", "serving")]
    assert places == sorted(places)
    assert "+24" in rows
    assert "is stopped" in rows


def test_a_text_that_is_looked_for_is_kept_in_the_address_and_narrows_both_lists(board):
    text = board.text("/?q=TRAIN-1")
    assert "1 of 3 match" in text
    assert "train-2" not in text[text.index('id="waiting"') :]
    assert 'value="train-1"' in text
    assert "serving" not in text[text.index('id="queues"') : text.index('id="week"')]
    assert "Show all 3" in board.text("/?q=nothing-like-it")


@pytest.mark.parametrize("path", ["/", "/quota", "/gpus", "/queues/research"])
def test_an_address_cannot_say_where_the_links_of_a_page_lead(board, path):
    text = board.text(f"{path}?_scheme=javascript&_external=1&_anchor=x&endpoint=login&name=y&q=a")
    assert "javascript:" not in text
    assert "http:" not in text.replace("http-equiv", "")


def test_a_search_finds_nothing_in_namespaces_that_the_caller_may_not_see():
    board = Dashboard("list clusterqueues").sign_in()
    assert "0 of 3 match" in board.text("/?q=train-1")


@pytest.mark.parametrize("asked", ["cpu", "nvidia.com/gpu", "nothing"])
def test_another_resource_than_gpus_is_shown_on_request(board, asked):
    quotas = {**dashboards.queue("x").quotas, **dashboards.quota_of("any", 64_000, "cpu")}
    used = {**dashboards.on("a100", 3), **dashboards.on("any", 9_000, "cpu")}
    board.known.found = Overview((dashboards.queue("mixed", quotas=quotas, amounts=used),), ())
    text = board.text(f"/?resource={asked}")
    assert ("9 of 64 cpu of quota allocated" in text) is (asked == "cpu")
    assert ("3 of 8 GPUs of quota allocated" in text) is (asked != "cpu")
    assert "Free on one node" not in text or asked != "cpu"


def test_a_week_of_gpu_time_is_shown_to_those_who_may_read_the_records(board):
    day = int(dashboards.NOW.timestamp()) // 86_400 * 86_400
    board.known.of_gpu_time = (
        dashboards.record(day - 86_400, {"research": 48, "serving": 24}),
        dashboards.record(day, {"research": 8}),
    )
    text = board.text("/")
    assert "GPU-hours by queue, 80 in all" in text
    assert "Wed 07: 72 GPU-hours (research 48, serving 24)" in text
    assert "Thu 08: 8 GPU-hours (research 8)" in text
    assert "Tue 06: no record" in text
    board.reviews.allowed.discard("list configmaps gpu-admission-system")
    board = Dashboard(*set(everything()) - {"list configmaps gpu-admission-system"}).sign_in()
    assert "you may not list the ConfigMaps of namespace gpu-admission-system" in board.text("/")


def test_the_columns_of_a_week_lie_as_their_legend_reads(board):
    day = int(dashboards.NOW.timestamp()) // 86_400 * 86_400
    hours = {f"queue-{n}": 40 - n for n in range(9)} | {"lab": 4, "research": 48}
    week = trend.of([dashboards.record(day, hours)], dashboards.GPU, [], dashboards.NOW)
    column = week.columns[-1]
    from_above = sorted(column.parts, key=lambda part: part.top)
    assert [part.shade for part in from_above] == [entry.shade for entry in week.legend]
    assert (week.legend[0].name, week.legend[-1].count) == ("research", 3)


def test_below_the_legend_of_a_week_only_marks_are_explained_that_it_has(board):
    day = int(dashboards.NOW.timestamp()) // 86_400 * 86_400
    days = [dashboards.record(day - back * 86_400, {"research": 9 - back}) for back in range(7)]
    board.known.of_gpu_time = tuple(reversed(days))
    assert ">most on Thu 08: 9</li>" in board.text("/")
    board.known.of_gpu_time = (replace(days[0], holes=((day, day + 60),)), *days[2:])
    text = board.text("/")
    assert ">most on Thu 08: 9; * something is missing; dashed: no record</li>" in text
    assert "Thu 08*</span>" in text
    board.known.of_gpu_time = tuple(days[1:])
    assert ">most on Wed 07: 8; dashed: no record</li>" in board.text("/")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0"),
        (100, "<0.1"),
        (3_240, "0.9"),
        (3_600, "1"),
        (9_900, "2.8"),  # half a tenth is rounded up, as in kubectl gpu usage
        (359_999, "100"),
        (4_000_000, "1,111"),
    ],
)
def test_hours_are_rounded_and_told_to_a_tenth_where_there_are_few(seconds: int, told: str):
    assert trend._hours(seconds) == told


def test_pages_without_anything_say_what_to_do_next(board):
    board.known.found = Overview()
    board.known.clear()
    assert "gpu-admission init --team" in board.text("/")
    assert "There is no ClusterQueue yet, so GPU pods start without quota" in board.text("/")
    board.known.nodes = ()
    assert "kubectl gpu doctor" in board.text("/gpus")


def test_names_are_text_and_never_markup(board):
    board.known.found = Overview((dashboards.queue("<img src=x>"),), ())
    assert "<img" not in board.text("/") + board.text("/quota")


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
    for path in (f"/quota?page={page}", f"/?queues={page}"):
        assert len(board.text(path).encode()) < app.MOST_BYTES


def test_a_queue_shows_who_waits_at_which_place_and_why_and_who_holds_most(board):
    text = board.text("/queues/research")
    assert re.search(r">1</td>.*train-0.*8 GPUs.*Needs 8 nvidia.com/gpu, 3 free", text, re.DOTALL)
    assert text.index("train-0") < text.index("train-1") < text.index("train-2")
    assert text.index("serve-0") < text.index("train-old")
    assert "about to leave" in text


def test_what_is_charged_besides_workloads_is_named_in_words_and_leads_nowhere(board):
    by_itself = replace(board.known.holding[0], key=PodCharge("ml", "serve-0"))
    board.known.holding = (by_itself,)
    text = board.text("/queues/research")
    assert re.search(r'<span><span class="ns">ml/</span>pod serve-0</span>', text)
    assert "pod charged by itself" in text
    assert "workloads/serve-0" not in text


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
        ("/gpus/dgx-0", "get nodes dgx-0"),
        ("/quota", "list clusterqueues"),
        ("/namespaces/ml", "list localqueues ml"),
    ],
)
def test_each_page_needs_the_right_that_kubectl_needs(path, right):
    allowed = {*everything()} - {right, "list workloads", "list localqueues"}
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
    assert "What to do: <code>kubectl gpu why workload/train-0 -n ml</code>" in text
    assert re.search(r"<dt>Waits</dt><dd><time[^>]*>\d+[smhd]", text)
    assert "Needs 8 nvidia.com/gpu" in text
    assert "for Pod train-0" in text


def test_one_that_never_starts_has_no_place_and_others_pass_it_unless_its_queue_is_strict():
    board = scenes.small().sign_in()
    paths = "/", "/queues/speech", "/namespaces/speech"
    for path in paths:
        table = board.text(path).partition('<table class="waiting">')[2]
        row, behind = re.findall(r"<tr.*?</tr>", table, re.DOTALL)[1:3]
        assert "train-large" in row
        assert "BestEffortFIFO: what fits starts" in row
        assert not re.search(r"place \d|>\d</td>", row)
        assert re.search(r"place 2|>2</td>", behind)
    whole = "/namespaces/speech/workloads/train-large"
    assert "<dt>Place</dt>" not in board.text(whole)
    queues = tuple(replace(queue, is_strict=True) for queue in board.known.found.queues)
    board.known.found = replace(board.known.found, queues=queues)
    for path in paths:
        text = board.text(path)
        assert "train-large" in text
        assert "BestEffortFIFO" not in text
        assert "others pass it" not in text


def test_whoever_may_not_read_a_queue_does_not_learn_its_strategy():
    board = scenes.small()
    board.reviews.allowed.discard("list clusterqueues")
    text = board.sign_in().text("/namespaces/speech")
    assert "never starts" in text
    assert "others pass it" not in text


def test_a_controller_that_stands_by_shows_what_the_workload_says(board, monkeypatch):
    told = [
        {"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota",
         "lastTransitionTime": "2026-01-08T08:00:00Z",
         "message": "couldn't assign flavors to pod set main: insufficient unused quota for "
         "nvidia.com/gpu in flavor a100, 5 more needed"},
    ]  # fmt: skip
    monkeypatch.setattr(board.known, "waits", lambda keys: (None,) * len(keys))
    assert "Not tried yet." in board.text("/")
    board.known.conditions = told
    assert "Needs 5 more a100." in board.text("/")
    assert "Needs 5 more a100." in board.text("/namespaces/ml/workloads/train-0")


def test_a_reason_stands_under_its_heading_without_saying_again_that_it_waits(board):
    said = "Waits for a retry at 10:00."
    missing = "Waits: needs 8 a100, 3 free of 16; 4 more promised, but sick or missing."
    for message, shown in ((said, said), (missing, missing.removeprefix("Waits: n"))):
        text = Text("WaitingForQuota", message)
        assert waiting_rows._in_short(text)[0].endswith(shown)
        assert not waiting_rows._in_short(text)[0].startswith("Waits: ")


def test_the_map_counts_who_holds_the_gpus_of_each_node(board):
    text = board.text("/gpus")
    told = "dgx-0. GPU: 1 held outside of quota, 5 research, 1 free, 1 sick"
    assert f'aria-label="{told}"' in text
    assert 'href="/gpus/dgx-0"' in text
    assert "3g.40gb: 2 free" in text


def test_queues_are_named_on_the_map_to_those_who_may_list_them():
    text = Dashboard("list nodes").sign_in().text("/gpus")
    assert "research" not in text
    assert "5 held" in text


def test_the_map_is_grouped_by_a_level_of_topology(board):
    board.known.nodes = tuple(
        dashboards.node(f"node-{n}", {str(dashboards.GPU): 8}, zone=f"zone-{n % 2}", rack=f"r{n}")
        for n in range(4)
    )
    text = board.text("/gpus?by=topology.kubernetes.io/zone")
    assert re.findall(r"zone-\d</a> <small>(\d) nodes, (\d+) of 16", text) == [("2", "16")] * 2
    assert ">zone-0</a>" in text
    text = board.text("/gpus?by=topology.kubernetes.io/zone&group=zone-1")
    assert "node-1" in text
    assert "node-2" not in text
    assert "node-2" in board.text("/gpus?q=r2")


def test_a_node_says_what_is_known_and_what_is_a_guess(board):
    text = board.text("/gpus/dgx-0")
    assert text.count("gpu: held by ml/train-0") == 5 * 2
    assert text.count("gpu: held outside of quota") == 2
    assert text.count("gpu: free, sick") == 2
    assert "XID 79" in text
    assert text.index("as the API server says</small>") < text.index(
        "a guess which pod is on which"
    )


def test_holders_of_gpus_are_named_to_those_who_may_list_the_pods():
    text = Dashboard("get nodes dgx-0", "list pods other").sign_in().text("/gpus/dgx-0")
    assert "train-0" not in text
    assert "a pod that you may not see" in text
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
    for path in ("/", "/?page=399", "/?q=w", "/namespaces/ml?page=9"):
        assert len(board.text(path).encode()) < app.MOST_BYTES
    board.known.nodes = dashboards.large_cluster(5_000)
    whole, rack = "/gpus?by=topology.kubernetes.io/rack", "/gpus?by=nvidia.com/gpu.product&group="
    for path in (whole, f"{whole}&page=2", f"{rack}NVIDIA-A100-SXM4-80GB&page=20", "/", "/gpus"):
        assert len(board.text(path).encode()) < app.MOST_BYTES, path
    assert "20 of 20" in board.text(f"{rack}NVIDIA-A100-SXM4-80GB&page=99")
    assert "Choose a group" in board.text(whole)


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


def test_beside_one_that_never_starts_page_1_names_who_waits_longest_of_those_that_can():
    row = waiting_rows.WaitingRow
    never, hidden = row(key=WorkloadKey("ml", "huge"), never=True), row(key=None)
    first, second = row(key=WorkloadKey("ml", "a")), row(key=WorkloadKey("ml", "b"))
    for rows, said in (
        ([never, hidden, first, second], first),
        ([first, never, second], None),
        ([never], None),
        ([], None),
    ):
        assert overview_page.first_that_starts(rows) is said


def test_nodes_that_are_too_many_to_draw_are_told_by_group(board):
    board.known.nodes = tuple(
        dashboards.node(f"n{number}", {dashboards.GPU: 8}, [("ml", "p", {str(dashboards.GPU): 3})])
        for number in range(node_map.PAGE + 1)
    )
    text = board.text("/gpus")
    assert f"{3 * 251} held, {5 * 251} free, 0 sick" in text
    assert "1,255 of 2,008 free</span>" in text
    assert "at most 5 on a node" in text
