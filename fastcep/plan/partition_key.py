"""The partition key of a query: an attribute on which all events of a match agree, including negated variables.

The key lets the state be split into key groups (docs/reliability.md). This needs no extra storage: every join of events
includes the key, so each row has it in the key of its bucket, and a waiting match has it among its outputs. This module
finds these places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fastcep.plan.automaton import Automaton
from fastcep.plan.contiguity import partition_plan
from fastcep.plan.ir import Op
from fastcep.plan.joins import EVENT_ATTRIBUTES
from fastcep.plan.plan import KeyPlan, PartitionPlan, Plan
from fastcep.plan.translate import Translator
from fastcep.query import ast, traversal
from fastcep.query.previous import previous_attributes
from fastcep.query.printer import skip_text
from fastcep.query.types import BUILTINS

__all__ = ["KeyWords", "event_partition", "find_key", "key_columns"]

Pair = tuple[Op, Op]
Attributes = tuple[str, ...]  # per variable, including negated ones


@dataclass(frozen=True, slots=True)
class KeyWords:
    """All join keys of a plan, as pairs of a value of the row and a value of the event.

    Attributes
    ----------
    indexes
        Per index, the equalities of each edge that searches it.
    negations
        Per store of negated events, its variable and its keys.
    waiting
        Per state whose matches wait, the equalities of the checks at their end, each with the output that holds it.
    kept
        Per store of kept events, its variable and its keys.
    lacking
        Reason why indexes may lack words of a key; empty if they have all equalities of the query.
    """

    indexes: Sequence[Sequence[Sequence[Pair]]]
    negations: Sequence[tuple[int, Sequence[Op]]]
    waiting: Mapping[int, Sequence[tuple[int, Op, Op]]]
    kept: Sequence[tuple[int, Sequence[Op]]] = ()
    lacking: str = ""


def find_key(query: ast.Query, automaton: Automaton, translate: Translator, words: KeyWords) -> KeyPlan | str:
    """Return the key of a query, or the reason why its state cannot be split."""
    if query.limit is not None and not query.partition:
        return "LIMIT counts the matches of all keys"
    if query.after_match in ("skip past last", "skip to first", "skip to last") and not query.partition:
        return f"AFTER MATCH {skip_text(query)} drops the partial matches of all keys"
    if query.select == "longest" and (
        not query.partition or query.strategy == "strict_contiguity" or isinstance(query.window, ast.CountWindow)
    ):
        return "SELECT longest reports a match when an event of any key ends it"
    reason = "no attribute is equal in all variables, including negated ones"
    for attributes in _candidates(query, automaton, translate):
        key = _locate(query, automaton, translate, attributes, words)
        if isinstance(key, KeyPlan):
            return key
        reason = key
    return reason


def event_partition(plan: Plan) -> PartitionPlan | None:
    """Return the partitions in which events matter that no variable binds: for contiguity, or as earlier events."""
    if plan.partition is None and any(previous_attributes(plan.query)):
        return partition_plan(plan.query)
    return plan.partition


def key_columns(plan: Plan, key: KeyPlan) -> list[int]:
    """Return the column of the key for each type id, -1 for none.

    Types that no variable has get the first column of PARTITION BY, if there is one.
    """
    columns, partition = list(key.columns), event_partition(plan)
    if partition is not None:
        for type_id, partition_columns in enumerate(partition.columns):
            if partition_columns and columns[type_id] < 0:
                columns[type_id] = partition_columns[0]
    return columns


def _locate(
    query: ast.Query, automaton: Automaton, translate: Translator, attributes: Attributes, words: KeyWords
) -> KeyPlan | str:
    dtypes = {translate.dtype(variable, name) for variable, name in enumerate(attributes)}
    if len(dtypes) > 1:
        return f"{_attributes_text(attributes)} is not of one type"
    columns: dict[str, int] = {}
    for variable, name in zip(automaton.variables, attributes, strict=True):
        for kind in variable.declaration.types:
            column = query.schema.column_of(kind, name)
            if columns.setdefault(kind, column) != column:
                return f"events of type {kind} can be bound to two variables with different keys"

    def is_key(value: Op) -> bool:
        inner = value.args[0] if value.name == "key_f" else value
        if inner.name == "q":
            kind, variable, _, name = inner.data
            if kind == "part":
                return {name} == set(attributes)
            return kind in EVENT_ATTRIBUTES and name == attributes[variable]
        return inner.name in ("event", "neg") and inner.data[1] == attributes[inner.data[0]]

    def key_pairs(pairs: Sequence[Pair]) -> set[int]:
        """Return the numbers of the pairs with the key on both sides; one side is not enough, as in `a.v = c.k`."""
        return {number for number, pair in enumerate(pairs) if all(map(is_key, pair))}

    def key_words(stores: Sequence[tuple[int, Sequence[Op]]]) -> list[int]:
        """Return per store of events the word of its keys that is the key, or -1."""
        return [next((word for word, value in enumerate(keys) if is_key(value)), -1) for _, keys in stores]

    indexes = [min(set.intersection(*map(key_pairs, edges)), default=-1) for edges in words.indexes]
    indexes += key_words(words.kept)
    negations = key_words(words.negations)
    waiting = {state: next((output for output, *pair in pairs if all(map(is_key, pair))), -1)
               for state, pairs in words.waiting.items()}  # fmt: skip
    if -1 in (*indexes, *negations, *waiting.values()):
        return (words.lacking if -1 in indexes else "") or f"not every step joins by {_attributes_text(attributes)}"
    return KeyPlan(
        attributes=attributes,
        dtype=dtypes.pop(),
        columns=tuple(columns.get(kind, -1) for kind in query.schema.type_names),
        indexes=tuple(indexes),
        negations=tuple(negations),
        waiting=tuple(waiting.get(state, -1) for state in range(len(automaton.states))),
    )


def _attributes_text(attributes: Attributes) -> str:
    return " = ".join(dict.fromkeys(attributes))


# ------------------------------------------------------------------- candidates


def _candidates(query: ast.Query, automaton: Automaton, translate: Translator) -> Iterable[Attributes]:
    """Yield attributes on which all variables agree, first by ``[…]``, then by equalities."""
    conjuncts = traversal.conjuncts(query.where)
    # Only the first attribute, because the last events of partitions are stored by their attributes in this order.
    same = list(query.partition[:1])
    for conjunct in conjuncts if not query.partition else ():
        if isinstance(conjunct, ast.SameAttributes):
            same.extend(conjunct.names)
    for name in dict.fromkeys(same):
        yield (name,) * len(automaton.variables)
    if not query.partition:
        yield from _by_equalities(conjuncts, automaton, translate)


Node = tuple[int, str]  # a variable and an attribute


def _by_equalities(conjuncts: Sequence[ast.Expr], automaton: Automaton, translate: Translator) -> Iterable[Attributes]:
    """Yield classes of ``x.p = y.q`` that connect all variables, whichever optional variables are bound."""
    links: list[tuple[Node, Node]] = []
    within: set[Node] = set()  # x[i+1].p = x[i].p
    single: list[tuple[Node, Node]] = []  # one element of x[] equals y
    for conjunct in conjuncts:
        if not (isinstance(conjunct, ast.Binary) and conjunct.operator == "="):
            continue
        sides = conjunct.left, conjunct.right
        if not all(isinstance(side, ast.Attribute) and side.name not in BUILTINS and not side.places for side in sides):
            continue  # built-in attributes, and those of earlier events, do not identify an entity
        attributes = [side for side in sides if isinstance(side, ast.Attribute)]
        nodes = [(translate.numbers[side.qualified_name], side.name) for side in attributes]
        one, other = nodes
        kinds = [_reach(side, automaton, node[0]) for side, node in zip(sides, nodes, strict=True)]
        if one == other and sorted(kinds) == ["each", "neighbour"]:
            within.add(one)
        elif one[0] != other[0] and "neighbour" not in kinds and kinds != ["each", "each"]:
            (single if "some" in kinds else links).append((one, other))
    links += [(one, other) for one, other in single
              if all(node in within or not automaton.variables[node[0]].repeated for node in (one, other))]  # fmt: skip
    mandatory = {m for m, variable in enumerate(automaton.variables)
                 if not variable.negated and automaton.mandatory(_group_or_variable(m, automaton))}  # fmt: skip
    for start in dict.fromkeys(node for link in links for node in link):
        equal_nodes = {start} if start[0] in mandatory else set()
        for _ in links:
            for one, other in links:
                if one[0] in mandatory and other[0] in mandatory and (one in equal_nodes or other in equal_nodes):
                    equal_nodes |= {one, other}
        reached = dict([start]) if start in equal_nodes else {}
        for variable, name in sorted(equal_nodes):
            reached.setdefault(variable, name)
        for one, other in (*links, *(link[::-1] for link in links)):
            if one in equal_nodes:
                reached.setdefault(*other)
        if len(reached) == len(automaton.variables):
            yield tuple(reached[m] for m in range(len(automaton.variables)))


def _group_or_variable(variable: int, automaton: Automaton) -> int:
    return automaton.chain[variable] if automaton.chain[variable] >= 0 else variable


def _reach(side: ast.Expr, automaton: Automaton, variable: int) -> str:
    """Return which events of its variable a reference reads: all (of a single variable), each, neighbour or some."""
    assert isinstance(side, ast.Attribute)
    if not automaton.variables[variable].repeated:
        return "all"
    if side.index is not None and side.index.kind == "relative":
        return "neighbour" if side.index.offset else "each"
    return "some"
