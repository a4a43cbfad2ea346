"""Peers that are not the right old or new host do not disturb the migration."""

from __future__ import annotations

import random
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from migration.transfer.counter import Counter, CounterStates, events, filled
from migration.transfer.hosts import KEY, PATIENCE, begin, new_host
from migration.transfer.middle import Middle

import fastcep as fc
from fastcep.migration import receive, send
from fastcep.migration.transfer import handshake
from fastcep.migration.transfer.frames import HEADER, Kind
from fastcep.migration.transfer.handshake import PROTOCOL, greeting


def hello(protocol: int = PROTOCOL, version: str = fc.__version__) -> bytes:
    payload = struct.pack("<8sH32s", b"FCEPMIGR", protocol, random.Random(0).randbytes(32)) + version.encode()
    return HEADER.pack(len(payload), Kind.HELLO) + payload


GARBAGE = {
    "http": (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "found a frame of unknown type 47, expected one of HELLO"),
    "zeros": (bytes(200), "unknown type 0"),
    "noise": (random.Random(5).randbytes(5000), "found a frame of unknown type"),
    "2 GB": (HEADER.pack(2**31, Kind.HELLO), "found a frame HELLO of 2,147,483,648 bytes, expected at most 128"),
    "129 bytes": (HEADER.pack(129, Kind.HELLO), "found a frame HELLO of 129 bytes, expected at most 128"),
    "state first": (HEADER.pack(100, Kind.STATES), "found a frame STATES, expected one of HELLO"),
    "no greeting": (HEADER.pack(60, Kind.HELLO) + bytes(60), "the first message is not one of fastcep's migration"),
    "binary version": (hello(version="1\n2"), "has a version that is no text"),
    "other protocol": (hello(protocol=9), f"the old host uses version 9 of the protocol, expected {PROTOCOL}"),
    "other fastcep": (hello(version="9.9"), f"the old host runs fastcep 9.9, expected {fc.__version__}"),
    "wrong proof": (hello() + HEADER.pack(32, Kind.PROOF) + bytes(32), "it has another key"),
    "hello twice": (hello() + hello(), "found a frame HELLO, expected one of PROOF"),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_refused_and_the_right_host_served(name: str) -> None:
    data, problem = GARBAGE[name]
    with new_host() as host:
        with socket.create_connection(host.address, timeout=PATIENCE) as stranger:
            stranger.sendall(data)
            with suppress(ConnectionResetError):
                while stranger.recv(4096):  # until the new host closes the connection
                    pass
        send(CounterStates(filled(3)), host.address, key=KEY)
        received = host.received()
    assert received.complete
    assert len(received.refused) == 1 and problem in received.refused[0]


def test_a_wrong_key() -> None:
    counter = filled(3)
    before = counter.state
    with new_host() as host:
        with begin(counter, host.address, key="another key, as long") as migration:
            with pytest.raises(fc.MigrationError, match=r"reports another key.*Use the same key=") as c:
                migration.finish()
            assert c.value.owner == "old" and counter.state == before
            assert migration.process(events(1)) == [[(1, before[1][1] + 1)]]
        send(CounterStates(filled(3)), host.address, key=KEY)
        (refused,) = host.received().refused
    assert "it has another key" in refused and "another key, as long" not in refused


def test_a_new_host_with_another_key() -> None:
    """A host without the key cannot pretend to be the new host."""
    from fastcep.migration.transfer.frames import LIMITS

    def answer(connection: socket.socket) -> None:
        connection.recv(HEADER.size + LIMITS[Kind.HELLO])
        challenge = greeting().payload
        connection.sendall(HEADER.pack(len(challenge), Kind.CHALLENGE) + challenge)
        connection.recv(HEADER.size + 32)
        connection.sendall(HEADER.pack(32, Kind.WELCOME) + bytes(32))

    assert "the new host has another key" in problem_with(answer)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (hello(version="9.9"), f"the new host runs fastcep 9.9, expected {fc.__version__}"),
        (hello(protocol=2), "the new host uses version 2 of the protocol, expected 1"),
        (HEADER.pack(2**31, 0) + b"", "found a frame CHALLENGE of 2,147,483,648 bytes"),
    ],
)
def test_another_new_host(data: bytes, problem: str) -> None:
    data = data[:4] + bytes([Kind.CHALLENGE]) + data[5:]
    assert problem in problem_with(lambda connection: connection.sendall(data))


def test_a_server_of_something_else() -> None:
    assert "unknown type" in problem_with(lambda connection: connection.sendall(b"220 mail.example ESMTP\r\n"))
    assert "the connection was closed" in problem_with(lambda connection: None)


def problem_with(answer: Callable[[socket.socket], None]) -> str:
    """Return the problem of an old host that connects to a server."""
    counter = filled(3)
    before = counter.state
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                answer(connection)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with begin(counter, listener.getsockname()) as migration:
            with pytest.raises(fc.MigrationError) as caught:
                migration.finish()
            assert caught.value.owner == "old" and counter.state == before
            assert migration.process(events(0)) == [[(0, before[1][0] + 1)]]
        thread.join(PATIENCE)
    return caught.value.problem


def test_a_replayed_session() -> None:
    """All that an old host has sent is sent again to a new one with the same key."""
    with new_host() as host:
        middle = Middle(host.address)
        send(CounterStates(filled(3)), middle.address, key=KEY)
        assert host.received().complete
    with new_host() as host:
        with socket.create_connection(host.address, timeout=PATIENCE) as stranger:
            stranger.sendall(b"".join(data for _, data in middle.from_old))
            answer = stranger.makefile("rb").read()
        assert answer.endswith(HEADER.pack(1, Kind.DENIED) + b"\x01")
        assert host.is_waiting
        send(CounterStates(filled(2)), host.address, key=KEY)
        received = host.received()
    assert len(received.operator.counts) == 2 and "it has another key" in received.refused[0]


@pytest.mark.thorough
def test_silent_connections_do_not_keep_the_right_host_out() -> None:
    with new_host(timeout="600s") as host, ExitStack() as stack:
        strangers = [stack.enter_context(socket.create_connection(host.address, timeout=PATIENCE)) for _ in range(100)]
        for stranger in strangers[:84]:  # there may be 16 at a time
            with suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
        report = send(CounterStates(filled(3)), host.address, key=KEY)
        received = host.received()
    assert received.complete and report.handed_over and len(received.refused) >= 84


def test_a_stranger_that_sends_nothing_is_refused() -> None:
    with new_host(timeout="200ms") as host:
        with socket.create_connection(host.address, timeout=PATIENCE) as stranger:
            assert stranger.recv(1) == b""
        with socket.create_connection(host.address, timeout=PATIENCE) as stranger:
            stranger.sendall(hello()[:20])
            assert stranger.recv(1) == b""
        send(CounterStates(filled(3)), host.address, key=KEY)
        refused = host.received().refused
    assert len(refused) == 2


def test_a_second_old_host() -> None:
    """While a migration goes on, no other one is served."""
    with new_host() as host, begin(filled(3), host.address) as first:
        while not first.is_ready:
            time.sleep(0.001)
        with (
            begin(filled(2), host.address) as second,
            pytest.raises(fc.MigrationError, match=r"cannot connect|another"),
        ):
            second.finish()
        first.finish()
        assert len(host.received().operator.counts) == 3


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    with pytest.raises(fc.MigrationError, match=r"cannot connect to 127.0.0.1:.*Start fastcep.migration.receive there"):
        send(CounterStates(Counter()), address, key=KEY)


def test_nobody_connects() -> None:
    with pytest.raises(fc.MigrationError, match=r"no old host with the right key connected within 0.05 s"):
        receive(("127.0.0.1", 0), key=KEY, wait="50ms")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "short"}, "key: 5 bytes; expected at least 16"),
        ({"limit": 0}, "limit=0"),
        ({"wait": "later"}, "wait='later'"),
        ({"address": "203.0.113.1:80"}, "cannot listen there"),
    ],
)
def test_wrong_options_of_receive(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fc.ValidationError, match=message):
        receive(options.pop("address", "127.0.0.1:0"), **{"key": KEY} | options)


def certificate(folder: Path) -> tuple[Path, Path]:
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-keyout", str(key), "-out", str(certificate),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return key, certificate


def test_tls(tmp_path: Path) -> None:
    key, chain = certificate(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, key)
    client = ssl.create_default_context(cafile=str(chain))
    with new_host(tls=server) as host:
        with pytest.raises(fc.MigrationError, match=r"TLS with 127.0.0.1:.* failed"):
            send(CounterStates(filled(3)), host.address, key=KEY, tls=ssl.create_default_context())
        with pytest.raises(fc.MigrationError, match=r"the connection was closed|the connection failed|unknown type"):
            send(CounterStates(filled(3)), host.address, key=KEY)
        report = send(CounterStates(filled(30, 3000)), host.address, key=KEY, tls=client)
        assert host.received().complete and report.handed_over


def test_the_session_depends_on_both_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three = greeting(), greeting(), greeting()
    sessions = [handshake.Session.of(KEY, a, b) for a, b in ((one, two), (two, one), (one, three), (three, two))]
    secrets = [secret for session in sessions for secret in (session.old_proof, session.new_proof, session.frames)]
    assert len(set(secrets)) == 12 and "frames" not in repr(sessions[0])
