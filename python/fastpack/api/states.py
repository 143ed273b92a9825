"""`StateDict`: the state of a stream, as tables carry it and as JSON; and `merge_state_dicts`, for those of ranks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

from fastpack import _fastpack
from fastpack._checks import check_type
from fastpack.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from fastpack._types import JsonValue

StateDict: TypeAlias = "dict[str, JsonValue]"

__all__ = ["StateDict", "loaded", "merge_state_dicts", "state_of", "state_text", "text_of"]


def state_of(table: pa.Table) -> StateDict:
    """Returns the state of a stream after one of its tables.

    Args:
        table: A table that a stream gave, or one with its schema metadata.

    Returns:
        The state that `state_dict()` returned when this was the last table.

    Raises:
        OptionError: The table carries no state.

    Examples:
        >>> import fastpack
        >>> stream = fastpack.stream("examples/*.jsonl", "examples/tokenizer", max_length=512)
        >>> fastpack.state_of(next(stream)) == stream.state_dict()
        True
    """
    return loaded(state_text(table))


def merge_state_dicts(state_dicts: Iterable[Mapping[str, JsonValue]]) -> StateDict:
    """Joins the states of all ranks after the same step into one, from which any number of ranks can resume.

    Args:
        state_dicts: The state of each rank.

    Returns:
        The state of the run.

    Raises:
        OptionError: They are of several runs or steps, or a lane is in none of them.

    Examples:
        >>> import fastpack
        >>> options = {"max_length": 512, "epochs": None, "batch_size": 2}
        >>> states = []
        >>> for rank in range(2):
        ...     with fastpack.stream(
        ...         "examples/chat.jsonl", "examples/tokenizer", rank=rank, world_size=2, **options
        ...     ) as stream:
        ...         _ = next(stream)
        ...         states.append(stream.state_dict())
        >>> with fastpack.stream("examples/chat.jsonl", "examples/tokenizer", **options) as stream:
        ...     stream.load_state_dict(fastpack.merge_state_dicts(states))
        ...     stream.step
        1
    """
    return loaded(_fastpack.merge_states([text_of(state) for state in state_dicts]))


def state_text(table: pa.Table) -> str:
    """The state that a table carries, as JSON."""
    check_type("table", table, _table_types(), "a pyarrow.Table of a stream")
    metadata = table.schema.metadata or {}
    state = metadata.get(_fastpack.STATE_KEY.encode())
    if state is None:
        message = "carries no state; only tables of `fastpack.stream` do"
        raise OptionError(message, "table")
    return state.decode()


def _table_types() -> tuple[type, ...]:
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    return (pa.Table, pa.RecordBatch)


def text_of(state: object) -> str:
    """A state as JSON."""
    try:
        return json.dumps(state)
    except (TypeError, ValueError) as refused:
        message = f"is none of a stream: {refused}"
        raise OptionError(message, "state") from refused


def loaded(text: str) -> StateDict:
    """The state of its JSON."""
    loaded: StateDict = json.loads(text)
    return loaded
