"""`fastpack.scan`: a look at files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack.api.run import scan as run
from fastpack.options.docstring import listing_options
from fastpack.options.mistakes.refusals import suggesting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fastpack.options.function import Function
    from fastpack.options.packing import Packing, Truncate
    from fastpack.options.records import Reading
    from fastpack.options.storage import Storage
    from fastpack.options.tokens import ChatTemplate, SpecialTokens
    from fastpack.options.train_on import TrainOn
    from fastpack.report.scan import ScanReport
    from fastpack.tokenizer.arguments import TokenizerArgument
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import (
        Overlong,
        ProgressOption,
        RecordFilter,
        RecordMap,
        Shape,
        Source,
        Strategy,
        StrPath,
        TrainedTokens,
        Turns,
    )

__all__ = ["scan"]


@suggesting
@listing_options
def scan(
    files: StrPath | Iterable[StrPath | Source] | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int | Sequence[int] = (2048, 4096, 8192, 16384, 32768),
    strategy: Strategy | Packing = "mix",
    overlong: Overlong | Truncate | None = None,
    train_on: TrainedTokens | TrainOn = "auto",
    turns: Turns = "auto",
    special_tokens: SpecialTokens | None = None,
    chat_template: StrPath | ChatTemplate | None = None,
    reading: Shape | Reading | None = None,
    filter: RecordFilter | Function[bool] | None = None,
    map: RecordMap | Function[dict[str, object]] | None = None,
    storage: Mapping[str, str] | Storage | None = None,
    threads: int | None = None,
    progress: ProgressOption = None,
    sample: int | None = None,
) -> ScanReport:
    """Reads files and packs nothing: what they hold, which records are bad, and how rows of each length would do.

    All is done that packing does, up to the plan of the rows; a bad record is counted and named, and ends nothing.

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
    return run(locals())
