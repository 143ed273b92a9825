"""The modules of the package, and which of them each imports, also inside functions."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Module = tuple[str, ...]


def graph(package: Path) -> dict[Module, set[Module]]:
    """For each module of a package, the modules of it that it imports. Imports for type checkers alone do not count."""
    files = {_name(package, path): path for path in package.rglob("*.py")}
    return {
        tuple(name.split(".")): {
            tuple(run.split("."))
            for module in _imports(ast.parse(path.read_text(encoding="utf-8")))
            if (home := _home(module, files))
            for run in _runs(home, name, files)
        }
        for name, path in files.items()
        if name
    }


def _name(package: Path, path: Path) -> str:
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _home(module: str, files: dict[str, Path]) -> str | None:
    """The module that an import names: the longest name that is one."""
    while module and module not in files:
        module = module.rpartition(".")[0]
    return module or None


def _runs(home: str, importer: str, files: dict[str, Path]) -> Iterator[str]:
    """The modules that run where a module is imported: it, and the packages around it that are not around the importer."""
    parts = home.split(".")
    for length in range(1, len(parts) + 1):
        name = ".".join(parts[:length])
        if name in files and name != importer and not importer.startswith(f"{name}."):
            yield name


def _imports(tree: ast.AST) -> Iterator[str]:
    """The names that a module imports from its package."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            if ast.unparse(node.test) == "TYPE_CHECKING":
                continue
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fastpack":
            module = (node.module or "").partition(".")[2]
            for name in node.names:
                yield f"{module}.{name.name}".lstrip(".")
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.startswith("fastpack."):
                    yield name.name.partition(".")[2]
        yield from _imports(node)
