"""The reference, written from ``selmatch.__all__``: a name that is added there has its page at the next build."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from docstring_prose import in_prose
from sphinx.addnodes import pending_xref
from sphinx.pycode import ModuleAnalyzer

import selmatch
from selmatch import sketch
from selmatch.losses import Loss

#: where pages go, below the folder of the sources
FOLDER = Path("generated") / "reference"
#: public, but not in ``__all__``: a star import must not hide the libraries of these names, nor need every extra
BESIDE = ("jax", "sharding", "sklearn", "teacher_files", "torch", "trl")


@dataclass(frozen=True)
class Group:
    """Names that stand together in the reference, on a page: the first group that takes a name has it."""

    page: str
    title: str
    words: str
    takes: Callable[[Any], bool]


def _is_curve(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, selmatch.Curve)


GROUPS = (
    Group(
        "group-losses",
        "Losses",
        "What you train with. A loss is called with the prediction first, the observation second.",
        lambda value: inspect.isclass(value) and issubclass(value, Loss),
    ),
    Group(
        "group-functions",
        "Functions",
        "Design, look, prove, write, compare.",
        inspect.isfunction,
    ),
    Group(
        "group-curves",
        "Curves",
        "Links and scalings with closed forms. All of them have the methods of :class:`~selmatch.Curve`.",
        lambda value: _is_curve(value) and value.__module__ == "selmatch.curves",
    ),
    Group(
        "group-composed-curves",
        "Curves made of curves, formulas and drawings",
        "Usually not called by name: ``curve.affine(...)``, ``a + b``, ``curve.capped(...)``, ``sm.parse(...)`` and "
        "``sm.focus(...)`` make them.",
        lambda value: _is_curve(value) and value is not selmatch.Curve,
    ),
    Group(
        "group-potentials",
        "Potentials of many scores, and what a curve is",
        "For classes and lists, with the scores on the last axis; and the base of all curves.",
        lambda value: (inspect.isclass(value) and hasattr(value, "slope")) or value is selmatch.Interval,
    ),
    Group(
        "group-modules",
        "Modules",
        "Front ends and tools. Each loads when it is first used, and names the package that it misses.",
        inspect.ismodule,
    ),
    Group(
        "group-records",
        "Records and errors",
        "What functions return, and what they raise.",
        lambda value: True,
    ),
)


def grouped() -> dict[Group, list[str]]:
    """All public names by group, in the order of the alphabet."""
    found: dict[Group, list[str]] = {group: [] for group in GROUPS}
    for name in sorted([*selmatch.__all__, *BESIDE], key=str.lower):
        value = getattr(selmatch, name)
        found[next(group for group in GROUPS if group.takes(value))].append(name)
    return found


def pages() -> dict[str, str]:
    """File names of the reference, and their text."""
    groups = {group: names for group, names in grouped().items() if names}
    written = {"index.rst": "\n".join(_index(groups))}
    for group, names in groups.items():
        written[f"{group.page}.rst"] = "\n".join(_group(group, names))
        for name in names:
            written[f"selmatch.{name}.rst"] = "\n".join(_page(f"selmatch.{name}", getattr(selmatch, name)))
    return written


def _index(groups: dict[Group, list[str]]) -> Iterator[str]:
    """Everything on one page; beside it the groups, since a list of all names would be too long."""
    yield from _title("Reference")
    yield from ["Everything that ``import selmatch as sm`` offers.", ""]
    for group, names in groups.items():
        yield from _group(group, names, "-")
    yield from _contents(group.page for group in groups)


def _group(group: Group, names: list[str], line: str = "=") -> Iterator[str]:
    yield from _title(group.title, line)
    yield from [".. currentmodule:: selmatch", "", group.words, ""]
    yield from _table(f"selmatch.{name}" for name in names)
    if line == "=":
        yield from _contents(f"selmatch.{name}" for name in names)


def _contents(entries: Iterable[str]) -> list[str]:
    return [".. toctree::", "   :hidden:", "", *(f"   {entry}" for entry in entries), ""]


def _page(name: str, value: Any) -> Iterator[str]:
    yield from _title(name.removeprefix("selmatch."))
    if inspect.ismodule(value):
        yield from _module(name, value)
    else:
        yield from _entry(name, value)


def _module(name: str, module: ModuleType) -> Iterator[str]:
    members = [member for member in _members(module) if not inspect.ismodule(getattr(module, member))]
    yield from [f".. automodule:: {name}", "   :no-members:", ""]
    homes = {member: _first_home(getattr(module, member)) or name for member in members}
    own = [member for member in members if homes[member] == name]
    yield from _table(f"{name}.{member}" for member in own if callable(getattr(module, member)))
    for member in own:
        yield from _entry(f"{name}.{member}", getattr(module, member))
    for member in members:
        if member not in own:
            yield from [f"``{member}`` is :class:`{homes[member]}.{member}`.", ""]


def _first_home(value: Any) -> str | None:
    """The first of the public modules that offer a class: it is described there only."""
    if not inspect.isclass(value):
        return None
    modules = {name: getattr(selmatch, name) for name in sorted({*selmatch.__all__, *BESIDE})}
    for name, module in modules.items():
        if inspect.ismodule(module) and any(getattr(module, member) is value for member in _members(module)):
            return f"selmatch.{name}"
    return None


def _members(module: ModuleType) -> list[str]:
    """What a module offers: the order is that of its ``__all__``."""
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return list(getattr(module, "__all__", [name for name in own if not name.startswith("_")]))


def _entry(name: str, value: Any) -> Iterator[str]:
    """The directives that describe one name."""
    if _is_curve(value) and value is not selmatch.Curve:
        yield from [f".. autoclass:: {name}", ""]
        yield from _picture(value)
        yield f"Its methods are those of :class:`~selmatch.Curve`. {_example_words(value)}".strip()
    elif inspect.isclass(value) and issubclass(value, Exception):
        yield f".. autoexception:: {name}"
    elif inspect.isclass(value):
        yield from _class(name, value)
    elif inspect.isroutine(value):
        yield f".. autofunction:: {name}"
    elif callable(value):
        yield from _instance(name, type(value))
    else:
        yield from _number(name, value)
    yield ""


def _class(name: str, kind: type) -> Iterator[str]:
    """A class with the methods that are ours, also those of its bases."""
    yield f".. autoclass:: {name}"
    if methods := [method for method, value in _methods(kind).items() if inspect.getdoc(value)]:
        yield f"   :members: {', '.join(methods)}"
        yield f"   :special-members: {'__call__' if '__call__' in methods else ''}".rstrip()


def _methods(kind: type) -> dict[str, Any]:
    """Public methods and properties that a class or a base of it in this library defines."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("selmatch"):
            defined = ((name, value) for name, value in vars(base).items() if isinstance(value, _KINDS_OF_METHODS))
            found.update((name, value) for name, value in defined if name == "__call__" or not name.startswith("_"))
    return {name: value for name, value in found.items() if _home(value).startswith("selmatch")}


_KINDS_OF_METHODS = (FunctionType, classmethod, staticmethod, property, functools.cached_property)


def _home(method: Any) -> str:
    function = getattr(method, "fget", None) or getattr(method, "func", None) or method
    return getattr(function, "__module__", None) or ""


def _instance(name: str, kind: type) -> Iterator[str]:
    """An object that is called like a function and has methods: those of its class."""
    home = f"{kind.__module__}.{kind.__qualname__}"
    arguments = _arguments(kind.__call__).replace("(self, ", "(")
    yield from [f".. py:function:: {name}{arguments}", "", f"   The one object of :class:`~{home}`; call it.", ""]
    yield from _class(home, kind)


def _number(name: str, value: Any) -> Iterator[str]:
    """A constant, with the comment above it in the source."""
    yield from [f".. py:data:: {name}", f"   :value: {value!r}", "", *(f"   {line}" for line in _comment(name))]


def _comment(name: str) -> list[str]:
    package, _, constant = name.rpartition(".")
    for module in [home for home in sys.modules if home == package or home.startswith(f"{package}.")]:
        if words := ModuleAnalyzer.for_module(module).find_attr_docs().get(("", constant)):
            return words
    return []


def _picture(kind: type) -> Iterator[str]:
    """The curve at a glance, if it needs no arguments."""
    if (curve := _sample(kind)) is not None:
        drawing = sketch.svg(curve).replace("\n", " ")
        yield from [".. raw:: html", "", f'   <div class="sketch">{drawing}</div>', ""]


def _example_words(kind: type) -> str:
    curve = _sample(kind)
    if curve is None:
        return ""
    return f"Domain {curve.domain}, values in {curve.range}."


def _sample(kind: type) -> Any:
    try:
        return kind()
    except TypeError:
        return None


def _title(words: str, line: str = "=") -> list[str]:
    return [words, line * len(words), ""]


def _table(names: Iterable[str]) -> Iterator[str]:
    """Names with the first paragraph of their docstrings."""
    yield from [".. list-table::", "   :widths: auto", "   :class: names", ""]
    for name in names:
        yield f"   * - :py:obj:`~{name}`"
        yield f"     - {_summary(_value(name))}"
    yield ""


def _value(name: str) -> Any:
    return functools.reduce(getattr, name.split(".")[1:], selmatch)


def _summary(value: Any) -> str:
    paragraph = (inspect.getdoc(value) or "").partition("\n\n")[0].splitlines()
    words = " ".join(in_prose(paragraph))
    return words if words.endswith((".", "!", "?")) else f"{words} ..."


def _signature(app: Any, what: str, name: str, value: Any, *others: Any) -> tuple[str, str] | None:
    """That of ``__init__``: curves have a ``__new__`` that takes anything."""
    return (_arguments(value), "") if what == "class" and _is_curve(value) else None


def _arguments(value: Any) -> str:
    signature = inspect.signature(value)
    plain = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


def _resolve(app: Any, env: Any, node: Any, content: Any) -> Any:
    """A public name that a docstring calls by the module it lives in, or without any."""
    parts = node.get("reftarget", "").split(".")
    for start, part in enumerate(parts):
        if node.get("refdomain") == "py" and part in selmatch.__all__:
            target = ".".join(["selmatch", *parts[start:]])
            return env.get_domain("py").resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, content)
    return None


def _qualify(app: Any, doctree: Any) -> None:
    """Spell out bare public names, which front ends may have too; in their own pages they mean their own."""
    for node in doctree.findall(pending_xref):
        name = node.get("reftarget", "")
        own = getattr(sys.modules.get(node.get("py:module") or ""), "__all__", ())
        if node.get("refdomain") == "py" and name in selmatch.__all__ and name not in own:
            node["reftarget"] = f"selmatch.{name}"


def _write(app: Any) -> None:
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    texts = pages()
    for path in folder.glob("*.rst"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # unchanged pages are not read again
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    for name in BESIDE:
        importlib.import_module(f"selmatch.{name}")
    app.connect("builder-inited", _write)
    app.connect("autodoc-process-signature", _signature)
    app.connect("missing-reference", _resolve)
    app.connect("doctree-read", _qualify)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
