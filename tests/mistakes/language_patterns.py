"""Mistakes in the pattern of a query."""

from __future__ import annotations

from mistakes.language_texts import queries

QUERIES = {
    "unknown event type": "PATTERN SEQ(Paymnet a, Refund r) WITHIN 1h",
    "event type in lower case": "PATTERN SEQ(payment a, Refund r) WITHIN 1h",
    "unknown event type unlike all others": "PATTERN SEQ(Order o, Refund r) WITHIN 1h",
    "variable before its type": "PATTERN SEQ(a Payment, r Refund) WITHIN 1h",
    "no variable": "PATTERN SEQ(Payment, Refund) WITHIN 1h",
    "variable used twice": "PATTERN SEQ(Payment a, Refund a) WITHIN 1h",
    "variable called i": "PATTERN SEQ(Payment i, Refund r) WITHIN 1h",
    "variable with the name of an output column": "PATTERN SEQ(Payment query, Refund r) WITHIN 1h",
    "variable that begins with a digit": "PATTERN SEQ(Payment 1st, Refund r) WITHIN 1h",
    "empty SEQ": "PATTERN SEQ() WITHIN 1h",
    "type alone as the pattern": "PATTERN Payment a WITHIN 1h",
    "operator in infix form": "PATTERN Payment a AND Refund r WITHIN 1h",
    "unknown operator": "PATTERN SEQQ(Payment a, Refund r) WITHIN 1h",
    "ANY without a number": "PATTERN ANY(Payment a, Refund r) WITHIN 1h",
    "ANY of more than there are": "PATTERN ANY(3, Payment a, Refund r) WITHIN 1h",
    "ANY of zero": "PATTERN ANY(0, Payment a, Refund r) WITHIN 1h",
    "ANY of patterns": "PATTERN ANY(1, SEQ(Payment a, Refund r), Login l) WITHIN 1h",
    "Kleene variable without brackets": "PATTERN SEQ(Payment+ a, Refund r) WITHIN 1h",
    "brackets without a quantifier": "PATTERN SEQ(Payment a[], Refund r) WITHIN 1h",
    "quantifier after the variable": "PATTERN SEQ(Payment a+, Refund r) WITHIN 1h",
    "optional variable with brackets": "PATTERN SEQ(Payment? a[], Refund r) WITHIN 1h",
    "quantifier with bounds reversed": "PATTERN SEQ(Payment{5,2} a[], Refund r) WITHIN 1h",
    "quantifier of zero": "PATTERN SEQ(Payment{0} a[], Refund r) WITHIN 1h",
    "quantifier with a hyphen": "PATTERN SEQ(Payment{2-5} a[], Refund r) WITHIN 1h",
    "quantifier without bounds": "PATTERN SEQ(Payment{} a[], Refund r) WITHIN 1h",
    "only optional variables in a group": "PATTERN SEQ((SEQ(Payment? a))+ g[], Refund r) WITHIN 1h",
    "Kleene variable in a group": "PATTERN SEQ((SEQ(Payment+ a[], Login l))+ g[], Refund r) WITHIN 1h",
    "group without a name": "PATTERN SEQ((SEQ(Payment a, Login l))+, Refund r) WITHIN 1h",
    "union with commas": "PATTERN SEQ((Payment, Refund) a, Login l) WITHIN 1h",
    "union of one type twice": "PATTERN SEQ((Payment|Payment) a, Refund r) WITHIN 1h",
    "union without parentheses": "PATTERN SEQ(Payment|Refund a, Login l) WITHIN 1h",
    "NEG alone": "PATTERN SEQ(NEG Payment n) WITHIN 1h",
    "NEG in AND": "PATTERN AND(Payment a, NEG Refund r) WITHIN 1h",
    "NEG of several events": "PATTERN SEQ(Payment a, NEG Refund+ r[], Login l) WITHIN 1h",
    "NEG of a pattern": "PATTERN SEQ(Payment a, NEG SEQ(Login l, Login m), Refund r) WITHIN 1h",
    "NEG at the end without a time window": "PATTERN SEQ(Payment a, NEG Refund r) WITHIN 100 EVENTS",
    "NEG at the end without any window": "PATTERN SEQ(Payment a, NEG Refund r) WITHIN UNBOUNDED",
    "NEG at the end with SELECT": "PATTERN SEQ(Payment a, NEG Refund r) WITHIN 1h SELECT first",
    "exclamation mark for NEG": "PATTERN SEQ(Payment a, !Refund r, Login l) WITHIN 1h",
    "PERIODIC in SEQ": "PATTERN SEQ(Login l, PERIODIC(Payment a, 5s, Refund r)) WITHIN 1h",
    "PERIODIC without an interval": "PATTERN PERIODIC(Payment a, Refund r) WITHIN 1h",
    "PERIODIC longer than the window": "PATTERN PERIODIC(Login l, 10min, Refund r) WITHIN 1min",
    "APERIODIC of two parts": "PATTERN APERIODIC(Payment a, Refund r) WITHIN 1h",
    "NEXT after the variable": "PATTERN SEQ(Payment a, Refund r NEXT) WITHIN 1h",
    "NEXT in AND": "PATTERN AND(Payment a, NEXT Refund r) WITHIN 1h",
    "CONSECUTIVE of one event": "PATTERN SEQ(Payment a CONSECUTIVE, Refund r) WITHIN 1h",
    "partition contiguity without a partition":
        "PATTERN SEQ(Payment a, Refund r) WITHIN 1h STRATEGY partition_contiguity",
}  # fmt: skip

MISTAKES = queries(QUERIES)
