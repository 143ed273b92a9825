"""How the work is done."""

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
        "batch_size",
        "int",
        8,
        frozenset({"stream"}),
        "Rows of a table; the last may have fewer.",
    ),
    Option(
        "open_packs",
        "int",
        16,
        frozenset({"stream"}),
        "Rows that `best_fit` keeps open in each lane; more of them fill better and come later.",
    ),
    Option(
        "weights",
        "Weights | None",
        None,
        frozenset({"stream"}),
        (
            "The share of each source that `files` names: a dict by name, or a list of `(row, weights)` of which each "
            "holds from that row of the run on, the first from row 0. Without it all sources are read as one."
        ),
    ),
    Option(
        "weight_unit",
        "WeightUnit",
        "tokens",
        frozenset({"stream"}),
        "What `weights` are shares of: `tokens` or `documents`.",
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
    ),
    Option(
        "epochs",
        "int | None",
        1,
        frozenset({"stream"}),
        "How often the input is read; `None` is without end. Several ranks need `None`.",
    ),
    Option(
        "max_steps",
        "int | None",
        None,
        frozenset({"stream"}),
        "After how many tables the stream ends, those before a resume included; not before the input does, if not given.",
    ),
    Option(
        "rank",
        "int | None",
        None,
        frozenset({"stream"}),
        (
            "The data-parallel rank that this stream is for, from 0. If not given, `rank` and `world_size` are those "
            "that torchrun, Slurm's `srun` or MPI name in the environment, which the report says; else there is one."
        ),
    ),
    Option(
        "world_size",
        "int | None",
        None,
        frozenset({"stream"}),
        "The data-parallel ranks that share the rows. `world_size * batch_size` must divide `lanes`.",
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
    ),
)
