"""Takes values apart for hashing. Values with equal parts behave the same.

It covers only types whose parts are the whole value. The parts of an instance of a class are its attributes, and the
content of the builtin type that the class inherits from.
"""

from __future__ import annotations

import functools
import operator
import re
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import Field
from datetime import date, datetime, time, timedelta, timezone
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    GenericAlias,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    SimpleNamespace,
    UnionType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["PLAIN", "Unordered", "attributes_of", "has_cached", "is_set", "is_value", "parts_of"]

PLAIN: Final = frozenset({type(None), type(...), type(NotImplemented), bool, int, float, complex, str, bytes})
"""Types whose `repr` determines the value."""

_FIELD_OF_TUPLES: Final = type(vars(namedtuple("_Tuple", "field"))["field"])  # noqa: PYI024  it has no public name
_CACHED: Final = type(functools.lru_cache(len))
_SPECIAL_FORM: Final = type(ClassVar)

_BY_ATTRIBUTES: Final[dict[type, tuple[str, ...]]] = {
    re.Pattern: ("pattern", "flags"),
    GenericAlias: ("__origin__", "__args__"),
    UnionType: ("__args__",),
    MethodDescriptorType: ("__objclass__", "__name__"),
    WrapperDescriptorType: ("__objclass__", "__name__"),
    MemberDescriptorType: ("__name__",),
    _SPECIAL_FORM: ("_name",),
    MethodType: ("__func__", "__self__"),
    MethodWrapperType: ("__name__", "__self__"),
    BuiltinFunctionType: ("__name__", "__self__"),
    property: ("fget", "fset", "fdel"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    functools.cached_property: ("func", "attrname"),
    functools.partial: ("func", "args", "keywords", "__dict__"),
    _CACHED: ("__wrapped__", "__dict__"),
    SimpleNamespace: ("__dict__",),
    Field: tuple(Field.__slots__),
}
"""Types that consist of a few attributes."""

_BY_REDUCTION: Final = frozenset(
    {range, slice, date, datetime, time, timedelta, timezone, operator.itemgetter, _FIELD_OF_TUPLES}
)
"""Types whose pickled state is known to be the whole value."""

_CONTENT: Final = frozenset(
    {OrderedDict, defaultdict, dict, list, tuple, set, frozenset, deque, str, bytes, bytearray, int, float}
    | {BaseException, object}
)
"""Builtin types that a class may inherit from."""

_VALUES: Final = _BY_REDUCTION | {
    *(tuple, frozenset, CodeType, re.Pattern, GenericAlias, UnionType, _SPECIAL_FORM),
    *(MethodDescriptorType, WrapperDescriptorType, MemberDescriptorType),
}
"""Immutable types: equal values cannot be told apart."""

_POINTER: Final = tuple.__itemsize__
"""Bytes that an instance takes for each of its slots."""


class Unordered(NamedTuple):
    """Values whose order differs between processes."""

    values: list[object]


def is_value(value: object) -> bool:
    """Whether a value is immutable, so that an equal object can stand for it."""
    return type(value) in _VALUES


def is_set(cell: CellType) -> bool:
    """Whether a captured variable has a value yet. A function that is defined later has none."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def has_cached(value: object) -> bool:
    """Whether a function keeps results that it computed earlier, perhaps from other values of its variables."""
    return type(value) is _CACHED and functools._lru_cache_wrapper.cache_info(value).currsize > 0  # noqa: SLF001


def parts_of(value: object) -> Iterable[object] | None:  # noqa: PLR0911  one for each way to take a value apart
    """The parts of a value besides its type; `None` for types that this module does not cover."""
    kind = type(value)
    if kind in _BY_ATTRIBUTES:
        return [getattr(value, name) for name in _BY_ATTRIBUTES[kind]]
    if kind in _BY_REDUCTION:
        reduced = value.__reduce_ex__(4)
        return None if isinstance(reduced, str) else reduced[1:3]
    if isinstance(value, MappingProxyType):
        return _pairs(value)
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, CellType):
        return [value.cell_contents] if is_set(value) else []
    if kind in _CONTENT and kind.__dictoffset__ == 0 and kind is not object:
        return _content(value)
    return _of_numpy(value) or _of_arrow(value)


def attributes_of(value: object) -> Iterable[object] | None:
    """The content, slots and attributes of an instance of a class.

    `None` if a part of its class was not written in Python, and may hold data that Python does not show.
    """
    held: list[tuple[str, object]] = []
    base: type | None = type(value)
    while base not in _CONTENT:
        if base is None or base.__base__ is None:
            return None
        own = vars(base)
        slots = [(name, it) for name, it in own.items() if isinstance(it, MemberDescriptorType)]
        pointers = len(slots) + ("__dict__" in own) + ("__weakref__" in own)
        hidden = base.__basicsize__ - base.__base__.__basicsize__ - pointers * _POINTER
        if hidden > 0 or base.__itemsize__ != base.__base__.__itemsize__:
            return None
        held += [(name, slot.__get__(value, type(value))) for name, slot in slots if _is_filled(slot, value)]
        base = base.__base__
    spaces = [vars(it)["__dict__"] for it in type(value).__mro__ if "__dict__" in vars(it)]
    if not all(isinstance(space, GetSetDescriptorType) for space in spaces):
        return None
    attributes: dict[str, object] = spaces[0].__get__(value) if spaces else {}
    return base, list(_content(value)), sorted([*held, *attributes.items()], key=lambda it: str(it[0]))


def _content(value: object) -> Iterable[object]:  # noqa: C901, PLR0911  a case for each type
    """The content of an instance of a builtin type, read without the methods that its class overrides."""
    if isinstance(value, OrderedDict):
        return tuple(OrderedDict.keys(value)), tuple(OrderedDict.values(value))
    if isinstance(value, defaultdict):
        return value.default_factory, tuple(dict.keys(value)), tuple(dict.values(value))
    if isinstance(value, dict):
        return tuple(dict.keys(value)), tuple(dict.values(value))
    if isinstance(value, deque):
        return value.maxlen, *deque.__iter__(value)
    if isinstance(value, list):
        return list.__iter__(value)
    if isinstance(value, tuple):
        return tuple.__iter__(value)
    if isinstance(value, set):
        return [_in_order(list(set.__iter__(value)))]
    if isinstance(value, frozenset):
        return [_in_order(list(frozenset.__iter__(value)))]
    if isinstance(value, str):
        return [str.__str__(value)]
    if isinstance(value, int):
        return [int.__int__(value)]
    if isinstance(value, float):
        return [float.__float__(value)]
    if isinstance(value, (bytes, bytearray)):
        return [bytes(memoryview(value))]
    return value.args if isinstance(value, BaseException) else ()


def _pairs(value: Mapping[object, object]) -> Iterable[object]:
    """Keys and values as two lists: texts and numbers in a list are hashed many at a time."""
    return tuple(value.keys()), tuple(value.values())


def _in_order(values: list[object]) -> object:
    """The content of a set: the order of numbers is the same in each process, and of other values it is not."""
    return values if all(type(value) in {bool, int, float} for value in values) else Unordered(values)


def _code(code: CodeType) -> Iterable[object]:
    """The parts of compiled code, without its line numbers."""
    # The order of constant sets may differ when code is loaded from a `.pyc` file.
    constants = [Unordered(list(it)) if isinstance(it, frozenset) else it for it in code.co_consts]
    return (
        *(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_name),
        *(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, *constants),
        *(code.co_code, getattr(code, "co_exceptiontable", b"")),
    )


def _is_filled(slot: MemberDescriptorType, value: object) -> bool:
    try:
        slot.__get__(value, type(value))
    except AttributeError:
        return False
    return True


def _of_numpy(value: object) -> Iterable[object] | None:
    import numpy as np  # noqa: PLC0415  slow to import

    if isinstance(value, np.dtype):
        return None if value.hasobject else [repr(value)]
    if type(value) is not np.ndarray and not isinstance(value, np.generic):
        return None
    content = value.tolist() if value.dtype.hasobject else value.tobytes()
    base = value.base if isinstance(value, np.ndarray) else None
    # A view of another array: writes to that array change this one.
    start = 0
    if isinstance(value, np.ndarray) and isinstance(base, np.ndarray):
        start = value.ctypes.data - base.ctypes.data
    return repr(value.dtype), value.shape, value.strides, value.flags.writeable, content, base, start


def _of_arrow(value: object) -> Iterable[object] | None:
    import pyarrow as pa  # noqa: PLC0415  slow to import

    if type(value).__module__ != "pyarrow.lib":
        return None
    if isinstance(value, pa.DataType):
        value = pa.field("", value)
    if isinstance(value, pa.Field):
        value = pa.schema([value])
    if isinstance(value, pa.Schema):
        value = value.empty_table()
    if isinstance(value, pa.Scalar):
        value = pa.array([value.as_py()], value.type)
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        value = pa.table({"": value})
    # An extension type may be a class of the caller.
    if not isinstance(value, (pa.Table, pa.RecordBatch)) or "extension<" in str(value.schema.types):
        return None
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, value.schema) as stream:
        stream.write(value)
    return [written.getvalue().to_pybytes()]
