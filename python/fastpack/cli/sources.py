"""Sources on a command line."""

from __future__ import annotations

from fastpack.errors import OptionError

__all__ = ["with_named_sources"]


def with_named_sources(arguments: dict[str, object]) -> dict[str, object]:
    """The options, with `NAME=FILE` arguments as named sources if there are weights."""
    files = arguments.get("files")
    if arguments.get("weights") is None or not isinstance(files, list):
        return arguments
    named: dict[str, list[str]] = {}
    for file in files:
        name, equals, path = str(file).partition("=")
        if not equals:
            reason = f"must be NAME=FILE where there are weights, not `{file}`"
            raise OptionError(reason, "files")
        named.setdefault(name, []).append(path)
    return arguments | {"files": named}
