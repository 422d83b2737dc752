"""Owners: what asks for pods, and what its Workload is made from.

`framework` says what the controller needs to know of an owner, `review` what a review asks one
that is held as a whole; `pod`, `batch_job` and `batch_job_review` say it for one kind each.
`integrations` lists the kinds. Everything here is a pure function of an owner and its Workload: it
talks to no API server and keeps no state.
"""
