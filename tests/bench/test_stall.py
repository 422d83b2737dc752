"""The load of the part ``stall``."""

import json
import socket
import threading

from tests.bench import stall
from tests.webhook import reviews


def test_a_review_is_of_a_pod_with_so_many_containers_that_is_held():
    body = stall.review_of("team-a", 3)
    client = reviews.make_app(reviews.make_knowledge("queue-0")).test_client()
    answer = reviews.post(client, reviews.MUTATE, body)
    assert len(json.loads(body)["request"]["object"]["spec"]["containers"]) == 3
    assert answer["response"]["allowed"] is True
    assert answer["response"]["patch"]


def test_a_body_is_withheld_but_for_its_last_byte():
    length = 600_000
    ours, theirs = socket.socketpair()
    received = bytearray()

    def read() -> None:
        while chunk := theirs.recv(65536):
            received.extend(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    stall.withhold(ours, "/convert", length)
    ours.close()
    reader.join()
    theirs.close()
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    assert head.splitlines()[0] == b"POST /convert HTTP/1.1"
    assert f"Content-Length: {length}".encode() in head.splitlines()
    assert len(body) == length - 1


def test_a_server_that_closes_ends_the_sending():
    ours, theirs = socket.socketpair()
    theirs.close()
    stall.withhold(ours, "/convert", 10_000_000)
    ours.close()
