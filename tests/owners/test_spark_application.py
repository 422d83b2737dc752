"""What pods of a SparkApplication ask for, as Spark computes it.

Source: the tables of kueue pkg/controller/jobs/sparkapplication and Spark's
BasicExecutorFeatureStep.
"""

from typing import Any

import msgspec
import pytest

from admission.owners import spark_application


def asked(role: str = "executor", **spec: Any) -> dict[str, Any]:
    found = spark_application.pods_of({"driver": {}, "executor": {}, **spec})
    (container,) = found[role]["template"]["spec"]["containers"]
    resources: dict[str, Any] = container["resources"]
    return resources


def requests(role: str = "executor", **spec: Any) -> tuple[str, str]:
    found = asked(role, **spec)["requests"]
    return found["cpu"], found["memory"]


@pytest.mark.parametrize(
    ("spec", "cpu", "memory"),
    [
        ({}, "1", "1408Mi"),  # 1 GiB, and no less than 384 MiB beside it
        ({"executor": {"cores": 4, "memory": "10g"}}, "4", "11264Mi"),  # a tenth
        ({"executor": {"memory": "10g"}, "type": "Python"}, "1", "14336Mi"),  # 0.4
        ({"executor": {"memory": "2000"}}, "1", "2384Mi"),  # a number alone is MiB
        ({"executor": {"memory": "1g", "memoryOverhead": "100m"}}, "1", "1124Mi"),
        ({"executor": {"coreRequest": "500m", "cores": 4}}, "500m", "1408Mi"),
        ({"executor": {"memory": "10g"}, "memoryOverheadFactor": "0.5"}, "1", "15360Mi"),
        ({"sparkConf": {"spark.executor.memory": "10g"}}, "1", "11264Mi"),
        (
            {"executor": {"memory": "1g"}, "sparkConf": {"spark.executor.memory": "10g"}},
            "1",
            "1408Mi",
        ),
        (
            {
                "memoryOverheadFactor": "0.5",
                "sparkConf": {"spark.executor.memoryOverheadFactor": "1"},
            },
            "1",
            "2048Mi",
        ),
        (
            {
                "sparkConf": {
                    "spark.memory.offHeap.enabled": "true",
                    "spark.memory.offHeap.size": "1073741824",
                }
            },
            "1",
            "2432Mi",
        ),
        (
            {"type": "Python", "sparkConf": {"spark.executor.pyspark.memory": "1g"}},
            "1",
            "2457Mi",
        ),
    ],
)
def test_executors_ask_for_what_spark_asks_for(
    spec: dict[str, Any], cpu: str, memory: str
) -> None:
    assert requests(**spec) == (cpu, memory)


def test_the_driver_has_no_memory_beside_the_heap() -> None:
    conf = {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1g"}
    assert requests("driver", sparkConf=conf) == ("1", "1408Mi")


def test_gpus_come_from_the_field_the_template_and_sparks_properties() -> None:
    field = {"gpu": {"name": "nvidia.com/gpu", "quantity": 2}}
    assert asked(executor=field)["limits"]["nvidia.com/gpu"] == "2"
    conf = {
        "spark.executor.resource.gpu.amount": "3",
        "spark.executor.resource.gpu.vendor": "nvidia.com",
    }
    assert asked(sparkConf=conf)["limits"]["nvidia.com/gpu"] == "3"
    container = {
        "name": "spark-kubernetes-executor",
        "resources": {"limits": {"nvidia.com/gpu": "4"}},
    }
    template = {"template": {"spec": {"containers": [container]}}}
    assert asked(executor=template)["limits"]["nvidia.com/gpu"] == "4"


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({"executor": {"instances": 5}}, 5),
        ({"executor": {"instances": 0}}, 0),
        ({"sparkConf": {"spark.executor.instances": "7"}}, 7),
        ({}, 2),
    ],
)
def test_without_a_number_there_are_as_many_executors_as_spark_makes(
    spec: dict[str, Any], count: int
) -> None:
    made = spark_application.pods_of({"driver": {}, "executor": {}, **spec})
    assert made["executor"]["instances"] == count


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"executor": {"memory": "much"}}, "spec.executor.memory: must be an amount of memory"),
        ({"executor": {"coreRequest": "much"}}, "spec.executor.coreRequest: must be a quantity"),
        ({"sparkConf": {"spark.driver.cores": "x"}}, "spec.sparkConf[spark.driver.cores]"),
        ({"memoryOverheadFactor": "-1"}, "spec.memoryOverheadFactor: must be a number"),
        ({"sparkConf": {"spark.executor.instances": "-1"}}, "must be a whole number"),
    ],
)
def test_what_cannot_be_read_is_named(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as error:
        spark_application.pods_of({"driver": {}, "executor": {}, **spec})
    assert said in str(error.value)


def test_a_mark_of_an_admission_in_the_application_reaches_no_template() -> None:
    annotations = {"kueue.x-k8s.io/workload": "w", "mine": "x"}
    spec = {"driver": {"annotations": annotations}, "executor": {}}
    metadata = spark_application.pods_of(spec)["driver"]["template"]["metadata"]
    assert metadata["annotations"] == {"mine": "x"}
