"""`fastpack.pack_table`.

Written by `make signatures` from `fastpack/options/`: change that, not this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from fastpack.api.run import pack_table as run
from fastpack.options.hints import suggesting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa
    from typing_extensions import Unpack

    from fastpack.api.calls.arguments import OutputArguments, RecordArguments
    from fastpack.options.function import Function
    from fastpack.options.objective import Objective
    from fastpack.options.train_on import TrainOn
    from fastpack.report.report import Report
    from fastpack.tokenizer.arguments import TokenizerArgument
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import (
        ArrowTable,
        Bos,
        Compression,
        Eos,
        Examples,
        Fields,
        Format,
        JsonValue,
        Layout,
        MaxLost,
        ObjectiveName,
        OnBadRecord,
        OnRemainder,
        Order,
        Overlong,
        PadTo,
        ProgressOption,
        Prompt,
        RecordFilter,
        RecordMap,
        Shape,
        Side,
        SpecialInText,
        Splits,
        Strategy,
        StrPath,
        TemplateEngine,
        TrainedTokens,
        TrainOnEos,
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
    columns: Sequence[str] | None = None,
    objective: ObjectiveName | Objective = "causal",
    train_on: TrainedTokens | TrainOn = "auto",
    turns: Turns = "auto",
    train_on_eos: TrainOnEos | None = None,
    special_in_text: SpecialInText = "encode",
    decode_arguments: bool = False,
    eos: Eos = "auto",
    bos: Bos = "auto",
    chat_template: StrPath | None = None,
    chat_template_kwargs: Mapping[str, JsonValue] | None = None,
    template_engine: TemplateEngine = "native",
    now: datetime | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    storage_options: Mapping[str, str] | None = None,
    shape: Shape | None = None,
    fields: Fields | None = None,
    prompt: Prompt | None = None,
    examples: Examples | None = None,
    filter: RecordFilter | Function[bool] | None = None,
    map: RecordMap | Function[dict[str, object]] | None = None,
    on_bad_record: OnBadRecord = "error",
    max_lost: MaxLost | None = None,
    output: StrPath | None = None,
    work_dir: StrPath | None = None,
    format: Format = "arrow",
    layout: Layout = "full",
    compression: Compression | None = None,
    hf_layout: bool = False,
    validation: Validation | None = None,
    shard_size: int | str = "512MB",
    keep_tokens: bool = False,
    overwrite: bool = False,
    wait: bool = True,
    cache_dir: StrPath | None = None,
    memory: int | str | None = None,
    threads: int | None = None,
    verify: int = 0,
    progress: ProgressOption = None,
) -> pa.Table | Splits | Report:
    r"""Packs the rows of a table that is in memory, without a copy of it, into a table or a folder.

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
            objectives `preference`, `generation`, `classification` and `multi_label`.
        overlong: What happens to a document longer than a row: `drop` and count it; `truncate` it and count what
            is cut off; `trim` a conversation, which cuts it after the last turn of the assistant that fits and
            drops what cannot be trimmed; `split` it into pieces that are documents of their own from then on; or
            `error`. If not given, text is split, and conversations and ids are dropped.
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
        train_on_eos: Which tokens that end a trained turn are trained: of every `turn`, of the `last`, or `none`;
            those that the chat template marks if not given. `none` holds for the end of a text too, and for that
            of ids without labels.
        special_in_text: What happens to a control token of the tokenizer, such as `<|im_end|>`, that stands in a
            text of a user or a tool: `encode` makes that token of it, as `transformers` does; `split` encodes its
            characters as other text, as `sanitize_control_tokens` of `transformers` does; `error` refuses the
            record.
        decode_arguments: Whether arguments of tool calls that are JSON text are decoded to objects, where the
            chat template encodes the text a second time (`"{\"city\": \"Rome\"}"`). Without it they are rendered
            as `transformers` does.
        eos: Whether the end-of-text token is appended where a document does not end with it, white space aside:
            `auto` does so for text and for requests put into words by a prompt, and leaves conversations as their
            template ends them; `True` and `False` hold for both.
        bos: Whether a document begins with the token that begins a text: `auto` leaves it to tokenizer and
            template, `True` adds it where it is missing, `False` has the tokenizer add none. A text that begins
            with it gets no second one.
        chat_template: A Jinja text, the path of one, or the name of one of the tokenizer's templates; the
            tokenizer's own if not given.
        chat_template_kwargs: Variables for the chat template; those of a record win over them.
        template_engine: What renders a chat template, or a value in it, that is not known to render as in
            `transformers`: `native` refuses it by name; `python` lets `transformers` render it, in processes of
            its own, which is much slower, and says so in the report.
        now: What templates see as the time of day; the time of the call if not given.
        revision: The branch, tag or commit of a hub name; refused for a tokenizer on the disk or in memory, which
            has none.
        token: The access token for a hub name.
        storage_options: Options of remote storage (`s3://`, `gs://`, `az://`, `https://`): credentials, regions
            and endpoints by the names that `object_store`, polars and pandas have for them, such as `aws_region`;
            what is not given comes from environment variables such as `AWS_REGION`. `max_retries`, `timeout` and
            `connect_timeout` are for all of them. Nothing of it is written to a manifest, a report or a message.
        shape: What the records are: `conversations`, `prompt_completion`, `instruction`, `question_answer`,
            `text` or `tokens`; `preference` or `unpaired_preference` for the objective `preference`; also
            `prompt` for `generation`, and `labelled_text` or `labelled_pair` for `classification` and
            `multi_label`. Found for each file by its first records if not given.
        fields: The fields that hold the parts of a record, where the usual ones do not, such as `{"question":
            "query", "answer": "solution"}`.
        prompt: How requests that are no conversations become texts: `alpaca`, `chatml`, `vicuna`, one of the
            prompts for mathematics (`qa`, `wizardmath-cot`, `deepseekmath`, `deepseekmath-tool`, `xwinmath`,
            `mammoth2-cot`, `llama3-math`), a text with places such as `{instruction}`, a dict of parts, or a file
            of either. If not given, instructions and questions become a conversation for the chat template, or
            are put as `alpaca` has them where there is none; a prompt and its completion are joined as they are.
        examples: Requests with their answers that stand before each request, and are not trained.
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
            refused unless `overwrite` is set.
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
        validation: How many documents are set aside for validation and packed into a table of their own: a number
            such as 1000, or a share such as 0.01 or `1%`. Records are drawn by a hash of what they hold and of
            `seed`: the same ones in every call, in any file format, equal ones together.
        shard_size: The size at which a file is closed and another begun, in bytes of column data: a number, or a
            text such as `512MB` or `2GiB`.
        keep_tokens: Whether the tokens stay in the folder, as `tokens.fastpack`, for `repack`.
        overwrite: Whether what fastpack wrote into `output` before, for whatever job, may be replaced. Files of
            others never are: one in the place of a file of the job is refused.
        wait: Whether to wait where another process packs into the folder, and return its report or raise its
            error, rather than to fail: so all ranks of a training run can call this, and one does the work.
        cache_dir: A folder in which tokens are kept from one call to the next. They are found by the content of
            the files or of the table, whatever their names, and by the tokenizer, the template and the options
            that decide them; other rows of them, such as of another `max_length`, take no tokenizing. A template
            that tells the time finds them for the same `now` alone.
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
            "train_on": train_on,
            "turns": turns,
            "train_on_eos": train_on_eos,
            "special_in_text": special_in_text,
            "decode_arguments": decode_arguments,
            "eos": eos,
            "bos": bos,
            "chat_template": chat_template,
            "chat_template_kwargs": chat_template_kwargs,
            "template_engine": template_engine,
            "now": now,
            "revision": revision,
            "token": token,
            "storage_options": storage_options,
            "shape": shape,
            "fields": fields,
            "prompt": prompt,
            "examples": examples,
            "filter": filter,
            "map": map,
            "on_bad_record": on_bad_record,
            "max_lost": max_lost,
            "output": output,
            "work_dir": work_dir,
            "format": format,
            "layout": layout,
            "compression": compression,
            "hf_layout": hf_layout,
            "validation": validation,
            "shard_size": shard_size,
            "keep_tokens": keep_tokens,
            "overwrite": overwrite,
            "wait": wait,
            "cache_dir": cache_dir,
            "memory": memory,
            "threads": threads,
            "verify": verify,
            "progress": progress,
        }
    )
