"""`fastpack.pack_table`.

Written by `make signatures` from `fastpack/options/`: change that, not this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from fastpack.api.run import pack_table as run
from fastpack.options.mistakes.hints import suggesting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from typing_extensions import Unpack

    from fastpack.api.calls.arguments import OutputArguments, RecordArguments
    from fastpack.options.function import Function
    from fastpack.options.objective import Objective
    from fastpack.options.output import Exists, Format
    from fastpack.options.packing import Balanced, Packing, Truncate
    from fastpack.options.records import Reading
    from fastpack.options.rows import Padding
    from fastpack.options.storage import Storage
    from fastpack.options.tokens import ChatTemplate, SpecialTokens
    from fastpack.options.train_on import TrainOn
    from fastpack.report.report import Report
    from fastpack.tokenizer.arguments import TokenizerArgument
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import (
        ArrowTable,
        Existing,
        FormatName,
        MaxLost,
        ObjectiveName,
        OnBadRecord,
        Order,
        Overlong,
        PadTo,
        ProgressOption,
        RecordFilter,
        RecordMap,
        Shape,
        Splits,
        Strategy,
        StrPath,
        TrainedTokens,
        Turns,
        Validation,
    )

__all__ = ["pack_table"]


@overload
def pack_table(
    table: ArrowTable,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    output: StrPath,
    validation: Validation | None = None,
    **options: Unpack[OutputArguments],
) -> Report: ...
@overload
def pack_table(
    table: ArrowTable,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    output: None = None,
    validation: None = None,
    **options: Unpack[RecordArguments],
) -> pa.Table: ...
@overload
def pack_table(
    table: ArrowTable,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    output: None = None,
    validation: Validation,
    **options: Unpack[RecordArguments],
) -> Splits: ...
@suggesting
def pack_table(
    table: ArrowTable,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int | None = None,
    strategy: Strategy | Packing = "mix",
    overlong: Overlong | Truncate | None = None,
    order: Order | Balanced | None = None,
    seed: int = 0,
    padding: PadTo | Padding | None = None,
    columns: Sequence[str] | None = None,
    objective: ObjectiveName | Objective = "causal",
    train_on: TrainedTokens | TrainOn = "auto",
    turns: Turns = "auto",
    special_tokens: SpecialTokens | None = None,
    chat_template: StrPath | ChatTemplate | None = None,
    reading: Shape | Reading | None = None,
    filter: RecordFilter | Function[bool] | None = None,
    map: RecordMap | Function[dict[str, object]] | None = None,
    on_bad_record: OnBadRecord = "error",
    max_lost: MaxLost | None = None,
    output: StrPath | None = None,
    format: FormatName | Format = "arrow",
    validation: Validation | None = None,
    keep_tokens: bool = False,
    exists: Existing | Exists = "error",
    cache_dir: StrPath | None = None,
    storage: Mapping[str, str] | Storage | None = None,
    memory: int | str | None = None,
    threads: int | None = None,
    verify: int = 0,
    progress: ProgressOption = None,
) -> pa.Table | Splits | Report:
    """Packs the rows of a table that is in memory, without a copy of it, into a table or a folder.

    A row is a record as in a file, of any of the shapes that files have; lists of messages are lists of structs, or
    JSON text. Rows that are ids need no tokenizer: `input_ids`, and `labels`, `assistant_masks` or `completion_mask` if
    not all of them are trained; `loss_weights` if they do not count alike; `attention_mask` if rows are filled up.

    Args:
        table: A `pyarrow.Table`, a `datasets.Dataset`, whose selection and order hold, or anything else that
            hands over Arrow by `__arrow_c_stream__`: `polars`, `duckdb`, `pandas`.
        tokenizer: A `Tokenizer`, or what makes one: a folder, a `tokenizer.json`, a hub name, or a tokenizer of
            `transformers` or `tokenizers`. Records that are ids need none.
        max_length: Tokens that a row holds at most. Only `strategy="none"` needs none: then a row is as long as
            its document.
        strategy: How documents are put together. `mix`: the longest, then others at random, then what fills the
            row to the last token; `best_fit`: longest first, each into the row that it fills best; `heap`:
            longest first, into the one open row; `sequential`: in input order, into the one open row; `concat`:
            end to end in input order, cut where a row ends; `none`: a row per document, as all rows are of the
            objectives `preference`, `generation`, `classification` and `multi_label`. A word stands for the value
            with its defaults; `Concat(drop_last=True)` and the others have options of their own.
        overlong: What happens to a document longer than a row: `drop` and count it; `truncate` it and count what
            is cut off, at either end by a `Truncate`; `trim` a conversation, which cuts it after the last turn of
            the assistant that fits and drops what cannot be trimmed; `split` it into pieces that are documents of
            their own from then on; or `error`. If not given, text is split, and conversations and ids are
            dropped.
        order: The order of the rows: `shuffle`; `input`, by the first document in each; or that of a `Balanced`,
            groups of rows that cost as much attention, one for each rank. If not given, rows of `mix`, `best_fit`
            and `heap` are shuffled.
        seed: Random seed. The same seed gives the same rows.
        padding: What a row is filled up to: `max_length`, or a multiple that divides it. Padding has no labels,
            positions of its own from 0, and one last entry in `seq_lengths`. A `Padding` has a side and an id
            too.
        columns: As in `pack_files`, and further columns of the table, which rows in memory carry: a column of
            lists as long as `input_ids` becomes a list as long as those of the row, any other column a list with
            an entry for each document; both are null for padding.
        objective: What a model learns from the rows: `causal`, to predict each token from those before it; `mlm`,
            to predict masked tokens from those on both sides, as BERT; `span`, to predict spans that sentinels
            stand for, as T5; `fim`, to fill in the middle of a document; these three learn from whole documents.
            `preference`: which of two answers to a prompt is better, or whether one is good. `generation`:
            nothing, rows are prompts to be answered. `classification`: the class of a text or of a pair of texts;
            `multi_label`: its classes. Rows of these four hold one document each, in input order. `custom`: what
            a function makes of documents. A word stands for the value with its defaults;
            `MaskedLM(probability=0.2)` and the others have options of their own.
        train_on: Which tokens carry a label: `assistant` turns, the `completion` of a request, `all`; or `auto`,
            which is the first for conversations, the third for requests with answers and `all` for text. A
            message may say for itself: `train`, true or false, or `weight`. A `TrainOn` says which roles, and
            which parts of turns.
        turns: The documents that a conversation becomes: `whole` makes one and trains every turn as it is written
            there; `last` trains the last turn alone; `each` makes one a turn; `auto` makes the fewest in which
            each turn stands behind exactly what the model sees there: one, unless the chat template writes
            earlier turns otherwise once others follow.
        special_tokens: A `SpecialTokens`: whether documents begin and end with special tokens, what happens to
            those that stand in texts, and which ends of turns are trained.
        chat_template: A Jinja text, the path of one, or the name of one of the tokenizer's templates; the
            tokenizer's own if not given. A `ChatTemplate` has variables, an engine and the time of day too.
        reading: What the records are, such as `conversations` or `text`; found for each file by its first records
            if not given. A `Reading` has names of fields, a prompt, examples and a separator of texts too, and
            reads folders inside folders.
        filter: A function that chooses among the records: it takes a `pyarrow.RecordBatch` of them and returns a
            boolean for each. Those left out are counted in the report, as `filtered`. It is called in the order
            of the input, on the thread of this call. A `Function` of it has a fingerprint, or takes records.
        map: A function that makes others of the records that were chosen: it takes a `pyarrow.RecordBatch` of
            them and returns one with as many rows.
        on_bad_record: What happens to a record that cannot be read: `error`, or `skip` and count it.
        max_lost: How much of the documents, and of their tokens, may be lost, such as `"0.1%"` or 0.001; if it is
            more, the run fails before anything is in its place, and says why and where. No limit if not given.
        output: A folder to write, as `pack_dir` writes it: whole or not at all. If not given, rows stay in
            memory. A `pa.Table` is known again by its content, and a `datasets.Dataset` by its fingerprint: the
            same job on them returns its report at once, and goes on where it was stopped. Of other tables nobody
            knows whether they are the same before they are read: the job starts anew, and what it has finished is
            refused unless `exists` is `overwrite`.
        format: `arrow`, the IPC stream format of `datasets`; `parquet`; `jsonl`; or `msgpack_arrays`, one
            MessagePack array with an array a row, which holds ids, labels, positions and the length. A `Format`
            has a compression, a layout and the size of files too.
        validation: How many documents are set aside for validation and packed into a table of their own: a number
            such as 1000, or a share such as 0.01 or `1%`. Records are drawn by a hash of what they hold and of
            `seed`: the same ones in every call, in any file format, equal ones together.
        keep_tokens: Whether the tokens stay in the folder, as `tokens.fastpack`, for `repack`.
        exists: What happens to what fastpack wrote into `output` before, for another job: `error`, `overwrite`
            it, or `append` the files to its, in `pack_dir`. Files of others are never replaced: one in the place
            of a file of the job is refused. An `Exists` says whether to wait for another process too.
        cache_dir: A folder that keeps what a later call would make again: here tokens. They are found by the
            content of the files or of the table, whatever their names, and by the tokenizer, the template and the
            options that decide them; other rows of them, such as of another `max_length`, take no tokenizing. A
            template that tells the time finds them for the same `now` alone.
        storage: Options of remote storage (`s3://`, `gs://`, `az://`, `https://`): credentials, regions and
            endpoints; from environment variables if not given. A `Storage` has a filesystem of `fsspec`, the
            token and revision of a hub name, and folders of this machine too.
        memory: Memory that documents may take, in bytes or as a text such as `2GB`; what is past it is read back
            from the folder. A quarter of what the machine and cgroup allow, if not given.
        threads: Worker threads; as many as affinity and cgroup allow, shared among the ranks of this machine, if
            not given. Never changes the output.
        verify: How many documents, evenly spread over the input, are encoded by the Hugging Face crate too, so
            that a difference ends the run.
        progress: `True` for a bar on stderr, `False` for none, a callable that takes a `Progress`; if not given,
            a bar where stderr is a terminal.

    Returns:
        With `output` the report, which the folder holds as `report.json`; else a table, or `Splits` of two, as
        `pack_files` returns it. Errors about a record name `<table>` and the row, from 1.

    Raises:
        OptionError: An option has a value that it cannot have, or needs a tokenizer or an `output`.
        OutputError: As in `pack_dir`.
        FastpackError: As in `pack_files`.

    Examples:
        >>> import fastpack, pyarrow as pa
        >>> documents = pa.table({"input_ids": [[1, 2, 3], [4, 5]]})
        >>> fastpack.pack_table(documents, max_length=8)["input_ids"].to_pylist()
        [[1, 2, 3, 4, 5]]
        >>> texts = pa.table({"text": ["a river", "a boat"]})
        >>> fastpack.pack_table(texts, "examples/tokenizer", max_length=16).num_rows
        1
    """
    return run(
        {
            "table": table,
            "tokenizer": tokenizer,
            "max_length": max_length,
            "strategy": strategy,
            "overlong": overlong,
            "order": order,
            "seed": seed,
            "padding": padding,
            "columns": columns,
            "objective": objective,
            "train_on": train_on,
            "turns": turns,
            "special_tokens": special_tokens,
            "chat_template": chat_template,
            "reading": reading,
            "filter": filter,
            "map": map,
            "on_bad_record": on_bad_record,
            "max_lost": max_lost,
            "output": output,
            "format": format,
            "validation": validation,
            "keep_tokens": keep_tokens,
            "exists": exists,
            "cache_dir": cache_dir,
            "storage": storage,
            "memory": memory,
            "threads": threads,
            "verify": verify,
            "progress": progress,
        }
    )
