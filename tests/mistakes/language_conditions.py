"""Mistakes in the conditions of a query."""

from __future__ import annotations

from mistakes.language_texts import queries

TWO = "PATTERN SEQ(Payment a, Refund r) WHERE {} WITHIN 1h"
MANY = "PATTERN SEQ(Payment+ a[], Refund r) WHERE {} WITHIN 1h"
FEW = "PATTERN SEQ(Payment{{2}} a[], Refund r) WHERE {} WITHIN 1h"
LOGIN = "PATTERN SEQ(Login l, Payment a) WHERE {} WITHIN 1h"
GROUP = "PATTERN SEQ((SEQ(Payment a, Login l))+ g[], Refund r) WHERE {} WITHIN 1h"
UNION = "PATTERN SEQ((Payment|Login) x, Refund r) WHERE {} WITHIN 1h"

QUERIES = {
    # names
    "unknown variable": TWO.format("a.card = b.card"),
    "unknown attribute": TWO.format("a.ammount > 100"),
    "unknown attribute unlike all others": TWO.format("a.colour = 'red'"),
    "attribute in upper case": TWO.format("a.CARD = r.card"),
    "attribute without a variable": TWO.format("amount > 100"),
    "event type instead of the variable": TWO.format("Payment.amount > 100"),
    "variable without an attribute": TWO.format("a = r"),
    "two dots": TWO.format("a..card = r.card"),
    "timestamp instead of time": TWO.format("r.timestamp - a.timestamp > 5s"),
    "attribute that not all types of a union have": UNION.format("x.amount > 100"),
    # kinds of values
    "text compared with a number": TWO.format("a.country = 49"),
    "number compared with a text": TWO.format("a.card = '4711'"),
    "number compared with a true value": TWO.format("a.card = TRUE"),
    "truth value compared with a number": TWO.format("a.online = 1"),
    "texts added": TWO.format("a.country + 'X' = 'DEX'"),
    "number as a condition": TWO.format("a.amount"),
    "text as a condition": TWO.format("a.country"),
    "chained comparison": TWO.format("10 < a.amount < 100"),
    "constant that is too large for its attribute": TWO.format("a.card = 9223372036854775808"),
    # operators
    "double equals sign": TWO.format("a.card == r.card"),
    "ampersands": TWO.format("a.card = r.card && a.amount > 100"),
    "bars": TWO.format("a.card = r.card || a.amount > 100"),
    "exclamation mark for NOT": TWO.format("!a.online"),
    "angle brackets for unequal": TWO.format("a.card <> r.card"),
    "arrow of less or equal reversed": TWO.format("a.amount =< 100"),
    "double star": TWO.format("a.amount ** 2 > 100"),
    "comma instead of AND": TWO.format("a.card = r.card, a.amount > 100"),
    "AND at the end": TWO.format("a.card = r.card AND"),
    "AND twice": TWO.format("a.card = r.card AND AND a.amount > 3"),
    "nothing after WHERE": TWO.format(""),
    "right side missing": TWO.format("a.card ="),
    "IN with parentheses": TWO.format("a.country IN ('DE', 'FR')"),
    "IN with brackets": TWO.format("a.country IN ['DE', 'FR']"),
    "IN an empty list": TWO.format("a.country IN {}"),
    "IN a list of other values": TWO.format("a.country IN {'DE', 49}"),
    "BETWEEN with a comma": TWO.format("a.amount BETWEEN 10, 100"),
    # functions and lists
    "unknown function": TWO.format("sqr(a.amount) > 3"),
    "user function that is not registered": TWO.format("risk(a.amount) > 3"),
    "aggregate of one event": TWO.format("SUM(a.amount) > 100"),
    "aggregate without brackets": MANY.format("SUM(a.amount) > 100"),
    "aggregate of a text": MANY.format("SUM(a[].country) > 100"),
    "aggregate of events": MANY.format("SUM(a[]) > 100"),
    "aggregate misspelt": MANY.format("AVERAGE(a[].amount) > 100"),
    "COUNT without brackets": MANY.format("COUNT(a) > 3"),
    "Kleene variable without an index": MANY.format("a.amount > 100"),
    "single variable with an index": TWO.format("a[0].amount > 100"),
    "negative index": MANY.format("a[-1].amount > 100"),
    "index after the last possible element": FEW.format("a[2].amount > 100"),
    "index before the first possible element": FEW.format("a[last-2].amount > 100"),
    "index of neighbours that are too far apart": FEW.format("a[i+2].amount > a[i].amount"),
    "RETURN of an element after the last possible one": FEW.format("a[0].amount > 1") + " RETURN a[2].amount AS third",
    "index with another letter": MANY.format("a[j].amount > 100"),
    "index of first plus one": MANY.format("a[first+1].amount > 100"),
    "list compared with a number": MANY.format("a[].amount > 100"),
    "group variable without the group": GROUP.format("a.amount > 100"),
    "group variable without an index": GROUP.format("g.a.amount > 100"),
    "equality of an attribute with a type that lacks it": LOGIN.format("[amount]"),
    "equality of an attribute inside OR": TWO.format("[card] OR a.amount > 100"),
    "equality of an unknown attribute": TWO.format("[crad]"),
}  # fmt: skip

MISTAKES = queries(QUERIES)
