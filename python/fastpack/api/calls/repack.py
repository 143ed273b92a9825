"""`fastpack.repack`: kept tokens once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack.api.run import repack as run
from fastpack.options.docstring import listing_options
from fastpack.options.mistakes.refusals import suggesting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastpack.options.objective import Objective
    from fastpack.options.output import Exists, Format
    from fastpack.options.packing import Balanced, Packing, Truncate
    from fastpack.options.rows import Padding
    from fastpack.options.storage import Storage
    from fastpack.report.report import Report
    from fastpack.tokenizer.arguments import TokenizerArgument
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import (
        Column,
        Existing,
        FormatName,
        MaxLost,
        ObjectiveName,
        Order,
        Overlong,
        PadTo,
        ProgressOption,
        Strategy,
        StrPath,
        Validation,
    )

__all__ = ["repack"]


@suggesting
@listing_options
def repack(
    source: StrPath,
    output: StrPath,
    *,
    max_length: int | None = None,
    strategy: Strategy | Packing = "mix",
    overlong: Overlong | Truncate | None = None,
    order: Order | Balanced | None = None,
    seed: int = 0,
    padding: PadTo | Padding | None = None,
    columns: Sequence[Column] | None = None,
    objective: ObjectiveName | Objective = "causal",
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    max_lost: MaxLost | None = None,
    format: FormatName | Format = "arrow",
    validation: Validation | None = None,
    exists: Existing | Exists = "error",
    storage: Mapping[str, str] | Storage | None = None,
    memory: int | str | None = None,
    threads: int | None = None,
    progress: ProgressOption = None,
) -> Report:
    """Packs the tokens that `pack_dir(keep_tokens=True)` kept once more, without tokenizing.

    Whole documents were kept, so those that were dropped for their length are back where they fit. The rows are
    those of `pack_dir` with these options and the files as they were.

    Args:
        source: The folder that `pack_dir` wrote.

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
    return run(locals())
