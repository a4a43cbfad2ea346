"""Queries: the language's text and the builder, both giving the same checked `Query`."""

from fastcep.query.ast import Query
from fastcep.query.attributes import with_attributes
from fastcep.query.builder import functions
from fastcep.query.builder.builder import (
    Builder,
    adjacent,
    all_of,
    any_of,
    any_type,
    aperiodic,
    group,
    one_of,
    periodic,
    same,
    seq,
)
from fastcep.query.builder.variables import first, i, last
from fastcep.query.builder.windows import after, every, on
from fastcep.query.document import Document, document_text, parse, parse_document, parse_file
from fastcep.query.printer import expression_text, to_text
from fastcep.query.types import type_of

__all__ = [
    "Builder",
    "Document",
    "Query",
    "adjacent",
    "after",
    "all_of",
    "any_of",
    "any_type",
    "aperiodic",
    "document_text",
    "every",
    "expression_text",
    "first",
    "functions",
    "group",
    "i",
    "last",
    "on",
    "one_of",
    "parse",
    "parse_document",
    "parse_file",
    "periodic",
    "same",
    "seq",
    "to_text",
    "type_of",
    "with_attributes",
]
