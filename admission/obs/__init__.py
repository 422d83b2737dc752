"""Logs: one form for both processes, on stderr. Never decides anything.

Metrics are defined where they are counted: `controllers.writing.metrics`, `controllers.queues`,
`controllers.devices.capacitymetrics` and `webhook.metrics`.
"""
