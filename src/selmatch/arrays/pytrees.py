"""Curves, potentials and losses as trees of numbers: JAX pytrees, and modules of PyTorch.

Numbers marked as leaves (alpha, beta, gain, gamma, rho, ...) and nested curves are children; numbers that change
formulas (d, c, knots) and options are part of the structure. Curves of users name their leaves in the class attributes
``trainable`` and ``positive``. Objects are rebuilt without their constructor, so that tracers and placeholders pass.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterator
from typing import Any

from selmatch.parameters import declared_numbers, has_plain_numbers, is_framework_array, leaf_names

_classes: list[type] = []
_registered: set[type] = set()


def announce(cls: type) -> None:
    """Make instances of a class pytrees, as soon as JAX is there."""
    _classes.append(cls)
    if _registered:
        _register(cls)


def register_all() -> None:
    """Tell JAX about every announced class."""
    for cls in _classes:
        _register(cls)


def _register(cls: type) -> None:
    if cls not in _registered:
        import jax

        jax.tree_util.register_pytree_with_keys(cls, _flatten_with_keys, functools.partial(rebuild, cls), flatten)
        _registered.add(cls)


#: what a curve keeps beside its fields once it has looked at itself
_MEASURED = ("_landmarks", "_mesh")


def attributes(instance: Any) -> dict[str, Any]:
    """All that an object is made of: its fields, or what the constructor of a class without fields has stored."""
    if "__dataclass_fields__" in vars(type(instance)):
        return {field.name: getattr(instance, field.name) for field in dataclasses.fields(instance)}
    return {name: value for name, value in vars(instance).items() if name not in _MEASURED}


def _split(instance: Any) -> tuple[list[tuple[str, Any]], tuple[tuple[str, Any], ...]]:
    leaves, found = leaf_names(instance), attributes(instance)
    children = [(name, getattr(instance, name)) for name in leaves]
    static = [(name, value) for name, value in found.items() if name not in leaves]
    mesh = vars(instance).get("_mesh")
    if mesh is None and declared_numbers(instance) and instance.is_integrated() and has_plain_numbers(instance):
        mesh = instance.mesh  # copies with other numbers cannot measure themselves
    if mesh is not None:
        static.append(("_mesh", mesh.changeable if children else mesh))
    return children, tuple(static)


def flatten(instance: Any) -> tuple[tuple[Any, ...], Any]:
    """The children of an object; and their names with the fields that are no children, which rebuild it."""
    children, static = _split(instance)
    return tuple(value for _, value in children), (tuple(name for name, _ in children), static)


def numbers(instance: Any) -> Iterator[Any]:
    """What the fields of an object and of its parts hold."""
    if isinstance(instance, tuple):
        for part in instance:
            yield from numbers(part)
    elif dataclasses.is_dataclass(instance):
        for field in dataclasses.fields(instance):
            yield from numbers(getattr(instance, field.name))
    else:
        yield instance


def array_among(instance: Any) -> Any:
    """The first of the numbers of an object that is an array of a framework; None if there is none."""
    if "torch" not in sys.modules and "jax" not in sys.modules:
        return None
    return next(filter(is_framework_array, numbers(instance)), None)


def own_formulas(instance: Any) -> Iterator[Any]:
    """The parts of an object that users have written: they may hide numbers that are trained."""
    if isinstance(instance, tuple):
        for part in instance:
            yield from own_formulas(part)
    elif dataclasses.is_dataclass(instance) and not isinstance(instance, type):
        parts = [getattr(instance, field.name) for field in dataclasses.fields(instance)]
        if not type(instance).__module__.startswith("selmatch.") or any(map(_is_function, parts)):
            yield instance
        yield from own_formulas(tuple(parts))


def _is_function(part: Any) -> bool:
    return callable(part) and not dataclasses.is_dataclass(part)


def _flatten_with_keys(instance: Any) -> tuple[tuple[Any, ...], Any]:
    import jax

    values, structure = flatten(instance)
    keys = (jax.tree_util.GetAttrKey(name) for name in structure[0])
    return tuple(zip(keys, values, strict=True)), structure


def rebuild(cls: type, structure: Any, values: Any) -> Any:
    """An object with other children, made without its constructor."""
    names, static = structure
    instance = object.__new__(cls)
    for name, value in (*zip(names, values, strict=True), *static):
        object.__setattr__(instance, name, value)
    return instance
