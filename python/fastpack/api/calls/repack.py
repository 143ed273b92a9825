"""`fastpack.repack`.

Written by `make signatures` from `fastpack/options/`: change that, not this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack.api.run import repack as run
from fastpack.options.hints import suggesting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastpack.options.objective import Objective
    from fastpack.report.report import Report
    from fastpack.tokenizer.arguments import TokenizerArgument
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import (
        Column,
        Compression,
        Format,
        Layout,
        MaxLost,
        ObjectiveName,
        OnRemainder,
        Order,
        Overlong,
        PadTo,
        ProgressOption,
        Side,
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
    strategy: Strategy = "mix",
    overlong: Overlong | None = None,
    truncation_side: Side = "right",
    drop_last: bool = False,
    shuffle: bool = False,
    max_documents_per_pack: int | None = None,
    align_documents_to: int | None = None,
    order: Order | None = None,
    balance_ranks: int | None = None,
    on_remainder: OnRemainder = "pad",
    seed: int = 0,
    pad_to: PadTo | None = None,
    padding_side: Side = "right",
    pad_token_id: int | None = None,
    shift_labels: bool = False,
    columns: Sequence[Column] | None = None,
    objective: ObjectiveName | Objective = "causal",
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    storage_options: Mapping[str, str] | None = None,
    max_lost: MaxLost | None = None,
    work_dir: StrPath | None = None,
    format: Format = "arrow",
    layout: Layout = "full",
    compression: Compression | None = None,
    hf_layout: bool = False,
    validation: Validation | None = None,
    shard_size: int | str = "512MB",
    overwrite: bool = False,
    wait: bool = True,
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
            objectives `preference`, `generation`, `classification` and `multi_label`.
        overlong: As in `pack_files`; `trim` only where the tokens were kept with it.
        truncation_side: The end at which `truncate` cuts a document: at the `right` its last tokens go, at the
            `left` its first.
        drop_last: Whether `concat` drops its last row, and counts it, if it is not full.
        shuffle: Whether documents are put in an order drawn from `seed` before `sequential`, `concat` and `none`
            take them: files that are sorted by topic give rows of many topics. The other strategies draw an order
            of their own. Rows come once all documents are read.
        max_documents_per_pack: Documents that a row holds at most, each piece of one counted.
        align_documents_to: Pads every document to a multiple of this many tokens, for context and tensor parallel
            training. It must divide `max_length`. This padding has no labels, its positions count on, and
            `seq_lengths` includes it.
        order: The order of the rows: `shuffle`; `input`, by the first document in each; or `balanced`, groups of
            `balance_ranks` rows that cost as much attention, one for each rank. If not given, rows of `mix`,
            `best_fit` and `heap` are shuffled.
        balance_ranks: The ranks that share the rows of `balanced`.
        on_remainder: What happens where ranks cannot share the rows of `balanced` equally: `pad` adds rows of
            nothing but padding, `drop` drops the last and counts them, `repeat` repeats rows and counts them.
        seed: Random seed. The same seed gives the same rows.
        pad_to: What a row is filled up to: `max_length`, or a multiple that divides it. Padding has no labels,
            positions of its own from 0, and one last entry in `seq_lengths`.
        padding_side: The end of a row at which it is filled up: `right`, or `left`, where its entry in
            `seq_lengths` comes first.
        pad_token_id: The id to fill up with; the tokenizer's `pad_token`, else its `eos_token`, if not given.
            Without a tokenizer it must be given.
        shift_labels: Whether each label stands one place before its token, where it is predicted; for trainers
            that do not shift labels themselves, as those of `transformers` and TRL do.
        columns: The columns of the rows, in their order. If not given, those of the `objective`: `input_ids`,
            `labels`, `position_ids` and `seq_lengths` for `causal`. Further ones: `document_ids`, `loss_weights`,
            `unpadded_lengths`, `source_file`, `source_row`, `source_turn`, `source_start`, `attn_cost`, and
            `group` with `balanced`. The page "What a row is" says what each holds, and which other objectives
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
        storage_options: Options of remote storage (`s3://`, `gs://`, `az://`, `https://`): credentials, regions
            and endpoints by the names that `object_store`, polars and pandas have for them, such as `aws_region`;
            what is not given comes from environment variables such as `AWS_REGION`. `max_retries`, `timeout` and
            `connect_timeout` are for all of them. Nothing of it is written to a manifest, a report or a message.
        max_lost: How much of the documents, and of their tokens, may be lost, such as `"0.1%"` or 0.001; if it is
            more, the run fails before anything is in its place, and says why and where. No limit if not given.
        work_dir: A folder on the local disk in which a job works whose `output` is in remote storage (`s3://`,
            `gs://`, `az://`, `hf://datasets/ORG/NAME`). It needs room for the whole output, which is uploaded
            when it is finished and then removed here. A job that was stopped goes on from there.
            `~/.cache/fastpack/jobs` if not given.
        format: `arrow`, the IPC stream format of `datasets`; `parquet`; `jsonl`; or `msgpack_arrays`, one
            MessagePack array with an array a row, which holds ids, labels, positions and the length.
        layout: The columns that a file holds of a row. `full`: all of them, which every reader of Arrow takes as
            they are. `compact`: ids in 16 bits where the tokenizer's fit, else 32; where labels begin and end;
            and the lengths of documents: about 2.1 or 4.1 bytes a token instead of 12. `fastpack.read`,
            `PackedDataset`, `collate`, `fastpack.hf.load`, `inspect` and `verify` make the other columns of them.
            Needs `arrow` or `parquet`.
        compression: How columns are compressed: `none`; `lz4` or `zstd` for `arrow`; those and `snappy` for
            `parquet`. If not given, `parquet` is compressed by `zstd` and `arrow` is not.
        hf_layout: Whether the folder is one that `datasets.load_from_disk` maps into memory: a `Dataset`, or with
            `validation` a `DatasetDict` of `train` and `validation`. Needs the format `arrow`, and outputs that
            are not named after their inputs.
        validation: As in `pack_dir`; must be given where the tokens were kept with it. With the same `seed` it
            sets the same documents aside, whatever else differs.
        shard_size: The size at which a file is closed and another begun, in bytes of column data: a number, or a
            text such as `512MB` or `2GiB`.
        overwrite: Whether what fastpack wrote into `output` before, for whatever job, may be replaced. Files of
            others never are: one in the place of a file of the job is refused.
        wait: Whether to wait where another process packs into the folder, and return its report or raise its
            error, rather than to fail: so all ranks of a training run can call this, and one does the work.
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
            "truncation_side": truncation_side,
            "drop_last": drop_last,
            "shuffle": shuffle,
            "max_documents_per_pack": max_documents_per_pack,
            "align_documents_to": align_documents_to,
            "order": order,
            "balance_ranks": balance_ranks,
            "on_remainder": on_remainder,
            "seed": seed,
            "pad_to": pad_to,
            "padding_side": padding_side,
            "pad_token_id": pad_token_id,
            "shift_labels": shift_labels,
            "columns": columns,
            "objective": objective,
            "tokenizer": tokenizer,
            "storage_options": storage_options,
            "max_lost": max_lost,
            "work_dir": work_dir,
            "format": format,
            "layout": layout,
            "compression": compression,
            "hf_layout": hf_layout,
            "validation": validation,
            "shard_size": shard_size,
            "overwrite": overwrite,
            "wait": wait,
            "memory": memory,
            "threads": threads,
            "progress": progress,
        }
    )
