"""An engine's counters over HTTP, as Prometheus reads them.

``prometheus_client`` is no part of what fastcep needs; it is imported when an endpoint is opened.
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

#: Seconds that a connection may be silent, and connections at the same time.
TIMEOUT, MAX_CONNECTIONS = 10.0, 32
MAX_TIMEOUT = 3_600

Counts = dict[tuple[str, ...], int]  #: by the values of the labels

_QUANTILES = {"p50": "0.5", "p95": "0.95", "p99": "0.99", "p999": "0.999"}
_OF_CLASSES = {
    "born": "Partial matches that were made.",
    "refused": "Partial matches that were refused before they were made.",
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

    An engine is used from one thread at a time, and a scrape comes at any time. So the endpoint never touches the
    engine: it serves what `Server.update` took last, and the engine's owner calls that between two batches.

    Parameters
    ----------
    engine
        Whose ``metrics()`` are served.
    port
        Of TCP; 0: any that is free, see `Server.port`.
    address
        Of the interface; by default this machine only can read. ``"0.0.0.0"`` is all interfaces, without a password.
    timeout
        Seconds after which a connection is closed that neither sends nor takes anything.
    max_connections
        Connections that are served at the same time; more are closed at once.

    Returns
    -------
    Server
        A context manager; it holds the numbers of now.

    Raises
    ------
    ValidationError
        If ``prometheus_client`` is not installed, nothing can listen there, or an option cannot be.
    """
    return Server(engine, port, address, timeout, max_connections)


class Server:
    """An endpoint that serves the numbers of the last `update`; made by `serve_metrics`.

    Attributes
    ----------
    address, port
        Where it listens: any path there gives the numbers.
    """

    def __init__(self, engine: Engine, port: int, address: str, timeout: float, max_connections: int) -> None:
        _load("prometheus_client")
        self._engine = engine
        self.update()
        self._http, self._thread = _listen(_Collector(self), port, address, timeout, max_connections)
        self.address, self.port = address, int(self._http.server_port)

    def update(self) -> None:
        """Take the engine's numbers of now; from the thread that uses the engine, while no other call runs."""
        self._taken = self._engine.metrics(), time()

    @property
    def taken(self) -> tuple[Mapping[str, Any], float]:
        """What `update` took last, and when, in seconds since 1970."""
        return self._taken

    def close(self) -> None:
        """Stop listening; once more does nothing."""
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
    """What a scrape asks."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def collect(self) -> Iterable[Metric]:
        """The numbers of the last update: one object, so that they fit together."""
        metrics, taken = self._server.taken
        yield _gauge("update_timestamp_seconds", "When these numbers were taken.", taken)
        yield from _of_engine(metrics)
        if metrics["shedding"] is not None:
            yield from _of_shedding(metrics["shedding"])
            yield from _of_queries(metrics["shedding"]["queries"])


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
        raise ValidationError(f"port={port!r}: expected a whole number from 0 (any that is free) to 65535")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < MAX_TIMEOUT:
        raise ValidationError(f"timeout={timeout!r}: expected seconds, above 0 and below {MAX_TIMEOUT}")
    if isinstance(max_connections, bool) or not isinstance(max_connections, int) or max_connections < 1:
        raise ValidationError(f"max_connections={max_connections!r}: expected a number of connections, 1 or more")
    registry = CollectorRegistry()  # an own one: the global one adds what it knows of the process
    registry.register(collector)
    try:
        http = _http_server(port, address, timeout, max_connections)
    except OSError as error:
        raise ValidationError(
            f"port={port}, address={address!r}: cannot listen there ({error.strerror or error}); "
            "give another port, 0 for any that is free, or the address of an interface of this machine"
        ) from None
    http.set_app(make_wsgi_app(registry))
    thread = Thread(target=http.serve_forever, daemon=True, name="fastcep-metrics")
    thread.start()
    return http, thread


def _http_server(port: int, address: str, seconds: float, most: int) -> WSGIServer:
    """Make a server with a thread for each connection, of which there are at most so many."""
    import socket
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

    family, *_, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    room = BoundedSemaphore(most)

    class Handler(WSGIRequestHandler):
        timeout = seconds  # of each read and write

        def setup(self) -> None:
            super().setup()
            self._deadline = Timer(2 * seconds, self._cut)  # a client may send a byte now and then
            self._deadline.daemon = True
            self._deadline.start()

        def finish(self) -> None:
            self._deadline.cancel()
            super().finish()

        def _cut(self) -> None:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    class Http(ThreadingMixIn, WSGIServer):
        daemon_threads = True
        request_queue_size = 128
        address_family = family

        def process_request(self, request: Any, client_address: Any) -> None:
            if not room.acquire(blocking=False):
                self.shutdown_request(request)
                return
            try:
                super().process_request(request, client_address)
            except BaseException:  # no thread: it does not give the room back
                room.release()
                raise

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            try:
                super().process_request_thread(request, client_address)
            finally:
                room.release()

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Pass over clients that go away or are cut off."""

    return Http(place, Handler)  # type: ignore[arg-type]  # the stubs of getaddrinfo know more places


def _of_engine(metrics: Mapping[str, Any]) -> Iterator[Metric]:
    yield _counter("events", "Events taken.", metrics["events"])
    yield _counter("late_events", "Events later than the allowed lateness.", metrics["late_events"])
    matches: Counts = {(name,): count for name, count in metrics["matches_by_query"].items()}
    yield _counters("matches", "Matches found.", ["query"], matches)
    lost: Counts = {(name,): query["dropped_partial_matches"] for name, query in metrics["queries"].items()}
    yield _counters("lost_partial_matches", "Partial matches given up for want of memory.", ["query"], lost)
    yield _live(metrics["queries"])
    yield _gauge("memory_bytes", "Bytes that the engine holds.", metrics["memory_bytes"])
    if metrics["memory_limit"] is not None:
        yield _gauge("memory_limit_bytes", "Bytes that it may hold.", metrics["memory_limit"])


def _live(queries: Mapping[str, Any]) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily("fastcep_live_partial_matches", "Partial matches that are alive.", labels=["query"])
    for name, query in queries.items():
        family.add_metric([name], query["live_partial_matches"])
    return family


def _of_shedding(shedding: Mapping[str, Any]) -> Iterator[Metric]:
    yield _gauge("shedding_active", "Whether load is being shed.", int(shedding["active"]))
    yield _gauge("shedding_demand", "Share of the work that is to be saved.", shedding["demand"])
    yield _counter("shedding_episodes", "Episodes of shedding.", shedding["episodes"])
    yield _counter("shedding_seconds", "Time spent on deciding what to drop.", shedding["overhead"] / 1e9)
    recall = shedding["estimated_recall"]
    told = "Share of the matches that is thought to be found; NaN if nobody knows."
    yield _gauge("estimated_recall", told, float("nan") if recall is None else recall)
    told = "Times that an event was kept from one window."
    yield _counter("dropped_in_windows", told, shedding["dropped_in_windows"])
    yield _counter("passed_over", "Looks at partial matches that were cut off.", shedding["passed_over"])
    if shedding["latency_bound"] is not None:
        yield _gauge("latency_bound_seconds", "Latency that events may have.", shedding["latency_bound"] / 1e9)
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


def _of_queries(queries: Mapping[str, Any]) -> Iterator[Metric]:
    """What was dropped."""
    events: Counts = {
        (name, kind): count for name, query in queries.items() for kind, count in query["dropped_events"].items()
    }
    yield _counters("dropped_events", "Events that a query did not get.", ["query", "type"], events)
    for what, told in _OF_CLASSES.items():
        counts: Counts = {
            (name, variable, str(number)): count
            for name, query in queries.items()
            for variable, classes in query["partial_matches"].items()
            for number, count in enumerate(classes[what])
        }
        yield _counters(f"{what}_partial_matches", told, ["query", "variable", "class"], counts)


def _gauge(name: str, told: str, value: float) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(f"fastcep_{name}", told, value)


def _counter(name: str, told: str, value: float) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    return CounterMetricFamily(f"fastcep_{name}", told, value)


def _counters(name: str, told: str, labels: list[str], counts: Counts) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(f"fastcep_{name}", told, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family
