"""What a comparison learnt about the columns of its table, kept in a file, and applied to new rows."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas

import selmatch
from selmatch.comparison import cells, reading, tables
from selmatch.comparison.question import ROLES, Question
from selmatch.comparison.spellings import DATES, NUMBERS
from selmatch.files import UnfitFile, read_json
from selmatch.words import remedy
from selmatch.writing import replace_file

#: the version of the files that this library writes
SCHEMA = 1
_KEY = "selmatch_columns"
_ROLES = tuple(role for role in ROLES if role != "target")
_SCALES = ("target", "log", "log1p")
#: by kind, the patterns of text that a column may have
_SPELLINGS = {"number": (*NUMBERS, cells.DURATION), "date": ("", *DATES), "category": ("",)}


@dataclass(frozen=True)
class Columns:
    """The columns of a comparison: features in their order, how each is read, its categories, and other roles.

    Nothing is inferred from new rows: a single one will do, without the target, with its columns in any order and with
    others beside them. Columns that were left out in the comparison are left out, constant columns stay, and a category
    that was not there before is missing.

    Attributes
    ----------
    target : str
        What is predicted.
    scale : {"target", "log", "log1p"}
        What scores are, of the target.
    roles : mapping of str to str
        Columns that say the split, the group, the time or the weight of a row.
    features : tuple of Known
        The columns that models see.

    Examples
    --------
    >>> import pandas
    >>> random = np.random.default_rng(0)
    >>> shops = pandas.DataFrame({"shop": ["north", "south"] * 50, "price": ["1,5", "2,25"] * 50})
    >>> shops["seconds"] = random.lognormal(size=100)
    >>> found = sm.compare(shops, target="seconds", model="linear", splits=2, settings=1, resamples=20)
    >>> new = pandas.DataFrame({"price": ["1.250"], "colour": ["red"], "shop": ["east"]})
    >>> found.columns.prepare(new).to_dict("list")
    {'shop': [nan], 'price': [1250.0]}
    """

    target: str
    scale: str
    roles: Mapping[str, str]
    features: tuple[cells.Known, ...] = field(repr=False)

    @classmethod
    def of(cls, rows: tables.Rows, question: Question) -> Columns:
        """What was learnt about the rows of a question."""
        roles = {role: name for role in _ROLES if (name := getattr(question, role)) is not None}
        scale = "target" if rows.scale.name == "identity" else rows.scale.name
        return cls(question.target, scale, roles, rows.known)

    # -------------------------------------------------------------------------------------------------------- new rows

    def prepare(self, data: Any) -> pandas.DataFrame:
        """Features of new rows: those of the comparison, in its order, with its categories.

        Parameters
        ----------
        data : path, or frame of pandas or polars
            Needs the columns of the features, in any order; the target may be missing.
        """
        return self._features(self._read(data))

    def training(self, data: Any) -> tuple[pandas.DataFrame, np.ndarray, np.ndarray]:
        """Features, target and weights of all rows that have a target, to train what a comparison advises.

        Rows are left out as in the comparison, but none are sampled.

        Parameters
        ----------
        data : path, or frame of pandas or polars
            With the target, and the columns of the other roles.
        """
        source = self._read(data)
        roles: dict[str, Any] = dict(self.roles)
        places, target, weights = tables.usable(source, Question(self.target, {}, **roles))
        weights = np.ones(len(places)) if weights is None else weights / weights.mean()
        return self._features(source, places), target, weights

    def _read(self, data: Any) -> reading.Source:
        source = reading.read(data, [known.name for known in self.features if known.text])
        missing = [known.name for known in self.features if known.name not in source.names]
        if missing:
            raise ValueError(
                f"Columns: data must have the {len(self.features)} columns of the comparison, got none called "
                f"{reading.listed(missing)}. {remedy(missing[0], source.names)}"
            )
        return source

    def _features(self, source: reading.Source, places: Any = slice(None)) -> pandas.DataFrame:
        columns = ((known, source.column(known.name).iloc[places]) for known in self.features)
        made = {known.name: known.frame_column(cells.again(known, column)) for known, column in columns}
        return pandas.DataFrame(made, index=source.frame.index[places])

    # ----------------------------------------------------------------------------------------------------------- files

    def to_dict(self) -> dict[str, Any]:
        """A document of dictionaries, lists and strings."""
        return {
            _KEY: SCHEMA,
            "version": selmatch.__version__,
            "target": self.target,
            "scale": self.scale,
            "roles": dict(self.roles),
            "features": [_written(known) for known in self.features],
        }

    @property
    def digest(self) -> str:
        """A short name: equal for equal columns, whatever version wrote them."""
        document = {name: value for name, value in self.to_dict().items() if name != "version"}
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file with a line for each feature; the old file is replaced when the new one is complete.

        Parameters
        ----------
        path : path
            Such as ``columns.json``, beside the report.
        """
        document = self.to_dict()
        lines = [json.dumps(feature, ensure_ascii=False) for feature in document.pop("features")]
        head = json.dumps(document, indent=1, ensure_ascii=False).removesuffix("\n}")
        text = f'{head},\n "features": [\n  {f",{chr(10)}  ".join(lines)}\n ]\n}}\n'
        replace_file(path, text.encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, digest: str | None = None) -> Columns:
        """Read what :meth:`save` has written; what is wrong in the file is an error that says where.

        Parameters
        ----------
        path : path
            Of the file.
        digest : str, optional
            The :attr:`digest` of the columns that the file must hold: others are an error.
        """
        name = str(path)
        try:
            document = read_json(path)
        except UnfitFile as error:
            raise ValueError(f"Columns: {name}: {error}") from error
        found = cls._of_document(name, document)
        if digest is not None and found.digest != digest:
            raise ValueError(
                f"Columns: {name} must hold the columns with the digest {digest}, got {found.digest}: those of another "
                "comparison, or changed ones. Look for the file that was written with it, or leave the digest out."
            )
        return found

    @classmethod
    def _of_document(cls, name: str, document: Any) -> Columns:
        check = _Check(name)
        table = check.table("the document", document, (_KEY, "version", "target", "scale", "roles", "features"))
        version = table[_KEY]
        if type(version) is not int or version < 1:
            check.fail(_KEY, f"be {SCHEMA}", version)
        if version > SCHEMA:
            raise ValueError(f"Columns: {name} was written by a newer selmatch (schema {version}). Upgrade selmatch.")
        roles = check.table("roles", table["roles"], (), _ROLES)
        entries = check.several("features", table["features"])
        features = tuple(check.known(f"features[{i}]", entry) for i, entry in enumerate(entries))
        names = [known.name for known in features]
        if not names or len(set(names)) < len(names):
            check.fail("features", "have names, all different", names)
        return cls(
            check.text("target", table["target"]),
            check.text("scale", table["scale"], _SCALES),
            {role: check.text(f"roles.{role}", column) for role, column in roles.items()},
            features,
        )


def _written(known: cells.Known) -> dict[str, Any]:
    """A feature without what is as usual."""
    usual = {item.name: item.default for item in dataclasses.fields(known)}
    return {name: value for name, value in dataclasses.asdict(known).items() if value != usual[name]}


@dataclass(frozen=True)
class _Check:
    """Values of a file, each of the right kind or an error that says where it stands."""

    name: str

    def fail(self, place: str, condition: str, got: Any) -> None:
        shown = repr(got) if len(repr(got)) <= 80 else f"{repr(got)[:76]} ..."
        raise ValueError(
            f"Columns: {self.name}: {place} must {condition}, got {shown}. Take the file that the comparison wrote."
        )

    def table(self, place: str, value: Any, needed: Sequence[str], allowed: Sequence[str] = ()) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.fail(place, "be a table", value)
        for key in needed:
            if key not in value:
                self.fail(place, f"have the key {key!r}", sorted(value))
        for key in value:
            if key not in (*needed, *allowed):
                self.fail(place, f"have no key but {', '.join((*needed, *allowed))}", key)
        return value

    def several(self, place: str, value: Any) -> list[Any]:
        if not isinstance(value, list):
            self.fail(place, "be a list", value)
        return value

    def text(self, place: str, value: Any, known: Sequence[str] = ()) -> str:
        if not isinstance(value, str) or (known and value not in known):
            self.fail(place, f"be one of {', '.join(map(repr, known))}" if known else "be a text", value)
        return value

    def known(self, place: str, value: Any) -> cells.Known:
        """A feature."""
        table = self.table(place, value, ("name", "kind"), ("categories", "text", "spelling", "mark"))
        kind = self.text(f"{place}.kind", table["kind"], tuple(_SPELLINGS))
        if not isinstance(table.get("text", False), bool):
            self.fail(f"{place}.text", "be true or false", table["text"])
        if ("categories" in table) != (kind == "category"):
            self.fail(place, "have categories if its kind is 'category', and only then", kind)
        words = [self.text(f"{place}.categories", w) for w in self.several(f"{place}.categories", table["categories"])
                 ] if kind == "category" else []  # fmt: skip
        if len(set(words)) < len(words):
            self.fail(f"{place}.categories", "differ", words)
        return cells.Known(
            self.text(f"{place}.name", table["name"]),
            kind,
            tuple(words) if kind == "category" else None,
            table.get("text", False),
            self.text(f"{place}.spelling", table.get("spelling", ""), _SPELLINGS[kind]),
            self.text(f"{place}.mark", table.get("mark", "")),
        )
