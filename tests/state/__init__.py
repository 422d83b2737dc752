"""Tests of queues, retries and statuses in memory."""
