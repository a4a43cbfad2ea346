"""The combinations that fastcep rejects, each with its clauses or paths, and the reason.

An error that is not in this list is a defect, and fails the test that meets it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

EXPLICIT = ("OPEN ON", "EVERY t", "EVERY n EVENTS", "CLOSE AFTER t", "CLOSE AFTER n EVENTS", "CLOSE ON")
WITHIN = ("WITHIN t", "WITHIN n EVENTS", "WITHIN UNBOUNDED")
SELECT = ("SELECT first", "SELECT last", "SELECT cumulative", "SELECT longest")
SKIP = ("SKIP TO NEXT", "SKIP PAST LAST", "SKIP TO FIRST", "SKIP TO LAST")
CONTIGUITY = ("partition_contiguity", "strict_contiguity", "NEXT", "CONSECUTIVE")


@dataclass(frozen=True)
class Refusal:
    """An intended error.

    Attributes
    ----------
    error
        A regular expression that matches a part of the message.
    ones, others
        The clauses or paths that cannot be combined: each of ``ones`` with each of ``others``.
    reason
        The reason, as a sentence.
    clause
        The field of the query, or the option of the run, that is removed.
    instead
        Another option that is removed instead, in half of the cases.
    """

    error: str
    ones: tuple[str, ...]
    others: tuple[str, ...]
    reason: str
    clause: str
    instead: str = ""


#: Raised when a query is checked or planned; ``clause`` is a field of `ast.Query`.
OF_QUERIES = (
    Refusal(
        "with the window, which must be a time or explicit", ("NEG first", "NEG last"), WITHIN[1:],
        "A NEG at an edge needs a window whose beginning and end are times.", "window",
    ),
    Refusal("so it waits until that time has passed, but", (), (), "", "window"),
    Refusal(
        "PERIODIC needs a time window, in which it ticks", ("PERIODIC",), (*WITHIN[1:], *EXPLICIT),
        "PERIODIC ticks until the end of WITHIN t.", "window",
    ),
    Refusal(
        "SELECT .*, but .*is decided only (when|after)", ("NEG last", "PERIODIC"), SELECT,
        "Such a match is decided when its window has ended, later than the event it ends in.", "select",
    ),
    Refusal(
        "CONSUME .*, but .*is decided only (when|after)", ("NEG last", "PERIODIC"),
        ("CONSUME consumed",), "Such a match is decided when its window has ended, later than the event it ends in.",
        "consume",
    ),
    Refusal(
        "AFTER MATCH .*, but .*is decided only (when|after)", ("NEG last", "PERIODIC"),
        SKIP, "Such a match is decided when its window has ended, later than the event it ends in.", "after_match",
    ),
    Refusal(
        "SELECT longest needs STRATEGY", ("SELECT longest",), ("skip_till_any",),
        "Any later event could make a longer match.", "strategy",
    ),
    Refusal(
        "CONSUME .*, but SELECT longest reports a match later", ("SELECT longest",), ("CONSUME consumed",),
        "It is reported when other partial matches may have used its events.", "consume",
    ),
    Refusal("every match begins with .*so it would skip nothing", (), (), "", "after_match"),
    Refusal(
        "RETURN describes a single match", ("SELECT cumulative",), ("RETURN",), "RETURN speaks of one match.",
        "returns",
    ),
    Refusal("LIMIT needs explicit windows", ("LIMIT k",), WITHIN, "LIMIT is per explicit window.", "limit"),
    Refusal(
        "partition_contiguity needs PARTITION BY, because", ("partition_contiguity",), (),
        "partition_contiguity needs PARTITION BY.", "partition",
    ),
    Refusal(
        "mention several rounds, or variables bound after the event that follows",
        ("(…)+ g[]", "(…)? g"), ("skip_till_next",),
        "Only where a condition on a NEG in a group mentions what is bound later.", "where",
    ),
)  # fmt: skip

_FACTORISED = ("store=factorised", "trial → rows", "trial → factorised")

#: Raised when a model of pSPICE or eSPICE is fitted: another shedder needs none.
OF_MODELS = (
    Refusal("^(fit|transition_counts): query .* has .*(; give a window|cannot be counted yet)", (), (), "", "shedder"),
    Refusal("^transition_counts: query .*: under skip_till_next it cannot be determined", (), (), "", "shedder"),
    Refusal("^fit: the history has no (partial )?match of query", (), (), "", "shedder"),
    Refusal("^position_counts: query .* has WITHIN .*, under which an event has no position", (), (), "", "shedder"),
)

#: Raised when an engine is created, state moves, or a stream is divided; ``clause`` is an option of `runs.Run`.
OF_RUNS = (
    Refusal(
        "cannot have store='factorised': its pattern is not a SEQ of variables",
        ("AND", "OR", "ANY", "ANY DISTINCT", "APERIODIC", "PERIODIC", "NEG first", "NEG between", "NEG last",
         "NEG FOR", "(…)+ g[]", "(…)? g", "WHERE on NEG", "UNTIL"), _FACTORISED,
        "It enumerates a SEQ of variables only.", "store",
    ),
    Refusal(
        "cannot have store='factorised': .* is optional, bounded or consecutive",
        ("T? x", "T* x[]", "T{m,n} x[]", "CONSECUTIVE", "ANY DISTINCT"), _FACTORISED,
        "It serves single variables and unbounded `+`.", "store",
    ),
    Refusal(
        "cannot have store='factorised': its first and last variables must be single",
        ("T+ x[]",), (), "", "store",
    ),
    Refusal(
        "cannot have store='factorised': its strategy or NEXT restricts which events can follow",
        ("NEXT", "skip_till_next", "partition_contiguity", "strict_contiguity"), _FACTORISED,
        "It enumerates every combination: skip_till_any only.", "store",
    ),
    Refusal(
        "cannot have store='factorised': its policies choose between matches",
        (*SELECT, "CONSUME consumed", "LIMIT k", *SKIP), _FACTORISED,
        "It has no partial matches that a reported match could end.", "store",
    ),
    Refusal(
        "cannot have store='factorised': its windows are explicit", EXPLICIT, _FACTORISED,
        "It has one window per match only.", "store",
    ),
    Refusal(
        "cannot have store='factorised': .* (depends on all elements|uses a single element) of a Kleene variable",
        ("AVG(x[].a)", "AVG(x[..i].a)", "x[first].a", "x[last-1].a"), _FACTORISED,
        "A condition must be known of the event chosen and of those after it.", "store",
    ),
    Refusal(
        "cannot have store='factorised': partial matches that time out", ("timed_out",), _FACTORISED,
        "It has no partial matches that could time out.", "store", "timed_out",
    ),
    Refusal(
        "cannot have store='factorised': partial matches are shed", ("shedder",), _FACTORISED,
        "It has no partial matches that could be shed.", "store", "shedder",
    ),
    Refusal(
        "cannot have store='factorised': with index=", ("index=key", "index=off"), _FACTORISED,
        "The option is about the indexes of partial matches.", "store", "index",
    ),
    Refusal(
        "cannot have store='factorised': (whether .* applies depends|.* compares |.* is equal to|.* is not of one "
        "type)", (), (), "",
        "store",
    ),
    Refusal("there is no work for a second thread", (), (), "", "threads"),
    Refusal(
        "measuring latencies and shedding load require one thread", ("threads>1",), ("shedder",),
        "Latencies are measured with one thread.", "shedder",
    ),
    Refusal(
        "ends with NEG … FOR, so partial matches live longer", ("NEG FOR",), ("timed_out",),
        "Partial matches that wait for a silence live longer than their window.", "timed_out",
    ),
    Refusal(
        "requires contiguity, so nearly every partial match ends", CONTIGUITY, ("timed_out",),
        "Such partial matches end at the next event, not with their window.", "timed_out",
    ),
    Refusal(
        "mention several rounds, or variables bound after the event that follows", (), (), "", "timed_out",
    ),
    Refusal(
        "RETURN describes a single match", ("SELECT cumulative",), ("attributes",), "RETURN speaks of one match.",
        "attributes",
    ),
)  # fmt: skip

#: Reasons why a stream cannot be divided into slices, after "slices by time: " or "slices by key: ".
OF_SLICES = (
    Refusal(
        "time: WITHIN UNBOUNDED", ("WITHIN UNBOUNDED",), ("slices by time", "instances"),
        "A match may begin any time before.", "",
    ),
    Refusal(
        "time: CONSUME consumed", ("CONSUME consumed",), ("slices by time", "instances"),
        "What a match consumed is known from its slice only.", "",
    ),
    Refusal(
        "time: AFTER MATCH", SKIP, ("slices by time", "instances"),
        "What a match ends is known from its slice only.", "",
    ),
    Refusal(
        "time: LIMIT", ("LIMIT k",), ("slices by time", "instances"), "It counts matches of any time before.", "",
    ),
    Refusal(
        "time: CLOSE ON an event", ("CLOSE ON",), ("slices by time", "instances"),
        "A window may begin any time before.", "",
    ),
    Refusal("no event begins a slice of both", (), (), "", ""),
    Refusal(
        "key: WITHIN [0-9,]+ EVENTS counts", ("WITHIN n EVENTS",), ("slices by key",),
        "It counts the events of all keys.", "",
    ),
    Refusal(
        "key: WINDOW is opened", (*EXPLICIT, "LIMIT k"), ("slices by key",),
        "Its windows are opened by events of all keys.", "",
    ),
    Refusal(
        "key: contiguity applies to the stream", ("strict_contiguity",), ("slices by key",),
        "Events of all keys lie between others.", "",
    ),
    Refusal("key: contiguity applies to the stream", (), (), "", ""),
    Refusal(
        "key: (no attribute is equal|not every step joins|an event of type|events of type|.* is not of one type|LIMIT|"
        "AFTER|SELECT longest)", (), (), "", "",
    ),
)  # fmt: skip


#: Pairs that are never possible in a query; they are not drawn.
NEVER = (
    Refusal(
        "can only be the whole pattern|which is not the whole pattern", ("PERIODIC",), ("NEG first", "NEG last"),
        "PERIODIC is the whole pattern, a NEG at an edge is for a SEQ that is.", "",
    ),
    Refusal(
        "PERIODIC needs a time window, in which it ticks", ("PERIODIC",), ("LIMIT k",),
        "PERIODIC needs WITHIN t, LIMIT an explicit window.", "",
    ),
    Refusal(
        "PERIODIC has its own end, so its parts cannot contain NEG", ("PERIODIC",), ("NEG FOR",),
        "PERIODIC is the whole pattern, and its parts cannot have a silence.", "",
    ),
)  # fmt: skip

#: `fastcep.spark.detect` takes one query.
ONE_QUERY = Refusal(
    "", ("another query",), ("slices by time", "slices by key"), "A stream is cut for one query.", "",
)  # fmt: skip


def refusal_of(message: str, known: Iterable[Refusal]) -> Refusal | None:
    """Return the refusal that an error message belongs to, None if there is none."""
    return next((item for item in known if re.search(item.error, message, re.DOTALL)), None)
