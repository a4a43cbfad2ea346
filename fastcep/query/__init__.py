"""Queries: the language's text and the builder, both giving the same checked `Query`."""

from fastcep.query import functions
from fastcep.query.ast import Query
from fastcep.query.attributes import with_attributes
from fastcep.query.builder import Builder, any_type, first, i, last, same, seq
from fastcep.query.document import Document, document_text, parse_document, parse_file
from fastcep.query.parser import parse
from fastcep.query.printer import expression_text, to_text
from fastcep.query.types import type_of

__all__ = [
    "Builder",
    "Document",
    "Query",
    "any_type",
    "document_text",
    "expression_text",
    "first",
    "functions",
    "i",
    "last",
    "parse",
    "parse_document",
    "parse_file",
    "same",
    "seq",
    "to_text",
    "type_of",
    "with_attributes",
]
