"""Looking before packing: what rows would come to, of files or of lengths alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastpack import _fastpack
from fastpack._checks import is_series, shown
from fastpack._progress import watching
from fastpack._scan import ScanReport
from fastpack.api.options import (
    Model,
    Packing,
    Run,
    native_inputs,
    native_model,
    native_options,
    native_packing,
)
from fastpack.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import numpy as np
    import numpy.typing as npt

    from fastpack._tokenizer import TokenizerArgument
    from fastpack._types import (
        Eos,
        Examples,
        Fields,
        Files,
        JsonValue,
        Keep,
        Lengths,
        OnRemainder,
        Order,
        Overlong,
        ProgressOption,
        Prompt,
        RecordFilter,
        RecordMap,
        Shape,
        Source,
        Strategy,
        StrPath,
        Tail,
        TemplateEngine,
        TrainOn,
        TrainOnEos,
    )
    from fastpack.tokenizer import Tokenizer

__all__ = ["plan", "scan"]

_MAX_LENGTHS: Final = (2048, 4096, 8192, 16384, 32768)


def scan(
    files: Files | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int | Sequence[int] = _MAX_LENGTHS,
    sample: int | None = None,
    strategy: Strategy = Packing.strategy,
    overlong: Overlong | None = None,
    keep: Keep = Packing.keep,
    max_documents_per_pack: int | None = None,
    train_on: TrainOn = Run.train_on,
    train_on_eos: TrainOnEos | None = None,
    eos: Eos = Run.eos,
    chat_template: StrPath | None = None,
    chat_template_kwargs: Mapping[str, JsonValue] | None = None,
    template_engine: TemplateEngine = Model.template_engine,
    shape: Shape | None = None,
    fields: Fields | None = None,
    prompt: Prompt | None = None,
    examples: Examples | None = None,
    separator: str | None = None,
    sources: Sequence[Source] | None = None,
    filter: RecordFilter | None = None,
    filter_fingerprint: str | None = None,
    map: RecordMap | None = None,
    map_fingerprint: str | None = None,
    recursive: bool = False,
    now: datetime | None = None,
    threads: int | None = None,
    progress: ProgressOption = None,
    revision: str | None = None,
    token: str | bool | None = None,
) -> ScanReport:
    """Reads files and packs nothing: what they hold, which records are bad, and how rows of each length would do.

    All is done that packing does, up to the plan of the rows; a bad record is counted and named, and ends nothing.

    Options that are not listed here are as in `pack_files`.

    Args:
        tokenizer: As in `pack_files`.
        max_length: The lengths of rows to try, one or several.
        sample: About how many records to read, the same ones each time, from places all over the files; all if not given.
            What is told of records, tokens, rows and time is then an estimate for all of them. Line files that are not
            compressed are entered throughout, others are read through as far as a second goes; a warning says up to where.

    Returns:
        What was found; `print` it.

    Raises:
        FastpackError: As in `pack_files`, but for bad records.

    Examples:
        >>> import fastpack
        >>> found = fastpack.scan("examples/chat.jsonl", "examples/tokenizer", max_length=[256, 512])
        >>> [fit.max_length for fit in found.fits], found.lost
        ([256, 512], {})
    """
    given = locals()
    lengths = list(max_length) if is_series(max_length) else [max_length]
    if not lengths:
        message = "invalid option `max_length`: must name at least one length"
        raise OptionError(message, "max_length")
    # No row is made, so none lacks a column.
    scanned = {**given, "on_bad_record": "skip", "columns": [*Run.columns, "loss_weights"]}
    options = [native_options({**scanned, "max_length": length}) for length in lengths]
    inputs = native_inputs(given)
    model = native_model(given)
    with watching(progress) as callback:
        found = _fastpack.scan(inputs, lengths, sample, options[0], *model, callback)
    return ScanReport.from_json(found)


def plan(
    lengths: Lengths,
    *,
    max_length: int,
    strategy: Strategy = Packing.strategy,
    overlong: Overlong | None = None,
    keep: Keep = Packing.keep,
    tail: Tail = Packing.tail,
    max_documents_per_pack: int | None = None,
    align_documents_to: int | None = None,
    order: Order | None = None,
    world_size: int | None = None,
    on_remainder: OnRemainder = Packing.on_remainder,
    seed: int = Packing.seed,
) -> _fastpack.Plan:
    """Packs lengths alone: which documents share a row, and in which order.

    Options that are not listed here are as in `pack_files`.

    Args:
        lengths: The length of each document, in tokens.
        max_length: Tokens that a row holds at most.
        overlong: As in `pack_files`, where a length of unknown kind counts as a conversation without turns.

    Returns:
        The plan, as numpy arrays: row `r` holds the pieces `offsets[r]` to `offsets[r + 1]`, and piece
        `p` is `lengths[p]` tokens of document `members[p]`, from its token `starts[p]` on. `dropped` names the
        documents that are in no row; `fill` is from 0 to 1, and `lower_bound` counts the rows that no packing
        of these pieces can do without.

    Raises:
        OptionError: An option has a value that it cannot have, or a length is below 1 or above what can be
            cut (2**31 - 1).

    Examples:
        >>> import fastpack
        >>> found = fastpack.plan([5, 3, 7, 2], max_length=8, order="input")
        >>> found.offsets.tolist(), found.members.tolist()
        ([0, 2, 3, 4], [0, 1, 2, 3])
    """
    return _fastpack.plan(_whole_numbers(lengths), native_packing(locals()))


def _whole_numbers(lengths: Lengths) -> npt.NDArray[np.int64]:
    """Takes lengths as the core does, and refuses what a cast would change."""
    import numpy as np  # noqa: PLC0415  importing fastpack is to cost nothing

    try:
        array = np.asarray(lengths)
    except (TypeError, ValueError, OverflowError) as refused:
        message = f"invalid option `lengths`: must be whole numbers in one dimension, not `{shown(lengths)}`"
        raise OptionError(message, "lengths") from refused
    if np.ma.isMaskedArray(lengths) or (
        array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max
    ):
        message = "invalid option `lengths`: must not be masked, and must fit 64 bits with a sign"
        raise OptionError(message, "lengths")
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        message = (
            "invalid option `lengths`: must be whole numbers in one dimension, not an array of "
            f"{array.dtype} with {array.ndim} dimensions"
        )
        raise OptionError(message, "lengths")
    return np.ascontiguousarray(array, dtype=np.int64)
