"""Rules of the topology annotations, with their texts."""

import pytest

from admission.policy import topology

P = "kueue.x-k8s.io/podset-"
REQUIRED, PREFERRED, FREE = (
    f"{P}{n}-topology" for n in ("required", "preferred", "unconstrained")
)
SLICE, SIZE, LAYERS, GROUP = (
    f"{P}{n}"
    for n in ("slice-required-topology", "slice-size", "slice-required-topology-constraints",
              "group-name")
)  # fmt: skip
NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def at(key: str, text: str) -> str:
    return f"metadata.annotations[{key}]: {text}"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({REQUIRED: "a b"}, [at(REQUIRED, f'Invalid value: "a b": {NAME_RULE}')]),
        ({PREFERRED: "/x"},
         [at(PREFERRED, 'Invalid value: "/x": prefix part must be non-empty')]),
        ({PREFERRED: "x/"},
         [at(PREFERRED, 'Invalid value: "x/": name part must be non-empty'),
          at(PREFERRED, f'Invalid value: "x/": {NAME_RULE}')]),
        ({REQUIRED: "x" * 64},
         [at(REQUIRED, f'Invalid value: "{"x" * 64}": name part must be no more than 63 bytes')]),
        ({FREE: "yes"}, [at(FREE, 'Invalid value: "yes": must be a boolean value')]),
        ({GROUP: "7", REQUIRED: "a"}, [at(GROUP, 'Invalid value: "7": must not be a number')]),
        ({GROUP: "g"},
         [at(GROUP, f"Forbidden: may not be set when neither '{PREFERRED}' nor '{REQUIRED}' is"
                    " specified")]),
        ({GROUP: "g", REQUIRED: "a", SIZE: "1", SLICE: "b"},
         [at(GROUP, f"Forbidden: may not be set when '{SIZE}' is specified"),
          at(GROUP, f"Forbidden: may not be set when '{SLICE}' is specified")]),
        ({SLICE: "a"}, [at(SIZE, f"Required value: must be set when '{SLICE}' is specified")]),
        ({SIZE: "1"}, [at(SIZE, f"Forbidden: may not be set when '{SLICE}' is not specified")]),
        ({SLICE: "a", SIZE: "2147483648"},
         [at(SIZE, 'Invalid value: "2147483648": must be a numeric value')]),
        ({SLICE: "a", SIZE: "0"},
         [at(SIZE, 'Invalid value: "0": must be greater than or equal to 1')]),
        ({LAYERS: "[]"},
         [at(LAYERS, 'Invalid value: "[]": topology constraints must contain between 1 and 3'
                     " entries")]),
        ({LAYERS: '[{"topology":"a","size":4},{"topology":"a","size":3}]'},
         [at(LAYERS, "").removesuffix(": ") + '[1].topology: Duplicate value: "a"',
          at(LAYERS, "").removesuffix(": ") + "[1].size: Invalid value: 3: must evenly divide the"
          " parent layer size 4"]),
        ({LAYERS: '[{"topology":"a","size":0}]'},
         [at(LAYERS, "").removesuffix(": ") + "[0].size: Invalid value: 0: must be greater than or"
          " equal to 1"]),
        ({LAYERS: '[{"topology":"a","size":1}]', SIZE: "1"},
         [at(LAYERS, f"Forbidden: may not be set when '{SIZE}' is specified")]),
    ],
    ids=str,
)  # fmt: skip
def test_a_broken_rule_is_reported(annotations, expected):
    """Source: contract of the topology annotations."""
    assert [error.text() for error in topology.errors(annotations)] == expected


def test_only_one_topology_may_be_asked_for():
    (error,) = topology.errors({REQUIRED: "a", FREE: "true"})
    assert error.text() == (
        f'metadata.annotations: Invalid value: {{"{REQUIRED}":"a","{FREE}":"true"}}: must not'
        f' contain more than one topology annotation: ["{REQUIRED}", "{PREFERRED}", "{FREE}"]'
    )


def test_layers_that_are_no_list_are_refused():
    (error,) = topology.errors({LAYERS: "{"})
    assert "must be a JSON list of layers" in error.text()


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {"other": "x"},
        {REQUIRED: "cloud.example.com/rack"},
        {PREFERRED: "rack", GROUP: "g1"},
        {FREE: "T"},
        {REQUIRED: "block", SLICE: "rack", SIZE: "4"},
        {LAYERS: '[{"topology":"block","size":8},{"topology":"rack","size":4}]'},
    ],
    ids=str,
)
def test_what_breaks_no_rule_is_allowed(annotations):
    assert topology.errors(annotations) == []
