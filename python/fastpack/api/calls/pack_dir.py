"""`fastpack.pack_dir`.

Written by `make signatures` from `fastpack/options/`: change that, not this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack.api.run import pack_dir as run
from fastpack.options.mistakes.hints import suggesting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        Files,
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
def pack_dir(
    files: Files | Sequence[Source] | NamedSources | None = None,
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

    Files are written beside their place and renamed when all is well, so a folder never holds half a job.
    Running the same job again returns its report at once; where it was stopped on the way, whatever stopped it, it
    goes on. The files are byte for byte those of a run that nothing disturbed.

    Args:
        files: Files of records or text: a path, a folder, a glob, a brace list such as `part-{00..99}.jsonl`, or
            a list of these, or of dicts of a `path` and what of `shape`, `fields`, `prompt` and `separator` its
            files need for themselves; `limit`, how many records are read of them, `repeat`, how many times, and
            `fraction`, how much of them is drawn; or a dict of such sources by their names. A folder's files are
            read in the order of their paths. They may lie in remote storage (`s3://`, `gs://`, `az://`,
            `https://`, `hf://datasets/ORG/NAME`).
        output: The folder; made if it is not there. It may lie in remote storage (`s3://`, `gs://`, `az://`), or
            be one commit of a data set on the hub (`hf://datasets/ORG/NAME`).
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
        tokenizer: A `Tokenizer`, or what makes one: a folder, a `tokenizer.json`, a hub name, or a tokenizer of
            `transformers` or `tokenizers`. Records that are ids need none.
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
        format: `arrow`, the IPC stream format of `datasets`; `parquet`; `jsonl`; or `msgpack_arrays`, one
            MessagePack array with an array a row, which holds ids, labels, positions and the length. A `Format`
            has a compression, a layout and the size of files too.
        validation: How many documents are set aside for validation and packed into `validation-*` files beside
            the `train-*` files: a number such as 1000, or a share such as 0.01 or `1%`. Records are drawn by a
            hash of what they hold and of `seed`: the same ones in every call, in any file format, equal ones
            together.
        keep_tokens: Whether the tokens stay in the folder, as `tokens.fastpack`, for `repack`.
        groups: The size of the groups into which the inputs are cut, in bytes or as a text such as `4GB`, so that
            several processes and machines can share the job; a `Groups` names the process too. If not given, all
            inputs are packed together, by one process.
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
        weights: The share of each source that `files` names, as a dict. Documents are drawn by `seed` from all of
            a source, as many as the shares allow. Without weights all documents of all sources are taken. A
            `Weights` has a unit, and says with which source the drawing ends.

    Returns:
        The report, which `output` holds as `report.json`.

    Raises:
        OutputError: The folder holds something else, and `overwrite` is not set or it is in the way; or it is
            being written, and `wait` is not set.
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
    return run(
        {
            "files": files,
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
            "train_on": train_on,
            "turns": turns,
            "special_tokens": special_tokens,
            "chat_template": chat_template,
            "reading": reading,
            "filter": filter,
            "map": map,
            "on_bad_record": on_bad_record,
            "max_lost": max_lost,
            "format": format,
            "validation": validation,
            "keep_tokens": keep_tokens,
            "groups": groups,
            "exists": exists,
            "cache_dir": cache_dir,
            "storage": storage,
            "memory": memory,
            "threads": threads,
            "verify": verify,
            "progress": progress,
            "weights": weights,
        }
    )
