"""`fastpack.pack_files`.

Written by `make signatures` from `fastpack/options/`: change that, not this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from fastpack.api.run import pack_files as run
from fastpack.options.hints import suggesting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa
    from typing_extensions import Unpack

    from fastpack.api.calls.arguments import FileArguments
    from fastpack.options.function import Function
    from fastpack.options.objective import Objective
    from fastpack.options.train_on import TrainOn
    from fastpack.tokenizer.arguments import TokenizerArgument
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import (
        Bos,
        Column,
        Eos,
        Examples,
        Fields,
        Files,
        FsspecFileSystem,
        JsonValue,
        MaxLost,
        NamedSources,
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
        Source,
        SpecialInText,
        Splits,
        StoppingStrategy,
        Strategy,
        StrPath,
        TemplateEngine,
        TrainedTokens,
        TrainOnEos,
        Turns,
        Validation,
        WeightUnit,
    )

__all__ = ["pack_files"]


@overload
def pack_files(
    files: Files | NamedSources | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    validation: None = None,
    **options: Unpack[FileArguments],
) -> pa.Table: ...
@overload
def pack_files(
    files: Files | NamedSources | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    validation: Validation,
    **options: Unpack[FileArguments],
) -> Splits: ...
@suggesting
def pack_files(
    files: Files | NamedSources | None = None,
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
    columns: Sequence[Column] | None = None,
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
    sources: Sequence[Source] | None = None,
    recursive: bool = False,
    storage_options: Mapping[str, str] | None = None,
    filesystem: FsspecFileSystem | None = None,
    block_cache: int | str | None = None,
    shape: Shape | None = None,
    fields: Fields | None = None,
    prompt: Prompt | None = None,
    examples: Examples | None = None,
    separator: str | None = None,
    filter: RecordFilter | Function[bool] | None = None,
    map: RecordMap | Function[dict[str, object]] | None = None,
    on_bad_record: OnBadRecord = "error",
    max_lost: MaxLost | None = None,
    validation: Validation | None = None,
    cache_dir: StrPath | None = None,
    threads: int | None = None,
    verify: int = 0,
    progress: ProgressOption = None,
    weights: Mapping[str, float] | None = None,
    weight_unit: WeightUnit = "tokens",
    stopping_strategy: StoppingStrategy = "first_exhausted",
) -> pa.Table | Splits:
    r"""Packs files of conversations, requests or text into one table, or one to train on and one to validate.

    Args:
        files: Files of records or text: a path, a folder, a glob, a brace list such as `part-{00..99}.jsonl`, or
            a list of these; or a dict of sources by their names. A folder's files are read in the order of their
            paths. They may lie in remote storage (`s3://`, `gs://`, `az://`, `https://`,
            `hf://datasets/ORG/NAME`).
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
        sources: In place of `files`: dicts of a `path`, which is what `files` would be, and what of `shape`,
            `fields`, `prompt` and `separator` these files need for themselves; `limit`, how many records are read
            of them, `repeat`, how many times; and `fraction`, how much of them is drawn.
        recursive: Whether the folders inside a folder are read too.
        storage_options: Options of remote storage (`s3://`, `gs://`, `az://`, `https://`): credentials, regions
            and endpoints by the names that `object_store`, polars and pandas have for them, such as `aws_region`;
            what is not given comes from environment variables such as `AWS_REGION`. `max_retries`, `timeout` and
            `connect_timeout` are for all of them. Nothing of it is written to a manifest, a report or a message.
        filesystem: A filesystem of `fsspec` that holds the inputs, such as `fsspec.filesystem('sftp',
            host='host')`: all paths, folders and globs are on it. It is the slow path for storage that fastpack
            does not read itself, since Python fetches the bytes, one range after the other. The output is not
            written to it.
        block_cache: The most bytes that are kept on the local disk of what is fetched from remote storage, such
            as `20GB`, so that another epoch or a resumed job is read from there. They lie in `blocks` inside
            `cache_dir`, or inside `~/.cache/fastpack` without one; what was not used for longest is removed
            first.
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
        separator: What stands between the documents of a `.txt` or `.md` file; each is one document if not given.
        filter: A function that chooses among the records: it takes a `pyarrow.RecordBatch` of them and returns a
            boolean for each. Those left out are counted in the report, as `filtered`. It is called in the order
            of the input, on the thread of this call. A `Function` of it has a fingerprint, or takes records.
        map: A function that makes others of the records that were chosen: it takes a `pyarrow.RecordBatch` of
            them and returns one with as many rows.
        on_bad_record: What happens to a record that cannot be read: `error`, or `skip` and count it.
        max_lost: How much of the documents, and of their tokens, may be lost, such as `"0.1%"` or 0.001; if it is
            more, the run fails before anything is in its place, and says why and where. No limit if not given.
        validation: How many documents are set aside for validation and packed into a table of their own: a number
            such as 1000, or a share such as 0.01 or `1%`. Records are drawn by a hash of what they hold and of
            `seed`: the same ones in every call, in any file format, equal ones together.
        cache_dir: A folder in which tokens are kept from one call to the next. They are found by the content of
            the files or of the table, whatever their names, and by the tokenizer, the template and the options
            that decide them; other rows of them, such as of another `max_length`, take no tokenizing. A template
            that tells the time finds them for the same `now` alone.
        threads: Worker threads; as many as affinity and cgroup allow, shared among the ranks of this machine, if
            not given. Never changes the output.
        verify: How many documents, evenly spread over the input, are encoded by the Hugging Face crate too, so
            that a difference ends the run.
        progress: `True` for a bar on stderr, `False` for none, a callable that takes a `Progress`; if not given,
            a bar where stderr is a terminal.
        weights: The share of each source that `files` names, as a dict. Documents are drawn by `seed` from all of
            a source, as many as the shares allow. Without weights all documents of all sources are taken.
        weight_unit: What `weights` and a `fraction` are shares of: `tokens` or `documents`.
        stopping_strategy: The source with which drawing by `weights` ends: with `first_exhausted` the first that
            has no document left, so that none is taken twice; with `all_exhausted` the last, while the others are
            read again.

    Returns:
        A table with a row per pack. Each column is a list of int32: `input_ids`; `labels`, unshifted and -100 where
        not trained; `position_ids`, from 0 in each document; `seq_lengths`, a length per document; but `loss_weights`
        of float32, 0 where not trained. The schema metadata holds the timeless part of the report:
        `Report.of(table)`. With `validation`, `Splits` of two such tables, `train` and `validation`, which unpack as
        a pair; the report of both counts both, and has one of each as `splits`.

    Raises:
        OptionError: An option has a value that it cannot have.
        RecordError: A record is not what it must be; has `path`, `line` and `reason`.
        TemplateError: The chat template cannot be used.
        TokenizerError: The tokenizer cannot be used.
        InputNotFoundError: A file is not there.
        VerificationError: The ids of a document that was verified differ.
        LossError: More is lost than `max_lost` allows.

    Examples:
        >>> import fastpack
        >>> table = fastpack.pack_files(
        ...     "examples/chat.jsonl", "examples/tokenizer", max_length=512
        ... )
        >>> row = table.slice(0, 1).to_pydict()
        >>> sum(row["seq_lengths"][0]) == len(row["input_ids"][0]) <= 512
        True
        >>> row["labels"][0][0]
        -100
        >>> train, held_out = fastpack.pack_files(
        ...     "examples/chat.jsonl", "examples/tokenizer", max_length=512, validation=0.1
        ... )
        >>> fastpack.Report.of(train).splits["validation"].rows == held_out.num_rows
        True
    """
    return run(
        {
            "files": files,
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
            "sources": sources,
            "recursive": recursive,
            "storage_options": storage_options,
            "filesystem": filesystem,
            "block_cache": block_cache,
            "shape": shape,
            "fields": fields,
            "prompt": prompt,
            "examples": examples,
            "separator": separator,
            "filter": filter,
            "map": map,
            "on_bad_record": on_bad_record,
            "max_lost": max_lost,
            "validation": validation,
            "cache_dir": cache_dir,
            "threads": threads,
            "verify": verify,
            "progress": progress,
            "weights": weights,
            "weight_unit": weight_unit,
            "stopping_strategy": stopping_strategy,
        }
    )
