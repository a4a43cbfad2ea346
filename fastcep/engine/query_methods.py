"""The methods of `Engine` that change the queries and the shedder while the stream runs."""

from __future__ import annotations

from typing import Any

from fastcep._core.matcher.send import HasEventLoop
from fastcep.engine.queries import Buildable, check_query, warn_unbounded
from fastcep.engine.results.matches import Matches
from fastcep.engine.state_transfer import StateTransfer
from fastcep.engine.stream import Stream
from fastcep.errors import ValidationError
from fastcep.overload.options import new_shedder
from fastcep.overload.protocols import Shedder
from fastcep.query import ast

__all__ = ["QueryMethods"]


class QueryMethods(HasEventLoop):
    """Base class of `Engine`: change the queries and the shedder."""

    _stream: Stream
    _transfer: StateTransfer

    def add(self, query: ast.Query | Buildable) -> None:
        """Add a query after the others, which keep their state.

        It sees the events from now on, including those that ``allowed_lateness`` holds back now. Its conditions are
        interpreted until their kernels are compiled, as in a new engine. With a ``memory_limit`` the share of every
        query gets smaller.

        Raises
        ------
        ValidationError
            If the query has another schema, if the engine has a query of this name, if ``memory_limit`` has no room for
            another query, if its functions cannot be used, after :meth:`flush`, or while another thread uses the
            engine. Nothing has changed then.
        """
        with self._stream.exclusive():
            checked = check_query(query, self._stream.attributes, self._stream.query_list(), self._stream.schema)
            warn_unbounded(checked)
            self._stream.run([*self._stream.queries, self._transfer.prepared(checked)])

    def replace(self, name: str, query: ast.Query | Buildable, *, complete: bool = False) -> Matches:
        """Replace the query called ``name`` by another one; the old query stops as in :meth:`remove`.

        The new query starts without state, as in :meth:`add`, and may have another name. The others keep their state.

        Returns
        -------
        Matches
            As :meth:`remove`.

        Raises
        ------
        ValidationError
            As :meth:`add` and :meth:`remove`. The old query continues then.
        """
        with self._stream.exclusive():
            old = self._stream.queries[name]
            others = [other for other in self._stream.query_list() if other.name != name]
            checked = check_query(query, self._stream.attributes, others, self._stream.schema)
            warn_unbounded(checked)
            new = self._transfer.prepared(checked)
            self._stream.stop(old, [new if item is old else item for item in self._stream.queries], complete)
        return self._stream.returned()

    def set_shedder(self, shedder: Shedder | str | None, *, model: Any = None) -> None:
        """Use another shedder from the next event on.

        Partial matches stay, so an engine that is not overloaded finds the same matches as without the change. What the
        old shedder has learned is dropped, and so are its counts by class; totals go on. Partial matches that exist
        already get the class for unknown values. The detectors stay; after an
        engine had no shedder, they are the default ones.

        Parameters
        ----------
        shedder, model
            As for `Engine`; None or ``"none"``: nothing is dropped any more.

        Raises
        ------
        ValidationError, ModelError
            If the engine has nothing to hold, an option is invalid, the model is for other queries, or the partial
            matches are stored in a way that the shedder cannot use. Nothing has changed then.
        """
        with self._stream.exclusive():
            self._stream.check_given()
            control, sheds_memory = self._stream.queries.control, self._stream.memory.sheds
            if control is None:
                raise ValidationError("set_shedder() needs something to hold: Engine(…, latency_bound='…')")
            self._stream.change_shedder(*new_shedder(control, shedder, model, sheds_memory=sheds_memory))

    def remove(self, name: str, *, complete: bool = False) -> Matches:
        """Stop a query and free its memory; the others keep their state.

        You can remove the last query too. The engine then still takes events and advances its clock.

        Parameters
        ----------
        name
            Name of the query.
        complete
            Decide the matches that wait for a time, as if the stream ended for this query. False: they are lost.

        Returns
        -------
        Matches
            Those of the query, none unless ``complete``.

        Raises
        ------
        ValidationError
            If there is no such query, after :meth:`flush`, or while another thread uses the engine.
        """
        with self._stream.exclusive():
            old = self._stream.queries[name]
            self._stream.stop(old, [item for item in self._stream.queries if item is not old], complete)
        return self._stream.returned()
