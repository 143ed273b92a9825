"""`fastpack.stream`.

Written by `make signatures` from `fastpack/options/`: change that, not this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack.api.run import stream as run
from fastpack.options.hints import suggesting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from fastpack.options.function import Function
    from fastpack.options.objective import Objective
    from fastpack.options.train_on import TrainOn
    from fastpack.streaming.stream import PackStream
    from fastpack.tokenizer.arguments import TokenizerArgument
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import (
        AllReduce,
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
        OnEnd,
        OnExhausted,
        Overlong,
        PadTo,
        ProgressOption,
        Prompt,
        RankOption,
        RecordFilter,
        RecordMap,
        Records,
        Shape,
        Side,
        Source,
        SpecialInText,
        StreamLog,
        StreamStrategy,
        StrPath,
        TemplateEngine,
        TrainedTokens,
        TrainOnEos,
        Turns,
        Weights,
        WeightUnit,
        Where,
    )

__all__ = ["stream"]


@suggesting
def stream(
    files: Files | Records | NamedSources | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int | None = None,
    strategy: StreamStrategy = "best_fit",
    overlong: Overlong | None = None,
    truncation_side: Side = "right",
    drop_last: bool = False,
    shuffle: bool = True,
    max_documents_per_pack: int | None = None,
    align_documents_to: int | None = None,
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
    validation: float | str | None = None,
    cache_dir: StrPath | None = None,
    threads: int | None = None,
    verify: int = 0,
    progress: ProgressOption = False,
    where: Where | None = None,
    skip: int = 0,
    take: int | None = None,
    stride: int | None = None,
    min_document_tokens: int | None = None,
    max_document_tokens: int | None = None,
    batch_size: int = 8,
    open_packs: int = 16,
    weights: Weights | None = None,
    weight_unit: WeightUnit = "tokens",
    on_exhausted: OnExhausted = "repeat",
    on_end: OnEnd | None = None,
    all_reduce: AllReduce | None = None,
    log: StreamLog | None = None,
    epochs: int | None = 1,
    max_steps: int | None = None,
    rank: RankOption | None = None,
    world_size: RankOption | None = None,
    lanes: int | None = None,
) -> PackStream:
    r"""Packs files while they are being read: shuffled, shared by ranks, and resumed at the very document.

    The rows come from `lanes` that each read a part of the input and pack it alone; row `g` of a run is row `g // lanes`
    of lane `g % lanes`. So they are the same for any number of ranks and threads.

    Args:
        files: Files as in `pack_files`; or what gives records anew for each epoch: a function that returns an
            iterator of them, an object whose `__iter__` starts anew, or a data set of `datasets`; or a dict of
            sources by their names, each as one of these or as an entry of `sources`, which may hold `records` in
            place of a `path`, and the `fingerprint` that names them.
        tokenizer: A `Tokenizer`, or what makes one: a folder, a `tokenizer.json`, a hub name, or a tokenizer of
            `transformers` or `tokenizers`. Records that are ids need none.
        max_length: Tokens that a row holds at most. Only `strategy="none"` needs none: then a row is as long as
            its document.
        strategy: How each lane puts documents together: `best_fit` over `open_packs` rows; or `sequential`,
            `concat` or `none`, which give the rows of `pack_files` with `shuffle=False, lanes=1`.
        overlong: What happens to a document longer than a row: `drop` and count it; `truncate` it and count what
            is cut off; `trim` a conversation, which cuts it after the last turn of the assistant that fits and
            drops what cannot be trimmed; `split` it into pieces that are documents of their own from then on; or
            `error`. If not given, text is split, and conversations and ids are dropped.
        truncation_side: The end at which `truncate` cuts a document: at the `right` its last tokens go, at the
            `left` its first.
        drop_last: Whether `concat` drops its last row, and counts it, if it is not full.
        shuffle: Whether records are read in an order drawn from `seed`, another one in each epoch: files,
            stretches of files, and records in them. `False` is the order of the input.
        max_documents_per_pack: Documents that a row holds at most, each piece of one counted.
        align_documents_to: Pads every document to a multiple of this many tokens, for context and tensor parallel
            training. It must divide `max_length`. This padding has no labels, its positions count on, and
            `seq_lengths` includes it.
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
        max_lost: As in `pack_files`, but it is at its end, when all is counted, that a stream fails.
        validation: How much is held out of the stream for validation, as in `pack_dir`: the same records in every
            epoch and on every rank. A number needs `cache_dir`, and a pass over the input before the first table.
            `stream.validation` is a stream of the records held out.
        cache_dir: A folder for the number of rows that each lane has, which several ranks need to end at the same
            step. They are counted by reading all of the input once, when the first table is asked for, or before
            by `index()` or `fastpack index`. One process counts, and the others on this file system wait for it.
        threads: Worker threads; as many as affinity and cgroup allow, shared among the ranks of this machine, if
            not given. Never changes the output.
        verify: How many documents, evenly spread over the input, are encoded by the Hugging Face crate too, so
            that a difference ends the run.
        progress: As in `pack_files`, but no bar unless asked for.
        where: What fields of a record must be, for it to be taken: a dict from their names to a value, a list of
            values, or a tuple of the least and the most number, such as `{"lang": ["en", "de"], "score": (0.5,
            None)}`. Records left out are counted in the report, as `filtered`.
        skip: How many records at the beginning of the input to leave out, of each source if there are `weights`.
            `skip`, `take` and `stride` go by the order of the input, before `shuffle`, so they name the same
            records in every epoch; what they leave out is not counted as read. As much of the input as they name
            is read through before the first table, to count its records; of Parquet files, the footers are.
        take: How many records to take after those of `skip`, of each source if there are `weights`; all if not
            given.
        stride: Takes every n-th of these records, in each file from the first on; all if not given. The records
            of line files are counted before they are read.
        min_document_tokens: The least tokens of a document; shorter ones are counted in the report, as
            `filtered`.
        max_document_tokens: The most tokens of a document; longer ones are counted in the report, as `filtered`.
        batch_size: Rows of a table; the last may have fewer.
        open_packs: Rows that `best_fit` keeps open in each lane; more of them fill better and come later.
        weights: The share of each source that `files` names, as a dict. A list of `(row, weights)` changes the
            shares at these rows of the run; the first row is 0. Without weights all sources are read as one.
        weight_unit: What `weights` are shares of: `tokens`, `documents`, or `rows`. With `rows`, a row holds
            documents of one source.
        on_exhausted: What happens when a lane has read a source with a weight `epochs` times: `repeat` reads it
            again until all have been read, `stop` ends the lane, `drop` gives its share to the others.
        on_end: What a step holds where some lanes have no row left after `epochs`: `pad` gives rows of padding
            until the last lane ends; `repeat` gives rows of the epochs read again until then; `drop` ends before
            the first step that lacks a row. If not given, several ranks pad, and one rank goes on with the rows
            of other lanes.
        all_reduce: A function by which ranks agree on the last table of a finite stream, in place of a count in
            `cache_dir`: it takes a whole number and returns the greatest that a rank gave. Each rank calls it
            once before each table, on the thread that asks for the table.
        log: A function that takes a `StreamStats`: rows, tokens, their rate, fill, shares, drops and the time
            that this process waited. It is called about every ten seconds, between tables, and at the end.
        epochs: How often the input is read; `None` is without end. Several ranks that read it so often need
            `cache_dir` or `all_reduce` to end at the same step.
        max_steps: After how many tables the stream ends, those before a resume included; not before the input
            does, if not given.
        rank: The data-parallel rank that this stream is for, from 0. If not given, `rank` and `world_size` are
            those that torchrun, Slurm's `srun` or MPI name in the environment, which the report says; else there
            is one. `auto` says the same.
        world_size: The data-parallel ranks that share the rows. `world_size * batch_size` must divide `lanes`.
        lanes: The parts in which the input is read and packed. A resumed run keeps those of its state. If not
            given, the least multiple of `world_size * batch_size` that is 64 or more.

    Returns:
        An iterator of tables, which is a context manager too. Errors are raised from the loop, with their own type.
        Its threads end when it is closed or dropped; `report` has the report once it is exhausted. `state_dict()` says
        where it is, `load_state_dict()` goes on from there.

    Raises:
        OptionError: An option has a value that it cannot have.
        FastpackError: As in `pack_files`; while iterating, what concerns the data.

    Examples:
        >>> import fastpack
        >>> stream = fastpack.stream("examples/*.jsonl", "examples/tokenizer", max_length=512)
        >>> table = next(stream)
        >>> state = stream.state_dict()
        >>> rest = sum(table.num_rows for table in stream)
        >>> again = fastpack.stream("examples/*.jsonl", "examples/tokenizer", max_length=512)
        >>> again.load_state_dict(state)
        >>> sum(table.num_rows for table in again) == rest
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
            "where": where,
            "skip": skip,
            "take": take,
            "stride": stride,
            "min_document_tokens": min_document_tokens,
            "max_document_tokens": max_document_tokens,
            "batch_size": batch_size,
            "open_packs": open_packs,
            "weights": weights,
            "weight_unit": weight_unit,
            "on_exhausted": on_exhausted,
            "on_end": on_end,
            "all_reduce": all_reduce,
            "log": log,
            "epochs": epochs,
            "max_steps": max_steps,
            "rank": rank,
            "world_size": world_size,
            "lanes": lanes,
        }
    )
