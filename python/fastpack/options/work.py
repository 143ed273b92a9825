"""The options of the work: threads, memory, progress, streams."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Final

from fastpack.errors import OptionError
from fastpack.options.option import (
    FOLDER_CALLS,
    RUN,
    RUNNING_CALLS,
    TRAINING_CALLS,
    CallDifferences,
    Flag,
    Option,
)
from fastpack.options.value import Value, nondefault_fields, option_field
from fastpack.types import (  # noqa: TC001  the types of fields are looked at
    AllReduce,
    OnEnd,
    OnExhausted,
    RankOption,
    Shares,
    StoppingStrategy,
    WeightUnit,
    Where,
)

__all__ = ["WORK_OPTIONS", "Ranks", "Select", "Weights"]


class _StreamValue(Value):
    """A value of a stream."""

    __slots__ = ()

    def check(self) -> None:
        """Refuses words and numbers that are none; a `where`, shares and ranks are known with the call."""
        self.check_words()
        Value.check(self)


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Select(_StreamValue):
    """The records that a stream takes: `select={"lang": "en"}` is `select=Select({"lang": "en"})`.

    Args:
        where: The wanted values of fields: a dict from names of fields to a value, a list of values, or
            a tuple of the least and the most number, such as `{"lang": ["en", "de"], "score": (0.5, None)}`. Records
            left out are counted in the report, as `filtered`.
        skip: How many records at the beginning of the input to leave out, of each source if there are `weights`. `skip`,
            `take` and `stride` go by the order of the input, before `shuffle`, so they name the same records in every
            epoch; what they leave out is not counted as read. Before the first table, records are counted up to the
            last wanted one: from the footers of Parquet files, otherwise by reading.
        take: How many records to take after those of `skip`, of each source if there are `weights`; all if not given.
        stride: Takes every n-th of these records, in each file from the first on; all if not given. The records of line
            files are counted before they are read.
        min_tokens: The least tokens of a document; shorter ones are counted in the report, as `filtered`.
        max_tokens: The most tokens of a document; longer ones are counted in the report, as `filtered`.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Select({"lang": "en"}, take=1000)
        Select(where={'lang': 'en'}, take=1000)
    """

    option: ClassVar[str] = "select"
    kind: ClassVar[str] = "select"
    plain: ClassVar[str] = "where"

    where: Where | None = None
    _: dataclasses.KW_ONLY
    skip: int = 0
    take: int | None = None
    stride: int | None = None
    min_tokens: int | None = None
    max_tokens: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Weights(_StreamValue):
    """The shares of sources: `weights={"web": 3, "code": 1}` is `weights=Weights({"web": 3, "code": 1})`.

    Args:
        shares: The share of each source that `files` names, as a dict. A list of `(row, shares)` changes the shares at
            these rows of the run; the first row is 0. Without shares all sources are read as one.
        unit: The unit of the shares: `tokens`, `documents`, or `rows`. With `rows`, a row holds documents of one source.
        on_exhausted: What happens when a lane has read a source with a share `epochs` times: `repeat` reads it again until
            all have been read, `stop` ends the lane, `drop` gives its share to the others. `interleave_datasets` of
            `datasets` calls these `all_exhausted`, `first_exhausted` (its default) and `all_exhausted_without_replacement`.
        stopping_strategy: The source with which `pack_files` and `pack_dir` end to draw: with `first_exhausted` the first
            that has no document left, so that none is taken twice; with `all_exhausted` the last, while the others are
            read again.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Weights({"web": 3, "code": 1}, unit="documents")
        Weights(shares={'web': 3, 'code': 1}, unit='documents')
    """

    option: ClassVar[str] = "weights"
    kind: ClassVar[str] = "weights"
    plain: ClassVar[str] = "shares"

    shares: Shares | None = None
    _: dataclasses.KW_ONLY
    unit: WeightUnit = "tokens"
    on_exhausted: OnExhausted = option_field("repeat", calls=frozenset({"stream"}))
    stopping_strategy: StoppingStrategy = option_field(
        "first_exhausted", calls=frozenset({"pack_files", "pack_dir"})
    )

    def check(self) -> None:
        """Refuses words that are none, and a unit of no shares; shares are known with the sources."""
        self.check_words()
        if self.shares is None and nondefault_fields(self):
            message = "means nothing without `weights.shares`"
            raise OptionError(message, f"weights.{nondefault_fields(self)[0]}")


@dataclasses.dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Ranks(_StreamValue):
    """The data-parallel ranks that share a stream.

    Args:
        rank: The data-parallel rank that this stream is for, from 0. If not given, `rank` and `world_size` are those that
            torchrun, Slurm's `srun` or MPI name in the environment, which the report says; else there is one. `auto`
            says the same.
        world_size: The data-parallel ranks that share the rows. `world_size * batch_size` must divide `lanes`.
        lanes: The parts in which the input is read and packed. A resumed run keeps those of its state. If not given, the
            least multiple of `world_size * batch_size` that is 64 or more.
        on_end: What a step holds where some lanes have no row left after `epochs`: `pad` gives rows of padding until the
            last lane ends; `repeat` gives rows of the epochs read again until then; `drop` ends before the first step
            that lacks a row. If not given, several ranks pad, and one rank goes on with the rows of other lanes.
        all_reduce: A function by which ranks agree on the last table of a finite stream, in place of a count in
            `cache_dir`: it takes a whole number and returns the greatest that a rank gave. Each rank calls it once before
            each table, on the thread that asks for the table.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Ranks(rank=0, world_size=8, on_end="drop")
        Ranks(rank=0, world_size=8, on_end='drop')
    """

    option: ClassVar[str] = "ranks"
    kind: ClassVar[str] = "ranks"

    rank: RankOption | None = None
    world_size: RankOption | None = None
    lanes: int | None = None
    on_end: OnEnd | None = None
    all_reduce: AllReduce | None = option_field(None, live=True)


WORK_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "memory",
        "int | str | None",
        None,
        FOLDER_CALLS,
        (
            "Memory that documents may take, in bytes or as a text such as `2GB`; documents beyond it are read back "
            "from the folder. A quarter of the memory of the machine or cgroup, if not given; the ranks of torchrun on one machine that "
            "pack the groups of a job share it."
        ),
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
        without_tokenizer=(None,),
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
            "stream": CallDifferences(default=False, doc="As in `pack_files`, but no bar unless asked for."),
        },
        flag=Flag("--progress", "draw a bar", switch=True, unset="where stderr is a terminal"),
        once=True,
    ),
    Option(
        "sample",
        "int | None",
        None,
        frozenset({"scan"}),
        (
            "About how many records to read, the same ones each time, from places all over the files; all if not "
            "given. The numbers of records, tokens and rows, and the time, are then estimates for all of them. "
            "Uncompressed line files are read at places all over them, others from their beginning for a second; a "
            "warning says how far."
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
        "select",
        "Where | Select | None",
        None,
        frozenset({"stream"}),
        (
            "The wanted values of fields: a dict from names of fields to a value, a list of values, "
            'or a tuple of the least and the most number, such as `{"lang": ["en", "de"], "score": (0.5, None)}`. A `Select` '
            "goes by the place of records and the length of documents too. Records left out are counted in the report, as "
            "`filtered`."
        ),
        flag=Flag(
            "--select",
            "what fields of a record must be, as JSON",
            metavar="JSON",
            type="json_object",
            unset="anything",
        ),
        kinds={Select.kind: Select},
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
        "weights",
        "Shares | Weights | None",
        None,
        frozenset({"stream", "pack_files", "pack_dir"}),
        (
            "The share of each source that `files` names, as a dict. A list of `(row, shares)` changes the shares at "
            "these rows of the run; the first row is 0. Without weights all sources are read as one. A `Weights` has a unit, "
            "and says what happens at the end of a source."
        ),
        differs=dict.fromkeys(
            ("pack_files", "pack_dir"),
            CallDifferences(
                type="Mapping[str, float] | Weights | None",
                doc=(
                    "The share of each source that `files` names, as a dict. Documents are drawn by `seed` from all of a "
                    "source, as many as the shares allow. Without weights all documents of all sources are taken. A "
                    "`Weights` has a unit, and says with which source the drawing ends."
                ),
            ),
        ),
        flag=Flag(
            "--weights",
            "the share of each source, as JSON",
            metavar="JSON",
            type="json_object",
            unset="all sources are read as one",
        ),
        kinds={Weights.kind: Weights},
    ),
    Option(
        "ranks",
        "Ranks | None",
        None,
        frozenset({"stream"}),
        (
            "A `Ranks`: the data-parallel rank that this stream is for, and how many there are; by torchrun, Slurm's `srun` or "
            "MPI if not given. It has the parts in which the input is read, and says how ranks end at the same step."
        ),
        flag=Flag("--ranks", "", holds=True),
        kinds={Ranks.kind: Ranks},
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
            "How often the input is read; `None` never ends. Several ranks that read it so often need "
            "`cache_dir` or the `all_reduce` of `Ranks` to end at the same step."
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
        "The number of tables after which the stream ends, with those before a resume; if not given, it ends with the input.",
        flag=Flag(
            "--max-steps", "after how many tables each rank ends", metavar="N", type="int", unset="no limit"
        ),
    ),
)
