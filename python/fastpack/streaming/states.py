"""`StateDict`: the state of a stream, as tables carry it and as JSON; and the seal of all states that travel as dicts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from fastpack import _fastpack
from fastpack.arguments.checks import check_type, is_series, shown
from fastpack.arguments.failures import each_of
from fastpack.errors import OptionError, OptionTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from fastpack.types import JsonValue

StateDict: TypeAlias = "dict[str, JsonValue]"

_KIND: Final = "state_of"
"""The key of the class that a state belongs to."""

_DATASET: Final = "StreamDataset"
"""The class of states that hold the state of a stream."""

__all__ = [
    "StateDict",
    "loaded",
    "merge_state_dicts",
    "opened_state",
    "sealed_state",
    "state_after_row",
    "state_of",
    "state_text",
    "text_of",
]


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
        state_dicts: The state of each rank, of a stream or of a `fastpack.torch.StreamDataset`.

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
        ...         "examples/chat.jsonl",
        ...         "examples/tokenizer",
        ...         ranks=fastpack.Ranks(rank=rank, world_size=2),
        ...         **options,
        ...     ) as stream:
        ...         _ = next(stream)
        ...         states.append(stream.state_dict())
        >>> with fastpack.stream("examples/chat.jsonl", "examples/tokenizer", **options) as stream:
        ...     stream.load_state_dict(fastpack.merge_state_dicts(states))
        ...     stream.step
        1
    """
    if not is_series(state_dicts):
        message = f"must be the states of all ranks, not `{shown(state_dicts)}`"
        raise OptionTypeError(message, "state_dicts")
    states: list[object] = list(each_of(state_dicts, "while fastpack read `state_dicts`"))
    # A value of an edited state may be anything, such as a list, which no set holds.
    of_datasets = [state.get(_KIND) == _DATASET for state in states if isinstance(state, Mapping)]
    if not of_datasets or not all(of_datasets):
        return loaded(_fastpack.merge_states([text_of(state) for state in states]))
    streams = [opened_state(_DATASET, state)["stream"] for state in states]
    begun = [stream for stream in streams if stream is not None]
    if begun and len(begun) < len(streams):
        message = (
            "is of several steps: some are of the beginning; save the states of all ranks after the same step"
        )
        raise OptionError(message, "state")
    merged = _fastpack.merge_states([text_of(stream) for stream in begun]) if begun else "null"
    return sealed_state(_DATASET, {"stream": loaded(merged)})


def state_after_row(table: pa.Table, row: int) -> StateDict:
    """The state after a row of a table whose rows are dealt one by one, as `fastpack.torch.StreamDataset` takes them."""
    if row + 1 == table.num_rows:
        return state_of(table)
    metadata = table.schema.metadata or {}
    places = metadata[_fastpack.PLACES_KEY.encode()].decode()
    return loaded(_fastpack.state_after_row(state_text(table), places, row))


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


def sealed_state(kind: str, state: Mapping[str, JsonValue]) -> StateDict:
    """The state of an object of the class `kind`, with its kind and a hash of its values, which `opened_state` checks.

    It may travel as a dict or as JSON. Values must be those of JSON, and numbers whole or finite.
    """
    return loaded(_fastpack.seal_state(kind, text_of(state)))


def opened_state(kind: str, state: object) -> StateDict:
    """The values that `sealed_state` was given.

    Raises:
        OptionError: About `state_dict`: it is no state of an object of the class `kind`, or was changed since.
    """
    return loaded(_fastpack.open_state(kind, text_of(state, "state_dict")))


def text_of(state: object, option: str = "state") -> str:
    """A state as JSON.

    Raises:
        OptionError: About `option`: it is no dict, or its values are not those of JSON.
    """
    if not isinstance(state, Mapping):
        message = f"must be a dict that `state_dict()` returned, not `{shown(state)}`"
        raise OptionTypeError(message, option)
    try:
        return json.dumps(dict(state), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as refused:
        message = f"is no dict of JSON values, as `state_dict()` returns it: {shown(str(refused))}"
        raise OptionError(message, option) from refused


def loaded(text: str) -> StateDict:
    """The state of its JSON."""
    loaded: StateDict = json.loads(text)
    return loaded
