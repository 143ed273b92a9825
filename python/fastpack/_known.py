"""The installed functions, classes and modules that only compute: in an identity their names and versions suffice.

These are most builtins, some modules of the standard library, numpy and pyarrow. What reads a file, the clock, the environment
or a random number is none of them, and neither is what finds names by text, such as `getattr`.
"""

from __future__ import annotations

import builtins
import copyreg
import functools
import importlib
import os
import platform
import sys
import sysconfig
from pathlib import Path
from types import (
    BuiltinFunctionType,
    FunctionType,
    GenericAlias,
    MappingProxyType,
    MethodDescriptorType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import CodeType


__all__ = [
    "forbidden",
    "is_installed",
    "is_installed_module",
    "is_of_caller",
    "is_whole",
    "known",
    "known_module",
    "names",
    "replaced",
    "versions",
]


def names(text: str) -> frozenset[str]:
    """The words of a text as a set; a formatter would put each on a line of its own in a list."""
    return frozenset(text.split())


_EXCLUDED_BUILTINS: Final = names(
    "__import__ breakpoint compile copyright credits dir eval exec exit getattr globals hash help id input "
    "license locals open quit vars"
)

_WHOLE: Final = names(
    "_abc _bisect _blake2 _collections _datetime _functools _hashlib _heapq _json _md5 _sha1 _sha2 _sha256 _sha3 "
    "_sha512 _sre _statistics _struct abc base64 binascii bisect cmath collections collections.abc copy "
    "datetime difflib enum fractions hashlib heapq hmac html html.entities html.parser itertools json "
    "json.decoder json.encoder json.scanner keyword math numbers re string struct textwrap unicodedata "
    "urllib.parse zlib"
)
"""Modules of which every part only computes."""

_PARTS: Final = {
    "argparse": {"Namespace"},
    "ast": {"literal_eval"},
    "contextlib": {"closing", "contextmanager", "nullcontext", "suppress"},
    "io": {"BytesIO", "StringIO"},
    "_io": {"BytesIO", "StringIO"},
    "_warnings": {"warn"},
    "time": {"sleep"},
    "warnings": {"warn"},
    "posixpath": {"basename", "commonprefix", "dirname", "isabs", "join", "normpath", "split", "splitext"},
}
"""Modules of which only the listed parts only compute."""

_EXCLUDED: Final = {
    "operator": {"attrgetter", "methodcaller"},
    "_operator": {"attrgetter", "methodcaller"},
    "statistics": {"NormalDist", "kde_random"},
    # These read annotations, which nothing else does.
    "dataclasses": {"dataclass", "make_dataclass"},
    "functools": {"singledispatch", "singledispatchmethod"},
    "typing": {"get_type_hints"},
}
"""Modules of which every part but the listed ones only computes."""

_ARROW: Final = {"pyarrow", "pyarrow.lib", "pyarrow.compute", "pyarrow._compute", "pyarrow.types"}

_EXCLUDED_ARROW: Final = names(
    "Expression ExtensionType File Function Message Pool Reader Registry Stream Writer call_function call_tabular "
    "cpu_count create_ default_ deserialize enable_ foreign function_registry get_ have_ info input_ list_functions "
    "log_memory memory_ output_ pool random register serialize set_ supported_ thread total_ transcoding versions"
)
"""Parts of the names of functions that read files, inspect memory, change settings, or find functions by name."""

_NUMPY: Final = names(
    "numpy numpy.char numpy.dtypes numpy.exceptions numpy.fft numpy.lib._index_tricks_impl numpy.lib.stride_tricks numpy.linalg numpy.ma numpy.ma.core "
    "numpy.ma.extras numpy.polynomial numpy.polynomial.polynomial numpy.rec numpy.strings"
)

_EXCLUDED_NUMPY: Final = names(
    "DataSource errstate fromfile fromregex genfromtxt get_include get_printoptions getbufsize geterr geterrcall info "
    "load loadtxt lookfor memmap open_memmap printoptions save savetxt savez savez_compressed set_printoptions setbufsize "
    "seterr seterrcall show_config show_runtime source test"
)

_TYPES: Final = (MappingProxyType, SimpleNamespace, GenericAlias, type(None), type(...), type(NotImplemented))
"""Types of the interpreter that are not among the builtins."""

_DOUBLE_UNDERSCORES: Final = (
    {
        name
        for kind in (str, bytes, float, dict, set, slice, type(iter(())), BaseException)
        for name in dir(kind)
    }
    | {name for kind in (int, complex, list, tuple, property) for name in dir(kind)}
    | names(
        "__bool__ __call__ __class__ __delete__ __enter__ __exit__ __get__ __members__ __missing__ __name__ __post_init__ "
        "__qualname__ __set__ __set_name__ __version__ __wrapped__"
    )
) - names(
    "__cause__ __context__ __dict__ __dir__ __doc__ __getattribute__ __getstate__ __hash__ "
    "__init_subclass__ __isabstractmethod__ __notes__ __reduce__ __reduce_ex__ __setstate__ __sizeof__ "
    "__subclasshook__ __traceback__"
)
"""Double-underscore attributes that only give parts of a value."""

_EXCLUDED_ATTRIBUTES: Final = {
    **dict.fromkeys(("now", "today", "utcnow"), "the time of day"),
    **dict.fromkeys(
        ("astimezone", "fromtimestamp", "timestamp"), "which may depend on the machine's time zone"
    ),
    **dict.fromkeys(
        names("ag_frame cr_frame f_back f_builtins f_globals f_locals gi_frame tb_frame"),
        "which leads to the variables of other functions",
    ),
    "to_pandas": "whose result depends on the settings of pandas",
}

_NATIVE: Final = (FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType)

_BUILTINS: Final = dict(vars(builtins))
"""The builtins at the time when this module was loaded."""


def forbidden(attribute: str) -> str | None:
    """The reason why a function that reads this attribute has no identity; `None` if it may read it."""
    if attribute.startswith("__") and attribute.endswith("__") and attribute not in _DOUBLE_UNDERSCORES:
        return "which leads to more than the value itself"
    return _EXCLUDED_ATTRIBUTES.get(attribute)


def known(value: object) -> str | None:
    """The full name of a function or class that only computes; `None` for any other value."""
    if any(value is it for it in _TYPES):
        return f"builtins.{getattr(value, '__name__', '')}"
    if not (isinstance(value, (type, *_NATIVE)) or _is_compiled(value)):
        return None
    home = _home(value)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not (isinstance(home, str) and isinstance(name, str)):
        return None
    if home == "builtins":
        return f"builtins.{name}" if _BUILTINS.get(name) is value and name not in _EXCLUDED_BUILTINS else None
    module = known_module(home)
    if module is None or _is_excluded(home, name):
        return None
    found: object = module
    for part in name.split("."):
        found = getattr(found, part, None)
    # A function that replaces another may have the same name.
    is_own = not isinstance(value, FunctionType) or is_installed(value.__code__)
    return f"{home}.{name}" if found is value and is_own else None


def known_module(name: str) -> ModuleType | None:
    """The module of this name if parts of it only compute; it is imported if necessary."""
    if not any(name in table for table in (_WHOLE, _PARTS, _EXCLUDED, _ARROW, _NUMPY)):
        return None
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    is_own = type(module) is ModuleType and (origin in {"built-in", "frozen"} or _is_known_file(origin))
    return module if is_own else None


def is_whole(module: ModuleType) -> bool:
    """Whether everything in a module only computes: it contains no modules of other packages."""
    if module.__name__ not in _WHOLE or known_module(module.__name__) is not module:
        return False
    return not any(isinstance(value, ModuleType) for value in vars(module).values())


def is_installed(code: CodeType) -> bool:
    """Whether code was compiled from a file of the standard library, numpy or pyarrow."""
    return code.co_filename.startswith("<frozen ") or _is_known_file(code.co_filename)


def is_installed_module(name: str | None) -> bool:
    """Whether a module belongs to the standard library, numpy or pyarrow, even if it does more than compute."""
    module = sys.modules.get(name or "")
    path = getattr(module, "__file__", None)
    return (
        module is not None
        and name != "__main__"
        and (_is_known_file(path) or str(name).partition(".")[0] in sys.builtin_module_names)
    )


def is_of_caller(value: object) -> bool:
    """Whether a function or class is the caller's own: its module's file is in no installed package."""
    path = getattr(sys.modules.get(str(_home(value))), "__file__", None)
    is_builtin = path is None and str(_home(value)) in sys.stdlib_module_names - {"__main__"}
    return not (is_builtin or _is_known_file(path) or (path is not None and _is_package(path)))


def replaced(name: str) -> str | None:
    """The name of an attribute that was replaced in the module of a known function; `None` if none was."""
    home = name.rpartition(".")[0]
    while home and home not in sys.modules:
        home = home.rpartition(".")[0]
    root = home.partition(".")[0]
    # Libraries add newer parts to `typing`; no result depends on them.
    if root in {"builtins", "typing"}:
        return None
    if root == "copy" and any(is_of_caller(it) for it in copyreg.dispatch_table.values()):
        return "copyreg.dispatch_table"
    inside = [it for it in tuple(sys.modules) if root in _WHOLE and it.startswith(f"{root}.")]
    for each in (root, home, *inside):
        for attribute, value in tuple(vars(sys.modules[each]).items()):
            if not _is_own(value, root):
                return f"{each}.{attribute}"
    return None


def versions() -> tuple[str, ...]:
    """The versions of the interpreter and the libraries, which determine all known functions."""
    import numpy as np  # noqa: PLC0415  slow to import
    import pyarrow as pa  # noqa: PLC0415  slow to import

    return platform.python_implementation(), platform.python_version(), np.__version__, pa.__version__


def _home(value: object) -> object:
    """The module name that a value gives as its own."""
    owner = getattr(value, "__self__", None)
    return getattr(value, "__module__", None) or (owner.__name__ if isinstance(owner, ModuleType) else None)


def _is_compiled(value: object) -> bool:
    """Whether a value is a compiled function of numpy or Cython, which have their own function types."""
    home = type(value).__module__
    return home == "numpy" or home.startswith("_cython_")


def _is_excluded(home: str, name: str) -> bool:
    if home in _ARROW:
        return any(part in name for part in _EXCLUDED_ARROW)
    if home in _NUMPY:
        return name in _EXCLUDED_NUMPY
    return name not in _PARTS[home] if home in _PARTS else name in _EXCLUDED.get(home, ())


@functools.cache
def _folders() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The folders of the standard library, and those of numpy and pyarrow where they were installed.

    A package in another folder is under development, so its version does not determine its code.
    """
    import numpy as np  # noqa: PLC0415  slow to import
    import pyarrow as pa  # noqa: PLC0415  slow to import

    standard = (sysconfig.get_paths().get(name) for name in ("stdlib", "platstdlib"))
    packages = (str(Path(str(it.__file__)).parent) for it in (np, pa))
    return (
        tuple(f"{path}{os.sep}" for path in standard if path),
        tuple(f"{path}{os.sep}" for path in packages if _is_package(path)),
    )


def _is_package(path: str) -> bool:
    parts = Path(path).parts
    return "site-packages" in parts or "dist-packages" in parts


def _is_known_file(path: object) -> bool:
    if not isinstance(path, str):
        return False
    standard, packages = _folders()
    return path.startswith(packages) or (path.startswith(standard) and not _is_package(path))


def _is_own(value: object, root: str) -> bool:
    """Whether a value in a known module was installed with the module, as far as can be checked."""
    if isinstance(value, FunctionType):
        return is_installed(value.__code__)
    if not _is_installed_type(value if isinstance(value, type) else type(value), root):
        return False
    if not isinstance(value, type) or str(value.__module__).partition(".")[0].lstrip("_") != root.lstrip("_"):
        return True
    parts = (getattr(it, "__func__", getattr(it, "fget", it)) for it in tuple(vars(value).values()))
    return all(
        _is_method(part, root) if isinstance(part, FunctionType) else _is_installed_type(type(part), root)
        for part in parts
    )


def _is_installed_type(kind: type, root: str) -> bool:
    home = str(kind.__module__).partition(".")[0]
    return (
        home in sys.stdlib_module_names or home in {root, "numpy", "pyarrow"} or home.startswith("_cython_")
    )


def _is_method(function: FunctionType, root: str) -> bool:
    """Whether a method in a class of a known module is the class's own, or was generated by `dataclass` or `namedtuple`."""
    home = str(function.__globals__.get("__name__"))
    return is_installed(function.__code__) or home == root or home.startswith((f"{root}.", "namedtuple_"))
