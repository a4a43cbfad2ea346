"""The partition key of a query: an attribute in which all events of a match agree, those of negated variables too.

It lets the state be cut along key groups (docs/reliability.md). Nothing is stored for that: whatever joins events joins
them by the key as well, so each row has it in the key of its bucket, and a waiting match among its outputs. Where they
have it is what is found here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fastcep.plan.automaton import Automaton
from fastcep.plan.ir import Op
from fastcep.plan.joins import OF_ONE
from fastcep.plan.plan import KeyPlan
from fastcep.plan.translate import Translator
from fastcep.query import ast
from fastcep.query.types import BUILTINS

__all__ = ["KeyWords", "find_key"]

Pair = tuple[Op, Op]
Attributes = tuple[str, ...]  # per variable, negated ones too


@dataclass(frozen=True, slots=True)
class KeyWords:
    """What joins events, as pairs of something of the row and something of the event: where a key may be found.

    Attributes
    ----------
    indexes
        Per index the equalities of the edges that search it.
    negations
        Per negated variable's store its member and its keys.
    waiting
        Per state whose matches wait the equalities of the checks at their end, each behind the output that holds it.
    kept
        Per store of kept events its member and its keys.
    lacking
        Why indexes may lack the words of a key; empty if they lack none that the query has.
    """

    indexes: Sequence[Sequence[Sequence[Pair]]]
    negations: Sequence[tuple[int, Sequence[Op]]]
    waiting: Mapping[int, Sequence[tuple[int, Op, Op]]]
    kept: Sequence[tuple[int, Sequence[Op]]] = ()
    lacking: str = ""


def find_key(query: ast.Query, places: Automaton, translate: Translator, words: KeyWords) -> KeyPlan | str:
    """The key of a query, or why its state cannot be cut."""
    if query.limit is not None and not query.partition:
        return "LIMIT counts the matches of all keys"
    if query.after_match == "skip past last" and not query.partition:
        return "AFTER MATCH SKIP PAST LAST drops the partial matches of all keys"
    reason = "no attribute is equal for all of its variables, negated ones included"
    for attributes in _candidates(query, places, translate):
        found = _place(query, places, translate, attributes, words)
        if isinstance(found, KeyPlan):
            return found
        reason = found
    return reason


def _place(
    query: ast.Query, places: Automaton, translate: Translator, attributes: Attributes, words: KeyWords
) -> KeyPlan | str:
    dtypes = {translate.dtype(member, name) for member, name in enumerate(attributes)}
    if len(dtypes) > 1:
        return f"{_named(attributes)} is not of one type"
    columns: dict[str, int] = {}
    for leaf, name in zip(places.leaves, attributes, strict=True):
        for kind in leaf.member.types:
            column = query.schema.column_of(kind, name)
            if columns.setdefault(kind, column) != column:
                return f"an event of type {kind} stands for two variables with different keys"

    def is_key(value: Op) -> bool:
        inner = value.args[0] if value.name == "key_f" else value
        if inner.name == "q":
            kind, member, _, name = inner.data
            return {name} == set(attributes) if kind == "part" else kind in OF_ONE and name == attributes[member]
        return inner.name in ("event", "neg") and inner.data[1] == attributes[inner.data[0]]

    def joint(pairs: Sequence[Pair]) -> set[int]:
        """Which words of the pairs are the key on both sides: equal to one of them is not enough, `a.v = c.k`."""
        return {number for number, pair in enumerate(pairs) if all(map(is_key, pair))}

    def own(stores: Sequence[tuple[int, Sequence[Op]]]) -> list[int]:
        """Which word of the keys of stored events is the key."""
        return [next((word for word, value in enumerate(keys) if is_key(value)), -1) for _, keys in stores]

    indexes = [min(set.intersection(*map(joint, edges)), default=-1) for edges in words.indexes] + own(words.kept)
    negations = own(words.negations)
    waiting = {state: next((output for output, *pair in pairs if all(map(is_key, pair))), -1)
               for state, pairs in words.waiting.items()}  # fmt: skip
    if -1 in (*indexes, *negations, *waiting.values()):
        told = words.lacking if -1 in indexes else ""
        return told or f"not every step joins by {_named(attributes)}"
    return KeyPlan(
        attributes=attributes,
        dtype=dtypes.pop(),
        columns=tuple(columns.get(kind, -1) for kind in query.schema.type_names),
        indexes=tuple(indexes),
        negations=tuple(negations),
        waiting=tuple(waiting.get(state, -1) for state in range(len(places.states))),
    )


def _named(attributes: Attributes) -> str:
    return " = ".join(dict.fromkeys(attributes))


# ------------------------------------------------------------------- candidates


def _candidates(query: ast.Query, places: Automaton, translate: Translator) -> Iterable[Attributes]:
    """The attributes in which all variables agree, by ``[…]``, then by equalities."""
    conjuncts = ast.conjuncts(query.where)
    same = list(query.partition[:1])  # the last events of partitions are kept by the attributes of these, in this order
    for conjunct in conjuncts if not query.partition else ():
        if isinstance(conjunct, ast.SameAttributes):
            same.extend(conjunct.names)
    for name in dict.fromkeys(same):
        yield (name,) * len(places.leaves)
    if not query.partition:
        yield from _by_equalities(conjuncts, places, translate)


Node = tuple[int, str]  # a variable and an attribute


def _by_equalities(
    conjuncts: Sequence[ast.Expr], places: Automaton, translate: Translator
) -> Iterable[Attributes]:
    """Classes of ``x.p = y.q`` that reach every variable, whichever of the optional ones are bound."""
    links: list[tuple[Node, Node]] = []
    within: set[Node] = set()  # x[i+1].p = x[i].p
    somewhere: list[tuple[Node, Node]] = []  # one element of x[], with y
    for conjunct in conjuncts:
        if not (isinstance(conjunct, ast.Binary) and conjunct.operator == "="):
            continue
        sides = conjunct.left, conjunct.right
        if not all(isinstance(side, ast.Attribute) and side.name not in BUILTINS for side in sides):
            continue  # what is built in is no column that tells whose an event is
        nodes = [(translate.variables[side.leaf], side.name) for side in sides if isinstance(side, ast.Attribute)]
        one, other = nodes
        kinds = [_reach(side, places, node[0]) for side, node in zip(sides, nodes, strict=True)]
        if one == other and sorted(kinds) == ["each", "neighbour"]:
            within.add(one)
        elif one[0] != other[0] and "neighbour" not in kinds and kinds != ["each", "each"]:
            (somewhere if "some" in kinds else links).append((one, other))
    links += [(one, other) for one, other in somewhere
              if all(node in within or not places.leaves[node[0]].repeated for node in (one, other))]  # fmt: skip
    must = {m for m, leaf in enumerate(places.leaves) if not leaf.negated and places.mandatory(_whole(m, places))}
    for start in dict.fromkeys(node for link in links for node in link):
        known = {start} if start[0] in must else set()
        for _ in links:
            for one, other in links:
                if one[0] in must and other[0] in must and (one in known or other in known):
                    known |= {one, other}
        reached = dict([start]) if start in known else {}
        for member, name in sorted(known):
            reached.setdefault(member, name)
        for one, other in (*links, *(link[::-1] for link in links)):
            if one in known:
                reached.setdefault(*other)
        if len(reached) == len(places.leaves):
            yield tuple(reached[m] for m in range(len(places.leaves)))


def _whole(member: int, places: Automaton) -> int:
    return places.chain[member] if places.chain[member] >= 0 else member


def _reach(side: ast.Expr, places: Automaton, member: int) -> str:
    """Of which events of its variable an attribute is meant: all (of a single one), each, a neighbour, some."""
    assert isinstance(side, ast.Attribute)
    if not places.leaves[member].repeated:
        return "all"
    if side.index is not None and side.index.kind == "relative":
        return "neighbour" if side.index.offset else "each"
    return "some"
