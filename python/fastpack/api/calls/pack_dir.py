"""`fastpack.pack_dir`: files into a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack.api.run import pack_dir as run
from fastpack.options.docstring import listing_options
from fastpack.options.mistakes.refusals import suggesting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fastpack.options.function import Function
    from fastpack.options.objective import Objective
    from fastpack.options.output import Exists, Format, Groups
    from fastpack.options.packing import Balanced, Packing, Truncate
    from fastpack.options.records import Reading
    from fastpack.options.rows import Padding
    from fastpack.options.storage import Storage
    from fastpack.options.tokens import ChatTemplate, SpecialTokens
    from fastpack.options.train_on import TrainOn
    from fastpack.options.work import Weights
    from fastpack.report.report import Report
    from fastpack.tokenizer.arguments import TokenizerArgument
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import (
        Column,
        Existing,
        FormatName,
        MaxLost,
        NamedSources,
        ObjectiveName,
        OnBadRecord,
        Order,
        Overlong,
        PadTo,
        ProgressOption,
        RecordFilter,
        RecordMap,
        Shape,
        Source,
        Strategy,
        StrPath,
        TrainedTokens,
        Turns,
        Validation,
    )

__all__ = ["pack_dir"]


@suggesting
@listing_options
def pack_dir(
    files: StrPath | Iterable[StrPath | Source] | NamedSources | None = None,
    output: StrPath | None = None,
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
    train_on: TrainedTokens | TrainOn = "auto",
    turns: Turns = "auto",
    special_tokens: SpecialTokens | None = None,
    chat_template: StrPath | ChatTemplate | None = None,
    reading: Shape | Reading | None = None,
    filter: RecordFilter | Function[bool] | None = None,
    map: RecordMap | Function[dict[str, object]] | None = None,
    on_bad_record: OnBadRecord = "error",
    max_lost: MaxLost | None = None,
    format: FormatName | Format = "arrow",
    validation: Validation | None = None,
    keep_tokens: bool = False,
    groups: int | str | Groups | None = None,
    exists: Existing | Exists = "error",
    cache_dir: StrPath | None = None,
    storage: Mapping[str, str] | Storage | None = None,
    memory: int | str | None = None,
    threads: int | None = None,
    verify: int = 0,
    progress: ProgressOption = None,
    weights: Mapping[str, float] | Weights | None = None,
) -> Report:
    """Packs files of conversations, requests or text into files in a folder.

    Files are written in `.fastpack/` inside the folder, and moved to their places when all are whole. `manifest.json`
    comes last: without it, the output is not finished. Running the same job again returns its report at once. A stopped
    job resumes, whatever stopped it. The files are byte for byte those of a run that nothing disturbed.

    Returns:
        The report, which `output` holds as `report.json`.

    Raises:
        OutputError: The folder holds what another job wrote, and `exists` is not `overwrite`; or what is not
            fastpack's, in the way; or another process writes it, and `exists` is not to wait.
        FastpackError: As in `pack_files`.

    Examples:
        >>> import fastpack, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report = fastpack.pack_dir(
        ...         "examples/chat.jsonl", folder, tokenizer="examples/tokenizer", max_length=512
        ...     )
        >>> report.documents.read == report.documents.kept + sum(
        ...     lost.documents for lost in report.dropped.values()
        ... )
        True
    """
    return run(locals())
