"""How counters are read and subtracted."""

import pytest

from tests.bench import metrics


def request(verb: str, resource: str, count: float, **labels: str) -> str:
    named = {
        "code": "200",
        "dry_run": "",
        "resource": resource,
        "subresource": "",
        "verb": verb,
        **labels,
    }
    text = ",".join(f'{name}="{value}"' for name, value in named.items())
    return f"apiserver_request_total{{{text}}} {count:g}\n"


def test_only_the_named_metric_is_read():
    text = '# HELP a x\n# TYPE a counter\na{x="1"} 2\na_total{x="1"} 3\na 4\nab 5\n'
    assert metrics.samples(text, "a") == {(("x", "1"),): 2, (): 4}


def test_label_values_may_hold_what_ends_labels_elsewhere():
    text = 'a{x="},\\"y\\" = 1",z="2"} 1e+06\n'
    assert metrics.samples(text, "a") == {(("x", '},\\"y\\" = 1'), ("z", "2")): 1e6}


def test_growth_leaves_out_what_did_not_move_and_counts_what_is_new():
    one, two, three = ((("x", number),) for number in "123")
    assert metrics.growth({one: 5, two: 1}, {one: 7, two: 1, three: 4}) == {one: 2, three: 4}


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ({"verb": "POST", "resource": "pods"}, "POST pods"),
        (
            {"verb": "PATCH", "resource": "workloads", "subresource": "status"},
            "PATCH workloads/status",
        ),
        ({"verb": "PATCH", "resource": "pods", "code": "409"}, "PATCH pods (409)"),
        ({"verb": "DELETE", "resource": "pods", "code": "404"}, "DELETE pods (404)"),
        ({"verb": "GET", "resource": "pods"}, None),
        ({"verb": "WATCH", "resource": "pods"}, None),
        ({"verb": "POST", "resource": "pods", "dry_run": "All"}, None),
        ({"verb": "PUT", "resource": "leases"}, None),
    ],
)
def test_which_requests_are_writes(labels, kind):
    assert metrics.write_kind({"code": "200", "subresource": "", **labels}) == kind


def test_the_callers_own_writes_are_taken_off():
    before = request("POST", "pods", 5) + request("POST", "events", 2)
    after = (
        request("POST", "pods", 15)
        + request("POST", "events", 2)
        + request("PATCH", "pods", 4)
        + request("PATCH", "pods", 10, subresource="status")
        + request("GET", "pods", 99)
    )
    own = {"POST pods": 10, "PATCH pods/status": 9}
    assert metrics.writes(before, after, own) == {"PATCH pods": 4, "PATCH pods/status": 1}


def test_codes_of_success_are_one_kind():
    after = request("PATCH", "pods", 3) + request("PATCH", "pods", 2, code="201")
    assert metrics.writes("", after, {}) == {"PATCH pods": 5}


def test_the_controllers_writes_come_by_purpose_with_their_time():
    name = "gpu_admission_write_duration_seconds"
    labels = '{purpose="start_owner",result="done"}'
    before = f"{name}_count{labels} 1\n{name}_sum{labels} 0.5\n"
    after = f"{name}_count{labels} 5\n{name}_sum{labels} 2.5\n"
    assert list(metrics.purposes(before, after)) == [("start_owner/done", 4, 2.0)]


def test_quantiles_of_a_histogram_are_bounds_of_its_buckets_over_all_series():
    def reading(quick: int, slow: int) -> str:
        return (
            f'a_bucket{{result="x",le="0.01"}} {quick}\na_bucket{{result="x",le="0.1"}} {quick}\n'
            f'a_bucket{{result="x",le="+Inf"}} {quick}\na_bucket{{result="y",le="0.01"}} 0\n'
            f'a_bucket{{result="y",le="0.1"}} {slow}\na_bucket{{result="y",le="+Inf"}} {slow}\n'
        )

    found = metrics.quantiles(reading(7, 0), reading(97, 10), "a", (50, 90, 99))
    assert found == (100, {50: 0.01, 90: 0.01, 99: 0.1})
    assert metrics.quantiles("", "", "a", (50,)) == (0, {})
