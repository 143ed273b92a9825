"""The public functions: their signatures, defaults and docs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NoReturn, get_args

from fastpack import _fastpack
from fastpack._budget import available_memory
from fastpack._memory import rows_of, table_of, values_of
from fastpack._progress import watcher, watching
from fastpack._scan import ScanReport
from fastpack._sources import choose_inputs, choose_reading
from fastpack._threads import available_threads, is_one_of_many
from fastpack._tokenizer import choose_template
from fastpack._transform import transform
from fastpack._types import StreamStrategy
from fastpack.errors import OptionError
from fastpack.tokenizer import _TEMPLATE_ENGINE, pretrained

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from fastpack._tokenizer import TokenizerArgument
    from fastpack._types import (
        ArrowTable,
        Bos,
        Column,
        Compression,
        Eos,
        Examples,
        Fields,
        Files,
        Format,
        JsonValue,
        Keep,
        Lengths,
        MaxLost,
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
        Strategy,
        StrPath,
        Tail,
        TemplateEngine,
        TrainOn,
        TrainOnEos,
        Validation,
    )
    from fastpack.report import Report
    from fastpack.tokenizer import Tokenizer

__all__ = ["pack_dir", "pack_files", "pack_records", "pack_table", "plan", "repack", "scan", "stream"]

# The defaults: each written once, here.
_STRATEGY: Final = "mix"
_STREAM_STRATEGY: Final = "sequential"
_KEEP: Final = "start"
_TAIL: Final = "keep"
_ON_REMAINDER: Final = "pad"
_PADDING_SIDE: Final = "right"
_SEED: Final = 0
_TRAIN_ON: Final = "auto"
_EOS: Final = "auto"
_BOS: Final = "auto"
_ON_BAD_RECORD: Final = "error"
_COLUMNS: Final = ("input_ids", "labels", "position_ids", "seq_lengths")
_FORMAT: Final = "arrow"
_SHARD_SIZE: Final = "512MB"
_WAIT: Final = True
_VERIFY: Final = 0
_BATCH_SIZE: Final = 8
_OPEN_PACKS: Final = 64
_MAX_LENGTHS: Final = (2048, 4096, 8192, 16384, 32768)


def pack_files(
    files: Files | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int,
    strategy: Strategy = _STRATEGY,
    overlong: Overlong | None = None,
    keep: Keep = _KEEP,
    tail: Tail = _TAIL,
    max_documents_per_pack: int | None = None,
    align_documents_to: int | None = None,
    order: Order | None = None,
    world_size: int | None = None,
    on_remainder: OnRemainder = _ON_REMAINDER,
    seed: int = _SEED,
    pad_to: PadTo | None = None,
    padding_side: Side = _PADDING_SIDE,
    pad_token_id: int | None = None,
    train_on: TrainOn = _TRAIN_ON,
    shift_labels: bool = False,
    train_on_eos: TrainOnEos | None = None,
    eos: Eos = _EOS,
    bos: Bos = _BOS,
    columns: Sequence[Column] = _COLUMNS,
    chat_template: StrPath | None = None,
    chat_template_kwargs: Mapping[str, JsonValue] | None = None,
    template_engine: TemplateEngine = _TEMPLATE_ENGINE,
    shape: Shape | None = None,
    fields: Fields | None = None,
    prompt: Prompt | None = None,
    examples: Examples | None = None,
    separator: str | None = None,
    sources: Sequence[Source] | None = None,
    filter: RecordFilter | None = None,
    map: RecordMap | None = None,
    on_bad_record: OnBadRecord = _ON_BAD_RECORD,
    max_lost: MaxLost | None = None,
    recursive: bool = False,
    cache_dir: StrPath | None = None,
    now: datetime | None = None,
    verify: int = _VERIFY,
    threads: int | None = None,
    progress: ProgressOption = None,
    revision: str | None = None,
    token: str | bool | None = None,
) -> pa.Table:
    """Packs files of conversations, requests or text into one table.

    Args:
        files: Files of records or text: a path, a folder, a glob, a brace list such as `part-{00..99}.jsonl`, or a list of
            these. A folder's files are read in the order of their paths.
        tokenizer: A `Tokenizer`, or what makes one.
        max_length: Tokens that a row holds at most.
        strategy: How documents are put together. `mix`: the longest, then others at random, then what fills
            the row to the last token; `best_fit`: longest first, each into the row that it fills best;
            `heap`: longest first, into the one open row; `sequential`: in input order, into the one open
            row; `concat`: end to end in input order, cut where a row ends; `none`: a row per document.
        overlong: What happens to a document longer than a row: `drop` and count it; `truncate` it and count
            what is cut off; `trim` a conversation, which cuts it after the last turn of the assistant that fits and drops
            what cannot be trimmed; `split` it into pieces that are documents of their own from then on; or
            `error`. If not given, text is split and conversations are dropped.
        keep: Which end of a truncated document is kept: `start` or `end`.
        tail: Whether `concat` shall `keep` its last row if it is not full, or `drop` and count it.
        max_documents_per_pack: Documents that a row holds at most, each piece of one counted.
        align_documents_to: What the length that each document takes in a row is a multiple of, as context and tensor
            parallel training want it; it must divide `max_length`. What makes a length a multiple counts as padding: no
            labels, positions that count on, and part of the document in `seq_lengths`.
        order: The order of the rows: `shuffle`; `input`, by the first document in each; or `balanced`, groups of
            `world_size` rows that cost as much attention, one for each rank. If not given, rows of `mix`,
            `best_fit` and `heap` are shuffled.
        world_size: The ranks that share the rows of `balanced`.
        on_remainder: What happens where ranks cannot share the rows of `balanced` equally: `pad` adds rows of nothing
            but padding, `drop` drops the last and counts them, `repeat` repeats rows and counts them.
        seed: What decides all that is left to chance: the same seed, the same rows.
        pad_to: What a row is filled up to: `max_length`, or a multiple that divides it.
            Padding has no labels, positions of its own from 0, and one last entry in `seq_lengths`.
        padding_side: The end of a row at which it is filled up: `right`, or `left`, where its entry in `seq_lengths` comes first.
        pad_token_id: The id to fill up with; the tokenizer's `pad_token`, else its `eos_token`, if not given.
        train_on: Which tokens carry a label: `assistant` turns, the `last_assistant` turn, the `completion`
            of a request, `all`; or `auto`, which is the first for conversations, the third for requests
            with answers and `all` for text. A message may say for itself: `train`, true or false, or `weight`.
        train_on_eos: Which tokens that end a trained turn are trained: of every `turn`, of the `last`, or
            `none`; those that the chat template marks if not given.
        shift_labels: Whether each label stands one place before its token, where it is predicted; for trainers that do
            not shift labels themselves, as those of `transformers` and TRL do.
        eos: Whether the end-of-text token is appended: `auto` does so for text and for requests put into
            words by a prompt, and leaves conversations as their template ends them; `True` and `False` hold for both.
        bos: Whether a document begins with the token that begins a text: `auto` leaves it to tokenizer and template,
            `True` adds it where it is missing.
        columns: The columns of the rows, in their order: `input_ids`, `labels`, `position_ids`, `seq_lengths`, and
            those that are written only if named. Lists as long as `input_ids`: `document_ids`, which number the
            documents of a row from 1, with 0 for padding; `loss_weights`, what messages say of their weight, 0 where
            there is no label. Lists as long as `seq_lengths`: `unpadded_lengths`, how much of
            each is no padding; `source_file`, the number of a document's file in `Report.sources`; `source_row`, its
            line or record there, from 1; both are -1 for padding. Numbers: `attn_cost`, the sum of the squares of
            `seq_lengths` without the row's padding; `group`, the number of the step that `balanced` puts the row in.
        chat_template: A Jinja text, the path of one, or the name of one of the tokenizer's templates; the
            tokenizer's own if not given.
        chat_template_kwargs: Variables for the chat template; those of a record win over them.
        template_engine: What renders a chat template, or a value in it, that is not known to render as in
            `transformers`: `native` refuses it by name; `python` lets `transformers` render it, in processes
            of its own, which is much slower, and says so in the report.
        shape: What the records are: `conversations`, `prompt_completion`, `instruction`, `question_answer`,
            `text` or `tokens`; found for each file by its first records if not given.
        fields: The fields that hold the parts of a record, where the usual ones do not, such as
            `{"question": "query", "answer": "solution"}`.
        prompt: How requests that are no conversations become texts: `alpaca`, `chatml`, `vicuna`, one of the prompts for
            mathematics (`qa`, `wizardmath-cot`, `deepseekmath`, `deepseekmath-tool`, `xwinmath`, `mammoth2-cot`,
            `llama3-math`), a text with places such as `{instruction}`, a dict of parts, or a file of either. If not
            given, instructions and questions become a conversation for the chat template, or are put as `alpaca` has
            them where there is none; a prompt and its completion are joined as they are.
        examples: Requests with their answers that stand before each request, and are not trained.
        separator: What stands between the documents of a `.txt` or `.md` file; each is one document if not given.
        sources: In place of `files`: dicts of a `path`, which is what `files` would be, and what of `shape`,
            `fields`, `prompt` and `separator` these files need for themselves; `limit`, how many records are read of
            them, and `repeat`, how many times.
        filter: A function that chooses among the records: it takes a `pyarrow.RecordBatch` of them and returns
            a boolean for each. Those left out are counted in the report, as `filtered`. It is called in the
            order of the input, on the thread of this call.
        map: A function that makes others of the records that were chosen: it takes a `pyarrow.RecordBatch` of
            them and returns one with as many rows.
        on_bad_record: What happens to a record that cannot be read: `error`, or `skip` and count it.
        max_lost: How much of the documents, and of their tokens, may be lost, such as `"0.1%"` or 0.001; if it is more,
            the run fails before anything is written, and says why and where. No limit if not given.
        recursive: Whether the folders inside a folder are read too.
        cache_dir: A folder in which tokens are kept from one call to the next. They are found by the content of
            the files, whatever their names, and by the tokenizer, the template and the options that decide
            them; other rows of them, such as of another `max_length`, take no tokenizing. A template that
            tells the time finds them for the same `now` alone.
        now: What templates see as the time of day; the time of the call if not given.
        verify: How many documents, evenly spread over the input, are encoded by the Hugging Face crate too,
            so that a difference ends the run.
        threads: Worker threads; as many as affinity and cgroup allow, shared among the ranks of this machine,
            if not given. Never changes the output.
        progress: `True` for a bar on stderr, `False` for none, a callable that takes a `Progress`; if not
            given, a bar where stderr is a terminal.
        revision: The branch, tag or commit of a hub name.
        token: The access token for a hub name.

    Returns:
        A table with a row per pack. Each column is a list of int32: `input_ids`; `labels`, unshifted and
        -100 where not trained; `position_ids`, from 0 in each document; `seq_lengths`, a length per
        document; but `loss_weights` of float32, 0 where not trained. The schema metadata holds the timeless part of the report: `Report.of(table)`.

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
    """
    options = _options(
        packing=_fastpack.PackOptions(
            max_length=max_length,
            strategy=strategy,
            overlong=overlong,
            keep=keep,
            tail=tail,
            max_documents_per_pack=max_documents_per_pack,
            align_documents_to=align_documents_to,
            order=order,
            world_size=world_size,
            on_remainder=on_remainder,
            seed=seed,
        ),
        pad_to=pad_to,
        padding_side=padding_side,
        pad_token_id=pad_token_id,
        train_on=train_on,
        shift_labels=shift_labels,
        train_on_eos=train_on_eos,
        eos=eos,
        bos=bos,
        columns=columns,
        on_bad_record=on_bad_record,
        max_lost=max_lost,
        now=now,
        verify=verify,
        threads=threads,
    )
    inputs = choose_inputs(
        files,
        sources,
        shape=shape,
        fields=fields,
        prompt=prompt,
        examples=examples,
        separator=separator,
        recursive=recursive,
    )
    if tokenizer is None:
        _refuse_missing("tokenizer")
    loaded = pretrained(tokenizer, revision=revision, token=token)
    template = choose_template(chat_template, loaded, kwargs=chat_template_kwargs, engine=template_engine)
    functions = transform(filter=filter, map=map)
    with watching(progress) as callback:
        return _fastpack.pack_files(inputs, options, loaded, template, functions, cache_dir, callback)


def pack_dir(
    files: Files | None = None,
    output: StrPath | None = None,
    *,
    tokenizer: TokenizerArgument | Tokenizer,
    max_length: int,
    format: Format = _FORMAT,
    compression: Compression | None = None,
    per_file: bool = False,
    validation: Validation | None = None,
    strategy: Strategy = _STRATEGY,
    overlong: Overlong | None = None,
    keep: Keep = _KEEP,
    tail: Tail = _TAIL,
    max_documents_per_pack: int | None = None,
    align_documents_to: int | None = None,
    order: Order | None = None,
    world_size: int | None = None,
    on_remainder: OnRemainder = _ON_REMAINDER,
    seed: int = _SEED,
    pad_to: PadTo | None = None,
    padding_side: Side = _PADDING_SIDE,
    pad_token_id: int | None = None,
    train_on: TrainOn = _TRAIN_ON,
    shift_labels: bool = False,
    train_on_eos: TrainOnEos | None = None,
    eos: Eos = _EOS,
    bos: Bos = _BOS,
    columns: Sequence[Column] = _COLUMNS,
    chat_template: StrPath | None = None,
    chat_template_kwargs: Mapping[str, JsonValue] | None = None,
    template_engine: TemplateEngine = _TEMPLATE_ENGINE,
    shape: Shape | None = None,
    fields: Fields | None = None,
    prompt: Prompt | None = None,
    examples: Examples | None = None,
    separator: str | None = None,
    sources: Sequence[Source] | None = None,
    filter: RecordFilter | None = None,
    map: RecordMap | None = None,
    on_bad_record: OnBadRecord = _ON_BAD_RECORD,
    max_lost: MaxLost | None = None,
    recursive: bool = False,
    shard_size: int | str = _SHARD_SIZE,
    memory: int | str | None = None,
    keep_tokens: bool = False,
    overwrite: bool = False,
    wait: bool = _WAIT,
    now: datetime | None = None,
    verify: int = _VERIFY,
    threads: int | None = None,
    progress: ProgressOption = None,
    revision: str | None = None,
    token: str | bool | None = None,
) -> Report:
    """Packs files of conversations, requests or text into files in a folder.

    Files are written beside their place and renamed when all is well, so a folder never holds half a job.
    Running the same job again returns its report at once; where it was stopped on the way, whatever stopped it, it
    goes on. The files are byte for byte those of a run that nothing disturbed.

    Args:
        files: As in `pack_files`.
        output: The folder; made if it is not there.
        tokenizer: A `Tokenizer`, or what makes one.
        max_length: Tokens that a row holds at most.
        format: `arrow`, the IPC stream format that `datasets.Dataset.from_file` reads; `parquet`; `jsonl`;
            `msgpack`, a map a row, one after the other; or `msgpack_arrays`, one array with an array a row, which holds
            ids, labels, positions and the length.
        compression: How columns are compressed: `none`; `lz4` or `zstd` for `arrow`; those and `snappy` for
            `parquet`. If not given, `parquet` is compressed by `zstd` and `arrow` is not.
        per_file: Whether each input has an output of its own, named after it and packed by itself: `data/a.jsonl` becomes
            `a.arrow`. Inputs of one name are told apart by their folders: `x-a.arrow`, `y-a.arrow`.
        validation: How many documents are set aside for validation, drawn by `seed` and packed by themselves into
            `validation-*` files beside the `train-*` files: a number such as 1000, or a share of all such as 0.01 or
            `1%`, one at least.
        strategy: As in `pack_files`.
        overlong: As in `pack_files`.
        keep: As in `pack_files`.
        tail: As in `pack_files`.
        max_documents_per_pack: As in `pack_files`.
        align_documents_to: As in `pack_files`.
        order: As in `pack_files`.
        world_size: As in `pack_files`.
        on_remainder: As in `pack_files`.
        seed: As in `pack_files`.
        pad_to: As in `pack_files`.
        padding_side: As in `pack_files`.
        pad_token_id: As in `pack_files`.
        train_on: As in `pack_files`.
        shift_labels: As in `pack_files`.
        train_on_eos: As in `pack_files`.
        eos: As in `pack_files`.
        bos: As in `pack_files`.
        columns: As in `pack_files`.
        chat_template: As in `pack_files`.
        chat_template_kwargs: As in `pack_files`.
        template_engine: As in `pack_files`.
        shape: As in `pack_files`.
        fields: As in `pack_files`.
        prompt: As in `pack_files`.
        examples: As in `pack_files`.
        separator: As in `pack_files`.
        sources: As in `pack_files`.
        filter: As in `pack_files`.
        map: As in `pack_files`.
        on_bad_record: As in `pack_files`.
        max_lost: As in `pack_files`.
        recursive: As in `pack_files`.
        shard_size: The size at which a file is closed and another begun, in bytes of column data: a number,
            or a text such as `512MB` or `2GiB`.
        memory: Memory that documents may take, in bytes or as a text such as `2GB`; what is past it is read
            back from the folder. A quarter of what the machine and cgroup allow, if not given.
        keep_tokens: Whether the tokens stay in the folder, as `tokens.fastpack`, for `repack`.
        overwrite: Whether whatever lies in `output` may be replaced.
        wait: Whether to wait where another process packs into the folder, and return its report or raise its
            error, rather than to fail: so all ranks of a training run can call this, and one does the work.
        now: What templates see as the time of day; the time of the first call if not given, kept on resuming.
        verify: As in `pack_files`.
        threads: As in `pack_files`.
        progress: As in `pack_files`.
        revision: As in `pack_files`.
        token: As in `pack_files`.

    Returns:
        The report, which `output` holds as `report.json`.

    Raises:
        OutputError: The folder holds something else, and `overwrite` is not set; or it is being written, and
            `wait` is not set.
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
    options = _options(
        packing=_fastpack.PackOptions(
            max_length=max_length,
            strategy=strategy,
            overlong=overlong,
            keep=keep,
            tail=tail,
            max_documents_per_pack=max_documents_per_pack,
            align_documents_to=align_documents_to,
            order=order,
            world_size=world_size,
            on_remainder=on_remainder,
            seed=seed,
        ),
        pad_to=pad_to,
        padding_side=padding_side,
        pad_token_id=pad_token_id,
        train_on=train_on,
        shift_labels=shift_labels,
        train_on_eos=train_on_eos,
        eos=eos,
        bos=bos,
        columns=columns,
        on_bad_record=on_bad_record,
        max_lost=max_lost,
        now=now,
        verify=verify,
        threads=threads,
    )
    inputs = choose_inputs(
        files,
        sources,
        shape=shape,
        fields=fields,
        prompt=prompt,
        examples=examples,
        separator=separator,
        recursive=recursive,
    )
    if output is None:
        _refuse_missing("output")
    destination = _destination(
        output,
        format=format,
        compression=compression,
        per_file=per_file,
        validation=validation,
        shard_size=shard_size,
        memory=memory,
        keep_tokens=keep_tokens,
        overwrite=overwrite,
        wait=wait,
    )
    loaded = pretrained(tokenizer, revision=revision, token=token)
    template = choose_template(chat_template, loaded, kwargs=chat_template_kwargs, engine=template_engine)
    functions = transform(filter=filter, map=map)
    with watching(progress) as callback:
        return _fastpack.pack_dir(inputs, destination, options, loaded, template, functions, callback)


def repack(
    source: StrPath,
    output: StrPath,
    *,
    max_length: int,
    format: Format = _FORMAT,
    compression: Compression | None = None,
    validation: Validation | None = None,
    strategy: Strategy = _STRATEGY,
    overlong: Overlong | None = None,
    keep: Keep = _KEEP,
    tail: Tail = _TAIL,
    max_documents_per_pack: int | None = None,
    align_documents_to: int | None = None,
    order: Order | None = None,
    world_size: int | None = None,
    on_remainder: OnRemainder = _ON_REMAINDER,
    seed: int = _SEED,
    pad_to: PadTo | None = None,
    padding_side: Side = _PADDING_SIDE,
    pad_token_id: int | None = None,
    shift_labels: bool = False,
    columns: Sequence[Column] = _COLUMNS,
    max_lost: MaxLost | None = None,
    shard_size: int | str = _SHARD_SIZE,
    memory: int | str | None = None,
    overwrite: bool = False,
    wait: bool = _WAIT,
    threads: int | None = None,
    progress: ProgressOption = None,
) -> Report:
    """Packs the tokens that `pack_dir(keep_tokens=True)` kept once more, without tokenizing.

    Whole documents were kept, so those that were dropped for their length are back where they fit. The rows are
    those of `pack_dir` with these options and the files as they were.

    Args:
        source: The folder that `pack_dir` wrote.
        output: Another folder; made if it is not there.
        max_length: Tokens that a row holds at most.
        format: As in `pack_dir`.
        compression: As in `pack_dir`.
        validation: As in `pack_dir`; must be given where the tokens were kept with it. With the same `seed` it sets the
            same documents aside, whatever else differs.
        strategy: As in `pack_files`.
        overlong: As in `pack_files`; `trim` only where the tokens were kept with it.
        keep: As in `pack_files`.
        tail: As in `pack_files`.
        max_documents_per_pack: As in `pack_files`.
        align_documents_to: As in `pack_files`.
        order: As in `pack_files`.
        world_size: As in `pack_files`.
        on_remainder: As in `pack_files`.
        seed: As in `pack_files`.
        pad_to: As in `pack_files`.
        padding_side: As in `pack_files`.
        pad_token_id: As in `pack_files`.
        shift_labels: As in `pack_files`.
        columns: As in `pack_files`.
        max_lost: As in `pack_files`.
        shard_size: As in `pack_dir`.
        memory: As in `pack_dir`.
        overwrite: As in `pack_dir`.
        wait: As in `pack_dir`.
        threads: As in `pack_files`.
        progress: As in `pack_files`.

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
    options = _options(
        packing=_fastpack.PackOptions(
            max_length=max_length,
            strategy=strategy,
            overlong=overlong,
            keep=keep,
            tail=tail,
            max_documents_per_pack=max_documents_per_pack,
            align_documents_to=align_documents_to,
            order=order,
            world_size=world_size,
            on_remainder=on_remainder,
            seed=seed,
        ),
        pad_to=pad_to,
        padding_side=padding_side,
        pad_token_id=pad_token_id,
        train_on=_TRAIN_ON,
        train_on_eos=None,
        shift_labels=shift_labels,
        eos=_EOS,
        bos=_BOS,
        columns=columns,
        on_bad_record=_ON_BAD_RECORD,
        max_lost=max_lost,
        now=None,
        verify=_VERIFY,
        threads=threads,
    )
    destination = _destination(
        output,
        format=format,
        compression=compression,
        per_file=False,
        validation=validation,
        shard_size=shard_size,
        memory=memory,
        keep_tokens=False,
        overwrite=overwrite,
        wait=wait,
    )
    with watching(progress) as callback:
        return _fastpack.repack(os.fspath(source), destination, options, callback)


def stream(
    files: Files | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int,
    batch_size: int = _BATCH_SIZE,
    strategy: StreamStrategy = _STREAM_STRATEGY,
    open_packs: int = _OPEN_PACKS,
    overlong: Overlong | None = None,
    keep: Keep = _KEEP,
    max_documents_per_pack: int | None = None,
    align_documents_to: int | None = None,
    pad_to: PadTo | None = None,
    padding_side: Side = _PADDING_SIDE,
    pad_token_id: int | None = None,
    train_on: TrainOn = _TRAIN_ON,
    shift_labels: bool = False,
    train_on_eos: TrainOnEos | None = None,
    eos: Eos = _EOS,
    bos: Bos = _BOS,
    columns: Sequence[Column] = _COLUMNS,
    chat_template: StrPath | None = None,
    chat_template_kwargs: Mapping[str, JsonValue] | None = None,
    template_engine: TemplateEngine = _TEMPLATE_ENGINE,
    shape: Shape | None = None,
    fields: Fields | None = None,
    prompt: Prompt | None = None,
    examples: Examples | None = None,
    separator: str | None = None,
    sources: Sequence[Source] | None = None,
    filter: RecordFilter | None = None,
    map: RecordMap | None = None,
    on_bad_record: OnBadRecord = _ON_BAD_RECORD,
    max_lost: MaxLost | None = None,
    recursive: bool = False,
    now: datetime | None = None,
    verify: int = _VERIFY,
    threads: int | None = None,
    progress: ProgressOption = False,
    revision: str | None = None,
    token: str | bool | None = None,
) -> _fastpack.PackStream:
    """Packs files while they are being read: the first table comes at once, memory stays constant.

    Args:
        files: As in `pack_files`.
        tokenizer: A `Tokenizer`, or what makes one.
        max_length: Tokens that a row holds at most.
        batch_size: Rows of a table; the last may have fewer.
        strategy: `sequential`, which gives the rows of `pack_files(strategy="sequential")`; or `best_fit`
            over `open_packs` rows.
        open_packs: Rows that `best_fit` keeps open; more of them fill better and come later.
        overlong: As in `pack_files`.
        keep: As in `pack_files`.
        max_documents_per_pack: As in `pack_files`.
        align_documents_to: As in `pack_files`.
        pad_to: As in `pack_files`.
        padding_side: As in `pack_files`.
        pad_token_id: As in `pack_files`.
        train_on: As in `pack_files`.
        shift_labels: As in `pack_files`.
        train_on_eos: As in `pack_files`.
        eos: As in `pack_files`.
        bos: As in `pack_files`.
        columns: As in `pack_files`.
        chat_template: As in `pack_files`.
        chat_template_kwargs: As in `pack_files`.
        template_engine: As in `pack_files`.
        shape: As in `pack_files`.
        fields: As in `pack_files`.
        prompt: As in `pack_files`.
        examples: As in `pack_files`.
        separator: As in `pack_files`.
        sources: As in `pack_files`.
        filter: As in `pack_files`.
        map: As in `pack_files`.
        on_bad_record: As in `pack_files`.
        max_lost: As in `pack_files`, but it is at its end, when all is counted, that a stream fails.
        recursive: As in `pack_files`.
        now: As in `pack_files`.
        verify: As in `pack_files`.
        threads: As in `pack_files`.
        progress: As in `pack_files`, but no bar unless asked for.
        revision: As in `pack_files`.
        token: As in `pack_files`.

    Returns:
        An iterator of tables, which is a context manager too. Errors are raised from the loop, with their own
        type. Its threads end when it is closed or dropped; `report` has the report once it is exhausted.

    Raises:
        OptionError: An option has a value that it cannot have.
        FastpackError: As in `pack_files`; while iterating, what concerns the data.

    Examples:
        >>> import fastpack
        >>> rows = 0
        >>> for table in fastpack.stream(
        ...     "examples/*.jsonl", "examples/tokenizer", max_length=512
        ... ):
        ...     rows += table.num_rows
        >>> rows > 0
        True
    """
    if strategy not in get_args(StreamStrategy):
        choices = ", ".join(f'"{choice}"' for choice in get_args(StreamStrategy))
        message = f"invalid option `strategy`: must be one of {choices} in a stream, not `{strategy!r}`"
        raise OptionError(message, "strategy")
    options = _options(
        packing=_fastpack.PackOptions(
            max_length=max_length,
            strategy=strategy,
            overlong=overlong,
            keep=keep,
            tail=_TAIL,
            max_documents_per_pack=max_documents_per_pack,
            align_documents_to=align_documents_to,
            order=None,
            world_size=None,
            on_remainder=_ON_REMAINDER,
            seed=_SEED,
        ),
        pad_to=pad_to,
        padding_side=padding_side,
        pad_token_id=pad_token_id,
        train_on=train_on,
        shift_labels=shift_labels,
        train_on_eos=train_on_eos,
        eos=eos,
        bos=bos,
        columns=columns,
        on_bad_record=on_bad_record,
        max_lost=max_lost,
        now=now,
        verify=verify,
        threads=threads,
    )
    inputs = choose_inputs(
        files,
        sources,
        shape=shape,
        fields=fields,
        prompt=prompt,
        examples=examples,
        separator=separator,
        recursive=recursive,
    )
    if tokenizer is None:
        _refuse_missing("tokenizer")
    loaded = pretrained(tokenizer, revision=revision, token=token)
    template = choose_template(chat_template, loaded, kwargs=chat_template_kwargs, engine=template_engine)
    functions = transform(filter=filter, map=map)
    return _fastpack.PackStream(
        inputs,
        options,
        loaded,
        template,
        functions,
        batch_size,
        open_packs,
        watcher(progress),
    )


def scan(
    files: Files | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int | Sequence[int] = _MAX_LENGTHS,
    strategy: Strategy = _STRATEGY,
    overlong: Overlong | None = None,
    keep: Keep = _KEEP,
    max_documents_per_pack: int | None = None,
    train_on: TrainOn = _TRAIN_ON,
    train_on_eos: TrainOnEos | None = None,
    eos: Eos = _EOS,
    chat_template: StrPath | None = None,
    chat_template_kwargs: Mapping[str, JsonValue] | None = None,
    template_engine: TemplateEngine = _TEMPLATE_ENGINE,
    shape: Shape | None = None,
    fields: Fields | None = None,
    prompt: Prompt | None = None,
    examples: Examples | None = None,
    separator: str | None = None,
    sources: Sequence[Source] | None = None,
    filter: RecordFilter | None = None,
    map: RecordMap | None = None,
    recursive: bool = False,
    now: datetime | None = None,
    threads: int | None = None,
    progress: ProgressOption = None,
    revision: str | None = None,
    token: str | bool | None = None,
) -> ScanReport:
    """Reads files and packs nothing: what they hold, which records are bad, and how rows of each length would do.

    All is done that packing does, up to the plan of the rows; a bad record is counted and named, and ends nothing.

    Args:
        files: As in `pack_files`.
        tokenizer: A `Tokenizer`, or what makes one.
        max_length: The lengths of rows to try, one or several.
        strategy: As in `pack_files`.
        overlong: As in `pack_files`.
        keep: As in `pack_files`.
        max_documents_per_pack: As in `pack_files`.
        train_on: As in `pack_files`.
        train_on_eos: As in `pack_files`.
        eos: As in `pack_files`.
        chat_template: As in `pack_files`.
        chat_template_kwargs: As in `pack_files`.
        template_engine: As in `pack_files`.
        shape: As in `pack_files`.
        fields: As in `pack_files`.
        prompt: As in `pack_files`.
        examples: As in `pack_files`.
        separator: As in `pack_files`.
        sources: As in `pack_files`.
        filter: As in `pack_files`.
        map: As in `pack_files`.
        recursive: As in `pack_files`.
        now: As in `pack_files`.
        threads: As in `pack_files`.
        progress: As in `pack_files`.
        revision: As in `pack_files`.
        token: As in `pack_files`.

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
    lengths = [max_length] if isinstance(max_length, int) else list(max_length)
    if not lengths:
        message = "invalid option `max_length`: must name at least one length"
        raise OptionError(message, "max_length")
    options = [
        _options(
            packing=_fastpack.PackOptions(
                max_length=length,
                strategy=strategy,
                overlong=overlong,
                keep=keep,
                tail=_TAIL,
                max_documents_per_pack=max_documents_per_pack,
                align_documents_to=None,
                order=None,
                world_size=None,
                on_remainder=_ON_REMAINDER,
                seed=_SEED,
            ),
            pad_to=None,
            padding_side=_PADDING_SIDE,
            pad_token_id=None,
            train_on=train_on,
            shift_labels=False,
            train_on_eos=train_on_eos,
            eos=eos,
            bos=_BOS,
            columns=_COLUMNS,
            on_bad_record="skip",
            max_lost=None,
            now=now,
            verify=_VERIFY,
            threads=threads,
        )
        for length in lengths
    ]
    inputs = choose_inputs(
        files,
        sources,
        shape=shape,
        fields=fields,
        prompt=prompt,
        examples=examples,
        separator=separator,
        recursive=recursive,
    )
    if tokenizer is None:
        _refuse_missing("tokenizer")
    loaded = pretrained(tokenizer, revision=revision, token=token)
    template = choose_template(chat_template, loaded, kwargs=chat_template_kwargs, engine=template_engine)
    functions = transform(filter=filter, map=map)
    with watching(progress) as callback:
        found = _fastpack.scan(inputs, lengths, options[0], loaded, template, functions, callback)
    return ScanReport.from_json(found)


def plan(
    lengths: Lengths,
    *,
    max_length: int,
    strategy: Strategy = _STRATEGY,
    overlong: Overlong | None = None,
    keep: Keep = _KEEP,
    tail: Tail = _TAIL,
    max_documents_per_pack: int | None = None,
    align_documents_to: int | None = None,
    order: Order | None = None,
    world_size: int | None = None,
    on_remainder: OnRemainder = _ON_REMAINDER,
    seed: int = _SEED,
) -> _fastpack.Plan:
    """Packs lengths alone: which documents share a row, and in which order.

    Args:
        lengths: The length of each document, in tokens.
        max_length: Tokens that a row holds at most.
        strategy: As in `pack_files`.
        overlong: As in `pack_files`, where a length of unknown kind counts as a conversation without turns.
        keep: As in `pack_files`.
        tail: As in `pack_files`.
        max_documents_per_pack: As in `pack_files`.
        align_documents_to: As in `pack_files`.
        order: As in `pack_files`.
        world_size: As in `pack_files`.
        on_remainder: As in `pack_files`.
        seed: As in `pack_files`.

    Returns:
        The plan, as numpy arrays: row `r` holds the pieces `offsets[r]` to `offsets[r + 1]`, and piece
        `p` is `lengths[p]` tokens of document `members[p]`, from its token `starts[p]` on. `dropped` names the
        documents that are in no row; `fill` is from 0 to 1, and `lower_bound` counts the rows that no packing
        of these pieces can do without.

    Raises:
        OptionError: An option has a value that it cannot have, or a length is below 1 or above what can be
            cut (2**31 - 1).

    Examples:
        >>> import fastpack
        >>> found = fastpack.plan([5, 3, 7, 2], max_length=8, order="input")
        >>> found.offsets.tolist(), found.members.tolist()
        ([0, 2, 3, 4], [0, 1, 2, 3])
    """
    options = _fastpack.PackOptions(
        max_length=max_length,
        strategy=strategy,
        overlong=overlong,
        keep=keep,
        tail=tail,
        max_documents_per_pack=max_documents_per_pack,
        align_documents_to=align_documents_to,
        order=order,
        world_size=world_size,
        on_remainder=on_remainder,
        seed=seed,
    )
    return _fastpack.plan(_whole_numbers(lengths), options)


def _whole_numbers(lengths: Lengths) -> npt.NDArray[np.int64]:
    """Takes lengths as the core does, and refuses what a cast would change."""
    import numpy as np  # noqa: PLC0415  importing fastpack is to cost nothing

    array = np.asarray(lengths)
    if np.ma.isMaskedArray(lengths) or (
        array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max
    ):
        message = "invalid option `lengths`: must not be masked, and must fit 64 bits with a sign"
        raise OptionError(message, "lengths")
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        message = (
            "invalid option `lengths`: must be whole numbers in one dimension, not an array of "
            f"{array.dtype} with {array.ndim} dimensions"
        )
        raise OptionError(message, "lengths")
    return np.ascontiguousarray(array, dtype=np.int64)


def pack_table(
    table: ArrowTable,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int,
    strategy: Strategy = _STRATEGY,
    overlong: Overlong | None = None,
    keep: Keep = _KEEP,
    tail: Tail = _TAIL,
    max_documents_per_pack: int | None = None,
    align_documents_to: int | None = None,
    order: Order | None = None,
    world_size: int | None = None,
    on_remainder: OnRemainder = _ON_REMAINDER,
    seed: int = _SEED,
    pad_to: PadTo | None = None,
    padding_side: Side = _PADDING_SIDE,
    pad_token_id: int | None = None,
    train_on: TrainOn = _TRAIN_ON,
    shift_labels: bool = False,
    train_on_eos: TrainOnEos | None = None,
    eos: Eos = _EOS,
    bos: Bos = _BOS,
    columns: Sequence[Column] = _COLUMNS,
    chat_template: StrPath | None = None,
    chat_template_kwargs: Mapping[str, JsonValue] | None = None,
    template_engine: TemplateEngine = _TEMPLATE_ENGINE,
    shape: Shape | None = None,
    fields: Fields | None = None,
    prompt: Prompt | None = None,
    examples: Examples | None = None,
    filter: RecordFilter | None = None,
    map: RecordMap | None = None,
    on_bad_record: OnBadRecord = _ON_BAD_RECORD,
    max_lost: MaxLost | None = None,
    now: datetime | None = None,
    verify: int = _VERIFY,
    threads: int | None = None,
    progress: ProgressOption = None,
    revision: str | None = None,
    token: str | bool | None = None,
) -> pa.Table:
    """Packs the rows of a table that is in memory, without a copy of it.

    With a tokenizer, a row is a record as in a file, of any of the shapes that files have; lists of messages are
    lists of structs, or JSON text. Without one, a row is a document that is tokenized already: `input_ids`,
    and `labels`, `assistant_masks` or `completion_mask` if not all of them are trained; `loss_weights` if they do not
    count alike.

    Args:
        table: A `pyarrow.Table`, a `datasets.Dataset`, whose selection and order hold, or anything else that
            hands over Arrow by `__arrow_c_stream__`: `polars`, `duckdb`, `pandas`.
        tokenizer: A `Tokenizer`, or what makes one.
        max_length: As in `pack_files`.
        strategy: As in `pack_files`.
        overlong: As in `pack_files`; without a tokenizer, a row counts as a conversation without turns.
        keep: As in `pack_files`.
        tail: As in `pack_files`.
        max_documents_per_pack: As in `pack_files`.
        align_documents_to: As in `pack_files`.
        order: As in `pack_files`.
        world_size: As in `pack_files`.
        on_remainder: As in `pack_files`.
        seed: As in `pack_files`.
        pad_to: As in `pack_files`.
        padding_side: As in `pack_files`.
        pad_token_id: As in `pack_files`; without a tokenizer it must be given with `pad_to`.
        train_on: As in `pack_files`.
        shift_labels: As in `pack_files`.
        train_on_eos: As in `pack_files`.
        eos: As in `pack_files`.
        bos: As in `pack_files`.
        columns: As in `pack_files`.
        chat_template: As in `pack_files`.
        chat_template_kwargs: As in `pack_files`.
        template_engine: As in `pack_files`.
        shape: As in `pack_files`.
        fields: As in `pack_files`.
        prompt: As in `pack_files`.
        examples: As in `pack_files`.
        filter: As in `pack_files`.
        map: As in `pack_files`.
        on_bad_record: As in `pack_files`.
        max_lost: As in `pack_files`.
        now: As in `pack_files`.
        verify: As in `pack_files`.
        threads: As in `pack_files`.
        progress: As in `pack_files`.
        revision: As in `pack_files`.
        token: As in `pack_files`.

    Returns:
        A table as `pack_files` returns it. Errors about a record name `<table>` and the row, from 1.

    Raises:
        OptionError: An option has a value that it cannot have, or needs a tokenizer.
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
    options = _options(
        packing=_fastpack.PackOptions(
            max_length=max_length,
            strategy=strategy,
            overlong=overlong,
            keep=keep,
            tail=tail,
            max_documents_per_pack=max_documents_per_pack,
            align_documents_to=align_documents_to,
            order=order,
            world_size=world_size,
            on_remainder=on_remainder,
            seed=seed,
        ),
        pad_to=pad_to,
        padding_side=padding_side,
        pad_token_id=pad_token_id,
        train_on=train_on,
        shift_labels=shift_labels,
        train_on_eos=train_on_eos,
        eos=eos,
        bos=bos,
        columns=columns,
        on_bad_record=on_bad_record,
        max_lost=max_lost,
        now=now,
        verify=verify,
        threads=threads,
    )
    if tokenizer is None:
        _refuse_without_tokenizer(
            eos=eos is True,
            bos=bos is True,
            chat_template=chat_template,
            chat_template_kwargs=chat_template_kwargs,
            shape=shape,
            fields=fields,
            prompt=prompt,
            examples=examples,
            train_on_eos=train_on_eos,
            filter=filter,
            map=map,
        )
        with watching(progress) as callback:
            return _fastpack.pack_table(table_of(table), options, callback)
    loaded = pretrained(tokenizer, revision=revision, token=token)
    template = choose_template(chat_template, loaded, kwargs=chat_template_kwargs, engine=template_engine)
    functions = transform(filter=filter, map=map)
    reading = choose_reading(shape=shape, fields=fields, prompt=prompt, examples=examples)
    with watching(progress) as callback:
        return _fastpack.pack_records(rows_of(table), reading, options, loaded, template, functions, callback)


def pack_records(
    records: Iterable[Mapping[str, JsonValue]],
    tokenizer: TokenizerArgument | Tokenizer,
    *,
    max_length: int,
    strategy: Strategy = _STRATEGY,
    overlong: Overlong | None = None,
    keep: Keep = _KEEP,
    tail: Tail = _TAIL,
    max_documents_per_pack: int | None = None,
    align_documents_to: int | None = None,
    order: Order | None = None,
    world_size: int | None = None,
    on_remainder: OnRemainder = _ON_REMAINDER,
    seed: int = _SEED,
    pad_to: PadTo | None = None,
    padding_side: Side = _PADDING_SIDE,
    pad_token_id: int | None = None,
    train_on: TrainOn = _TRAIN_ON,
    shift_labels: bool = False,
    train_on_eos: TrainOnEos | None = None,
    eos: Eos = _EOS,
    bos: Bos = _BOS,
    columns: Sequence[Column] = _COLUMNS,
    chat_template: StrPath | None = None,
    chat_template_kwargs: Mapping[str, JsonValue] | None = None,
    template_engine: TemplateEngine = _TEMPLATE_ENGINE,
    shape: Shape | None = None,
    fields: Fields | None = None,
    prompt: Prompt | None = None,
    examples: Examples | None = None,
    filter: RecordFilter | None = None,
    map: RecordMap | None = None,
    on_bad_record: OnBadRecord = _ON_BAD_RECORD,
    max_lost: MaxLost | None = None,
    now: datetime | None = None,
    verify: int = _VERIFY,
    threads: int | None = None,
    progress: ProgressOption = None,
    revision: str | None = None,
    token: str | bool | None = None,
) -> pa.Table:
    """Packs records that Python makes: a list of dicts, a generator, a `datasets.IterableDataset`.

    This is the one call in which the interpreter touches each record: it takes about as long as `json.dumps` of all
    of them. Files and tables are read without it.

    Args:
        records: The records, each of them a dict of what JSON can hold, arrays and numbers of `numpy` among it. A
            field that holds something else by itself, such as a date, is left out. They are taken on the
            thread of this call, some at a time, and their exceptions reach the caller as they are.
        tokenizer: A `Tokenizer`, or what makes one.
        max_length: As in `pack_files`.
        strategy: As in `pack_files`.
        overlong: As in `pack_files`.
        keep: As in `pack_files`.
        tail: As in `pack_files`.
        max_documents_per_pack: As in `pack_files`.
        align_documents_to: As in `pack_files`.
        order: As in `pack_files`.
        world_size: As in `pack_files`.
        on_remainder: As in `pack_files`.
        seed: As in `pack_files`.
        pad_to: As in `pack_files`.
        padding_side: As in `pack_files`.
        pad_token_id: As in `pack_files`.
        train_on: As in `pack_files`.
        shift_labels: As in `pack_files`.
        train_on_eos: As in `pack_files`.
        eos: As in `pack_files`.
        bos: As in `pack_files`.
        columns: As in `pack_files`.
        chat_template: As in `pack_files`.
        chat_template_kwargs: As in `pack_files`.
        template_engine: As in `pack_files`.
        shape: As in `pack_files`.
        fields: As in `pack_files`.
        prompt: As in `pack_files`.
        examples: As in `pack_files`.
        filter: As in `pack_files`.
        map: As in `pack_files`.
        on_bad_record: As in `pack_files`.
        max_lost: As in `pack_files`.
        now: As in `pack_files`.
        verify: As in `pack_files`.
        threads: As in `pack_files`.
        progress: As in `pack_files`.
        revision: As in `pack_files`.
        token: As in `pack_files`.

    Returns:
        A table as `pack_files` returns it. Errors about a record name `<records>` and its number, from 1.

    Raises:
        OptionTypeError: `records` is no iterable of dicts.
        FastpackError: As in `pack_files`.

    Examples:
        >>> import fastpack
        >>> texts = ({"text": f"The river has {number} boats."} for number in range(20))
        >>> table = fastpack.pack_records(texts, "examples/tokenizer", max_length=512)
        >>> fastpack.Report.of(table).documents.kept
        20
    """
    options = _options(
        packing=_fastpack.PackOptions(
            max_length=max_length,
            strategy=strategy,
            overlong=overlong,
            keep=keep,
            tail=tail,
            max_documents_per_pack=max_documents_per_pack,
            align_documents_to=align_documents_to,
            order=order,
            world_size=world_size,
            on_remainder=on_remainder,
            seed=seed,
        ),
        pad_to=pad_to,
        padding_side=padding_side,
        pad_token_id=pad_token_id,
        train_on=train_on,
        shift_labels=shift_labels,
        train_on_eos=train_on_eos,
        eos=eos,
        bos=bos,
        columns=columns,
        on_bad_record=on_bad_record,
        max_lost=max_lost,
        now=now,
        verify=verify,
        threads=threads,
    )
    loaded = pretrained(tokenizer, revision=revision, token=token)
    template = choose_template(chat_template, loaded, kwargs=chat_template_kwargs, engine=template_engine)
    functions = transform(filter=filter, map=map)
    reading = choose_reading(shape=shape, fields=fields, prompt=prompt, examples=examples)
    with watching(progress) as callback:
        return _fastpack.pack_records(
            values_of(records), reading, options, loaded, template, functions, callback
        )


def _refuse_without_tokenizer(**given: object) -> None:
    """Refuses options that say how records become tokens, for rows that are tokens."""
    for option, value in given.items():
        if value is not None and value is not False:
            message = f"invalid option `{option}`: needs a tokenizer; rows that are tokenized already are taken as they are"
            raise OptionError(message, option)


def _refuse_missing(option: str) -> NoReturn:
    """Refuses to go on without an option that has a default only because `files` before it has one."""
    message = f"invalid option `{option}`: must be given"
    raise OptionError(message, option)


def _destination(
    output: StrPath,
    *,
    format: Format,
    compression: Compression | None,
    per_file: bool,
    validation: Validation | None,
    shard_size: int | str,
    memory: int | str | None,
    keep_tokens: bool,
    overwrite: bool,
    wait: bool,
) -> _fastpack.Output:
    return _fastpack.Output(
        dir=os.fspath(output),
        format=format,
        compression=compression,
        per_file=per_file,
        validation=validation,
        shard_size=shard_size,
        keep_tokens=keep_tokens,
        overwrite=overwrite,
        shared=is_one_of_many(),
        wait=wait,
        memory=available_memory() if memory is None else memory,
    )


def _options(
    *,
    packing: _fastpack.PackOptions,
    pad_to: PadTo | None,
    padding_side: Side,
    pad_token_id: int | None,
    train_on: TrainOn,
    shift_labels: bool,
    train_on_eos: TrainOnEos | None,
    eos: Eos,
    bos: Bos,
    columns: Sequence[Column],
    on_bad_record: OnBadRecord,
    max_lost: MaxLost | None,
    now: datetime | None,
    verify: int,
    threads: int | None,
) -> _fastpack.Options:
    return _fastpack.Options(
        packing=packing,
        pad_to=pad_to,
        padding_side=padding_side,
        pad_token_id=pad_token_id,
        train_on=train_on,
        shift_labels=shift_labels,
        train_on_eos=train_on_eos,
        eos=eos,
        bos=bos,
        on_bad_record=on_bad_record,
        max_lost=max_lost,
        columns=columns,
        now=now and now.replace(tzinfo=None),
        verify=verify,
        threads=available_threads() if threads is None else threads,
    )
