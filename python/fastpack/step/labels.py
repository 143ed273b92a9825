"""`labels_of`: the label of each sequence, such as its prompt or its kind; `numbered`: these as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fastpack.arguments.checks import is_series, shown, whole_number
from fastpack.errors import OptionError, OptionTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    Labels: TypeAlias = "Sequence[object] | npt.NDArray[np.int64]"

__all__ = ["labels_of", "numbered"]

_MOST_KINDS = 1 << 16
"""The most numbers of labels that ranks agree on: far more than there are kinds of sequences."""


def labels_of(option: str, labels: object, sequences: int) -> list[object]:
    """The label of each of so many sequences. Numbers are those of Python, so that equal ones are equal whatever holds them.

    Takes a list, an array or a tensor; tensors and arrays without dimensions in a list are numbers.

    Raises:
        OptionError: There are more or fewer, or one is not a number.
        OptionTypeError: It is no list, or has values that cannot be compared by `hash`.
    """
    if not is_series(labels):
        message = f"must be a list with a value for each sequence, not `{shown(labels)}`"
        raise OptionTypeError(message, option)
    values: list[object] = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if len(values) != sequences:
        message = f"has {len(values)} values for {sequences} sequences"
        raise OptionError(message, option)
    values = [_plain(value) for value in values]
    try:
        distinct = set(values)
    except TypeError as refused:
        message = "must have values that `hash` takes, such as numbers or texts"
        raise OptionTypeError(message, option) from refused
    if any(value != value for value in distinct):  # noqa: PLR0124  true of what is not a number
        message = "has a value that is not a number, which equals no other"
        raise OptionError(message, option)
    return values


def numbered(
    option: str, labels: object, sequences: int, agree: Callable[[int], int] | None = None
) -> tuple[npt.NDArray[np.uint32] | None, list[object]]:
    """The label of each sequence as a number, in the order in which labels first come, and the label of each number.

    Ranks that `agree` do not see each other's labels, so theirs must be numbers from 0.
    """
    if labels is None:
        return None, []
    values = labels_of(option, labels, sequences)
    if agree is not None:
        own = [_agreeable(option, value) for value in values]
        agreed = agree(max(own, default=-1) + 1)
        if agreed > _MOST_KINDS:
            message = f"returned {agreed} as the greatest of the numbers of `{option}`, of which {_MOST_KINDS} is the most"
            raise OptionError(message, "all_reduce")
        return np.array(own, dtype=np.uint32), list(range(agreed))
    numbers = {label: number for number, label in enumerate(dict.fromkeys(values))}
    return np.array([numbers[label] for label in values], dtype=np.uint32), list(numbers)


def _plain(value: object) -> object:
    """A value of Python for a tensor or an array without dimensions, or a scalar of numpy or pyarrow."""
    if hasattr(value, "as_py"):
        return value.as_py()
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


def _agreeable(option: str, value: object) -> int:
    """The number of a label from 0."""
    number = whole_number(option, int(value) if isinstance(value, bool) else value, 0)
    if number >= _MOST_KINDS:
        message = f"has the number {number}; with `all_reduce`, the greatest is {_MOST_KINDS - 1}"
        raise OptionError(message, option)
    return number
