"""The options of the work: threads, memory, progress, streams."""

from __future__ import annotations

from typing import Final

from fastpack.options.option import (
    FOLDER_CALLS,
    OUTPUT,
    RUN,
    RUNNING_CALLS,
    TRAINING_CALLS,
    Differs,
    Flag,
    Option,
)

__all__ = ["WORK_OPTIONS"]

WORK_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "memory",
        "int | str | None",
        None,
        FOLDER_CALLS,
        (
            "Memory that documents may take, in bytes or as a text such as `2GB`; what is past it is read back from "
            "the folder. A quarter of what the machine and cgroup allow, if not given."
        ),
        group=OUTPUT,
        flag=Flag(
            "--memory",
            "memory for documents, such as 2GB",
            unset="a quarter of what there is",
            metavar="SIZE",
        ),
    ),
    Option(
        "threads",
        "int | None",
        None,
        RUNNING_CALLS,
        (
            "Worker threads; as many as affinity and cgroup allow, shared among the ranks of this machine, if not "
            "given. Never changes the output."
        ),
        group=RUN,
        flag=Flag(
            "--threads",
            "worker threads",
            metavar="N",
            type="int",
            unset="as many as the machine gives",
            common=True,
        ),
    ),
    Option(
        "verify",
        "int",
        0,
        TRAINING_CALLS,
        (
            "How many documents, evenly spread over the input, are encoded by the Hugging Face crate too, so that a "
            "difference ends the run."
        ),
        group=RUN,
        flag=Flag(
            "--verify",
            "documents that the Hugging Face crate encodes too, to compare",
            metavar="N",
            type="int",
        ),
    ),
    Option(
        "progress",
        "ProgressOption",
        None,
        RUNNING_CALLS,
        (
            "`True` for a bar on stderr, `False` for none, a callable that takes a `Progress`; if not given, a bar "
            "where stderr is a terminal."
        ),
        differs={
            "stream": Differs(default=False, doc="As in `pack_files`, but no bar unless asked for."),
        },
        flag=Flag("--progress", "draw a bar", switch=True, unset="where stderr is a terminal"),
    ),
    Option(
        "sample",
        "int | None",
        None,
        frozenset({"scan"}),
        (
            "About how many records to read, the same ones each time, from places all over the files; all if not "
            "given. What is told of records, tokens, rows and time is then an estimate for all of them. Line files "
            "that are not compressed are entered throughout, others are read through as far as a second goes; a "
            "warning says up to where."
        ),
        flag=Flag(
            "--sample",
            "read about N records all over the files, and estimate what all of them are like",
            metavar="N",
            type="int",
            unset="all records",
        ),
    ),
    Option(
        "where",
        "Where | None",
        None,
        frozenset({"stream"}),
        (
            "What fields of a record must be, for it to be taken: a dict from their names to a value, a list of values, "
            'or a tuple of the least and the most number, such as `{"lang": ["en", "de"], "score": (0.5, None)}`. Records '
            "left out are counted in the report, as `filtered`."
        ),
    ),
    Option(
        "skip",
        "int",
        0,
        frozenset({"stream"}),
        (
            "How many records at the beginning of the input to leave out, of each source if there are `weights`. `skip`, "
            "`take` and `stride` go by the order of the input, before `shuffle`, so they name the same records in "
            "every epoch; what they leave out is not counted as read. As much of the input as they name is read "
            "through before the first table, to count its records; of Parquet files, the footers are."
        ),
        flag=Flag(
            "--skip",
            "leave out N records at the beginning of the input",
            metavar="N",
            type="int",
            unset="none",
        ),
    ),
    Option(
        "take",
        "int | None",
        None,
        frozenset({"stream"}),
        "How many records to take after those of `skip`, of each source if there are `weights`; all if not given.",
        flag=Flag("--take", "take N records of the input", metavar="N", type="int", unset="all records"),
    ),
    Option(
        "stride",
        "int | None",
        None,
        frozenset({"stream"}),
        (
            "Takes every n-th of these records, in each file from the first on; all if not given. The records of line files "
            "are counted before they are read."
        ),
        flag=Flag("--stride", "take every N-th record of each file", metavar="N", type="int", unset="1"),
    ),
    Option(
        "min_document_tokens",
        "int | None",
        None,
        frozenset({"stream"}),
        "The least tokens of a document; shorter ones are counted in the report, as `filtered`.",
        flag=Flag(
            "--min-document-tokens", "the least tokens of a document", metavar="TOKENS", type="int", unset="1"
        ),
    ),
    Option(
        "max_document_tokens",
        "int | None",
        None,
        frozenset({"stream"}),
        "The most tokens of a document; longer ones are counted in the report, as `filtered`.",
        flag=Flag(
            "--max-document-tokens",
            "the most tokens of a document",
            metavar="TOKENS",
            type="int",
            unset="no limit",
        ),
    ),
    Option(
        "batch_size",
        "int",
        8,
        frozenset({"stream"}),
        "Rows of a table; the last may have fewer.",
        flag=Flag("--batch-size", "rows of a table", metavar="ROWS", type="int", common=True),
    ),
    Option(
        "open_packs",
        "int",
        16,
        frozenset({"stream"}),
        "Rows that `best_fit` keeps open in each lane; more of them fill better and come later.",
        flag=Flag("--open-packs", "rows that best_fit keeps open in each lane", metavar="ROWS", type="int"),
    ),
    Option(
        "weights",
        "Weights | None",
        None,
        frozenset({"stream", "pack_files", "pack_dir"}),
        (
            "The share of each source that `files` names, as a dict. A list of `(row, weights)` changes the shares at "
            "these rows of the run; the first row is 0. Without weights all sources are read as one."
        ),
        differs=dict.fromkeys(
            ("pack_files", "pack_dir"),
            Differs(
                doc=(
                    "The share of each source that `files` names, as a dict. Documents are drawn by `seed` from all of a "
                    "source, as many as the shares allow. Without weights all documents of all sources are taken."
                ),
                type="Mapping[str, float] | None",
            ),
        ),
        flag=Flag(
            "--weights",
            "the share of each source, as JSON",
            metavar="JSON",
            type="json_object",
            unset="all sources are read as one",
        ),
    ),
    Option(
        "weight_unit",
        "WeightUnit",
        "tokens",
        frozenset({"stream", "pack_files", "pack_dir"}),
        (
            "What `weights` are shares of: `tokens`, `documents`, or `rows`. With `rows`, a row holds documents of one "
            "source."
        ),
        differs=dict.fromkeys(
            ("pack_files", "pack_dir"),
            Differs(doc="What `weights` and a `fraction` are shares of: `tokens` or `documents`."),
        ),
        flag=Flag("--weight-unit", "what the weights are shares of", words="WeightUnit"),
    ),
    Option(
        "stopping_strategy",
        "StoppingStrategy",
        "first_exhausted",
        frozenset({"pack_files", "pack_dir"}),
        (
            "The source with which drawing by `weights` ends: with `first_exhausted` the first that has no document left, "
            "so that none is taken twice; with `all_exhausted` the last, while the others are read again."
        ),
        flag=Flag("--stopping-strategy", "the source with which weights end", words="StoppingStrategy"),
    ),
    Option(
        "on_exhausted",
        "OnExhausted",
        "repeat",
        frozenset({"stream"}),
        (
            "What happens when a lane has read a source with a weight `epochs` times: `repeat` reads it again until "
            "all have been read, `stop` ends the lane, `drop` gives its share to the others."
        ),
        flag=Flag("--on-exhausted", "a source that was read to its end", words="OnExhausted"),
    ),
    Option(
        "on_end",
        "OnEnd | None",
        None,
        frozenset({"stream"}),
        (
            "What a step holds where some lanes have no row left after `epochs`: `pad` gives rows of padding until the "
            "last lane ends; `repeat` gives rows of the epochs read again until then; `drop` ends before the first step "
            "that lacks a row. If not given, several ranks pad, and one rank goes on with the rows of other lanes."
        ),
        flag=Flag(
            "--on-end",
            "a step in which some lanes have no row left",
            words="OnEnd",
            unset="pad for several ranks",
        ),
    ),
    Option(
        "all_reduce",
        "AllReduce | None",
        None,
        frozenset({"stream"}),
        (
            "A function by which ranks agree on the last table of a finite stream, in place of a count in `cache_dir`: it "
            "takes a whole number and returns the greatest that a rank gave. Each rank calls it once before each table, "
            "on the thread that asks for the table."
        ),
    ),
    Option(
        "log",
        "StreamLog | None",
        None,
        frozenset({"stream"}),
        (
            "A function that takes a `StreamStats`: rows, tokens, their rate, fill, shares, drops and the time that this "
            "process waited. It is called about every ten seconds, between tables, and at the end."
        ),
    ),
    Option(
        "epochs",
        "int | None",
        1,
        frozenset({"stream"}),
        (
            "How often the input is read; `None` is without end. Several ranks that read it so often need "
            "`cache_dir` or `all_reduce` to end at the same step."
        ),
        flag=Flag(
            "--epochs",
            "how often the input is read, 0 is without end",
            metavar="N",
            type="count_or_none",
            common=True,
        ),
    ),
    Option(
        "max_steps",
        "int | None",
        None,
        frozenset({"stream"}),
        "After how many tables the stream ends, those before a resume included; not before the input does, if not given.",
        flag=Flag(
            "--max-steps", "after how many tables each rank ends", metavar="N", type="int", unset="no limit"
        ),
    ),
    Option(
        "rank",
        "RankOption | None",
        None,
        frozenset({"stream", "pack_dir"}),
        (
            "The data-parallel rank that this stream is for, from 0. If not given, `rank` and `world_size` are those "
            "that torchrun, Slurm's `srun` or MPI name in the environment, which the report says; else there is one. "
            "`auto` says the same."
        ),
        differs={
            "pack_dir": Differs(
                doc=(
                    "The number of this process, from 0, among `world_size` that pack the groups of one job: it begins "
                    "with every `world_size`th group from this one, and then takes groups that nobody works on. `auto` "
                    "takes both from torchrun, Slurm's `srun` or MPI. Needs `group_size`; never changes the output."
                )
            ),
        },
        flag=Flag(
            "--rank",
            "number of this process among those that pack the groups, from 0; or auto, from torchrun, Slurm or MPI",
            metavar="N|auto",
            type="count_or_text",
            unset="one process",
        ),
    ),
    Option(
        "world_size",
        "RankOption | None",
        None,
        frozenset({"stream", "pack_dir"}),
        "The data-parallel ranks that share the rows. `world_size * batch_size` must divide `lanes`.",
        differs={
            "pack_dir": Differs(doc="How many processes pack the groups, or `auto`; given with `rank`."),
        },
        flag=Flag(
            "--world-size",
            "processes that pack the groups, or auto",
            metavar="N|auto",
            type="count_or_text",
            unset="one process",
        ),
    ),
    Option(
        "lanes",
        "int | None",
        None,
        frozenset({"stream"}),
        (
            "The parts in which the input is read and packed. A resumed run keeps those of its state. If not given, "
            "the least multiple of `world_size * batch_size` that is 64 or more."
        ),
        flag=Flag(
            "--lanes",
            "parts in which the input is read and packed",
            metavar="N",
            type="int",
            unset="64 or more",
        ),
    ),
)
