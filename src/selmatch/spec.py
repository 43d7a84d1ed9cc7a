"""Losses, potentials and curves to and from files: readable TOML or JSON, with a schema version.

A document holds one object under ``loss``, ``potential`` or ``curve``::

    selmatch = 1

    [loss]
    type = "MatchingLoss"

    [loss.potential]
    type = "Affine"
    curve = "Sigmoid"
    alpha = 2.0
    beta = 1.5

A table names its class in ``type``; the other keys are the arguments of the class, those with their default are left
out. Where an object is expected, a string is the name of a class that needs no arguments, or a formula such as
``"z + 0.1*sinh(2*(z - 1))"``. Files written by this version load in all later ones.

Reading runs no code from the file. Sizes, nesting and the effort of building the objects are bounded, and whatever is
wrong is a :class:`SpecError` that says where, what, and what to do.

A document may bring certificates of its object, in schema 2. Of a proof it holds what was asked and what a search
found, the scores at which the domain is cut: :func:`certificates` makes the rest again and checks it. :func:`load`
reads only their form.
"""

from __future__ import annotations

import dataclasses
import datetime
import errno
import functools
import hashlib
import inspect
import itertools
import json
import math
import os
import re
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

import selmatch
from selmatch.canonical import CANONICAL
from selmatch.composite import CompositeSigmoid, CompositeSoftmax, Separable
from selmatch.curve import Curve, Interval
from selmatch.files import UnfitFile, read_bytes
from selmatch.losses import Loss, PerLabel, potential_of
from selmatch.words import printable, remedy
from selmatch.writing import replace_file

if TYPE_CHECKING:
    from selmatch.certificates import Proved, Question

__all__ = ["SCHEMA", "SpecError", "certificates", "digest", "dumps", "from_dict", "load", "loads", "save", "to_dict"]

#: the newest version of the documents that this library reads and writes
SCHEMA = 2
#: that of documents without certificates, which older versions of the library read, too
SCHEMA_OF_OBJECTS = 1


def _as_before(document: dict[str, Any]) -> dict[str, Any]:
    if "certificates" in document:
        raise SpecError(f"need a newer schema. Write selmatch = {SCHEMA} at the top.", ("certificates",))
    return document


#: how a document of one schema version becomes one of the next
_MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _as_before}

MAX_BYTES = 1_000_000
MAX_TOKENS = 60_000  # words, strings and brackets of a text
MAX_NESTING = 40
MAX_OBJECTS = 2_000
MAX_NUMBERS = 20_000
MAX_WORD = 400  # characters of a number or a bare key
MAX_FORMULA = 10_000  # characters
MAX_DEGREE = 64  # of a polynomial, whose roots take cubic time
MAX_EFFORT = 250_000  # elementary operations to build everything: about half a second
MAX_LOSS = 500_000  # elementary operations of one loss
MAX_SECONDS = 3.0  # of processor time, where building takes longer than its operations tell
MAX_CERTIFICATES = 16
MAX_CUTS = 5_000  # of all certificates
MAX_VALUES = 50_000  # elementary operations of one value for each certificate: some seconds, since all are asked again
MAX_CHECKS = 200_000  # operations on pieces in the checker: some seconds

_FORMATS = ("toml", "json")
_KINDS = ("loss", "potential", "curve")
_REMEDY_FOR_CODE = 'Write it as a formula, for example selmatch.parse("z + tanh(z)").'

Key = tuple[str | int, ...]


class SpecError(ValueError):
    """What is wrong in a spec file, where, and what to do about it.

    Attributes
    ----------
    problem : str
        What is wrong, and the remedy.
    path : str
        The place in the document, such as ``loss.potential.curves[1].alpha``.
    name : str or None
        The file.
    line, column : int or None
        The place in the text, from 1.

    Examples
    --------
    >>> from selmatch import spec
    >>> spec.loads('selmatch = 1\\ncurve = "Sinhh"', name="my.toml")
    Traceback (most recent call last):
    selmatch.spec.SpecError: my.toml, line 2, column 1: curve: unknown type 'Sinhh'. Did you mean 'Sinh'?
    """

    def __init__(
        self,
        problem: str,
        key: Key = (),
        *,
        name: str | None = None,
        line: int | None = None,
        column: int | None = None,
        offset: int | None = None,
    ) -> None:
        self.problem, self.key, self.path = problem, key, _written(key)
        self.name, self.line, self.column, self._offset = name, line, column, offset
        place = ", ".join(part for part in (name, line and f"line {line}", column and f"column {column}") if part)
        super().__init__(printable(": ".join(part for part in (place, self.path, problem) if part)))

    def within(self, text: str, name: str) -> SpecError:
        """The same error with its place in a text."""
        line, column = self.line, self.column
        if self._offset is not None:
            line, column = text.count("\n", 0, self._offset) + 1, self._offset - text.rfind("\n", 0, self._offset)
        return SpecError(self.problem, self.key, name=name, line=line, column=column)


def _written(key: Key) -> str:
    """A key as people write it."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{_short(part)}" for part in key).removeprefix(".")


def _short(text: str, most: int = 80) -> str:
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def _shown(value: Any) -> str:
    """A value of a document in a message."""
    if isinstance(value, (Mapping, list, tuple)):
        return "a table" if isinstance(value, Mapping) else f"a list of {len(value)}"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return f"the date or time {value}"
    if isinstance(value, int) and abs(value) > 10**80:
        return "an integer of more than 80 digits"
    return _short(repr(value))


# ------------------------------------------------------------------------------------------------------- the classes


@functools.cache
def _public_classes() -> dict[str, type]:
    """Every curve, potential and loss among the public names, and the record of a wish that a loss may hold."""
    found = {}
    for name in selmatch.__all__:
        cls = getattr(selmatch, name) if name[0].isupper() else None
        if isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls not in (Curve, Interval):
            found[name] = cls
    return found


def _kind(cls: type) -> str | None:
    """Under which name objects of a class stand in a document; None if they can only be parts."""
    if issubclass(cls, Curve):
        return "curve"
    if issubclass(cls, Loss):
        return "loss"
    return "potential" if hasattr(cls, "remainder") else None


def _holds_code(cls: type) -> bool:
    return any("Callable" in str(field.type) for field in dataclasses.fields(cls))


def _names() -> list[str]:
    return [name for name, cls in _public_classes().items() if not _holds_code(cls)]


class _Allowed(NamedTuple):
    """What a field may hold, from its annotation."""

    numbers: bool
    flags: bool
    text: bool
    objects: bool
    several: bool
    optional: bool
    infinite: bool
    classes: tuple[type, ...]


@functools.cache
def _allowed(cls: type) -> dict[str, _Allowed]:
    """What each field of a class may hold."""
    return {field.name: _field_allows(cls, field) for field in dataclasses.fields(cls) if field.init}


def _field_allows(cls: type, field: dataclasses.Field[Any]) -> _Allowed:
    words = set(re.findall(r"\w+", field.type if isinstance(field.type, str) else repr(field.type)))
    anything, required = "Any" in words, _default(field) is dataclasses.MISSING
    named = tuple(found for word in words if (found := _public_classes().get(word)) and _kind(found) is None)
    classes = (Curve,) if "Curve" in words or (anything and required and issubclass(cls, Curve)) else named
    objects = bool(classes) or (anything and (required or not field.metadata.get("leaf")))
    return _Allowed(
        numbers=bool(words & {"float", "int"}) or (anything and not required),
        flags="bool" in words,
        text="str" in words,
        objects=objects,
        several="tuple" in words or (anything and not objects),
        optional="None" in words or _default(field) is None,
        infinite=_kind(cls) is None,  # records may speak of endless regions, parameters of curves are finite
        classes=classes,
    )


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


# ---------------------------------------------------------------------------------------------------------- writing


def to_dict(object: Any, certificates: Sequence[Any] = ()) -> dict[str, Any]:
    """A loss, potential or curve as a document of dictionaries, lists, strings and numbers.

    Parameters
    ----------
    object : loss, potential or curve
        Parameters that are PyTorch or JAX scalars become numbers, longer arrays become lists.
    certificates : list of Proved
        As for :func:`save`.

    Examples
    --------
    >>> from selmatch import spec
    >>> spec.to_dict(Sigmoid().affine(alpha=2.0))["curve"]
    {'type': 'Affine', 'curve': 'Sigmoid', 'alpha': 2.0}
    """
    kind = _kind(type(object))
    if kind is None:
        raise TypeError(f"to_dict: object must be a loss, a potential or a curve, got {_short(repr(object))}.")
    document = {"selmatch": SCHEMA_OF_OBJECTS, "version": selmatch.__version__, kind: _saved(object, 0)}
    tables = _saved_certificates(certificates, object)
    return {**document, "selmatch": SCHEMA, "certificates": tables} if tables else document


def _saved(instance: Any, depth: int) -> Any:
    """A table; or the bare name, if there is nothing more to say."""
    cls = type(instance)
    if depth > MAX_NESTING:
        raise ValueError(f"to_dict: objects must not be nested deeper than {MAX_NESTING}, got {_short(repr(cls))}.")
    if _public_classes().get(cls.__name__) is not cls or _holds_code(cls):
        raise TypeError(
            f"to_dict: every part must be an object of selmatch, got {_short(repr(instance))}: a file holds no Python "
            f"code. {_REMEDY_FOR_CODE}"
        )
    table: dict[str, Any] = {"type": cls.__name__}
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        value, default = _saved_value(instance, field.name, depth + 1), _default(field)
        if value is None:
            continue
        if default is dataclasses.MISSING or repr(value) != repr(_listed(default)):
            table[field.name] = value
    return table["type"] if len(table) == 1 else table


def _saved_value(instance: Any, name: str, depth: int) -> Any:
    value: Any = getattr(instance, name)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _saved(value, depth)
    if isinstance(value, tuple) and value and all(dataclasses.is_dataclass(entry) for entry in value):
        entries = [_saved(entry, depth + 1) for entry in value]
        bare = all(isinstance(entry, str) for entry in entries)
        return entries if bare else [{"type": e} if isinstance(e, str) else e for e in entries]
    where = f"{type(instance).__name__}.{name}"
    convert: Any = getattr(value, "tolist", None)
    if convert is not None:
        try:
            value = convert()
        except Exception as error:  # a value inside a trace; each framework has its own error
            raise TypeError(f"to_dict: {where} must be known, got {_short(repr(value))}. Save outside jit.") from error
    value, allowed = _listed(value), _allowed(type(instance))[name]
    if value is not None or not allowed.optional:
        _require_savable(where, value, allowed.infinite)
    return value


def _listed(value: Any) -> Any:
    """Tuples as lists, at any depth."""
    return [_listed(entry) for entry in value] if isinstance(value, (tuple, list)) else value


def _require_savable(where: str, value: Any, infinite: bool) -> None:
    if isinstance(value, list):
        for entry in value:
            _require_savable(where, entry, infinite)
    elif not isinstance(value, (bool, int, float, str)):
        raise TypeError(f"to_dict: {where} must be a number, a text or a list, got {_short(repr(value))}.")
    elif isinstance(value, float) and not (math.isfinite(value) or (infinite and math.isinf(value))):
        raise ValueError(f"to_dict: {where} must be finite, got {value}.")


def dumps(object: Any, format: str = "toml", certificates: Sequence[Any] = ()) -> str:
    """A loss, potential or curve as the text of a spec file.

    Parameters
    ----------
    object : loss, potential or curve
        Made of the classes of selmatch and of formulas; classes and functions of your own cannot be in a file.
    format : {"toml", "json"}
        TOML is easier to read and edit.
    certificates : list of Proved
        As for :func:`save`.

    Examples
    --------
    >>> from selmatch import spec
    >>> spec.loads(spec.dumps(MatchingLoss(Sinh()))) == MatchingLoss(Sinh())
    True
    """
    if format not in _FORMATS:
        raise ValueError(f"dumps: format must be 'toml' or 'json', got {format!r}.")
    document = to_dict(object, certificates)
    text = _toml(document) if format == "toml" else _json(document) + "\n"
    try:  # a file that cannot be loaded again is noticed now, while the object still exists
        if len(text) > MAX_BYTES:
            _refuse_length("dumps")
        _loads(text, format, "dumps", _Builder(proves=bool(certificates)))
    except SpecError as error:
        if error.key[:1] == ("certificates",):
            raise SpecError(error.problem, error.key) from error
        raise SpecError(f"the object cannot be saved, it would not load again. {error.problem}", error.key) from error
    return text


def _json(value: Any, indent: str = "") -> str:
    """JSON with lists of numbers on one line."""
    if isinstance(value, dict):
        inner = indent + "  "
        rows = [f"{inner}{json.dumps(key)}: {_json(entry, inner)}" for key, entry in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        inner = indent + "  "
        return "[\n" + ",\n".join(inner + _json(entry, inner) for entry in value) + f"\n{indent}]"
    if isinstance(value, list):
        return f"[{', '.join(map(_json, value))}]"
    if isinstance(value, float) and math.isinf(value):
        value = repr(value)  # JSON has no word for it
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _toml(document: dict[str, Any]) -> str:
    *_, kind = (key for key in document if key != "certificates")
    lines = [f"# A {kind} of selmatch: load it with selmatch.load(path)."]
    _toml_table(document, "", lines)
    return "\n".join(lines) + "\n"


def _toml_table(table: dict[str, Any], prefix: str, lines: list[str]) -> None:
    """Numbers, texts and lists first: in TOML they cannot follow the tables inside."""
    tables = {}
    for key, value in table.items():
        if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(entry, dict) for entry in value)):
            tables[key] = value
        else:
            lines.append(f"{key} = {_toml_value(value)}")
    for key, value in tables.items():
        header = f"[{prefix}{key}]" if isinstance(value, dict) else f"[[{prefix}{key}]]"
        for entry in [value] if isinstance(value, dict) else value:
            lines += ["", header]
            _toml_table(entry, f"{prefix}{key}.", lines)


def _toml_value(value: Any, indent: str = "") -> str:
    if isinstance(value, list):
        inner = indent + "    "
        entries = [_toml_value(entry, inner) for entry in value]
        if sum(map(len, entries)) + 2 * len(entries) <= 100:
            return f"[{', '.join(entries)}]"
        lines = [""]
        for entry in entries:
            if len(lines[-1]) + len(entry) > 100:
                lines.append("")
            lines[-1] += f"{entry}, "
        return "[\n" + "".join(f"{inner}{line.rstrip()}\n" for line in lines) + f"{indent}]"
    # TOML writes these as JSON does, except for one control character and infinity
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def save(object: Any, path: str | os.PathLike[str], *, certificates: Sequence[Any] = ()) -> None:
    """Write a loss, potential or curve to a file; the old file is replaced only when the new one is complete.

    Parameters
    ----------
    object : loss, potential or curve
        As for :func:`dumps`.
    path : path
        Ends in ``.toml`` or ``.json``.
    certificates : list of Proved
        Proofs about this object from :mod:`selmatch.certify`, for :func:`certificates` to check. Versions before this
        one refuse files with certificates.

    Examples
    --------
    >>> import tempfile
    >>> from selmatch import spec
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     spec.save(Sinh(), folder + "/link.toml")
    ...     spec.load(folder + "/link.toml")
    Sinh()
    """
    path = Path(os.path.realpath(path))
    format = path.suffix.lower().removeprefix(".")
    if format not in _FORMATS:
        raise ValueError(f"save: path must end in .toml or .json, got {path.name!r}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "save: the folder must exist. Make it first", str(path.parent))
    replace_file(path, dumps(object, format, certificates).encode())


# ---------------------------------------------------------------------------------------------------------- reading


def load(path: str | os.PathLike[str], *, digest: str | None = None) -> Any:
    """The loss, potential or curve in a file; safe for files of strangers.

    Parameters
    ----------
    path : path
        A ``.toml`` or ``.json`` file; with another ending the text itself tells which it is.
    digest : str, optional
        What :func:`digest` says of the object that the file must hold: another one is an error.

    Raises
    ------
    SpecError
        With the line and the remedy for whatever is wrong in the file.

    Examples
    --------
    >>> import tempfile
    >>> from selmatch import spec
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     spec.save(MatchingLoss(Sinh()), folder + "/loss.json")
    ...     spec.load(folder + "/loss.json")
    MatchingLoss(Sinh())
    """
    made = _load(Path(path), _Builder())
    if digest is not None and (got := _digest(made)) != digest:
        raise SpecError(
            f"must hold the object with the digest {digest}, got {got}: another one, or one that was changed. Look "
            "for the file that was written with it, or leave the digest out.",
            name=str(path),
        )
    return made


def load_unchecked(path: str | os.PathLike[str]) -> Any:
    """The same within the same limits, but losses that are not convex are accepted: to say why they are not.

    Examples
    --------
    >>> import tempfile
    >>> from selmatch import spec
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "loss.toml").write_text(
    ...         'selmatch = 1\\nloss = {type = "MatchingLoss", potential = "Cosh"}'
    ...     )
    ...     spec.load_unchecked(folder + "/loss.toml")
    MatchingLoss(Cosh(), check=False)
    """
    return _load(Path(path), _Builder(checks=False))


def _load(path: Path, builder: _Builder) -> Any:
    try:
        data = read_bytes(path, MAX_BYTES)
    except UnfitFile as error:
        raise SpecError(str(error), name=path.name) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError("the file must be UTF-8 text. Save it in that encoding.", name=path.name, line=line) from error
    format = path.suffix.lower().removeprefix(".")
    return _loads(text, format if format in _FORMATS else None, path.name, builder)


def certificates(path: str | os.PathLike[str], *, check: bool = True) -> list[Proved]:
    """The certificates in a file, each of them checked again on this machine; safe for files of strangers.

    Parameters
    ----------
    path : path
        As for :func:`load`.
    check : bool
        False also reads losses that selmatch refuses since they are not convex.

    Raises
    ------
    SpecError
        Also if a single certificate is not proved again: it names that one.

    Examples
    --------
    >>> import tempfile
    >>> from selmatch import certify, spec
    >>> loss = MatchingLoss(selmatch.parse("z - 0.9*sin(z)"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     spec.save(loss, folder + "/loss.toml", certificates=[certify.convex(loss, (-8, 8))])
    ...     print(*spec.certificates(folder + "/loss.toml"))
    Proved: the loss is convex in the predicted scores on [-8, 8] (by interval arithmetic, 1 box).
    """
    builder = _Builder(checks=check, proves=True)
    _load(Path(path), builder)
    return builder.proved


def digest(object: Any) -> str:
    """A short name for a loss, potential or curve: equal for equal objects, in every format and from every version.

    Parameters
    ----------
    object : loss, potential or curve
        As for :func:`dumps`. The wish of a loss, which does not change it, is left out.

    Examples
    --------
    >>> from selmatch import spec
    >>> spec.digest(Sinh()) == spec.digest(spec.loads("selmatch = 1\\ncurve = 'Sinh'"))
    True
    """
    (_, table) = [*to_dict(object).items()][-1]
    if isinstance(table, dict):
        table = {key: value for key, value in table.items() if key != "wish"}
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:16]


#: for where the name is that of an argument
_digest = digest


def _refuse_length(name: str) -> NoReturn:
    raise SpecError(f"a spec must not be longer than {MAX_BYTES:,} bytes. Give fewer numbers.", name=name)


def loads(text: str, format: str | None = None, name: str = "<string>") -> Any:
    """The loss, potential or curve in the text of a spec file; safe for texts of strangers.

    Parameters
    ----------
    text : str
        TOML or JSON.
    format : {"toml", "json"}, optional
        By default a text that starts with a brace is JSON.
    name : str
        What errors call the text.

    Examples
    --------
    >>> from selmatch import spec
    >>> spec.loads('''
    ... selmatch = 1
    ... [loss]
    ... type = "MatchingLoss"
    ... potential = {type = "SmeLU", c = 2.0}
    ... ''')
    MatchingLoss(SmeLU(c=2.0))
    """
    if not isinstance(text, str):
        raise TypeError(f"loads: text must be a str, got {type(text).__name__}.")
    if format not in (None, *_FORMATS):
        raise ValueError(f"loads: format must be 'toml' or 'json', got {format!r}.")
    if len(text) > MAX_BYTES:
        _refuse_length(name)
    return _loads(text, format, name, _Builder())


def _loads(text: str, format: str | None, name: str, builder: _Builder) -> Any:
    if format is None:
        format = "json" if text.lstrip().startswith("{") else "toml"
    parse, places = (_parsed_toml, _TomlPlaces) if format == "toml" else (_parsed_json, _JsonPlaces)
    try:
        tokens = _tokens(text)
        document = parse(text)
    except SpecError as error:
        raise error.within(text, name) from error.__cause__
    try:
        return _built(document, builder)
    except SpecError as error:
        found = SpecError(error.problem, error.key, offset=places(tokens).find(error.key))
        raise found.within(text, name) from error.__cause__


def _parsed_toml(text: str) -> Any:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        at = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", str(error))
        problem = str(error)[: at.start()] if at else str(error) or type(error).__name__
        line, column = (int(at[1]), int(at[2])) if at and at[1] else (text.count("\n") + 1, None)
        raise SpecError(f"not TOML: {_short(problem, 200)}. See toml.io.", line=line, column=column) from error


def _parsed_json(text: str) -> Any:
    repeats = []

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            repeats.append(found)
        return found

    try:
        document = json.loads(text, object_pairs_hook=table)
    except json.JSONDecodeError as error:
        raise SpecError(f"not JSON: {error.msg}. See json.org.", line=error.lineno, column=error.colno) from error
    except (ValueError, RecursionError) as error:
        raise SpecError(f"not JSON: {_short(str(error), 200)}. See json.org.") from error
    if repeats:
        key, offset = _JsonPlaces(_tokens(text)).repeated
        raise SpecError("must be given once. Take one away.", key, offset=offset)
    return document


def from_dict(document: Mapping[str, Any]) -> Any:
    """The loss, potential or curve in a document, as :func:`to_dict` makes it.

    Examples
    --------
    >>> from selmatch import spec
    >>> spec.from_dict({"selmatch": 1, "loss": {"type": "MatchingLoss", "potential": "Exp"}})
    MatchingLoss(Exp())
    """
    return _built(document, _Builder())


def _built(document: Any, builder: _Builder) -> Any:
    if not isinstance(document, Mapping):
        raise SpecError(f"a document must be a table, got {_shown(document)}.")
    document = _migrated(dict(document))
    for key in document:
        if key not in ("selmatch", "version", "certificates", *_KINDS):
            raise SpecError(f"unknown key {_shown(key)}. {remedy(str(key), _KINDS)}", (str(key),))
    if not isinstance(document.get("version", ""), str):
        raise SpecError(f'must be a text such as "0.1.0", got {_shown(document["version"])}.', ("version",))
    given = [key for key in document if key in _KINDS]
    if len(given) != 1:
        raise SpecError(
            f"a document must hold exactly one of loss, potential and curve, got {' and '.join(given) or 'none'}. "
            'Start with [loss] and type = "MatchingLoss".',
            (given[1],) if given else (),
        )
    (kind,) = given
    result = builder.object(document[kind], (kind,))
    found = _kind(type(result))
    if found != kind and (found, kind) != ("curve", "potential"):  # every curve is a potential
        rest = f"Put it under {found}." if found else "It can only be a part of another object."
        raise SpecError(f"must be a {kind}, got {type(result).__name__}. {rest}", (kind,))
    stored = _stored_proofs(document.get("certificates", []), builder)
    if builder.proves:
        builder.proved = _checked_again(result, stored, builder.efforts[id(result)].value)
    return result


def _migrated(document: dict[str, Any]) -> dict[str, Any]:
    """The document in the present schema."""
    if "selmatch" not in document:
        raise SpecError(
            f"selmatch, the version of the schema, is missing. Add selmatch = {SCHEMA_OF_OBJECTS} at the top."
        )
    version = document["selmatch"]
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise SpecError(
            f"must be the version of the schema, got {_shown(version)}. Write {SCHEMA_OF_OBJECTS}.", ("selmatch",)
        )
    if version > SCHEMA:
        raise SpecError(f"written by a newer selmatch (schema {_shown(version)}). Upgrade selmatch.", ("selmatch",))
    for step in range(version, SCHEMA):
        document = _MIGRATIONS[step](document)
    return document


class _Effort(NamedTuple):
    """About how many elementary operations a value, a primitive and a loss of a curve take, whatever its numbers."""

    value: float = 1.0
    primitive: float = 1.0
    loss: float = 1.0
    known: bool = True  # that it never decreases


#: nodes with which curves without closed forms integrate
_NODES = 64
#: steps of curves that solve equations, and the factor of those that know their derivatives from dual numbers
_STEPS, _DUAL = 150, 4
#: what a constructor spends on a proof that a curve never decreases, which is limited in time
_PROOF = 60_000


def _effort(instance: Any, size: int, parts: list[_Effort]) -> _Effort:
    """From the efforts of the parts; size is the count of numbers, or of the words of a formula."""
    value, primitive, loss = (1.0 + size + sum(part[i] for part in parts) for i in range(3))
    if not isinstance(instance, Curve):
        known = type(instance).__name__ == "CompositeSoftmax" or all(part.known for part in parts)
        return _Effort(value, primitive, loss, known)
    cls, name = type(instance), type(instance).__name__
    if name == "Inverse":
        value *= _STEPS
        primitive, loss = primitive + value, 8 * loss + 2 * value
    elif name == "CompositeSigmoid":
        value += primitive
        loss = 3 * (value + loss)
    elif cls.slope is Curve.slope:
        value, primitive = _DUAL * value, value
    nodes = _NODES * (1 + len(getattr(instance, "breaks", ())))
    if cls.primitive is Curve.primitive or name == "Formula":
        primitive = nodes * value
    if cls.remainder is Curve.remainder or name == "Formula":
        loss = nodes * _DUAL * value
    return _Effort(value, primitive, loss, instance.increasing is True)


class _Builder:
    """Builds objects from tables, and counts how much it has built.

    Parameters
    ----------
    checks : bool
        False accepts losses and composites that are not convex.
    proves : bool
        Whether certificates are checked again, or only read.
    """

    def __init__(self, checks: bool = True, proves: bool = False) -> None:
        self.checks, self.proves = checks, proves
        self.proved: list[Proved] = []
        self.objects = self.numbers = 0
        self.effort, self.start = 0.0, time.thread_time()
        self.efforts: dict[int, _Effort] = {}
        self.kept: list[Any] = []  # so that no two objects have one id

    def object(self, value: Any, key: Key) -> Any:
        """An object from a table, the name of a class, or a formula."""
        self.objects += 1
        if self.objects > MAX_OBJECTS:
            raise SpecError(f"a document must not hold more than {MAX_OBJECTS:,} objects. Write fewer.", key)
        if len(key) > MAX_NESTING:
            raise SpecError(f"must not be nested deeper than {MAX_NESTING}. Write it flatter.", key)
        if isinstance(value, str):
            if re.fullmatch(r"[A-Z]\w*", value):
                return self.made(value, {}, {}, key)
            if len(value) > MAX_FORMULA:
                raise SpecError(f"must not be longer than {MAX_FORMULA:,} characters. Write it shorter.", key)
            return self.made("Formula", {"text": value}, {}, key, _parsed_formula)
        if not isinstance(value, Mapping):
            raise SpecError(f"must be a table with a type, a name or a formula, got {_shown(value)}.", key)
        if "type" not in value:
            raise SpecError('must name its class. Add, for example, type = "Sinh".', key)
        name = value["type"]
        if not isinstance(name, str):
            raise SpecError(f"must be the name of a class, got {_shown(name)}.", (*key, "type"))
        fields = _allowed(self.known(name, (*key, "type")))
        arguments = {}
        for field, entry in value.items():
            if field == "type":
                continue
            if field not in fields:
                raise SpecError(
                    f"{name} has no field {_shown(field)}. {remedy(str(field), fields)}", (*key, str(field))
                )
            arguments[field] = self.value(entry, fields[field], (*key, field))
        if not self.checks and "check" in fields:
            arguments["check"] = False
        return self.made(name, arguments, value, key)

    def known(self, name: str, key: Key) -> type:
        cls = _public_classes().get(name)
        if cls is None:
            raise SpecError(f"unknown type {_shown(name)}. {remedy(name, sorted(_names()))}", key)
        if _holds_code(cls):
            raise SpecError(f"{name} holds Python code, which no file can. {_REMEDY_FOR_CODE}", key)
        return cls

    def value(self, value: Any, allowed: _Allowed, key: Key) -> Any:
        """A value of a field."""
        if allowed.objects and not isinstance(value, (int, float)):
            if isinstance(value, (list, tuple)) and allowed.several:
                return tuple(self.part(entry, allowed, (*key, i)) for i, entry in enumerate(value))
            return self.part(value, allowed, key)
        if isinstance(value, (list, tuple)) and allowed.several:
            if len(key) > MAX_NESTING:
                raise SpecError(f"must not be nested deeper than {MAX_NESTING}. Write it flatter.", key)
            return tuple(self.value(entry, allowed, (*key, i)) for i, entry in enumerate(value))
        if isinstance(value, bool) and allowed.flags:
            return value
        if value in ("inf", "-inf") and allowed.infinite and allowed.numbers:
            return float(value)
        if isinstance(value, str) and allowed.text:
            if len(value) > MAX_FORMULA:
                raise SpecError(f"must not be longer than {MAX_FORMULA:,} characters. Write it shorter.", key)
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool) and allowed.numbers:
            self.numbers += 1
            if self.numbers > MAX_NUMBERS:
                raise SpecError(f"a document must not hold more than {MAX_NUMBERS:,} numbers. Give fewer.", key)
            if not _fits(value, allowed.infinite):
                raise SpecError(f"must be finite, got {_shown(value)}. Write a number below 1.8e308.", key)
            return value
        _refuse(value, allowed, key)

    def part(self, value: Any, allowed: _Allowed, key: Key) -> Any:
        result = self.object(value, key)
        if allowed.classes and not isinstance(result, allowed.classes):
            wanted = " or ".join("curve" if cls is Curve else cls.__name__ for cls in allowed.classes)
            raise SpecError(f"must be a {wanted}, got {type(result).__name__}. Name another type.", key)
        return result

    def made(
        self,
        name: str,
        arguments: dict[str, Any],
        table: Mapping[str, Any],
        key: Key,
        make: Callable[..., Any] | None = None,
    ) -> Any:
        """Call the constructor, unless that would take long."""
        cls = self.known(name, key)
        make = make or (_per_label if cls is PerLabel else cls)
        for parameter in inspect.signature(make).parameters.values():
            if parameter.name in arguments or parameter.default is not parameter.empty:
                continue
            if not _allowed(cls)[parameter.name].optional:
                raise SpecError(f"{name} needs the field {parameter.name!r}. Add {parameter.name} = ...", key)
            arguments[parameter.name] = None
        parts, size = self.spend(cls, arguments, key)
        try:
            with np.errstate(all="ignore"):
                result = make(**arguments)
                _ = getattr(result, "domain", None)  # here a Sum finds out that its terms share no scores
                self.kept.append(result)
                self.efforts[id(result)] = _effort(result, size, parts)
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            problem = _short(str(error) or type(error).__name__, 500)
            raise SpecError(problem, _key_in(problem, table, key)) from error
        return result

    def spend(self, cls: type, arguments: dict[str, Any], key: Key) -> tuple[list[_Effort], int]:
        """Count the effort of building one object; the efforts of its parts, and its size."""
        coefficients = arguments.get("coefficients")
        coefficients = coefficients if isinstance(coefficients, tuple) else ()
        if len(coefficients) > MAX_DEGREE + 1:
            raise SpecError(
                f"must not have more than {MAX_DEGREE + 1} entries, got {len(coefficients)}. Use a Piecewise of "
                "polynomials.",
                (*key, "coefficients"),
            )
        parts, size = [], 0
        for value in arguments.values():
            for entry in value if isinstance(value, tuple) else (value,):
                found = self.efforts.get(id(entry))
                if found is not None:
                    parts.append(found)
                else:
                    size += len(entry) if isinstance(entry, tuple) else len(entry) // 4 if isinstance(entry, str) else 1
        if coefficients:  # a Taylor expansion is quadratic
            size = len(coefficients) ** 2 // 2
        self.effort += size
        proves = cls.__name__ == "Inverse" or arguments.get("check", "check" in _allowed(cls))
        for part in parts:
            self.effort += part.value + part.primitive
            if proves and not part.known:
                self.effort += _PROOF
        late = time.thread_time() - self.start > MAX_SECONDS
        if late or self.effort > MAX_EFFORT or any(part.loss > MAX_LOSS for part in parts):
            raise SpecError(
                f"{cls.__name__} takes too long to check: too many parts, or nested too deep. Use fewer of Inverse, "
                "CompositeSigmoid, FromPrimitive, FromScoreTransform and formulas inside each other; check = false on "
                "the inner ones helps too.",
                key,
            )
        return parts, size


def _fits(value: float, infinite: bool) -> bool:
    """Whether a number is one that an object may hold."""
    try:
        return math.isfinite(value) or (infinite and math.isinf(value))
    except OverflowError:
        return False


def _refuse(value: Any, allowed: _Allowed, key: Key) -> NoReturn:
    wanted = {
        "a number": allowed.numbers,
        "true or false": allowed.flags,
        "a text": allowed.text,
        "an object": allowed.objects,
    }
    what = " or ".join(words for words, fits in wanted.items() if fits) or "left out"
    if allowed.several:
        what += ", or a list of these"
    if value is None:
        remedy = "Leave the key out."
    elif isinstance(value, str) and allowed.numbers:
        remedy = "Write numbers without quotes."
    elif isinstance(value, bool) and allowed.numbers:
        remedy = "Write a number such as 1.0."
    elif isinstance(value, (list, tuple)):
        remedy = "Write one, without brackets."
    else:
        remedy = "Write one of that kind."
    raise SpecError(f"must be {what}, got {_shown(value)}. {remedy}", key)


def _per_label(labels: tuple[float, ...], curves: tuple[Curve, ...]) -> PerLabel:
    if not isinstance(labels, tuple) or not isinstance(curves, tuple) or len(labels) != len(curves):
        raise ValueError("PerLabel: labels must be a list as long as curves. Give each label its curve.")
    if len({float(label) for label in labels}) != len(labels):
        raise ValueError("PerLabel: labels must differ. Give each label once.")
    return PerLabel(dict(zip(labels, curves, strict=True)))


def _parsed_formula(text: str) -> Curve:
    """What a formula without more ado stands for: a known curve, if there is one."""
    from selmatch.formula import parse

    return parse(text)


def _key_in(problem: str, table: Mapping[str, Any], key: Key) -> Key:
    """The key of the field that a constructor complains of."""
    named = re.match(r"\w+: (\w+)(?:\[(\d+)\])?", problem)
    if named is None or named[1] not in table:
        return key
    return (*key, named[1], int(named[2])) if named[2] and isinstance(table[named[1]], list) else (*key, named[1])


# ------------------------------------------------------------------------------------------------------- certificates

#: what a field of a certificate holds: numbers of which some may be infinite, or numbers that place something
_ENDS = _Allowed(True, False, False, False, True, False, True, ())
_PLACES_OF_CUTS = _ENDS._replace(infinite=False)
#: how the options of questions are written
_OPTIONS = {
    "about": _PLACES_OF_CUTS._replace(several=False),
    "canonicalise": _ENDS._replace(numbers=False, several=False, text=True),
}


class _StoredProof(NamedTuple):
    """A certificate as it stands in a document."""

    name: str
    domain: tuple[float, float] | None
    options: dict[str, Any]
    cuts: tuple[tuple[float, ...], ...]


def _subjects(name: str, object: Any) -> tuple[Any, ...]:
    """What a certificate in the file of an object may be about; questions are asked about the first of these."""
    potential = potential_of("certificates", object)
    if isinstance(potential, Separable):
        return (potential.curve,) if name in ("non_decreasing", "convex_primitive") else (potential, potential.curve)
    if name == "convex_primitive" and isinstance(potential, CompositeSigmoid | CompositeSoftmax):
        return (potential.scaling,)
    return (potential,)


def _unchecked(potential: Any) -> Any:
    """The same, whether or not its constructor looks at it."""
    return dataclasses.replace(potential, check=False) if hasattr(potential, "check") else potential


def _saved_certificates(certificates: Sequence[Any], object: Any) -> list[dict[str, Any]]:
    from selmatch.certificates import Proved

    if not isinstance(certificates, (list, tuple)):
        raise TypeError(f"to_dict: certificates must be a list, got {_short(repr(certificates))}. Write [certificate].")
    tables = []
    for index, found in enumerate(certificates):
        where = f"to_dict: certificates[{index}] must"
        if not isinstance(found, Proved):
            raise TypeError(f"{where} be Proved, got {_short(str(found), 200)}. Only proofs can be saved.")
        question = found.question
        if question is None:
            raise ValueError(
                f"{where} answer one question, got {_short(str(found), 200)}. Ask certify.convex(loss, domain) "
                "about all labels."
            )
        if _unchecked(question.subject) not in map(_unchecked, _subjects(question.name, object)):
            raise ValueError(
                f"{where} be about the object that is saved, got one about {_short(repr(question.subject), 200)}. Ask "
                f"certify.{question.name} about the object itself."
            )
        if not found.evidence:
            raise ValueError(f"{where} be one that verify() accepts, got {_short(str(found), 200)}. Save without it.")
        tables.append(_saved_certificate(found, question))
    return tables


def _saved_certificate(certificate: Proved, question: Question) -> dict[str, Any]:
    table: dict[str, Any] = {"question": question.name}
    if question.domain is not None:
        table["domain"] = list(question.domain)
    for name, value in question.options.items():
        table[name] = value if isinstance(value, str) else float(value)
    cuts = [[cut for cut in part.cuts if math.isfinite(cut)] for part in certificate.evidence if hasattr(part, "cuts")]
    return {**table, "cuts": cuts} if cuts else table


def _stored_proofs(tables: Any, builder: _Builder) -> list[_StoredProof]:
    """The certificates of a document, of which nothing is known but their form."""
    if not isinstance(tables, (list, tuple)):
        raise SpecError(f"must be a list of tables, got {_shown(tables)}. Write [[certificates]].", ("certificates",))
    if len(tables) > MAX_CERTIFICATES:
        raise SpecError(
            f"a document must not hold more than {MAX_CERTIFICATES} certificates, got {len(tables)}. Keep those that "
            "matter.",
            ("certificates",),
        )
    found = [_stored_proof(table, builder, ("certificates", index)) for index, table in enumerate(tables)]
    count = sum(len(cuts) for proof in found for cuts in proof.cuts)
    if count > MAX_CUTS:
        raise SpecError(
            f"must not hold more than {MAX_CUTS:,} cuts together, got {count:,}. Take the longest one away.",
            ("certificates",),
        )
    return found


def _stored_proof(table: Any, builder: _Builder, key: Key) -> _StoredProof:
    from selmatch.certify import QUESTIONS, options_of

    if not isinstance(table, Mapping):
        raise SpecError(f"must be a table, got {_shown(table)}. Write [[certificates]] above it.", key)
    name = table.get("question")
    if not isinstance(name, str) or name not in QUESTIONS:
        help = remedy(name, QUESTIONS) if isinstance(name, str) else f'Write question = "{next(iter(QUESTIONS))}".'
        raise SpecError(f"must be a question of selmatch.certify, got {_shown(name)}. {help}", (*key, "question"))
    known = [*inspect.signature(QUESTIONS[name]).parameters][1:]
    domain, options = None, {}
    allowed = ["question", "cuts", *(field for field in known if field != "effort")]
    for field in table:
        if field not in allowed:
            raise SpecError(f"{name} has no field {_shown(field)}. {remedy(str(field), allowed)}", (*key, str(field)))
    if "domain" in table:
        ends = builder.value(table["domain"], _ENDS, (*key, "domain"))
        if not (_are_numbers(ends) and len(ends) == 2 and ends[0] < ends[1]):
            raise SpecError("must be two numbers, the lower one first. Write [-8.0, 8.0].", (*key, "domain"))
        domain = float(ends[0]), float(ends[1])
    for field in options_of(QUESTIONS[name]):
        if field in table:
            options[field] = builder.value(table[field], _OPTIONS[field], (*key, field))
    if options.get("canonicalise") not in CANONICAL:
        ways = ", ".join(way for way in CANONICAL if way)
        raise SpecError(f"must be one of {ways}, got {_shown(options['canonicalise'])}.", (*key, "canonicalise"))
    cuts = builder.value(table.get("cuts", []), _PLACES_OF_CUTS, (*key, "cuts"))
    if not isinstance(cuts, tuple) or not all(map(_are_numbers, cuts)):
        raise SpecError("must be a list of lists of numbers. Write [[-1.0, 1.0]].", (*key, "cuts"))
    for index, scores in enumerate(cuts):
        if not all(a < b for a, b in itertools.pairwise(scores)):
            raise SpecError("must be increasing. Put them in order, each one once.", (*key, "cuts", index))
    return _StoredProof(name, domain, options, tuple(tuple(map(float, scores)) for scores in cuts))


def _are_numbers(value: Any) -> bool:
    return isinstance(value, tuple) and not any(isinstance(entry, tuple) for entry in value)


def _checked_again(object: Any, stored: list[_StoredProof], value: float) -> list[Proved]:
    """Ask every question of a document again; value counts the operations of one value of its object."""
    from selmatch.evidence import at_most

    if len(stored) * value > MAX_VALUES:
        raise SpecError("take too long to check: the object is too large. Keep fewer of them.", ("certificates",))
    with at_most(MAX_CHECKS):
        return [_proved_again(object, proof, ("certificates", index)) for index, proof in enumerate(stored)]


def _proved_again(object: Any, stored: _StoredProof, key: Key) -> Proved:
    from selmatch.certificates import NEEDS_PROOFS, Proved, Question
    from selmatch.certify import ask_again

    try:
        subject = _subjects(stored.name, object)[0]
        with np.errstate(all="ignore"):
            found = ask_again(Question(stored.name, subject, stored.domain, stored.options), stored.cuts)
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise SpecError(_short(str(error) or type(error).__name__, 500), key) from error
    if isinstance(found, Proved) and found.evidence:
        return found
    if NEEDS_PROOFS in str(found):
        raise SpecError(f"cannot be checked here: {_short(str(found), 600)}", key)
    raise SpecError(
        f"does not hold: {_short(str(found), 600)} The file was changed, or comes from another version: ask "
        f"selmatch.certify.{stored.name} yourself.",
        key,
    )


# ------------------------------------------------------------------------------------------------ places in the text

# Also what is not terminated is a token: the parsers that come later complain. No part of the text is read twice.
_TOKEN = re.compile(
    r"""(?P<skip>[^\S\n]+|\#[^\n]*)"""
    r"""|(?P<string>\"\"\"(?:\\[\s\S]|[^\\])*?(?:\"{3,5}|\\?\Z)|'''[\s\S]*?(?:'{3,5}|\Z)"""
    r"""|"(?:\\[^\n]|[^"\\\n])*\\?"?|'[^'\n]*'?)"""
    r"""|(?P<sign>[\n\[\]{}=,:])"""
    r"""|(?P<word>[^\s"'\#\[\]{}=,:]+)"""
)


class _Token(NamedTuple):
    text: str
    start: int


def _tokens(text: str) -> list[_Token]:
    """Words, strings and signs of TOML or JSON, within the limits: what passes is parsed in a short time."""
    tokens, depth, dots = [], 0, 0
    for found in _TOKEN.finditer(text):
        kind, token = found.lastgroup, found[0]
        if kind == "skip":
            continue
        tokens.append(_Token(token, found.start()))
        if kind == "sign":
            depth = max(depth + (token in "[{") - (token in "]}"), 0)
            dots = 0
        elif kind == "word":
            dots += token.count(".")
            if len(token) > MAX_WORD:
                raise SpecError(
                    f"must not be longer than {MAX_WORD} characters. Write it shorter.", offset=found.start()
                )
        if depth > MAX_NESTING or dots > MAX_NESTING:
            raise SpecError(f"must not be nested deeper than {MAX_NESTING}. Write it flatter.", offset=found.start())
        if len(tokens) > MAX_TOKENS:
            raise SpecError(f"a spec must not have more than {MAX_TOKENS:,} words. Write less.", offset=found.start())
    return tokens


class _Places:
    """Where in a well-formed text each key of the document stands."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens, self.position = tokens, 0
        self.starts: dict[Key, int] = {}
        self.repeated: tuple[Key, int] = ((), 0)
        self.read()

    def read(self) -> None:
        raise NotImplementedError

    def entry(self) -> tuple[Key, int]:
        """Read a key up to its sign; the key and where it starts."""
        raise NotImplementedError

    def find(self, key: Key) -> int | None:
        """The start of a key, or of the nearest table around it that has one."""
        for length in range(len(key), 0, -1):
            if key[:length] in self.starts:
                return self.starts[key[:length]]
        return 0

    @property
    def token(self) -> str:
        return self.tokens[self.position].text if self.position < len(self.tokens) else ""

    def note(self, key: Key, start: int) -> None:
        if self.starts.setdefault(key, start) != start:
            self.repeated = key, start

    def value(self, key: Key) -> None:
        """Read a value, and note the keys inside it."""
        opening = self.token
        if opening not in ("[", "{"):
            while self.token not in (",", "]", "}", "\n", ""):
                self.position += 1
            return
        self.position += 1
        index = 0
        while self.token not in ("]", "}", ""):
            if self.token in (",", "\n"):
                self.position += 1
            elif opening == "{":
                parts, start = self.entry()
                self.note((*key, *parts), start)
                self.value((*key, *parts))
            else:
                self.note((*key, index), self.tokens[self.position].start)
                self.value((*key, index))
                index += 1
        self.position += 1


class _JsonPlaces(_Places):
    def read(self) -> None:
        self.skip_lines()
        self.value(())

    def skip_lines(self) -> None:
        while self.token == "\n":
            self.position += 1

    def entry(self):
        token = self.tokens[self.position]
        self.position += 1
        self.skip_lines()
        self.position += 1  # the colon
        self.skip_lines()
        return (json.loads(token.text),), token.start


class _TomlPlaces(_Places):
    def read(self) -> None:
        counts: dict[Key, int] = {}
        table: Key = ()
        while self.token:
            if self.token == "\n":
                self.position += 1
            elif self.token == "[":
                table = self.header(counts)
            else:
                parts, start = self.entry()
                self.note((*table, *parts), start)
                self.value((*table, *parts))

    def header(self, counts: dict[Key, int]) -> Key:
        """Read ``[a.b]`` or ``[[a.b]]``; the key, with the number of the entry in each list of tables."""
        start = self.tokens[self.position].start
        listed = self.tokens[self.position + 1].text == "["
        self.position += 1 + listed
        parts = self.parts("]")
        self.position += listed
        key: Key = ()
        for number, part in enumerate(parts, start=1):
            key = (*key, part)
            if listed and number == len(parts):
                counts[key] = counts.get(key, 0) + 1
                self.note(key, start)
            if key in counts:
                key = (*key, counts[key] - 1)
        self.note(key, start)
        return key

    def entry(self):
        start = self.tokens[self.position].start
        return self.parts("="), start

    def parts(self, end: str) -> Key:
        """Read a dotted key up to a sign; the standard parser knows the quotes."""
        written = ""
        while self.token not in (end, ""):
            written += self.token
            self.position += 1
        self.position += 1
        parts, value = (), tomllib.loads(f"{written} = 0")
        while isinstance(value, dict):
            ((part, value),) = value.items()
            parts = (*parts, part)
        return parts
