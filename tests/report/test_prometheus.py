"""The endpoint for Prometheus: opened on this machine, and read as Prometheus does."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.waiting import LIMIT

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.errors import ValidationError
from fastcep.report import Server, serve_metrics
from fastcep.shedding import RandomMatches

QUERIES = """\
STREAM TIME 'ts' UNIT us TYPE 'type'
EVENT A (ID int64, V int64)
EVENT B (ID int64, V int64)
EVENT C (ID int64, V int64)
EVENT D (ID int64, V int64)
QUERY q1 PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 8ms
QUERY q2 PATTERN SEQ(A a, D d) WHERE a.ID = d.ID WITHIN 2ms
"""
OPEN = build_opener(ProxyHandler({})).open  # never by way of a proxy
VIRTUAL = {"clock": "virtual", "cost_table": "paper", "index": "key"}


def queries() -> Any:
    return fc.parse_document(QUERIES).queries


def scrape(server: Server) -> dict[tuple[str, ...], float]:
    """Return all samples, by name and label values, ordered by label name."""
    with OPEN(f"http://{server.address}:{server.port}/metrics", timeout=LIMIT) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name != "fastcep_update_timestamp_seconds"
    }


def test_metrics_of_an_engine_that_sheds() -> None:
    engine = fc.Engine(
        queries(),
        latency_bound=40,
        shedder=RandomMatches(seed=3),
        memory_limit="64MiB",
        allowed_lateness="1ms",
        **VIRTUAL,
    )
    engine.process(ds1(events=20_000))
    with serve_metrics(engine) as server:
        found = scrape(server)
    metrics = engine.metrics()
    shedding = metrics["shedding"]
    expected: dict[tuple[str, ...], float] = {
        ("fastcep_events_total",): metrics["events"],
        ("fastcep_late_events_total",): metrics["late_events"],
        ("fastcep_memory_bytes",): metrics["memory_bytes"],
        ("fastcep_memory_limit_bytes",): 64 * 2**20,
        ("fastcep_shedding_active",): shedding["active"],
        ("fastcep_shedding_demand",): shedding["demand"],
        ("fastcep_shedding_episodes_total",): shedding["episodes"],
        ("fastcep_shedding_seconds_total",): shedding["overhead"] / 1e9,
        ("fastcep_estimated_recall",): shedding["estimated_recall"],
        ("fastcep_estimated_recall_recent",): shedding["recent_matches"]["estimated_recall"],
        ("fastcep_dropped_in_windows_total",): shedding["dropped_in_windows"],
        ("fastcep_dropped_windows_total",): shedding["dropped_windows"],
        ("fastcep_backlog_limited_total",): shedding["backlog_limited"],
        ("fastcep_passed_over_total",): shedding["passed_over"],
        ("fastcep_latency_bound_seconds",): 40e-9,
    }
    for name in ("q1", "q2"):
        expected["fastcep_matches_total", name] = metrics["matches_by_query"][name]
        matches = shedding["queries"][name]["matches"]
        expected["fastcep_matches_found_total", name] = matches["found"]
        expected["fastcep_matches_expected_total", name] = matches["expected"]
        expected["fastcep_matches_expected_lower_total", name] = matches["expected_interval"][0]
        expected["fastcep_matches_expected_upper_total", name] = matches["expected_interval"][1]
        expected["fastcep_live_partial_matches", name] = metrics["queries"][name]["live_partial_matches"]
        expected["fastcep_lost_partial_matches_total", name] = metrics["queries"][name]["dropped_partial_matches"]
        for kind, count in shedding["queries"][name]["dropped_events"].items():
            expected["fastcep_dropped_events_total", name, kind] = count
        for variable, classes in shedding["queries"][name]["partial_matches"].items():
            for what in ("born", "refused", "dropped"):
                for number, count in enumerate(classes[what]):
                    expected[f"fastcep_{what}_partial_matches_total", str(number), name, variable] = count
    for kind in ("processing", "event"):
        summary = shedding[f"{kind}_latency"]
        for key, quantile in (("p50", "0.5"), ("p95", "0.95"), ("p99", "0.99"), ("p999", "0.999")):
            expected["fastcep_latency_seconds", kind, quantile] = summary[key] / 1e9
        expected["fastcep_latency_seconds_count", kind] = summary["count"]
        expected["fastcep_latency_seconds_sum", kind] = summary["mean"] * summary["count"] / 1e9
    assert found == expected
    assert metrics["events"] > 19_000 and shedding["episodes"] > 0 and shedding["dropped_partial_matches"] > 0
    dropped = sum(value for key, value in found.items() if key[0] == "fastcep_dropped_partial_matches_total")
    refused = sum(value for key, value in found.items() if key[0] == "fastcep_refused_partial_matches_total")
    assert dropped + refused == shedding["dropped_partial_matches"]


def test_no_shedding_metrics_without_a_bound() -> None:
    engine = fc.Engine(queries()[0])
    with serve_metrics(engine) as server:
        found = scrape(server)
    assert set(found) == {
        ("fastcep_events_total",), ("fastcep_late_events_total",), ("fastcep_memory_bytes",),
        ("fastcep_matches_total", "q1"), ("fastcep_live_partial_matches", "q1"),
        ("fastcep_lost_partial_matches_total", "q1"),
    }  # fmt: skip


def test_the_metrics_of_the_last_update_are_served() -> None:
    engine = fc.Engine(queries(), **VIRTUAL)
    batch = ds1(events=2000)
    with serve_metrics(engine) as server:
        engine.process(batch.slice(0, 500))
        assert scrape(server)["fastcep_events_total",] == 0
        server.update()
        engine.process(batch.slice(500))
        assert scrape(server)["fastcep_events_total",] == 500
        server.update()
        found = scrape(server)
        assert found["fastcep_events_total",] == 2000
        assert found["fastcep_latency_seconds_count", "event"] == 2000
        assert ("fastcep_latency_bound_seconds",) not in found
        assert server.latest[0] == engine.metrics()


@pytest.mark.thorough
def test_a_closed_server_does_not_listen() -> None:
    server = serve_metrics(fc.Engine(queries()[0]))
    other = serve_metrics(fc.Engine(queries()[1]))
    assert server.port != other.port
    server.close()
    server.close()
    with pytest.raises(URLError):
        scrape(server)
    assert ("fastcep_matches_total", "q2") in scrape(other)
    other.close()
    with serve_metrics(fc.Engine(queries()[0]), server.port) as again:
        assert again.port == server.port


def closed(client: socket.socket) -> bool:
    """Wait until the server has closed the connection, for minutes if necessary."""
    client.settimeout(300)
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.sample(1)
@pytest.mark.parametrize("sent", [b"", b"GET /met", b"GET /metrics HTTP/1.1\r\nHost: x\r\n"])
def test_a_silent_client_is_cut_off(sent: bytes) -> None:
    with serve_metrics(fc.Engine(queries()[0]), timeout=0.05, max_connections=1) as server:
        with socket.create_connection((server.address, server.port)) as client:
            client.sendall(sent)
            assert closed(client)
        assert scraped(server)


def test_a_slow_client_is_cut_off() -> None:
    with serve_metrics(fc.Engine(queries()[0]), timeout=0.2, max_connections=1) as server:
        with socket.create_connection((server.address, server.port)) as client:
            client.settimeout(0.01)
            while True:  # a byte now and then, so that no read times out
                try:
                    client.sendall(b"x")
                    if client.recv(1) == b"":
                        break
                except TimeoutError:
                    continue
                except OSError:
                    break
        assert scraped(server)


def test_many_silent_clients_take_few_threads() -> None:
    before = threading.active_count()
    with serve_metrics(fc.Engine(queries()[0]), timeout=300, max_connections=3) as server:
        clients = [socket.create_connection((server.address, server.port)) for _ in range(1000)]
        try:
            assert all(map(closed, clients[3:]))  # those above the cap are closed at once
            assert threading.active_count() <= before + 1 + 2 * 3  # the server's, a connection's and its deadline's
            clients[0].close()
            assert scraped(server)
        finally:
            for client in clients:
                client.close()


def scraped(server: Server) -> bool:
    """Scrape until a connection is free, for minutes if necessary."""
    for _ in range(3000):
        try:
            return bool(scrape(server))
        except OSError:
            time.sleep(0.1)
    return False


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout=0: expected seconds"),
        ({"timeout": float("nan")}, "timeout=nan: expected seconds"),
        ({"timeout": "2s"}, "timeout='2s': expected seconds"),
        ({"max_connections": 0}, "max_connections=0: expected a number of connections, 1 or more"),
        ({"max_connections": 2.5}, "max_connections=2.5: expected a number"),
    ],
)
def test_wrong_bounds(options: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=f"^{message}"):
        serve_metrics(fc.Engine(queries()[0]), **options)


@pytest.mark.parametrize("port", [-1, 1 << 16, "9100", True, 1.5])
def test_wrong_ports(port: Any) -> None:
    with pytest.raises(ValidationError, match=r"^port=.*: expected a whole number from 0 .* to 65535"):
        serve_metrics(fc.Engine(queries()[0]), port)


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValidationError, match=f"^port={port}, address='127.0.0.1': cannot listen there"):
            serve_metrics(fc.Engine(queries()[0]), port)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ValidationError, match=r"needs prometheus_client; install .* 'fastcep\[metrics\]'"):
        serve_metrics(fc.Engine(queries()[0]))


def test_importing_the_reports_does_not_load_it() -> None:
    code = "import sys, fastcep.report; print(sorted({'prometheus_client', 'http.server'} & set(sys.modules)))"
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
