"""The visibility API over HTTP: who gets an answer, which, and how refusals look."""

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from unittest import mock

import pytest
from flask.testing import FlaskClient

from admission.base import names
from admission.base.names import ClusterQueueName, LocalQueueKey
from admission.kube import resources
from admission.kube.errors import TransportError
from admission.kube.resources import Resource
from admission.objects import usage_record
from admission.objects.usage_record import (
    Account,
    OwnerAccount,
    Period,
    Record,
    RecordedOwner,
    Runs,
)
from admission.sandbox.store import Store
from admission.serve import discovery, lists, statuses, visibility
from admission.serve import probes as own_pages
from admission.serve.callers import FrontProxy
from admission.serve.usage_records import MOST, UsageRecords
from tests.builders.cluster import make_namespace
from tests.clocks import FakeClock
from tests.controlplane.waiting import PATIENCE_SECONDS
from tests.serve.builders import Lines, line, waiting

GROUP = "visibility.kueue.x-k8s.io"
ROOT = f"/apis/{GROUP}/v1beta2"
ALL = f"{ROOT}/clusterqueues/gpus/pendingworkloads"
OWN = f"{ROOT}/namespaces/ml/localqueues/team/pendingworkloads"
USAGE = f"{ROOT}/namespaces/ml/gpuusagerecords"
SYSTEM = names.SYSTEM_NAMESPACE
LINE = line(waiting("train"))
PROXY = FrontProxy(
    authority="PEM",
    names=frozenset({"proxy"}),
    user_headers=("X-Remote-User",),
    group_headers=("X-Remote-Group",),
)


class Reviews:
    """Allows what it was told to; answers TokenReviews for the token ``good``."""

    def __init__(self) -> None:
        self.allowed: dict[str, bool] = {}
        self.asked: list[Any] = []
        self.error: Exception | None = None

    def create(self, resource: Resource, obj: Mapping[str, Any], /) -> dict[str, Any]:
        spec = obj["spec"]
        self.asked.append(spec)
        if self.error:
            raise self.error
        if resource.kind == "TokenReview":
            good = spec["token"] == "good"
            return {"status": {"authenticated": good, "user": {"username": "bearer"}}}
        return {"status": {"allowed": self.allowed.get(spec["user"], False), "reason": "RBAC"}}


class Served:
    """The application, asked as the TLS server asks it."""

    def __init__(self) -> None:
        self.reviews = Reviews()
        self.source = Lines({ClusterQueueName("gpus"): LINE, LocalQueueKey("ml", "team"): LINE})
        self.clock = FakeClock()
        self.of_store = FakeClock(datetime.fromtimestamp(0, UTC))
        self.store = Store(clock=self.of_store)
        for name in (SYSTEM, "ml"):
            self.store.create(resources.NAMESPACES, make_namespace(name))
        app = visibility.create_app(
            self.source,
            UsageRecords(self.store, SYSTEM),
            self.reviews,
            self.clock,
            lambda: PROXY,
        )
        self.client = app.test_client()

    def get(
        self,
        path: str,
        user: str = "",
        *,
        groups: Iterable[str] = (),
        peer: str | None = "proxy",
        method: str = "GET",
        headers: Iterable[tuple[str, str]] = (),
    ) -> Any:
        sent = [*headers]
        sent += [("X-Remote-User", user)] if user else []
        sent += [("X-Remote-Group", group) for group in groups]
        environ = {visibility.PEER: peer, visibility.HEADERS: tuple(sent)}
        return self.client.open(
            path, method=method, headers=dict(headers), environ_overrides=environ
        )


@pytest.fixture
def served() -> Served:
    made = Served()
    made.reviews.allowed["alice"] = True
    return made


@pytest.mark.parametrize("path", [ALL, OWN])
def test_a_user_who_may_gets_the_list(served, path):
    answer = served.get(path, "alice")
    assert (answer.status_code, answer.content_type) == (200, "application/json")
    assert answer.json["kind"] == "PendingWorkloadsSummary"
    assert [item["metadata"]["name"] for item in answer.json["items"]] == ["train"]


def test_the_older_version_answers_in_its_own_name(served):
    answer = served.get(ALL.replace("v1beta2", "v1beta1"), "alice")
    assert answer.json["apiVersion"] == f"{GROUP}/v1beta1"


def test_the_api_server_is_asked_about_the_user_and_the_very_queue(served):
    served.get(f"{OWN}?limit=1", "alice", groups=["team-a", "system:authenticated"])
    assert served.reviews.asked == [
        {
            "user": "alice",
            "groups": ["team-a", "system:authenticated"],
            "resourceAttributes": {
                "verb": "get",
                "group": GROUP,
                "version": "v1beta2",
                "resource": "localqueues",
                "subresource": "pendingworkloads",
                "namespace": "ml",
                "name": "team",
            },
        }
    ]


def test_an_answer_is_good_for_ten_seconds_and_for_nobody_else(served):
    for _ in range(3):
        served.get(ALL, "alice")
    assert len(served.reviews.asked) == 1
    assert served.get(ALL, "bob").status_code == 403
    assert served.get(ALL, "alice", groups=["more"]).status_code == 200
    assert len(served.reviews.asked) == 3
    served.clock.advance(11)
    served.reviews.allowed["alice"] = False
    assert served.get(ALL, "alice").status_code == 403


def test_a_user_who_may_not_is_told_what(served):
    answer = served.get(OWN, "bob")
    assert answer.status_code == 403
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": (
            f'localqueues.{GROUP} "team" is forbidden: User "bob" cannot get resource '
            f'"localqueues/pendingworkloads" in API group "{GROUP}" in the namespace "ml": RBAC'
        ),
        "reason": "Forbidden",
        "details": {"name": "team", "group": GROUP, "kind": "localqueues"},
        "code": 403,
    }
    assert "at the cluster scope" in served.get(ALL, "bob").json["message"]


@pytest.mark.parametrize("path", [ALL, "/apis", "/openapi/v2", "/", "/metrics", f"{ROOT}/x"])
def test_nobody_gets_anything_without_a_name(served, path):
    for peer in (None, "somebody"):
        answer = served.get(path, "alice", peer=peer)
        assert answer.status_code == 401
        assert answer.json["reason"] == "Unauthorized"
    assert served.reviews.asked == []


def test_a_path_is_allowed_or_not_before_it_is_looked_for(served):
    assert served.get("/metrics", "bob").json["message"] == (
        'forbidden: User "bob" cannot get path "/metrics": RBAC'
    )
    answer = served.get("/metrics", "alice")
    assert (answer.status_code, answer.json["reason"]) == (404, "NotFound")


def test_the_api_server_itself_is_not_asked_about(served):
    answer = served.get("/apis", "system:kube-aggregator", groups=["system:masters"])
    assert answer.status_code == 200
    assert served.reviews.asked == []


def test_a_token_names_its_owner(served):
    served.reviews.allowed["bearer"] = True
    good, bad = ([("Authorization", f"Bearer {token}")] for token in ("good", "bad"))
    assert served.get(ALL, peer=None, headers=good).status_code == 200
    assert served.get(ALL, peer=None, headers=bad).status_code == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_list_can_only_be_read(served, method):
    answer = served.get(ALL, "alice", method=method)
    assert (answer.status_code, answer.json["reason"]) == (405, "MethodNotAllowed")
    verb = served.reviews.asked[-1]["resourceAttributes"]["verb"]
    assert verb == {"POST": "create", "PUT": "update"}.get(method, method.lower())
    assert served.get(ALL, "bob", method=method).status_code == 403


@pytest.mark.parametrize("method", ["OPTIONS", "POST"])
def test_other_methods_on_other_paths_are_refused_too(served, method):
    assert served.get("/apis", "alice", method=method).status_code == 405


def test_the_queues_themselves_can_do_nothing(served):
    for path in (f"{ROOT}/clusterqueues", f"{ROOT}/clusterqueues/gpus", f"{ROOT}/localqueues"):
        assert served.get(path, "alice").status_code == 404


def test_an_unknown_queue_and_a_bad_parameter_are_told(served):
    answer = served.get(ALL.replace("gpus", "none"), "alice")
    assert (answer.status_code, answer.json["details"]["kind"]) == (404, "clusterqueue")
    answer = served.get(f"{ALL}?offset=x", "alice")
    assert (answer.status_code, answer.json["reason"]) == (400, "BadRequest")


def test_parameters_choose_the_part(served):
    assert served.get(f"{ALL}?offset=1", "alice").json["items"] == []
    assert served.get(f"{ALL}?limit=-1", "alice").json["items"] == []


def test_a_controller_that_does_not_know_yet_says_when_to_ask_again(served):
    def line_of(_):
        raise statuses.not_ready("the controller has not listed everything yet")

    served.source.line = line_of
    answer = served.get(ALL, "alice")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json["details"] == {"retryAfterSeconds": 1}


def test_one_list_is_made_at_a_time(served):
    asked, go_on = threading.Event(), threading.Event()
    line_of = served.source.line

    def slowly(queue):
        asked.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return line_of(queue)

    served.source.line = slowly
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(served.get, ALL, "alice")
        assert asked.wait(PATIENCE_SECONDS)
        with mock.patch.object(visibility, "_TURN_SECONDS", 0):
            second = served.get(OWN, "alice")
        go_on.set()
        assert first.result(PATIENCE_SECONDS).status_code == 200
    assert (second.status_code, second.headers["Retry-After"]) == (503, "1")
    assert served.get(OWN, "alice").status_code == 200


def test_nothing_is_shown_while_the_api_server_does_not_say_who_may(served):
    served.reviews.error = TransportError("timed out")
    answer = served.get(ALL, "alice")
    assert answer.status_code == 500
    assert answer.json["reason"] == "InternalError"
    assert "timed out" not in answer.text


def test_a_mistake_of_ours_is_a_status_too(served):
    served.source.line = lambda _: 1 / 0
    answer = served.get(ALL, "alice")
    assert (answer.status_code, answer.json["code"]) == (500, 500)


# ------------------------------------------------------------------------------------- GPU-time


def add_record(served: Served, begin: int, *namespaces: str) -> None:
    record = Record(
        begin=begin,
        until=begin + 3600,
        usage={Account(one, f"of-{one}", "default", f"user-{one}", "a100", "gpu"): 5
               for one in namespaces},
        runs={RecordedOwner(one, "Job", f"job-{one}"): Runs(1, 5, 5) for one in namespaces},
        owners={OwnerAccount(one, "Job", f"job-{one}", "gpu"): 5 for one in namespaces},
        owners_from=begin,
    )  # fmt: skip
    served.store.create(resources.CONFIG_MAPS, usage_record.document(record, Period.HOUR, SYSTEM))


def test_a_namespace_gets_its_own_rows_and_no_word_of_others(served):
    add_record(served, 0, "ml", "prod", "")
    answer = served.get(USAGE, "alice")
    assert (answer.status_code, answer.json["kind"]) == (200, "GpuUsageRecordList")
    assert "prod" not in answer.text
    (item,) = answer.json["items"]
    assert item["kind"] == "GpuUsageRecord"
    assert item["metadata"]["namespace"] == "ml"
    record = usage_record.read(item)
    assert {account.namespace for account in record.usage} == {"ml"}
    assert list(record.runs) == [RecordedOwner("ml", "Job", "job-ml")]
    assert list(record.owners) == [OwnerAccount("ml", "Job", "job-ml", "gpu")]
    assert record.is_partial


def test_a_namespace_gets_no_record_that_ends_before_it_was_created(served):
    """Its name may have been that of another team; ``ml`` was created at 5000."""
    served.store.delete(resources.NAMESPACES, "ml")
    for begin in (0, 3600, 7200):
        add_record(served, begin, "ml")
    assert served.get(USAGE, "alice").json["items"] == []
    served.of_store.advance(5000)
    served.store.create(resources.NAMESPACES, make_namespace("ml"))
    items = served.get(USAGE, "alice").json["items"]
    assert [usage_record.read(item).begin for item in items] == [3600, 7200]


def test_the_api_server_is_asked_about_the_usage_of_the_very_namespace(served):
    served.get(f"{USAGE}?limit=1", "alice")
    assert served.reviews.asked[-1]["resourceAttributes"] == {
        "verb": "list",
        "group": GROUP,
        "version": "v1beta2",
        "resource": "gpuusagerecords",
        "namespace": "ml",
    }
    assert served.get(USAGE, "bob").status_code == 403
    assert served.get(USAGE, "alice", method="DELETE").status_code == 405
    assert served.reviews.asked[-1]["resourceAttributes"]["verb"] == "deletecollection"
    assert served.get(f"{ROOT}/gpuusagerecords", "alice").status_code == 404


@pytest.mark.parametrize("limit", ["", "&limit=-1", "&limit=0", "&limit=100000"])
def test_a_page_of_usage_has_few_records_whatever_is_asked_for(served, limit):
    for hour in range(MOST + 3):
        add_record(served, hour * 3600, "ml")
    first = served.get(f"{USAGE}?labelSelector=x{limit}", "alice").json
    assert len(first["items"]) == MOST
    token = first["metadata"]["continue"]
    second = served.get(f"{USAGE}?continue={token}{limit}", "alice").json
    assert len(second["items"]) == 3
    assert "continue" not in second["metadata"]


def test_a_record_that_cannot_be_read_is_there_without_its_data(served):
    spoilt = usage_record.document(Record(begin=0, until=9), Period.HOUR, SYSTEM)
    data = {"record.json": "of prod"}
    served.store.create(resources.CONFIG_MAPS, {**spoilt, "data": data})
    answer = served.get(USAGE, "alice")
    assert [item["data"] for item in answer.json["items"]] == [{}]
    assert "prod" not in answer.text


def test_a_token_that_is_none_is_refused_and_a_store_that_is_away_says_when_to_ask_again(served):
    assert served.get(f"{USAGE}?continue=x", "alice").status_code in {400, 410}
    with mock.patch.object(served.store, "list", side_effect=TransportError("timed out")):
        answer = served.get(USAGE, "alice")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert "timed out" not in answer.text


# ------------------------------------------------------------------------------------ discovery


def test_everything_about_the_group_is_told_at_once_to_those_who_accept_it(served):
    older = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
    accept = [("Accept", f"{discovery.AGGREGATED},{older},application/json")]
    answer = served.get("/apis", "alice", headers=accept)
    assert answer.content_type == discovery.AGGREGATED
    (group,) = answer.json["items"]
    assert group["metadata"]["name"] == GROUP
    assert [one["version"] for one in group["versions"]] == ["v1beta2", "v1beta1"]
    scopes = {one["resource"]: one["scope"] for one in group["versions"][0]["resources"]}
    assert scopes == {
        "clusterqueues": "Cluster",
        "localqueues": "Namespaced",
        "gpuusagerecords": "Namespaced",
    }


def test_others_get_the_groups_and_ask_again(served):
    for accept in ("application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"):
        answer = served.get("/apis", "alice", headers=[("Accept", accept)])
        assert answer.json["kind"] == "APIGroupList"
    assert served.get(f"/apis/{GROUP}", "alice").json["preferredVersion"]["version"] == "v1beta2"
    for version in lists.VERSIONS:
        document = served.get(f"/apis/{GROUP}/{version}", "alice").json
        verbs = {one["name"]: one["verbs"] for one in document["resources"]}
        assert verbs == {
            "clusterqueues": [],
            "clusterqueues/pendingworkloads": ["get"],
            "localqueues": [],
            "localqueues/pendingworkloads": ["get"],
            "gpuusagerecords": ["list"],
        }
    assert served.get(f"/apis/{GROUP}/v1", "alice").status_code == 404


def test_every_path_of_the_openapi_documents_is_served(served):
    root = served.get("/openapi/v3", "alice").json["paths"]
    assert set(root) == {f"apis/{GROUP}/{version}" for version in lists.VERSIONS}
    swagger = served.get("/openapi/v2", "alice").json
    described = dict(swagger["paths"])
    for found in root.values():
        document = served.get(found["serverRelativeURL"], "alice").json
        assert document["openapi"].startswith("3.")
        assert set(document["paths"]) < set(swagger["paths"])
        for path in document["paths"]:
            described.pop(path)
            asked = path.format(name="gpus" if "cluster" in path else "team", namespace="ml")
            assert served.get(asked, "alice").status_code == 200
    assert described == {}


# ------------------------------------------------------------------------------------ own pages


def own(source: Lines | None) -> FlaskClient:
    app = own_pages.create_app(alive=lambda: "", ready=lambda: "", lists=source)
    return app.test_client()


def test_our_own_pages_show_the_same_lists(served):
    client = own(served.source)
    for path in ("clusterqueues/gpus", "namespaces/ml/localqueues/team"):
        answer = client.get(f"/api/{path}/pendingworkloads?limit=5")
        aggregated = served.get(f"{ROOT}/{path}/pendingworkloads", "alice")
        assert answer.json == aggregated.json
    assert client.get("/api/clusterqueues/none/pendingworkloads").status_code == 404
    assert client.get("/healthz").text == "ok\n"


def test_pages_without_a_source_show_no_lists():
    answer = own(None).get("/api/clusterqueues/gpus/pendingworkloads")
    assert answer.status_code == HTTPStatus.NOT_FOUND
