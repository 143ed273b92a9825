"""The options of the output."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Final

from fastpack.arguments.checks import check_switch
from fastpack.options.option import (
    FOLDER_CALLS,
    KEEPING_CALLS,
    REQUIRED,
    SPLITTING_CALLS,
    TRAINING_CALLS,
    CallDifferences,
    Flag,
    Option,
)
from fastpack.options.value import Value, option_field
from fastpack.types import (  # noqa: TC001  the types of fields are looked at
    Compression,
    Existing,
    FormatName,
    Layout,
    RankOption,
)

__all__ = ["OUTPUT_OPTIONS", "Exists", "Format", "Groups"]


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Format(Value):
    """The form of the files: `format="parquet"` is `format=Format("parquet")`.

    Args:
        name: `arrow`, the IPC stream format of `datasets`; `parquet`; `jsonl`; or `msgpack_arrays`, one MessagePack array
            with an array a row, which holds ids, labels, positions and the length.
        compression: How columns are compressed: `none`; `lz4` or `zstd` for `arrow`; those and `snappy` for `parquet`. If
            not given, `parquet` is compressed by `zstd` and `arrow` is not.
        layout: The columns that a file holds of a row. `full`: all of them, which every reader of Arrow takes as they
            are. `compact`: ids in 16 bits where the tokenizer's fit, else 32; where labels begin and end; and the lengths
            of documents: about 2.1 or 4.1 bytes a token instead of 12. `fastpack.read`, `PackedDataset`, `collate`,
            `fastpack.hf.load`, `inspect` and `verify` make the other columns of them. Needs `arrow` or `parquet`.
        shard_size: The size at which a file is closed and another begun, in bytes of column data: a number, or a text such
            as `512MB` or `2GiB`.
        per_file: Whether each input has an output of its own, named after it and packed by itself: `data/a.jsonl` becomes
            `a.arrow`. Inputs of one name are told apart by their folders: `x-a.arrow`, `y-a.arrow`.
        hf_layout: Whether the folder is one that `datasets.load_from_disk` maps into memory: a `Dataset`, or with
            `validation` a `DatasetDict` of `train` and `validation`. Needs the format `arrow`, and outputs that are not
            named after their inputs.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Format("parquet", compression="snappy")
        Format(name='parquet', compression='snappy')
    """

    option: ClassVar[str] = "format"
    kind: ClassVar[str] = "format"
    plain: ClassVar[str] = "name"

    name: FormatName = "arrow"
    _: dataclasses.KW_ONLY
    compression: Compression | None = None
    layout: Layout = option_field("full", objectives=("causal",))
    shard_size: int | str = "512MB"
    per_file: bool = option_field(False, calls=frozenset({"pack_dir"}))
    hf_layout: bool = False

    def check(self) -> None:
        """Refuses what a field cannot be, by the name of the field."""
        self.check_words()
        for name in ("per_file", "hf_layout"):
            check_switch(f"format.{name}", getattr(self, name))
        Value.check(self)


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Groups(Value):
    """A job in groups of inputs that several processes and machines can share: `groups="4GB"` is `groups=Groups("4GB")`.

    Args:
        size: The size of the groups into which the inputs are cut, in bytes or as a text such as `4GB`: files in their
            order, as many as have that size together. Each group is packed alone, and the files are the same whatever the
            number of processes.
        rank: The number of this process, from 0, among `world_size` that pack the groups of one job: it begins with every
            `world_size`th group from this one, and then takes groups that nobody works on. If not given, `rank` and
            `world_size` are those that torchrun, Slurm's `srun` or MPI name in the environment; else there is one. `auto`
            says the same. Never changes the output.
        world_size: How many processes pack the groups, or `auto`; given with `rank`.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Groups("4GB", rank=0, world_size=8)
        Groups(size='4GB', rank=0, world_size=8)
    """

    option: ClassVar[str] = "groups"
    kind: ClassVar[str] = "groups"
    plain: ClassVar[str] = "size"

    size: int | str | None = None
    _: dataclasses.KW_ONLY
    rank: RankOption | None = option_field(None, once=True)
    world_size: RankOption | None = option_field(None, once=True)


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Exists(Value):
    """The treatment of an output that is there already: `exists="overwrite"` is `exists=Exists("overwrite")`.

    Args:
        then: `error` refuses what another job wrote; the same job returns its report, or goes on. `overwrite` replaces
            what fastpack wrote before, for whatever job. Files of others never are: one in the place of a file of the job
            is refused. `append`, in `pack_dir` alone, adds the files to those that the folder was packed of, as one job
            over all of them would pack them; the folder must keep its tokens (`keep_tokens`), so that only those of new
            files are made. `append_rows`, in `pack_dir` alone, packs the new files by themselves, and leaves the shards of
            the folder as they are; it needs no tokens. Of a file of JSON Lines that has grown, the lines after its old end
            are new.
        wait: Whether to wait where another process packs into the folder, and return its report or raise its error,
            rather than to fail: so all ranks of a training run can call this, and one does the work.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Exists("overwrite", wait=False)
        Exists(then='overwrite', wait=False)
    """

    option: ClassVar[str] = "exists"
    kind: ClassVar[str] = "exists"
    plain: ClassVar[str] = "then"

    then: Existing = "error"
    _: dataclasses.KW_ONLY
    wait: bool = True

    def check(self) -> None:
        """Refuses what a field cannot be, by the name of the field."""
        self.check_words()
        check_switch("exists.wait", self.wait)


OUTPUT_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "output",
        "StrPath | None",
        None,
        FOLDER_CALLS,
        (
            "The folder; made if it is not there. It may lie in remote storage (`s3://`, `gs://`, `az://`), or be one commit "
            "of a data set on the hub (`hf://datasets/ORG/NAME`)."
        ),
        differs={
            "pack_table": CallDifferences(
                doc=(
                    "A folder to write, as `pack_dir` writes it: whole or not at all. If not given, rows stay in memory. "
                    "A `pa.Table` is known again by its content, and a `datasets.Dataset` by its fingerprint: the same "
                    "job on them returns its report at once, and goes on where it was stopped. Of other tables nobody "
                    "knows whether they are the same before they are read: the job starts anew, and what it has finished "
                    "is refused unless `exists` is `overwrite`."
                )
            ),
            "pack_records": CallDifferences(
                doc=(
                    "A folder to write, as `pack_dir` writes it: whole or not at all. If not given, rows stay in memory. "
                    "A generator has no fingerprint, so a stopped job starts over, a finished one is refused unless "
                    "`exists` is `overwrite`, and only one of several ranks may call this."
                )
            ),
            "repack": CallDifferences(
                type="StrPath", default=REQUIRED, doc="Another folder; made if it is not there."
            ),
        },
        flag=Flag("-o --output", "the folder to write", metavar="DIR", required=True),
        path="always",
        once=True,
    ),
    Option(
        "format",
        "FormatName | Format",
        "arrow",
        FOLDER_CALLS,
        (
            "`arrow`, the IPC stream format of `datasets`; `parquet`; `jsonl`; or `msgpack_arrays`, one MessagePack "
            "array with an array a row, which holds ids, labels, positions and the length. A `Format` has a compression, a "
            "layout and the size of files too."
        ),
        flag=Flag("-f --format", "file format", words="FormatName", common=True),
        kinds={Format.kind: Format},
    ),
    Option(
        "validation",
        "Validation | None",
        None,
        SPLITTING_CALLS | {"stream"},
        (
            "How many documents are set aside for validation and packed into a table of their own: a number such as "
            "1000, or a share such as 0.01 or `1%`. Records are drawn by a hash of what they hold and of `seed`: the "
            "same ones in every call, in any file format, equal ones together."
        ),
        differs={
            "stream": CallDifferences(
                type="float | str | None",
                doc=(
                    "How much is held out of the stream for validation, as in `pack_dir`: the same records in every "
                    "epoch and on every rank. A number needs `cache_dir`, and a pass over the input before the first "
                    "table. `stream.validation` is a stream of the records held out."
                ),
            ),
            "pack_dir": CallDifferences(
                doc=(
                    "How many documents are set aside for validation and packed into `validation-*` files beside the "
                    "`train-*` files: a number such as 1000, or a share such as 0.01 or `1%`. Records are "
                    "drawn by a hash of what they hold and of `seed`: the same ones in every call, in any file format, "
                    "equal ones together."
                )
            ),
            "repack": CallDifferences(
                doc=(
                    "As in `pack_dir`; must be given where the tokens were kept with it. With the same `seed` it sets the "
                    "same documents aside, whatever else differs."
                )
            ),
        },
        flag=Flag(
            "--validation",
            "documents to set aside for validation: a number, or a share such as 0.01 or 1%%",
            metavar="DOCUMENTS",
            type="count_or_text",
            unset="none",
            common=True,
        ),
    ),
    Option(
        "keep_tokens",
        "bool",
        False,
        KEEPING_CALLS,
        "Whether the tokens stay in the folder, as `tokens.fastpack`, for `repack`.",
        flag=Flag("--keep-tokens", "leave the tokens in the folder, to be packed again", switch=True),
    ),
    Option(
        "groups",
        "int | str | Groups | None",
        None,
        frozenset({"pack_dir"}),
        (
            "The size of the groups into which the inputs are cut, in bytes or as a text such as `4GB`, so that several "
            "processes and machines can share the job: those of a run of torchrun, Slurm or MPI, or as a `Groups` says. If not "
            "given, all inputs are packed together, by one process."
        ),
        flag=Flag(
            "--groups",
            "size of the groups of inputs that several processes can share, such as 4GB",
            metavar="SIZE",
            type="count_or_text",
            unset="all inputs are packed together",
        ),
        kinds={Groups.kind: Groups},
    ),
    Option(
        "exists",
        "Existing | Exists",
        "error",
        FOLDER_CALLS,
        (
            "What happens to what fastpack wrote into `output` before, for another job: `error`, `overwrite` it, or, in "
            "`pack_dir`, add the files to its: `append` plans all rows again, `append_rows` those of new files alone. Files of "
            "others are never replaced: one in the place of a file of the job is refused. An `Exists` says whether to wait for "
            "another process too."
        ),
        flag=Flag(
            "--exists",
            "what fastpack wrote into the folder before, for another job",
            words="Existing",
            common=True,
        ),
        kinds={Exists.kind: Exists},
        once=True,
    ),
    Option(
        "cache_dir",
        "StrPath | None",
        None,
        TRAINING_CALLS,
        (
            "A folder that keeps what a later call would make again: here tokens. They are found by the content of the files or of "
            "the table, whatever their names, and by the tokenizer, the template and the options that decide them; other rows of "
            "them, such as of another `max_length`, take no tokenizing. A template that tells the time finds them for "
            "the same `now` alone."
        ),
        differs={
            "stream": CallDifferences(
                doc=(
                    "A folder that keeps what a later call would make again: here the number of rows that each lane has, which several "
                    "ranks need to end at the same step. "
                    "They are counted by reading all of the input once, when the first table is asked for, or before by "
                    "`index()` or `fastpack index`. One process counts, and the others on this file system wait for it."
                )
            ),
        },
        flag=Flag(
            "--cache-dir",
            "a folder that keeps what a later run would make again",
            metavar="DIR",
            unset="none",
        ),
        path="always",
    ),
)
