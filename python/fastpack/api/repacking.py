"""Packing the tokens that a folder keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack import _fastpack
from fastpack._checks import folder_of
from fastpack._progress import watching
from fastpack.api.options import Output, Packing, Run, native_options, native_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastpack._types import (
        Column,
        Compression,
        Format,
        Keep,
        MaxLost,
        OnRemainder,
        Order,
        Overlong,
        PadTo,
        ProgressOption,
        Side,
        Strategy,
        StrPath,
        Tail,
        Validation,
    )
    from fastpack.report import Report

__all__ = ["repack"]


def repack(
    source: StrPath,
    output: StrPath,
    *,
    max_length: int,
    format: Format = Output.format,
    compression: Compression | None = None,
    hf_layout: bool = False,
    validation: Validation | None = None,
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
    pad_to: PadTo | None = None,
    padding_side: Side = Run.padding_side,
    pad_token_id: int | None = None,
    shift_labels: bool = False,
    columns: Sequence[Column] = Run.columns,
    max_lost: MaxLost | None = None,
    shard_size: int | str = Output.shard_size,
    memory: int | str | None = None,
    overwrite: bool = False,
    wait: bool = Output.wait,
    threads: int | None = None,
    progress: ProgressOption = None,
) -> Report:
    """Packs the tokens that `pack_dir(keep_tokens=True)` kept once more, without tokenizing.

    Whole documents were kept, so those that were dropped for their length are back where they fit. The rows are
    those of `pack_dir` with these options and the files as they were.

    Options that are not listed here are as in `pack_dir`.

    Args:
        source: The folder that `pack_dir` wrote.
        output: Another folder; made if it is not there.
        max_length: Tokens that a row holds at most.
        validation: As in `pack_dir`; must be given where the tokens were kept with it. With the same `seed` it sets the
            same documents aside, whatever else differs.
        overlong: As in `pack_files`; `trim` only where the tokens were kept with it.

    Returns:
        The report, which `output` holds as `report.json`.

    Raises:
        OutputError: `source` holds no tokens; or `output` as in `pack_dir`.
        FastpackError: As in `pack_files`.

    Examples:
        >>> import fastpack, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     long = fastpack.pack_dir(
        ...         "examples/chat.jsonl",
        ...         f"{folder}/long",
        ...         tokenizer="examples/tokenizer",
        ...         max_length=512,
        ...         keep_tokens=True,
        ...     )
        ...     short = fastpack.repack(f"{folder}/long", f"{folder}/short", max_length=128)
        >>> short.documents.read == long.documents.read
        True
    """
    given = locals()
    options = native_options(given)
    kept = folder_of("source", source)
    destination = native_output(given)
    with watching(progress) as callback:
        return _fastpack.repack(kept, destination, options, callback)
