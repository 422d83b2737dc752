"""What ``why`` tells a member of a team of a Job: the same as of a pod that waits beside it."""

from admission.answers import why
from tests.answers.rights import OfTeam
from tests.builders.jobs import queued_job
from tests.controller import test_jobs
from tests.controller.test_preemptions_told import with_events
from tests.controller.world import ready_world


def test_a_job_of_a_member_tells_place_lack_and_holders_as_a_pod_does() -> None:
    world = with_events(ready_world(quota=4))
    test_jobs.started(world, queued_job("runs", pods=3))
    world.add(queued_job("late", pods=2))
    world.settle()
    world.pass_time(2)
    world.add_pod("pod", gpus=2)
    world.settle()
    world.pass_time(65)
    of_pod = why.explain(OfTeam(world.store, "ml"), "ml", "pod/pod")
    of_job = why.explain(OfTeam(world.store, "ml"), "ml", "job/late")
    assert of_pod.message == (
        "Waits: needs 2 a100, 1 free of 4; 2nd in queue gpus; held by gpus (3)."
    )
    assert of_job.message == of_pod.message.replace("2nd", "1st")
    assert (of_job.place, of_pod.place) == (1, 2)
    assert of_job.reason == of_pod.reason
    assert of_job.advice == of_pod.advice
    assert [(each.asks, each.free) for each in of_job.numbers] == [(2, 1)]
