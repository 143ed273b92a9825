"""The dependencies between the files of a Rust crate, found by its paths."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

Module = tuple[str, ...]
Paths = list[Module]


def graph(source: Path) -> dict[Module, set[Module]]:
    """The modules of the crate in `source`, each with those that it names; a re-export is followed to its home."""
    modules = {module_of(path, source): path for path in sorted(source.rglob("*.rs"))}
    texts = {module: code(path) for module, path in modules.items()}
    known = set(modules)
    exports: dict[Module, dict[str, tuple[Module, Module]]] = {}
    for module, text in texts.items():
        for tree in re.findall(r"\bpub(?:\([^)]*\))?\s+use\s+([^;]+);", text):
            for path in expand(tree):
                found = home(module, path, known)
                if found is not None:
                    exports.setdefault(module, {})[path[-1]] = found
    named = {}
    for module, text in texts.items():
        targets = (target(module, path, known, exports) for path in paths(module, text, known))
        named[module] = {found for found in targets if found is not None and found != module}
    return named


def circles(named: dict[Module, set[Module]]) -> list[list[str]]:
    """The cycles of modules: the strongly connected components with several modules (Tarjan)."""
    index: dict[Module, int] = {}
    low: dict[Module, int] = {}
    stack: list[Module] = []
    found: list[list[str]] = []

    def visit(module: Module) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in named[module]:
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            at = stack.index(module)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                found.append(sorted("::".join(it) or "lib" for it in group))

    for module in named:
        if module not in index:
            visit(module)
    return found


def module_of(path: Path, source: Path) -> Module:
    parts = path.relative_to(source).with_suffix("").parts
    return parts[:-1] if parts[-1] in {"mod", "lib"} else parts


def code(path: Path) -> str:
    """The source without comments and without the tests inside it."""
    text = path.read_text(encoding="utf-8").split("#[cfg(test)]")[0]
    return re.sub(r"//[^\n]*", "", text)


def expand(tree: str, before: Module = ()) -> Paths:
    """The paths of a `use` tree: `a::{b, c::d}` is `a::b` and `a::c::d`."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(tree):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(tree[start:at])
            start = at + 1
    parts.append(tree[start:])
    if len(parts) > 1:
        return [path for part in parts if part.strip() for path in expand(part, before)]
    tree = tree.strip()
    group = re.match(r"^([\w:]*?)(?:::)?\{(.*)\}$", tree, re.DOTALL)
    if group:
        return expand(group[2], before + tuple(filter(None, group[1].split("::"))))
    return [before + tuple(filter(None, re.sub(r"\s+as\s+\w+$", "", tree).split("::")))]


def paths(module: Module, text: str, known: set[Module]) -> Paths:
    """All paths in a file that may lead to another one: in `use` lines, and written out."""
    children = {it[-1] for it in known if it and it[:-1] == module}
    used = [path for tree in re.findall(r"(?m)^\s*use\s+([^;]+);", text) for path in expand(tree)]
    # The path in `pub(in path)` is no dependency.
    body = re.sub(r"\bpub\([^)]*\)", "", re.sub(r"\b(?:pub(?:\([^)]*\))?\s+)?use\s+[^;]+;", "", text))
    written = [tuple(path.split("::")) for path in re.findall(r"(?<![\w:])[a-z_]\w*(?:::\w+)+", body)]
    return [
        ("self", *path) if path[0] in children else path
        for path in used + written
        if path[0] in children | {"crate", "self", "super"}
    ]


def home(module: Module, path: Module, known: set[Module]) -> tuple[Module, Module] | None:
    """The module that a path leads into, and the rest of the path in it."""
    if path[0] == "crate":
        whole = path[1:]
    elif path[0] in {"self", "super"}:
        ups = sum(part == "super" for part in path)
        whole = module[: len(module) - ups] + tuple(it for it in path if it not in {"self", "super"})
    else:
        whole = module + path
        if whole[: len(module) + 1] not in known:
            return None
    longest = max(length for length in range(len(whole) + 1) if whole[:length] in known)
    return whole[:longest], whole[longest:]


def target(
    module: Module,
    path: Module,
    known: set[Module],
    exports: dict[Module, dict[str, tuple[Module, Module]]],
) -> Module | None:
    found = home(module, path, known)
    seen = set()
    while found is not None and found not in seen and found[1] and found[1][0] in exports.get(found[0], {}):
        seen.add(found)
        into, rest = exports[found[0]][found[1][0]]
        found = into, rest + found[1][1:]
    return found[0] if found else None
