"""A query runs after its mistake is changed in the way that the message recommends."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import fastcep as fc
from fastcep.io import open_source
from mistakes.catalogue import mistakes
from mistakes.language_texts import SCHEMA

TWO = "PATTERN SEQ(Payment a, Refund r)"
MANY = "PATTERN SEQ(Payment+ a[], Refund r)"
W = "WITHIN 1h"
FIXED = {
    "empty text": "PATTERN SEQ(Login a, Refund b) WITHIN 5min",
    "keyword misspelt": f"{TWO} {W}",
    "comma missing": f"{TWO} {W}",
    "parenthesis of a condition not closed": f"{TWO} WHERE (a.card = r.card AND a.amount > 3) {W}",
    "text in double quotes": f"{TWO} WHERE a.country = 'DE' {W}",
    "apostrophe in a text": f"{TWO} WHERE a.country = 'Cote d''Ivoire' {W}",
    "decimal comma": f"{TWO} WHERE a.amount > 1.5 {W}",
    "thousands separator": f"{TWO} WHERE a.amount > 1000 {W}",
    "percent after a number": f"{TWO} WHERE a.amount > r.amount * 0.1 {W}",
    "number too long": f"{TWO} WHERE a.card = 99999999999999999999.0 {W}",
    "no window": f"{TWO} WHERE a.card = r.card WITHIN 100 EVENTS",
    "window without a unit": f"{TWO} WITHIN 5min",
    "window of a fraction of a nanosecond": f"{TWO} WITHIN 1ns",
    "window of a broken number of events": f"{TWO} WITHIN 3 EVENTS",
    "PARTITION without BY": f"{TWO} {W} PARTITION BY card",
    "PARTITION BY a variable": f"{TWO} {W} PARTITION BY card",
    "SELECT of columns": f"{TWO} {W} RETURN a.card",
    "LIMIT without windows": f"{TWO} WINDOW OPEN ON Login o CLOSE ON Login c LIMIT 10 PER WINDOW",
    "window that nothing closes": f"{TWO} WINDOW OPEN ON Payment o CLOSE AFTER 100 EVENTS",
    "RETURN of everything": f"{TWO} {W} RETURN a.card AS name",
    "variable before its type": "PATTERN SEQ(Payment a, Refund r) WITHIN 1h",
    "operator in infix form": f"PATTERN AND(Payment a, Refund r) {W}",
    "type alone as the pattern": f"PATTERN SEQ(Payment a) {W}",
    "ANY of zero": f"PATTERN ANY(1, Payment a, Refund r) {W}",
    "Kleene variable without brackets": f"{MANY} {W}",
    "quantifier after the variable": f"{MANY} {W}",
    "quantifier with bounds reversed": f"PATTERN SEQ(Payment{{2,5}} a[], Refund r) {W}",
    "group without a name": f"PATTERN SEQ((SEQ(Payment a, Login l))+ g[], Refund r) {W}",
    "union with commas": f"PATTERN SEQ((Payment|Refund) a, Login l) {W}",
    "NEG at the end without a time window": "PATTERN SEQ(Payment a, NEG Refund r) WITHIN 5min",
    "PERIODIC without an interval": f"PATTERN PERIODIC(Payment a, 5min, Refund r) {W}",
    "NEXT after the variable": f"PATTERN SEQ(Payment a, NEXT Refund r) {W}",
    "CONSECUTIVE of one event": f"PATTERN SEQ(Payment+ a[] CONSECUTIVE, Refund r) {W}",
    "partition contiguity without a partition": f"{TWO} {W} STRATEGY strict_contiguity",
    "attribute without a variable": f"{TWO} WHERE a.amount > 100 {W}",
    "event type instead of the variable": f"{TWO} WHERE a.amount > 100 {W}",
    "text compared with a number": f"{TWO} WHERE a.country = '49' {W}",
    "number compared with a text": f"{TWO} WHERE a.card = 4711 {W}",
    "truth value compared with a number": f"{TWO} WHERE a.online = TRUE {W}",
    "chained comparison": f"{TWO} WHERE 10 < a.amount AND a.amount < 100 {W}",
    "ampersands": f"{TWO} WHERE a.card = r.card AND a.amount > 100 {W}",
    "bars": f"{TWO} WHERE a.card = r.card OR a.amount > 100 {W}",
    "exclamation mark for NOT": f"{TWO} WHERE NOT a.online {W}",
    "arrow of less or equal reversed": f"{TWO} WHERE a.amount <= 100 {W}",
    "double star": f"{TWO} WHERE a.amount ^ 2 > 100 {W}",
    "IN with parentheses": f"{TWO} WHERE a.country IN {{'DE', 'FR'}} {W}",
    "BETWEEN with a comma": f"{TWO} WHERE a.amount BETWEEN 10 AND 100 {W}",
    "aggregate of one event": f"{TWO} WHERE a.amount > 100 {W}",
    "aggregate without brackets": f"{MANY} WHERE SUM(a[].amount) > 100 {W}",
    "COUNT without brackets": f"{MANY} WHERE COUNT(a[]) > 3 {W}",
    "Kleene variable without an index": f"{MANY} WHERE a[i].amount > 100 {W}",
    "negative index": f"{MANY} WHERE a[last].amount > 100 {W}",
    "group variable without the group":
        f"PATTERN SEQ((SEQ(Payment a, Login l))+ g[], Refund r) WHERE g[i].a.amount > 100 {W}",
    "equality of an attribute inside OR": f"{TWO} WHERE a.card = r.card OR a.amount > 100 {W}",
}  # fmt: skip


@pytest.mark.parametrize("name", FIXED)
def test_query(name: str) -> None:
    assert name in mistakes("language")
    assert fc.parse(FIXED[name], SCHEMA)


LOGINS = fc.Schema({"Login": {"card": "int64"}}, time_unit="s")
LOGIN = fc.parse("PATTERN SEQ(Login a) WITHIN 1h", LOGINS)


def test_data(tmp_path: Path) -> None:
    """The code in remedies for data."""
    events = [{"ts": 1, "card": 7}]
    assert len(fc.Engine(LOGIN).process(pa.Table.from_pylist(events))) == 1
    column = pa.chunked_array([["7"]])
    assert len(fc.Engine(LOGIN).process({"ts": [1], "card": column.cast(pa.int64())})) == 1
    sources = fc.Schema({"Login": {"card": "int64"}}, time="at", sources={"Login": {"card": "number"}})
    assert len(fc.Engine(fc.parse("PATTERN SEQ(Login a) WITHIN 1h", sources)).process({"at": [1], "number": [7]})) == 1
    (tmp_path / "e.txt").write_text("ts;card\n1;7\n")
    with open_source(tmp_path / "e.txt", LOGINS, format="csv", delimiter=";") as source:
        assert sum(len(fc.Engine(LOGIN).process(batch)) for batch in source) == 1
    assert fc.Schema({"A": {"x": "int64"}}, time_zone="Etc/GMT-2").time_zone == "Etc/GMT-2"
