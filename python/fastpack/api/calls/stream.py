"""`fastpack.stream`.

Written by `make signatures` from `fastpack/options/`: change that, not this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack.api.run import stream as run
from fastpack.options.mistakes.hints import suggesting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastpack.options.function import Function
    from fastpack.options.objective import Objective
    from fastpack.options.packing import BestFit, Concat, Sequential, Truncate, Unpacked
    from fastpack.options.records import Reading
    from fastpack.options.rows import Padding
    from fastpack.options.storage import Storage
    from fastpack.options.tokens import ChatTemplate, SpecialTokens
    from fastpack.options.train_on import TrainOn
    from fastpack.options.work import Ranks, Select, Weights
    from fastpack.streaming.stream import PackStream
    from fastpack.tokenizer.arguments import TokenizerArgument
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import (
        Column,
        Files,
        MaxLost,
        NamedSources,
        ObjectiveName,
        OnBadRecord,
        Overlong,
        PadTo,
        ProgressOption,
        RecordFilter,
        RecordMap,
        Records,
        Shape,
        Shares,
        Source,
        StreamLog,
        StreamStrategy,
        StrPath,
        TrainedTokens,
        Turns,
        Where,
    )

__all__ = ["stream"]


@suggesting
def stream(
    files: Files | Sequence[Source] | Records | NamedSources | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int | None = None,
    strategy: StreamStrategy | BestFit | Sequential | Concat | Unpacked = "best_fit",
    overlong: Overlong | Truncate | None = None,
    shuffle: bool = True,
    seed: int = 0,
    padding: PadTo | Padding | None = None,
    columns: Sequence[Column] | None = None,
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
    validation: float | str | None = None,
    cache_dir: StrPath | None = None,
    storage: Mapping[str, str] | Storage | None = None,
    threads: int | None = None,
    verify: int = 0,
    progress: ProgressOption = False,
    select: Where | Select | None = None,
    batch_size: int = 8,
    weights: Shares | Weights | None = None,
    ranks: Ranks | None = None,
    log: StreamLog | None = None,
    epochs: int | None = 1,
    max_steps: int | None = None,
) -> PackStream:
    """Packs files while they are being read: shuffled, shared by ranks, and resumed at the very document.

    The rows come from `lanes` that each read a part of the input and pack it alone; row `g` of a run is row `g // lanes`
    of lane `g % lanes`. So they are the same for any number of ranks and threads.

    Args:
        files: Files as in `pack_files`; or what gives records anew for each epoch: a function that returns an
            iterator of them, an object whose `__iter__` starts anew, or a data set of `datasets`; or a dict of
            sources by their names, each as one of these or as a dict in the list of `pack_files`, which may hold
            `records` in place of a `path`, and the `fingerprint` that names them.
        tokenizer: A `Tokenizer`, or what makes one: a folder, a `tokenizer.json`, a hub name, or a tokenizer of
            `transformers` or `tokenizers`. Records that are ids need none.
        max_length: Tokens that a row holds at most. Only `strategy="none"` needs none: then a row is as long as
            its document.
        strategy: How each lane puts documents together: `best_fit` over the open rows of a `BestFit`; or
            `sequential`, `concat` or `none`, which give the rows of `pack_files` with `shuffle=False, lanes=1`.
        overlong: What happens to a document longer than a row: `drop` and count it; `truncate` it and count what
            is cut off, at either end by a `Truncate`; `trim` a conversation, which cuts it after the last turn of
            the assistant that fits and drops what cannot be trimmed; `split` it into pieces that are documents of
            their own from then on; or `error`. If not given, text is split, and conversations and ids are
            dropped.
        shuffle: Whether records are read in an order drawn from `seed`, another one in each epoch: files,
            stretches of files, and records in them. `False` is the order of the input.
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
        max_lost: As in `pack_files`, but it is at its end, when all is counted, that a stream fails.
        validation: How much is held out of the stream for validation, as in `pack_dir`: the same records in every
            epoch and on every rank. A number needs `cache_dir`, and a pass over the input before the first table.
            `stream.validation` is a stream of the records held out.
        cache_dir: A folder that keeps what a later call would make again: here the number of rows that each lane
            has, which several ranks need to end at the same step. They are counted by reading all of the input
            once, when the first table is asked for, or before by `index()` or `fastpack index`. One process
            counts, and the others on this file system wait for it.
        storage: Options of remote storage (`s3://`, `gs://`, `az://`, `https://`): credentials, regions and
            endpoints; from environment variables if not given. A `Storage` has a filesystem of `fsspec`, the
            token and revision of a hub name, and folders of this machine too.
        threads: Worker threads; as many as affinity and cgroup allow, shared among the ranks of this machine, if
            not given. Never changes the output.
        verify: How many documents, evenly spread over the input, are encoded by the Hugging Face crate too, so
            that a difference ends the run.
        progress: As in `pack_files`, but no bar unless asked for.
        select: What fields of a record must be, for it to be taken: a dict from their names to a value, a list of
            values, or a tuple of the least and the most number, such as `{"lang": ["en", "de"], "score": (0.5,
            None)}`. A `Select` goes by the place of records and the length of documents too. Records left out are
            counted in the report, as `filtered`.
        batch_size: Rows of a table; the last may have fewer.
        weights: The share of each source that `files` names, as a dict. A list of `(row, shares)` changes the
            shares at these rows of the run; the first row is 0. Without weights all sources are read as one. A
            `Weights` has a unit, and says what happens at the end of a source.
        ranks: A `Ranks`: the data-parallel rank that this stream is for, and how many there are; by torchrun,
            Slurm's `srun` or MPI if not given. It has the parts in which the input is read, and says how ranks
            end at the same step.
        log: A function that takes a `StreamStats`: rows, tokens, their rate, fill, shares, drops and the time
            that this process waited. It is called about every ten seconds, between tables, and at the end.
        epochs: How often the input is read; `None` is without end. Several ranks that read it so often need
            `cache_dir` or the `all_reduce` of `Ranks` to end at the same step.
        max_steps: After how many tables the stream ends, those before a resume included; not before the input
            does, if not given.

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
            "shuffle": shuffle,
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
            "validation": validation,
            "cache_dir": cache_dir,
            "storage": storage,
            "threads": threads,
            "verify": verify,
            "progress": progress,
            "select": select,
            "batch_size": batch_size,
            "weights": weights,
            "ranks": ranks,
            "log": log,
            "epochs": epochs,
            "max_steps": max_steps,
        }
    )
