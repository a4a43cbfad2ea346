"""Models of shedders on disk: a folder with a manifest (JSON) and one Arrow file per part.

``manifest.json`` has the format and its version, the kind of the model, the version of fastcep that wrote it, query and
schema as text, parameters, numbers, and the file of each part. It also has the XXH64 of the texts, of the files and of
the manifest itself (sorted keys, no spaces, without this hash). A model contains no pickles.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
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
from fastcep.overload.names import MODELS
from fastcep.query import Document, ast, document_text, parse_document, to_text
from fastcep.stored import AMOUNT, TEXT, Misfit, anything, by_name, record, shown, whole

__all__ = ["Model", "ModelSource", "check_folder", "check_kind", "load_model", "model_for", "models_of"]

_FORMAT, _VERSION = "fastcep-model", 1
_MANIFEST = "manifest.json"
_FILE = re.compile(r"\d{2,9}-[A-Za-z0-9-]{0,80}\.arrow")
_NO_NAME = re.compile(r"[^A-Za-z0-9]+")
_AGAIN = "copy the folder again, or fit a new model with fastcep.fit()"
#: Exceptions that a manifest with the right checksum and invalid content can cause in the reader.
_FAULTS = (LookupError, TypeError, AttributeError, ValueError, pa.ArrowException)


def _file(value: Any, name: str) -> None:
    """Check the name of a file in the folder."""
    if type(value) is not str or not _FILE.fullmatch(value):
        raise Misfit(name, shown(value), "the name of a file of the folder, such as '00-children.arrow'")


_TEXT = record({"text": TEXT, "xxh64": TEXT})
_STORED = record({
    "format": TEXT, "version": whole(), "kind": TEXT, "fastcep": TEXT, "query": _TEXT, "schema": _TEXT,
    "parameters": by_name(anything), "numbers": by_name(anything),
    "parts": by_name(record({"file": _file, "xxh64": TEXT})),
}, {"measured": by_name(AMOUNT)})  # fmt: skip


@dataclass(frozen=True)
class Model:
    """Model of a query for a shedder.

    Attributes
    ----------
    kind
        Kind of model: ``"hybrid"``, or one of another package.
    query
        Query that the model was fitted for, with its schema.
    parameters
        Parameters of the fit as JSON values.
    numbers
        Fitted values other than tables, as JSON values.
    parts
        Fitted Arrow tables by name.
    measured
        Times in ns that the fit measured; they are not part of the `hash`. ``decision_cost``: of a decision.
        ``order_cost``: of computing the drop order.

    Raises
    ------
    ValidationError
        If the kind is unknown.
    """

    kind: str
    query: ast.Query
    parameters: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, pa.Table] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Model({self.kind!r} of query {self.query.name!r})"

    def __post_init__(self) -> None:
        if self.kind not in MODELS:
            raise ValidationError(f"there is no model of kind {self.kind!r}{suggestion(self.kind, MODELS)}")

    @property
    def decision_cost(self) -> float | None:
        """Time in ns that a decision takes to choose what to drop, as measured at the fit; None if it was not."""
        return self.measured.get("decision_cost")

    @property
    def validation(self) -> dict[str, Any] | None:
        """Report of the validation on held-out history, None if there was none; docs/hybrid.md has its fields."""
        report: dict[str, Any] | None = self.numbers.get("validation")
        return report

    @cached_property
    def hash(self) -> str:
        """XXH64 of the model without measured times, in hex."""
        query, schema = _texts(self.query)
        parts = {name: _hash(_packed(part)) for name, part in self.parts.items()}
        content = {"query": query, "schema": schema, "parameters": self.parameters, "numbers": self.numbers}
        return _checksum({**content, "parts": parts})

    def check(self, query: ast.Query) -> None:
        """Raise `ModelError` for a query or schema other than its own.

        Neither the name of the query nor what it returns matters, such as with ``Engine(attributes=True)``.
        """
        if query.schema != self.query.schema:
            differing = difference(query.schema, self.query.schema)
            raise ModelError(
                f"model {self.kind!r} is not for query {query.name!r}, whose schema differs: {differing}; "
                "fit one for this query"
            )
        if to_text(replace(query, name="", returns=())) != to_text(replace(self.query, name="", returns=())):
            other = repr(query.name) if query.name != self.query.name else "the query of this name here"
            raise ModelError(
                f"model {self.kind!r} is for query {self.query.name!r}, not for {other}; fit one for this "
                f"query. It was fitted for:\n{to_text(self.query)}"
            )

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model to a folder, atomically.

        Parameters
        ----------
        folder
            A new name, an empty folder, or a folder with a model, which is replaced.

        Raises
        ------
        ModelError
            If the name is in use for something else.
        ValidationError
            If the folder cannot be written, or JSON cannot hold the parameters or numbers.
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
        } | ({"measured": self.measured} if self.measured else {})
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
                f"model {self.kind!r} has parameters or numbers that JSON does not preserve; give lists instead of "
                "tuples, and texts as the keys of dicts"
            )
        return text


#: Model, or the folder in which it was saved.
ModelSource = Model | str | os.PathLike[str]


def models_of(owner: str, source: ModelSource | Sequence[ModelSource]) -> list[Model]:
    """Return the models that a user gives to a shedder.

    Parameters
    ----------
    owner
        Name of the shedder, for error messages.
    source
        Model, or the folder in which it was saved; a list of these for several queries.

    Raises
    ------
    ModelError
        If a folder has no model, or a damaged one.
    ValidationError
        If there is none, or two models are for queries of one name.
    """
    sources = [source] if isinstance(source, Model | str | os.PathLike) else source
    if not isinstance(sources, Sequence) or not sources:
        raise ValidationError(
            f"{owner}: model={source!r}; expected at least one model, or its folder; fit one with fastcep.fit()"
        )
    models = [item if isinstance(item, Model) else load_model(item) for item in sources]
    if len({model.query.name for model in models}) < len(models):
        raise ValidationError(f"{owner}: two models have the same query name; give one for each query")
    return models


def model_for(owner: str, models: Sequence[Model], query: ast.Query) -> Model:
    """Return the model for a query; raise `ModelError` if there is none, or it was fitted for another query."""
    model = next((item for item in models if item.query.name == query.name), None)
    if model is None:
        names = ", ".join(repr(item.query.name) for item in models)
        raise ModelError(f"{owner} has a model for {names}, none for {query.name!r}; fit one for it")
    model.check(query)
    return model


def check_kind(kind: str) -> None:
    """Raise `ValidationError` for an unknown kind of model."""
    if kind not in MODELS:
        raise ValidationError(f"kind={kind!r}: there is no model of that kind{suggestion(kind, MODELS)}")


def check_folder(folder: str | os.PathLike[str], *, parents: bool = False) -> None:
    """Check that `Model.save` can write to a folder, before a model is fitted.

    Parameters
    ----------
    folder
        Folder for `Model.save`.
    parents
        Whether missing parent folders will be created.

    Raises
    ------
    ModelError
        If the name is in use for something else.
    ValidationError
        If the parent folder is missing or there is no permission to write.
    """
    try:
        target = Path(folder).resolve()
        if target.exists() and not target.is_dir():
            raise ModelError(f"'{folder}' is a file; a model is a folder: give another name")
        parent = next((path for path in target.parents if path.exists() or not parents), target)
        if not parent.is_dir():
            why = f"'{parent}' is no folder" if parent.exists() else f"there is no folder '{parent}'; create it first"
            raise ValidationError(f"cannot write '{folder}': {why}")
        for path in (parent, target):
            if path.exists() and not os.access(path, os.W_OK | os.X_OK):
                raise ValidationError(
                    f"cannot write '{folder}': the folder '{path}' is not writable; change its permissions, or "
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
        If the model is missing, damaged, or of another version of the format.
    """
    path = Path(folder)
    if not path.is_dir():
        problem = "is no folder" if path.exists() else "does not exist"
        raise ModelError(f"'{path}' {problem}; give the folder of a model, or fit one with fastcep.fit() and save it")
    manifest = _read_manifest(path / _MANIFEST)
    if manifest["kind"] not in MODELS:
        raise ModelError(
            f"'{path}' has a model of kind {manifest['kind']!r}; fastcep {_this_version()} knows only "
            f"{', '.join(map(repr, MODELS))}; use fastcep {manifest.get('fastcep')}, which wrote it, or a newer one, "
            "or install the package that has this kind"
        )
    try:
        _STORED(manifest, "")
    except Misfit as fault:
        raise _malformed(path / _MANIFEST, str(fault)) from None
    parts = {name: _read_part(path / of["file"], name, of["xxh64"]) for name, of in manifest["parts"].items()}
    query = _read_query(path / _MANIFEST, manifest["query"]["text"], manifest["schema"]["text"])
    measured = manifest.get("measured", {})  # older models lack it
    return Model(manifest["kind"], query, manifest["parameters"], manifest["numbers"], parts, measured)


# ------------------------------------------------------------------------------------------------------------ reading


def _read_manifest(path: Path) -> dict[str, Any]:
    """Read a manifest; check its format, version and checksum."""
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
        queries = parse_document(f"{schema}\n{query}").queries
    except (ParseError, ValidationError) as error:
        raise ModelError(
            f"'{path}' has a query that this fastcep cannot parse; if it uses your own functions, define them before "
            f"you load the model; otherwise fit a new one with fastcep.fit(). {error}"
        ) from None
    if len(queries) != 1:
        raise _malformed(path, f"query.text: found {len(queries)} queries, expected 1")
    return queries[0]


def _read(path: Path, missing: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"{missing}; {_AGAIN}") from None
    except OSError as error:
        raise ModelError(f"'{path}' cannot be read: {error.strerror or error}; {_AGAIN}") from None


def _malformed(path: Path, problem: str) -> ModelError:
    return ModelError(f"'{path}': {problem}. Its checksum is right, so it was written like this; {_AGAIN}")


# ------------------------------------------------------------------------------------------------------------ writing


def _check_replaced(target: Path, named: str | os.PathLike[str]) -> None:
    """Raise `ModelError` for a folder that is not a model, or that has other files."""
    if not target.exists() or not any(target.iterdir()):
        return
    try:
        manifest = json.loads((target / _MANIFEST).read_bytes())
        names = {_MANIFEST, *(part["file"] for part in manifest["parts"].values() if _FILE.fullmatch(part["file"]))}
        is_model = manifest["format"] == _FORMAT
    except (OSError, RecursionError, *_FAULTS):
        names, is_model = set(), False
    if not is_model:
        raise ModelError(f"'{named}' exists and is not a model; give another name, or remove it")
    others = sorted({file.name for file in target.iterdir()} - names)
    if others:
        raise ModelError(
            f"'{named}' has a model and {others[0]!r}, which is not one of its files and would be lost; move it away, "
            "or give another name"
        )


def _put(files: Mapping[str, bytes], target: Path) -> None:
    """Write a folder under a temporary name, then replace the old one by it."""
    new, old = (target.with_name(f".fastcep-{token_hex(8)}.part") for _ in range(2))
    try:
        new.mkdir()
        for name, data in files.items():
            (new / name).write_bytes(data)
        if target.exists():
            target.rename(old)
        new.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    finally:
        shutil.rmtree(new, ignore_errors=True)
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
    """Return the texts of the query and of its schema; the schema's text followed by the query's is a document."""
    return to_text(query), document_text(Document(query.schema, ()))


def _hash(data: bytes | str) -> str:
    return xxh64_hexdigest(data.encode() if isinstance(data, str) else data)


def _checksum(manifest: Mapping[str, Any]) -> str:
    return _hash(json.dumps(manifest, sort_keys=True, separators=(",", ":")))


def _this_version() -> str:
    try:
        return version("fastcep")
    except PackageNotFoundError:  # fastcep runs from its sources
        return "of unknown version"
