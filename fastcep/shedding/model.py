"""Models of shedders, on disk: a folder with a manifest (JSON) and a file of Arrow data per part.

``manifest.json`` has the format and its version, the kind of the model, the version of fastcep that wrote it, query and
schema as text, parameters, numbers, and the file of each part; with the XXH64 of the texts, of the files, and of all of
the manifest (sorted keys, no spaces, without its own). There are no pickles in it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from secrets import token_hex
from typing import Any

import pyarrow as pa
from xxhash import xxh64_hexdigest

from fastcep.errors import ModelError, ParseError, ValidationError
from fastcep.events.schema import difference, suggestion
from fastcep.query import Document, ast, document_text, parse_document, to_text
from fastcep.stored import TEXT, Misfit, anything, by_name, record, shown, whole

__all__ = ["Model", "check_folder", "check_kind", "load_model"]

KINDS = ("hybrid",)

_FORMAT, _VERSION = "fastcep-model", 1
_MANIFEST = "manifest.json"
_FILE = re.compile(r"\d{2,9}-[A-Za-z0-9-]{0,80}\.arrow")
_NO_NAME = re.compile(r"[^A-Za-z0-9]+")
_AGAIN = "copy the folder again, or fit a new model with fastcep.fit()"
#: What a manifest with the right checksum and the wrong content makes the reader raise.
_FAULTS = (LookupError, TypeError, AttributeError, ValueError, pa.ArrowException)


def _file(value: Any, name: str) -> None:
    """The name of a file in the folder."""
    if type(value) is not str or not _FILE.fullmatch(value):
        raise Misfit(name, shown(value), "the name of a file of the folder, such as '00-children.arrow'")


_TEXT = record({"text": TEXT, "xxh64": TEXT})
_STORED = record({
    "format": TEXT, "version": whole(), "kind": TEXT, "fastcep": TEXT, "query": _TEXT, "schema": _TEXT,
    "parameters": by_name(anything), "numbers": by_name(anything),
    "parts": by_name(record({"file": _file, "xxh64": TEXT})),
})  # fmt: skip


@dataclass(frozen=True)
class Model:
    """What a shedder has learned of a query.

    Attributes
    ----------
    kind
        Of which shedder: ``"hybrid"``.
    query
        The query that it was fitted for, with its schema.
    parameters
        How it was fitted, as JSON has it.
    numbers
        What was found out and is no table, as JSON has it.
    parts
        Arrow tables by name.

    Raises
    ------
    ValidationError
        There is no such kind.
    """

    kind: str
    query: ast.Query
    parameters: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, pa.Table] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValidationError(f"there is no model of kind {self.kind!r}{suggestion(self.kind, KINDS)}")

    @cached_property
    def hash(self) -> str:
        """The XXH64 of all that it holds, in hex."""
        query, schema = _texts(self.query)
        parts = {name: _hash(_packed(part)) for name, part in self.parts.items()}
        found = {"query": query, "schema": schema, "parameters": self.parameters, "numbers": self.numbers}
        return _checksum({**found, "parts": parts})

    def check(self, query: ast.Query) -> None:
        """Refuse another query or schema than it was fitted for: `ModelError`. The query's name does not matter."""
        if query.schema != self.query.schema:
            what = difference(query.schema, self.query.schema)
            raise ModelError(
                f"model {self.kind!r} is not of query {query.name!r}, whose schema differs: {what}; fit one for it"
            )
        if to_text(replace(query, name=self.query.name)) != to_text(self.query):
            raise ModelError(
                f"model {self.kind!r} is of query {self.query.name!r}, not of {query.name!r}; fit one for this query. "
                f"It was fitted for:\n{to_text(self.query)}"
            )

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write it to a folder, which appears whole or not at all.

        Parameters
        ----------
        folder
            A name that is free, an empty folder, or one with a model, which is replaced.

        Raises
        ------
        ModelError
            There is something else.
        ValidationError
            It cannot be written, or parameters or numbers are not what JSON can hold.
        """
        check_folder(folder)
        parts = {name: _packed(part) for name, part in self.parts.items()}
        names = {name: f"{number:02}-{_NO_NAME.sub('-', name)[:80]}.arrow" for number, name in enumerate(parts)}
        files = {names[name]: data for name, data in parts.items()}
        listed = {name: {"file": names[name], "xxh64": _hash(data)} for name, data in parts.items()}
        files[_MANIFEST] = self._manifest(listed)
        try:
            _put(files, Path(folder).resolve())
        except OSError as error:
            raise _unwritten(folder, error) from error

    def _manifest(self, parts: Mapping[str, Mapping[str, str]]) -> bytes:
        query, schema = _texts(self.query)
        manifest: dict[str, Any] = {
            "format": _FORMAT,
            "version": _VERSION,
            "kind": self.kind,
            "fastcep": _this_version(),
            "query": {"text": query, "xxh64": _hash(query)},
            "schema": {"text": schema, "xxh64": _hash(schema)},
            "parameters": self.parameters,
            "numbers": self.numbers,
            "parts": parts,
        }
        try:
            manifest["xxh64"] = _checksum(manifest)
            text = json.dumps(manifest, indent=2, allow_nan=False, ensure_ascii=False).encode()
            same = json.loads(text) == manifest
        except (TypeError, ValueError, RecursionError) as error:
            raise ValidationError(
                f"model {self.kind!r} has parameters or numbers that JSON cannot hold: {error}; give texts, finite "
                "numbers, booleans, None, and lists and dicts of them"
            ) from None
        if not same:
            raise ValidationError(
                f"model {self.kind!r} has parameters or numbers that JSON gives back as something else; give lists "
                "instead of tuples, and texts as the keys of dicts"
            )
        return text


def check_kind(kind: str) -> None:
    """Refuse a kind of which there is no model, by ValidationError."""
    if kind not in KINDS:
        raise ValidationError(f"kind={kind!r}: there is no model of that kind{suggestion(kind, KINDS)}")


def check_folder(folder: str | os.PathLike[str], *, parents: bool = False) -> None:
    """Refuse what `Model.save` cannot write to, before there is a model.

    Parameters
    ----------
    folder
        As of `Model.save`.
    parents
        The folders that it is to be in will be made, if they are not there.

    Raises
    ------
    ModelError
        There is something else.
    ValidationError
        There is no folder that it could be in, or no permission to write.
    """
    try:
        target = Path(folder).resolve()
        if target.exists() and not target.is_dir():
            raise ModelError(f"'{folder}' is a file; a model is a folder: give another name")
        around = next((place for place in target.parents if place.exists() or not parents), target)
        if not around.is_dir():
            why = f"'{around}' is no folder" if around.exists() else f"there is no folder '{around}'; make it first"
            raise ValidationError(f"cannot write '{folder}': {why}")
        for place in (around, target):
            if place.exists() and not os.access(place, os.W_OK | os.X_OK):
                raise ValidationError(
                    f"cannot write '{folder}': the folder '{place}' may not be written; change its permissions, or "
                    "give another name"
                )
        _check_replaced(target, folder)
    except OSError as error:
        raise _unwritten(folder, error) from error


def load_model(folder: str | os.PathLike[str]) -> Model:
    """Read a model that `Model.save` wrote.

    Raises
    ------
    ModelError
        It is not there, damaged, or of another version of the format.
    """
    path = Path(folder)
    if not path.is_dir():
        what = "is no folder" if path.exists() else "is not there"
        raise ModelError(f"'{path}' {what}; give the folder of a model, or fit one with fastcep.fit() and save it")
    manifest = _read_manifest(path / _MANIFEST)
    if manifest["kind"] not in KINDS:
        raise ModelError(
            f"'{path}' has a model of kind {manifest['kind']!r}, which fastcep {_this_version()} does not know, but "
            f"{', '.join(map(repr, KINDS))}; use fastcep {manifest.get('fastcep')}, which wrote it, or a newer one"
        )
    try:
        _STORED(manifest, "")
    except Misfit as fault:
        raise _malformed(path / _MANIFEST, str(fault)) from None
    parts = {name: _read_part(path / of["file"], name, of["xxh64"]) for name, of in manifest["parts"].items()}
    query = _read_query(path / _MANIFEST, manifest["query"]["text"], manifest["schema"]["text"])
    return Model(manifest["kind"], query, manifest["parameters"], manifest["numbers"], parts)


# ------------------------------------------------------------------------------------------------------------ reading


def _read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest, and check that it is one, of this version, and as it was written."""
    data = _read(path, f"'{path.parent}' has no model: there is no file '{path.name}' in it")
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"'{path}' is damaged: it is not JSON ({error}); {_AGAIN}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise ModelError(f"'{path}' is not of a model: its format is not {_FORMAT!r}; give the folder of a model")
    if manifest.get("version") != _VERSION:
        raise ModelError(
            f"'{path}' is written in version {manifest.get('version')!r} of the format, expected {_VERSION}; use "
            f"fastcep {manifest.get('fastcep')}, which wrote it, or fit a new model with fastcep.fit()"
        )
    expected = manifest.pop("xxh64", None)
    found = _checksum(manifest)
    if found != expected:
        raise ModelError(f"'{path}' was altered: found the checksum {found}, expected {expected}; {_AGAIN}")
    if not isinstance(manifest.get("kind"), str):
        raise _malformed(path, "it names no kind")
    return manifest


def _read_part(path: Path, name: str, expected: str) -> pa.Table:
    data = _read(path, f"part {name!r} is missing: there is no file '{path}'")
    found = _hash(data)
    if found != expected:
        raise ModelError(
            f"part {name!r} was altered: found the checksum {found} of '{path}', expected {expected}; {_AGAIN}"
        )
    try:
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        table.validate(full=True)
    except (*_FAULTS, OSError, OverflowError) as error:
        raise _malformed(path, f"part {name!r} cannot be read: {error}") from None
    return table


def _read_query(path: Path, query: str, schema: str) -> ast.Query:
    try:
        found = parse_document(f"{schema}\n{query}").queries
    except (ParseError, ValidationError) as error:
        raise ModelError(
            f"'{path}' has a query that this fastcep does not understand; if it uses functions of your own, define "
            f"them before you load the model, else fit a new one with fastcep.fit(). {error}"
        ) from None
    if len(found) != 1:
        raise _malformed(path, f"query.text: found {len(found)} queries, expected 1")
    return found[0]


def _read(path: Path, missing: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"{missing}; {_AGAIN}") from None
    except OSError as error:
        raise ModelError(f"'{path}' cannot be read: {error.strerror or error}; {_AGAIN}") from None


def _malformed(path: Path, what: str) -> ModelError:
    return ModelError(f"'{path}': {what}. Its checksum is right, so it was written like that; {_AGAIN}")


# ------------------------------------------------------------------------------------------------------------ writing


def _check_replaced(target: Path, named: str | os.PathLike[str]) -> None:
    """Refuse a folder that is no model, or has other files in it."""
    if not target.exists() or not any(target.iterdir()):
        return
    try:
        manifest = json.loads((target / _MANIFEST).read_bytes())
        own = {_MANIFEST, *(part["file"] for part in manifest["parts"].values() if _FILE.fullmatch(part["file"]))}
        ours = manifest["format"] == _FORMAT
    except (OSError, RecursionError, *_FAULTS):
        own, ours = set(), False
    if not ours:
        raise ModelError(f"'{named}' is there, and no model that could be replaced; give another name, or remove it")
    strange = sorted({file.name for file in target.iterdir()} - own)
    if strange:
        raise ModelError(
            f"'{named}' has a model and {strange[0]!r}, which is none of its files and would be lost; move it away, "
            "or give another name"
        )


def _put(files: Mapping[str, bytes], target: Path) -> None:
    """Write a folder, under another name first, in place of the one that is there."""
    fresh, old = (target.with_name(f".fastcep-{token_hex(8)}.part") for _ in range(2))
    try:
        fresh.mkdir()
        for name, data in files.items():
            (fresh / name).write_bytes(data)
        if target.exists():
            target.rename(old)
        fresh.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def _unwritten(folder: str | os.PathLike[str], error: OSError) -> ValidationError:
    return ValidationError(f"cannot write '{folder}': {error.strerror or error}; free space, or write elsewhere")


def _packed(part: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, part.schema) as writer:
        writer.write_table(part)
    return sink.getvalue().to_pybytes()


# -------------------------------------------------------------------------------------------------------------- texts


def _texts(query: ast.Query) -> tuple[str, str]:
    """The query and its schema; the schema's text and the query's, one behind the other, are a document."""
    return to_text(query), document_text(Document(query.schema, ()))


def _hash(data: bytes | str) -> str:
    return xxh64_hexdigest(data.encode() if isinstance(data, str) else data)


def _checksum(manifest: Mapping[str, Any]) -> str:
    return _hash(json.dumps(manifest, sort_keys=True, separators=(",", ":")))


def _this_version() -> str:
    try:
        return version("fastcep")
    except PackageNotFoundError:  # run from its sources
        return "of unknown version"
