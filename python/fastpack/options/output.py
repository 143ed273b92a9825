"""The options of the output."""

from __future__ import annotations

from typing import Final

from fastpack.options.option import (
    FOLDER_CALLS,
    KEEPING_CALLS,
    OUTPUT,
    REQUIRED,
    SPLITTING_CALLS,
    TRAINING_CALLS,
    Differs,
    Flag,
    Option,
)

__all__ = ["OUTPUT_OPTIONS"]

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
        group=OUTPUT,
        differs={
            "pack_table": Differs(
                doc=(
                    "A folder to write, as `pack_dir` writes it: whole or not at all. If not given, rows stay in memory. "
                    "A `pa.Table` is known again by its content, and a `datasets.Dataset` by its fingerprint: the same "
                    "job on them returns its report at once, and goes on where it was stopped. Of other tables nobody "
                    "knows whether they are the same before they are read: the job starts anew, and what it has finished "
                    "is refused unless `overwrite` is set."
                )
            ),
            "pack_records": Differs(
                doc=(
                    "A folder to write, as `pack_dir` writes it: whole or not at all. If not given, rows stay in memory. "
                    "A generator has no fingerprint, so a stopped job starts over, a finished one is refused unless "
                    "`overwrite` is set, and only one of several ranks may call this."
                )
            ),
            "repack": Differs(
                type="StrPath", default=REQUIRED, doc="Another folder; made if it is not there."
            ),
        },
        flag=Flag("-o --output", "the folder to write", metavar="DIR", required=True),
    ),
    Option(
        "work_dir",
        "StrPath | None",
        None,
        FOLDER_CALLS,
        (
            "A folder on the local disk in which a job works whose `output` is in remote storage (`s3://`, `gs://`, `az://`, "
            "`hf://datasets/ORG/NAME`). It needs room for the whole output, which is uploaded when it is finished and then "
            "removed here. A job that was stopped goes on from there. `~/.cache/fastpack/jobs` if not given."
        ),
        group=OUTPUT,
        flag=Flag(
            "--work-dir",
            "a folder on the local disk for a job whose output is in remote storage",
            metavar="DIR",
            unset="~/.cache/fastpack/jobs",
        ),
    ),
    Option(
        "format",
        "Format",
        "arrow",
        FOLDER_CALLS,
        (
            "`arrow`, the IPC stream format of `datasets`; `parquet`; `jsonl`; or `msgpack_arrays`, one MessagePack "
            "array with an array a row, which holds ids, labels, positions and the length."
        ),
        group=OUTPUT,
        flag=Flag("-f --format", "file format", words="Format", common=True),
    ),
    Option(
        "layout",
        "Layout",
        "full",
        FOLDER_CALLS,
        (
            "The columns that a file holds of a row. `full`: all of them, which every reader of Arrow takes as they are. "
            "`compact`: ids in 16 bits where the tokenizer's fit, else 32; where labels begin and end; and the lengths "
            "of documents: about 2.1 or 4.1 bytes a token instead of 12. `fastpack.read`, `PackedDataset`, `collate`, "
            "`fastpack.hf.load`, `inspect` and `verify` make the other columns of them. Needs `arrow` or `parquet`."
        ),
        group=OUTPUT,
        flag=Flag("--layout", "columns that a file holds of a row", words="Layout"),
        objectives=("causal",),
    ),
    Option(
        "compression",
        "Compression | None",
        None,
        FOLDER_CALLS,
        (
            "How columns are compressed: `none`; `lz4` or `zstd` for `arrow`; those and `snappy` for `parquet`. If "
            "not given, `parquet` is compressed by `zstd` and `arrow` is not."
        ),
        group=OUTPUT,
        flag=Flag(
            "--compression",
            "how columns are compressed",
            words="Compression",
            unset="zstd for parquet, none for arrow",
        ),
    ),
    Option(
        "per_file",
        "bool",
        False,
        frozenset({"pack_dir"}),
        (
            "Whether each input has an output of its own, named after it and packed by itself: `data/a.jsonl` becomes "
            "`a.arrow`. Inputs of one name are told apart by their folders: `x-a.arrow`, `y-a.arrow`."
        ),
        group=OUTPUT,
        flag=Flag("--per-file", "write an output for each input, named after it", switch=True),
    ),
    Option(
        "hf_layout",
        "bool",
        False,
        FOLDER_CALLS,
        (
            "Whether the folder is one that `datasets.load_from_disk` maps into memory: a `Dataset`, or with "
            "`validation` a `DatasetDict` of `train` and `validation`. Needs the format `arrow`, and outputs that are "
            "not named after their inputs."
        ),
        group=OUTPUT,
        flag=Flag("--hf-layout", "arrange the folder as datasets.load_from_disk maps it", switch=True),
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
        group=OUTPUT,
        differs={
            "stream": Differs(
                type="float | str | None",
                doc=(
                    "How much is held out of the stream for validation, as in `pack_dir`: the same records in every "
                    "epoch and on every rank. A number needs `cache_dir`, and a pass over the input before the first "
                    "table. `stream.validation` is a stream of the records held out."
                ),
            ),
            "pack_dir": Differs(
                doc=(
                    "How many documents are set aside for validation and packed into `validation-*` files beside the "
                    "`train-*` files: a number such as 1000, or a share such as 0.01 or `1%`. Records are "
                    "drawn by a hash of what they hold and of `seed`: the same ones in every call, in any file format, "
                    "equal ones together."
                )
            ),
            "repack": Differs(
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
        "shard_size",
        "int | str",
        "512MB",
        FOLDER_CALLS,
        (
            "The size at which a file is closed and another begun, in bytes of column data: a number, or a text such "
            "as `512MB` or `2GiB`."
        ),
        group=OUTPUT,
        flag=Flag("--shard-size", "size of an output file, such as 512MB or 2GiB", metavar="SIZE"),
    ),
    Option(
        "append",
        "bool",
        False,
        frozenset({"pack_dir"}),
        (
            "Whether the files are added to those that the folder was packed of, as one job over all of them would pack "
            "them. The folder must keep its tokens (`keep_tokens`), so that only those of new files are made."
        ),
        flag=Flag("--append", "add the files to those that the folder was packed of", switch=True),
    ),
    Option(
        "keep_tokens",
        "bool",
        False,
        KEEPING_CALLS,
        "Whether the tokens stay in the folder, as `tokens.fastpack`, for `repack`.",
        group=OUTPUT,
        flag=Flag("--keep-tokens", "leave the tokens in the folder, to be packed again", switch=True),
    ),
    Option(
        "group_size",
        "int | str | None",
        None,
        frozenset({"pack_dir"}),
        (
            "The size of the groups into which the inputs are cut, in bytes or as a text such as `4GB`: files in their "
            "order, as many as have that size together. Each group is packed alone, so that several processes and "
            "machines can share the job, and the files are the same whatever their number. If not given, all inputs are "
            "packed together, by one process."
        ),
        group=OUTPUT,
        flag=Flag(
            "--group-size",
            "size of the groups of inputs that several processes can share, such as 4GB",
            metavar="SIZE",
            unset="all inputs are packed together",
        ),
    ),
    Option(
        "overwrite",
        "bool",
        False,
        FOLDER_CALLS,
        (
            "Whether what fastpack wrote into `output` before, for whatever job, may be replaced. Files of others "
            "never are: one in the place of a file of the job is refused."
        ),
        group=OUTPUT,
        flag=Flag(
            "--overwrite", "replace what fastpack wrote into the folder before", switch=True, common=True
        ),
    ),
    Option(
        "wait",
        "bool",
        True,
        FOLDER_CALLS,
        (
            "Whether to wait where another process packs into the folder, and return its report or raise its error, "
            "rather than to fail: so all ranks of a training run can call this, and one does the work."
        ),
        group=OUTPUT,
        flag=Flag(
            "--wait", "wait where another process packs into the folder, rather than fail", switch=True
        ),
    ),
    Option(
        "cache_dir",
        "StrPath | None",
        None,
        TRAINING_CALLS,
        (
            "A folder in which tokens are kept from one call to the next. They are found by the content of the files or of "
            "the table, whatever their names, and by the tokenizer, the template and the options that decide them; other rows of "
            "them, such as of another `max_length`, take no tokenizing. A template that tells the time finds them for "
            "the same `now` alone."
        ),
        differs={
            "stream": Differs(
                doc=(
                    "A folder for the number of rows that each lane has, which several ranks need to end at the same step. "
                    "They are counted by reading all of the input once, when the first table is asked for, or before by "
                    "`index()` or `fastpack index`. One process counts, and the others on this file system wait for it."
                )
            ),
        },
        flag=Flag(
            "--cache-dir",
            "a folder in which tokens are kept from one run to the next",
            metavar="DIR",
            unset="none",
        ),
    ),
)
