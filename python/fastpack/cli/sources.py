"""Sources on a command line."""

from __future__ import annotations

from fastpack.errors import OptionError

__all__ = ["with_named_sources"]


def with_named_sources(given: dict[str, object]) -> dict[str, object]:
    """The options, with `NAME=FILE` arguments as named sources if there are weights."""
    files = given.get("files")
    if given.get("weights") is None or not isinstance(files, list):
        return given
    named: dict[str, list[str]] = {}
    for file in files:
        name, equals, path = str(file).partition("=")
        if not equals:
            reason = f"must be NAME=FILE where there are weights, not `{file}`"
            raise OptionError(reason, "files")
        named.setdefault(name, []).append(path)
    return given | {"files": named}
