"""HTTP endpoint that serves the metrics of an engine in the format of Prometheus.

``prometheus_client`` is an optional dependency; it is imported when an endpoint is opened.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from threading import BoundedSemaphore, Thread, Timer
from time import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fastcep.errors import ValidationError

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client.core import Metric

    from fastcep.engine import Engine

__all__ = ["Server", "serve_metrics"]

#: Defaults: seconds that a connection may be idle, and number of concurrent connections.
TIMEOUT, MAX_CONNECTIONS = 10.0, 32
MAX_TIMEOUT = 3_600

Counts = Mapping[tuple[str, ...], float]  #: counts by label values

_QUANTILES = {"p50": "0.5", "p95": "0.95", "p99": "0.99", "p999": "0.999"}
_CLASS_METRICS = {
    "born": "Partial matches that were created.",
    "refused": "Partial matches that were refused before they were created.",
    "dropped": "Partial matches that were dropped from the state.",
}


def serve_metrics(
    engine: Engine,
    port: int = 0,
    address: str = "127.0.0.1",
    *,
    timeout: float = TIMEOUT,
    max_connections: int = MAX_CONNECTIONS,
) -> Server:
    """Open an HTTP endpoint for Prometheus.

    An engine must be used from one thread at a time, but a scrape can arrive at any time. Therefore the endpoint never
    accesses the engine: it serves the metrics of the last `Server.update`, which the owner of the engine calls between
    batches.

    Parameters
    ----------
    engine
        Engine whose ``metrics()`` are served.
    port
        TCP port; 0 selects a free one, see `Server.port`.
    address
        Address of the interface; the default accepts connections from this machine only. ``"0.0.0.0"`` listens on all
        interfaces, without authentication.
    timeout
        Seconds after which an idle connection is closed.
    max_connections
        Number of concurrent connections; further ones are closed immediately.

    Returns
    -------
    Server
        A context manager, with the current metrics.

    Raises
    ------
    ValidationError
        If ``prometheus_client`` is not installed, the port or address is not available, or an option is invalid.
    """
    return Server(engine, port, address, timeout, max_connections)


class Server:
    """An endpoint that serves the metrics of the last `update`; opened by `serve_metrics`.

    Attributes
    ----------
    address, port
        Address and TCP port on which it listens. Every path serves the metrics.
    """

    def __init__(self, engine: Engine, port: int, address: str, timeout: float, max_connections: int) -> None:
        _load("prometheus_client")
        self._engine = engine
        self.update()
        self._http, self._thread = _listen(_Collector(self), port, address, timeout, max_connections)
        self.address: str = address
        self.port: int = int(self._http.server_port)

    def update(self) -> None:
        """Read the current metrics of the engine. Call it from the engine's thread, while no other call is running."""
        self._latest = self._engine.metrics(), time()

    @property
    def latest(self) -> tuple[Mapping[str, Any], float]:
        """Metrics of the last `update`, and its time in seconds since 1970."""
        return self._latest

    def close(self) -> None:
        """Stop listening. A second call does nothing."""
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
            self._http.server_close()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Collector:
    """Collector for the registry of ``prometheus_client``."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics of the last update, all from the same moment."""
        metrics, updated_at = self._server.latest
        yield _gauge("update_timestamp_seconds", "Time of the last update of these metrics.", updated_at)
        yield from _engine_metrics(metrics)
        if metrics["shedding"] is not None:
            yield from _shedding_metrics(metrics["shedding"])
            yield from _query_metrics(metrics["shedding"]["queries"])


def _load(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValidationError(
            f"an endpoint for Prometheus needs {error.name}; install it with: pip install 'fastcep[metrics]'"
        ) from error


def _listen(
    collector: _Collector, port: int, address: str, timeout: float, max_connections: int
) -> tuple[WSGIServer, Thread]:
    from prometheus_client import CollectorRegistry, make_wsgi_app

    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port < 1 << 16:
        raise ValidationError(f"port={port!r}: expected a whole number from 0 (any free port) to 65535")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < MAX_TIMEOUT:
        raise ValidationError(f"timeout={timeout!r}: expected seconds, above 0 and below {MAX_TIMEOUT}")
    if isinstance(max_connections, bool) or not isinstance(max_connections, int) or max_connections < 1:
        raise ValidationError(f"max_connections={max_connections!r}: expected a number of connections, 1 or more")
    registry = CollectorRegistry()  # not the global one, which adds metrics of the process
    registry.register(collector)
    try:
        http = _http_server(port, address, timeout, max_connections)
    except OSError as error:
        raise ValidationError(
            f"port={port}, address={address!r}: cannot listen there ({error.strerror or error}); "
            "give another port, 0 for any free one, or the address of an interface of this machine"
        ) from None
    http.set_app(make_wsgi_app(registry))
    thread = Thread(target=http.serve_forever, daemon=True, name="fastcep-metrics")
    thread.start()
    return http, thread


def _http_server(port: int, address: str, seconds: float, max_connections: int) -> WSGIServer:
    """Return a server with one thread for each of at most `max_connections` connections."""
    import socket
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

    family, *_, socket_address = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    free_slots = BoundedSemaphore(max_connections)

    class Handler(WSGIRequestHandler):
        timeout = seconds  # of each read and write

        def setup(self) -> None:
            super().setup()
            self._deadline = Timer(2 * seconds, self._disconnect)  # for clients that send single bytes
            self._deadline.daemon = True
            self._deadline.start()

        def finish(self) -> None:
            self._deadline.cancel()
            super().finish()

        def _disconnect(self) -> None:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    class Http(ThreadingMixIn, WSGIServer):
        daemon_threads = True
        request_queue_size = 128
        address_family = family

        def process_request(self, request: Any, client_address: Any) -> None:
            if not free_slots.acquire(blocking=False):
                self.shutdown_request(request)
                return
            try:
                super().process_request(request, client_address)
            except BaseException:  # no thread was started that would release the slot
                free_slots.release()
                raise

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            try:
                super().process_request_thread(request, client_address)
            finally:
                free_slots.release()

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Ignore clients that disconnect or are disconnected."""

    return Http(socket_address, Handler)  # type: ignore[arg-type]  # the stubs of getaddrinfo have more address types


def _engine_metrics(metrics: Mapping[str, Any]) -> Iterator[Metric]:
    yield _counter("events", "Events processed.", metrics["events"])
    yield _counter("late_events", "Events later than the allowed lateness.", metrics["late_events"])
    matches: Counts = {(name,): count for name, count in metrics["matches_by_query"].items()}
    yield _counters("matches", "Matches found.", ["query"], matches)
    lost: Counts = {(name,): query["dropped_partial_matches"] for name, query in metrics["queries"].items()}
    yield _counters("lost_partial_matches", "Partial matches dropped because memory ran out.", ["query"], lost)
    yield _live_partial_matches(metrics["queries"])
    yield _gauge("memory_bytes", "Memory of the engine, in bytes.", metrics["memory_bytes"])
    if metrics["memory_limit"] is not None:
        yield _gauge("memory_limit_bytes", "Memory limit of the engine, in bytes.", metrics["memory_limit"])


def _live_partial_matches(queries: Mapping[str, Any]) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily("fastcep_live_partial_matches", "Live partial matches.", labels=["query"])
    for name, query in queries.items():
        family.add_metric([name], query["live_partial_matches"])
    return family


def _shedding_metrics(shedding: Mapping[str, Any]) -> Iterator[Metric]:
    yield _gauge("shedding_active", "1 while load is being shed, otherwise 0.", int(shedding["active"]))
    yield _gauge("shedding_demand", "Share of the work to save.", shedding["demand"])
    yield _counter("shedding_episodes", "Episodes of shedding.", shedding["episodes"])
    yield _counter("shedding_seconds", "Time spent on deciding what to drop.", shedding["overhead"] / 1e9)
    recall = shedding["estimated_recall"]
    description = "Estimated share of the matches that are found; NaN if unknown."
    yield _gauge("estimated_recall", description, float("nan") if recall is None else recall)
    recent = shedding["recent_matches"]["estimated_recall"]
    description = "Estimated share of the matches of the last 64 decisions that were found; NaN if unknown."
    yield _gauge("estimated_recall_recent", description, float("nan") if recent is None else recent)
    description = "Events dropped from single windows, once per window."
    yield _counter("dropped_in_windows", description, shedding["dropped_in_windows"])
    yield _counter("dropped_windows", "Windows dropped with all of their events.", shedding["dropped_windows"])
    description = "Decisions that dropped events in addition, because the shedder saved less than demanded."
    yield _counter("backlog_limited", description, shedding["backlog_limited"])
    yield _counter("passed_over", "Partial matches not tried with an event that was cut off.", shedding["passed_over"])
    if shedding["latency_bound"] is not None:
        yield _gauge("latency_bound_seconds", "Bound on the latency of events.", shedding["latency_bound"] / 1e9)
    yield _latencies({kind: shedding[f"{kind}_latency"] for kind in ("processing", "event")})


def _latencies(kinds: Mapping[str, Mapping[str, float]]) -> Metric:
    from prometheus_client.core import SummaryMetricFamily

    name = "fastcep_latency_seconds"
    family = SummaryMetricFamily(name, "Latencies of events, by the engine's clock.", labels=["kind"])
    for kind, summary in kinds.items():
        for key, quantile in _QUANTILES.items():
            family.add_sample(name, {"kind": kind, "quantile": quantile}, summary[key] / 1e9)
        family.add_metric([kind], int(summary["count"]), summary["mean"] * summary["count"] / 1e9)
    return family


def _query_metrics(queries: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield estimated matches, and counters of dropped events and partial matches."""
    found: Counts = {(name,): query["matches"]["found"] for name, query in queries.items()}
    yield _counters("matches_found", "Matches found up to the last decision on shedding.", ["query"], found)
    expected: Counts = {(name,): query["matches"]["expected"] for name, query in queries.items()}
    yield _counters("matches_expected", "Estimated matches without shedding.", ["query"], expected)
    for number, bound in enumerate(("lower", "upper")):
        bounds: Counts = {
            (name,): float("nan") if interval is None else interval[number]
            for name, interval in ((name, query["matches"]["expected_interval"]) for name, query in queries.items())
        }
        description = f"{bound.capitalize()} bound (95 % interval) of the estimated matches; NaN if unknown."
        yield _counters(f"matches_expected_{bound}", description, ["query"], bounds)
    events: Counts = {
        (name, kind): count for name, query in queries.items() for kind, count in query["dropped_events"].items()
    }
    yield _counters("dropped_events", "Events dropped before a query processed them.", ["query", "type"], events)
    for key, description in _CLASS_METRICS.items():
        counts: Counts = {
            (name, variable, str(number)): count
            for name, query in queries.items()
            for variable, classes in query["partial_matches"].items()
            for number, count in enumerate(classes[key])
        }
        yield _counters(f"{key}_partial_matches", description, ["query", "variable", "class"], counts)


def _gauge(name: str, description: str, value: float) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(f"fastcep_{name}", description, value)


def _counter(name: str, description: str, value: float) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    return CounterMetricFamily(f"fastcep_{name}", description, value)


def _counters(name: str, description: str, labels: list[str], counts: Counts) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(f"fastcep_{name}", description, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family
