"""The schema of the mistakes in queries, and what makes a mistake of a text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import fastcep as fc
from mistakes.catalogue import Act

SCHEMA = fc.Schema(
    {
        "Payment": {"card": "int64", "amount": "float64", "country": "string", "online": "bool"},
        "Login": {"card": "int64", "device": "string", "failed": "bool"},
        "Refund": {"card": "int64", "amount": "float64"},
    },
    type="kind",
)


def _parse(text: str, folder: Path) -> fc.Query:
    return fc.parse(text, SCHEMA)


def _document(text: str, folder: Path) -> object:
    return fc.parse_document(text)


def queries(texts: Mapping[str, str]) -> dict[str, Act]:
    """Return the mistakes of parsing these queries."""
    return {name: partial(_parse, text) for name, text in texts.items()}


def documents(texts: Mapping[str, str]) -> dict[str, Act]:
    """Return the mistakes of parsing these .cep documents."""
    return {name: partial(_document, text) for name, text in texts.items()}
