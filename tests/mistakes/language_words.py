"""Mistakes in the words, names and clauses of a query, and in .cep documents."""

from __future__ import annotations

from mistakes.language_texts import documents, queries

QUERIES = {
    # words and signs
    "empty text": "",
    "only a comment": "-- nothing here\n",
    "no PATTERN": "SEQ(Payment a, Refund r) WITHIN 1h",
    "keyword misspelt": "PATERN SEQ(Payment a, Refund r) WITHIN 1h",
    "WHERE misspelt": "PATTERN SEQ(Payment a, Refund r) WERE a.card = r.card WITHIN 1h",
    "WITHIN misspelt": "PATTERN SEQ(Payment a, Refund r) WHERE a.card = r.card WITIN 1h",
    "comma missing": "PATTERN SEQ(Payment a Refund r) WITHIN 1h",
    "comma too many": "PATTERN SEQ(Payment a, Refund r,) WITHIN 1h",
    "parenthesis not closed": "PATTERN SEQ(Payment a, Refund r WITHIN 1h",
    "parenthesis too many": "PATTERN SEQ(Payment a, Refund r)) WITHIN 1h",
    "parenthesis of a condition not closed":
        "PATTERN SEQ(Payment a, Refund r)\nWHERE (a.card = r.card AND a.amount > 3\nWITHIN 1h",
    "text not closed": "PATTERN SEQ(Payment a, Refund r) WHERE a.country = 'DE WITHIN 1h",
    "text in double quotes": 'PATTERN SEQ(Payment a, Refund r) WHERE a.country = "DE" WITHIN 1h',
    "typographic quotes": "PATTERN SEQ(Payment a, Refund r) WHERE a.country = ‘DE’ WITHIN 1h",
    "apostrophe in a text": "PATTERN SEQ(Payment a, Refund r) WHERE a.country = 'Cote d'Ivoire' WITHIN 1h",
    "semicolon at the end": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h;",
    "slash comment": "// fraud\nPATTERN SEQ(Payment a, Refund r) WITHIN 1h",
    "decimal comma": "PATTERN SEQ(Payment a, Refund r) WHERE a.amount > 1,5 WITHIN 1h",
    "thousands separator": "PATTERN SEQ(Payment a, Refund r) WHERE a.amount > 1_000 WITHIN 1h",
    "currency sign": "PATTERN SEQ(Payment a, Refund r) WHERE a.amount > $100 WITHIN 1h",
    "percent after a number": "PATTERN SEQ(Payment a, Refund r) WHERE a.amount > r.amount * 10% WITHIN 1h",
    "number too long": "PATTERN SEQ(Payment a, Refund r) WHERE a.card = 99999999999999999999 WITHIN 1h",
    # clauses
    "no window": "PATTERN SEQ(Payment a, Refund r) WHERE a.card = r.card",
    "window without a unit": "PATTERN SEQ(Payment a, Refund r) WITHIN 10",
    "window in an unknown unit": "PATTERN SEQ(Payment a, Refund r) WITHIN 10 minutes",
    "window in months": "PATTERN SEQ(Payment a, Refund r) WITHIN 2 months",
    "negative window": "PATTERN SEQ(Payment a, Refund r) WITHIN -5min",
    "window of a fraction of a nanosecond": "PATTERN SEQ(Payment a, Refund r) WITHIN 0.5ns",
    "window longer than 292 years": "PATTERN SEQ(Payment a, Refund r) WITHIN 200000d",
    "window of a broken number of events": "PATTERN SEQ(Payment a, Refund r) WITHIN 2.5 EVENTS",
    "window of fewer events than the pattern": "PATTERN SEQ(Payment a, Refund r) WITHIN 1 EVENTS",
    "explicit window of fewer events than the pattern":
        "PATTERN SEQ(Payment{3} a[], Refund r) WINDOW EVERY 9 EVENTS CLOSE AFTER 3 EVENTS",
    "WHERE after WITHIN": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h WHERE a.card = r.card",
    "two WHERE": "PATTERN SEQ(Payment a, Refund r) WHERE a.card = r.card WHERE a.amount > 3 WITHIN 1h",
    "RETURN before WITHIN": "PATTERN SEQ(Payment a, Refund r) RETURN a.card WITHIN 1h",
    "PARTITION without BY": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h PARTITION card",
    "PARTITION BY a variable": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h PARTITION BY a.card",
    "PARTITION BY an unknown attribute": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h PARTITION BY crad",
    "PARTITION BY an attribute that a type lacks": "PATTERN SEQ(Payment a, Login l) WITHIN 1h PARTITION BY amount",
    "strategy misspelt": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h STRATEGY skip_till_nxt",
    "strategy with hyphens": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h STRATEGY skip-till-next",
    "SELECT of columns": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h SELECT a.card",
    "CONSUME unknown": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h CONSUME all",
    "LIMIT without windows": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h LIMIT 10 PER WINDOW",
    "LIMIT alone": "PATTERN SEQ(Payment a, Refund r) WINDOW EVERY 1h CLOSE AFTER 1h LIMIT 10",
    "negative WEIGHT": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h WEIGHT -1",
    "window that nothing closes": "PATTERN SEQ(Payment a, Refund r) WINDOW OPEN ON Payment o",
    "RETURN of nothing": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h RETURN",
    "RETURN of an event": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h RETURN a",
    "RETURN of everything": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h RETURN *",
    "RETURN of two columns with one name": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h RETURN a.card AS c, r.card AS c",
    "RETURN of an unknown attribute": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h RETURN r.country",
    "two queries in one text":
        "PATTERN SEQ(Payment a, Refund r) WITHIN 1h\nPATTERN SEQ(Login l, Refund r) WITHIN 1h",
    "document given as a query":
        "EVENT Payment (card int64)\nQUERY q\nPATTERN SEQ(Payment a) WITHIN 1h",
    # words of other languages
    "pattern of Flink": 'begin("a").next("b")',
    "loop of Flink": "PATTERN SEQ(Payment a oneOrMore, Refund r) WITHIN 1h",
    "quantifier of Flink": "PATTERN SEQ(Payment a times(3), Refund r) WITHIN 1h",
    "greedy loop of Flink": "PATTERN SEQ(Payment+ a[] greedy, Refund r) WITHIN 1h",
    "negation of Flink": "PATTERN SEQ(Payment a, notFollowedBy Login l, Refund r) WITHIN 1h",
    "key of Flink": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h keyBy card",
    "pattern of SQL": "PATTERN (A B C) WITHIN 1h",
    "reluctant loop of SQL": "PATTERN SEQ(Payment+? a[], Refund r) WITHIN 1h",
    "permutation of SQL": "PATTERN PERMUTE(Payment a, Refund r) WITHIN 1h",
    "alternatives of SQL": "PATTERN SEQ(Login l, Payment a | Refund r) WITHIN 1h",
    "anchor of SQL": "PATTERN SEQ(^ Payment a, Refund r) WITHIN 1h",
    "interval of SQL": "PATTERN SEQ(Payment a, Refund r) WITHIN INTERVAL '1' HOUR",
    "running aggregate of SQL": "PATTERN SEQ(Payment+ a[], Refund r) WHERE RUNNING SUM(a.amount) < 9 WITHIN 1h",
    "classifier of SQL": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h RETURN CLASSIFIER() AS c",
    "offset of SQL": "PATTERN SEQ(Payment+ a[], Refund r) WHERE LAST(a.amount, 1) < 9 WITHIN 1h",
    "filter of Siddhi": "PATTERN SEQ(Payment[amount > 5] a, Refund r) WITHIN 1h",
    "count of Siddhi": "PATTERN SEQ(Payment<2:5> a, Refund r) WITHIN 1h",
    "variable of Siddhi": "PATTERN SEQ(a=Payment, r=Refund) WITHIN 1h",
    "silence of Siddhi": "PATTERN SEQ(Payment a, NEG Refund r FOR 5 sec) WITHIN 1h",
    "choice of Siddhi": "PATTERN SEQ(Payment a, Refund r) WHERE ifThenElse(a.online, 1, 2) = 1 WITHIN 1h",
    "repeat of Esper": "PATTERN SEQ([5] Payment a, Refund r) WITHIN 1h",
    "guard of Esper": "PATTERN SEQ(Payment a, Refund r) WHERE timer:within(5 sec)",
    "timer of Esper": "PATTERN SEQ(Payment a, timer:interval(5 sec)) WITHIN 1h",
    "distinct events of Esper": "PATTERN SEQ(every-distinct(a.card) Payment a) WITHIN 1h",
    "end of a loop before the loop": "PATTERN SEQ(UNTIL Refund r, Payment+ a[]) WITHIN 1h",
}  # fmt: skip

EVENT = "EVENT Payment (card int64)\n"
DOCUMENTS = {
    "document without events": "QUERY q PATTERN SEQ(Payment a) WITHIN 1h",
    "document without a query": EVENT,
    "document with a query without a name": EVENT + "PATTERN SEQ(Payment a) WITHIN 1h",
    "document with two queries of one name":
        EVENT + "QUERY q PATTERN SEQ(Payment a) WITHIN 1h\nQUERY q PATTERN SEQ(Payment b) WITHIN 1h",
    "document with a type declared twice": EVENT + EVENT + "QUERY q PATTERN SEQ(Payment a) WITHIN 1h",
    "document with an unknown dtype":
        "EVENT Payment (card integer)\nQUERY q PATTERN SEQ(Payment a) WITHIN 1h",
    "document with name and dtype exchanged":
        "EVENT Payment (int64 card)\nQUERY q PATTERN SEQ(Payment a) WITHIN 1h",
    "document with a colon before the dtype":
        "EVENT Payment (card: int64)\nQUERY q PATTERN SEQ(Payment a) WITHIN 1h",
    "document with an attribute called time":
        "EVENT Payment (time int64)\nQUERY q PATTERN SEQ(Payment a) WITHIN 1h",
    "document with two types and no type column":
        EVENT + "EVENT Refund (card int64)\nQUERY q PATTERN SEQ(Payment a) WITHIN 1h",
    "document with the time column without quotes":
        "STREAM TIME ts\n" + EVENT + "QUERY q PATTERN SEQ(Payment a) WITHIN 1h",
    "document with an unknown unit":
        "STREAM TIME 'ts' UNIT sec\n" + EVENT + "QUERY q PATTERN SEQ(Payment a) WITHIN 1h",
    "document with an unknown time zone":
        "STREAM TIME 'ts' ZONE 'Berlin'\n" + EVENT + "QUERY q PATTERN SEQ(Payment a) WITHIN 1h",
    "document with two streams":
        "STREAM TIME 'ts'\nSTREAM TIME 'ts'\n" + EVENT + "QUERY q PATTERN SEQ(Payment a) WITHIN 1h",
    "document with codes for some types":
        "STREAM TYPE 'kind'\nEVENT Payment = 1 (card int64)\nEVENT Refund (card int64)\n"
        "QUERY q PATTERN SEQ(Payment a) WITHIN 1h",
    "document with an empty text": "",
}  # fmt: skip

MISTAKES = queries(QUERIES) | documents(DOCUMENTS)
