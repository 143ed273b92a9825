"""`fastpack.repack`.

Written by `make signatures` from `fastpack/options/`: change that, not this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack.api.run import repack as run
from fastpack.options.mistakes.hints import suggesting

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
        output: Another folder; made if it is not there.
        max_length: Tokens that a row holds at most. Only `strategy="none"` needs none: then a row is as long as
            its document.
        strategy: How documents are put together. `mix`: the longest, then others at random, then what fills the
            row to the last token; `best_fit`: longest first, each into the row that it fills best; `heap`:
            longest first, into the one open row; `sequential`: in input order, into the one open row; `concat`:
            end to end in input order, cut where a row ends; `none`: a row per document, as all rows are of the
            objectives `preference`, `generation`, `classification` and `multi_label`. A word stands for the value
            with its defaults; `Concat(drop_last=True)` and the others have options of their own.
        overlong: As in `pack_files`; `trim` only where the tokens were kept with it.
        order: The order of the rows: `shuffle`; `input`, by the first document in each; or that of a `Balanced`,
            groups of rows that cost as much attention, one for each rank. If not given, rows of `mix`, `best_fit`
            and `heap` are shuffled.
        seed: Random seed. The same seed gives the same rows.
        padding: What a row is filled up to: `max_length`, or a multiple that divides it. Padding has no labels,
            positions of its own from 0, and one last entry in `seq_lengths`. A `Padding` has a side and an id
            too.
        columns: The columns of the rows, in their order. If not given, those of the `objective`: `input_ids`,
            `labels`, `position_ids` and `seq_lengths` for `causal`. Further ones: `document_ids`, `loss_weights`,
            `unpadded_lengths`, `source_file`, `source_row`, `source_turn`, `source_start`, `attn_cost`, and
            `group` with `Balanced`. The page "What a row is" says what each holds, and which other objectives
            have.
        objective: What a model learns from the rows: `causal`, to predict each token from those before it; `mlm`,
            to predict masked tokens from those on both sides, as BERT; `span`, to predict spans that sentinels
            stand for, as T5; `fim`, to fill in the middle of a document; these three learn from whole documents.
            `preference`: which of two answers to a prompt is better, or whether one is good. `generation`:
            nothing, rows are prompts to be answered. `classification`: the class of a text or of a pair of texts;
            `multi_label`: its classes. Rows of these four hold one document each, in input order. `custom`: what
            a function makes of documents. A word stands for the value with its defaults;
            `MaskedLM(probability=0.2)` and the others have options of their own.
        tokenizer: The tokenizer that made the tokens, as in `pack_files`; needed by objectives that put tokens of
            their own into rows.
        max_lost: How much of the documents, and of their tokens, may be lost, such as `"0.1%"` or 0.001; if it is
            more, the run fails before anything is in its place, and says why and where. No limit if not given.
        format: `arrow`, the IPC stream format of `datasets`; `parquet`; `jsonl`; or `msgpack_arrays`, one
            MessagePack array with an array a row, which holds ids, labels, positions and the length. A `Format`
            has a compression, a layout and the size of files too.
        validation: As in `pack_dir`; must be given where the tokens were kept with it. With the same `seed` it
            sets the same documents aside, whatever else differs.
        exists: What happens to what fastpack wrote into `output` before, for another job: `error`, `overwrite`
            it, or `append` the files to its, in `pack_dir`. Files of others are never replaced: one in the place
            of a file of the job is refused. An `Exists` says whether to wait for another process too.
        storage: Options of remote storage (`s3://`, `gs://`, `az://`, `https://`): credentials, regions and
            endpoints; from environment variables if not given. A `Storage` has a filesystem of `fsspec`, the
            token and revision of a hub name, and folders of this machine too.
        memory: Memory that documents may take, in bytes or as a text such as `2GB`; what is past it is read back
            from the folder. A quarter of what the machine and cgroup allow, if not given.
        threads: Worker threads; as many as affinity and cgroup allow, shared among the ranks of this machine, if
            not given. Never changes the output.
        progress: `True` for a bar on stderr, `False` for none, a callable that takes a `Progress`; if not given,
            a bar where stderr is a terminal.

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
    return run(
        {
            "source": source,
            "output": output,
            "max_length": max_length,
            "strategy": strategy,
            "overlong": overlong,
            "order": order,
            "seed": seed,
            "padding": padding,
            "columns": columns,
            "objective": objective,
            "tokenizer": tokenizer,
            "max_lost": max_lost,
            "format": format,
            "validation": validation,
            "exists": exists,
            "storage": storage,
            "memory": memory,
            "threads": threads,
            "progress": progress,
        }
    )
