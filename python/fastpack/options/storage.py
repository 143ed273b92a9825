"""`Storage`: where files lie that are not on this machine, and what is kept of them here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Final

from fastpack.arguments.checks import check_type
from fastpack.errors import OptionError
from fastpack.options.option import (
    EVERY_CALL,
    FILE_CALLS,
    FOLDER_CALLS,
    PACKED_CALLS,
    RUNNING_CALLS,
    SHARD_CALLS,
    Flag,
    Option,
)
from fastpack.options.value import Value, as_value, option_field, refuse_fields
from fastpack.types import FsspecFileSystem, StrPath  # noqa: TC001  the types of fields are looked at

__all__ = ["STORAGE_OPTIONS", "Storage", "storage_of"]


_EXAMPLE: Final = '{"aws_region": "eu-west-1"}'
"""Options of a store, as Python and JSON write them."""


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Storage(Value):
    """Remote storage, the hub, and what is kept of them on this machine.

    `storage={"aws_region": "eu-west-1"}` is `storage=Storage({"aws_region": "eu-west-1"})`.

    Args:
        options: Options of remote storage (`s3://`, `gs://`, `az://`, `https://`): credentials, regions and endpoints by
            the names that `object_store`, polars and pandas have for them, such as `aws_region`; what is not given comes
            from environment variables such as `AWS_REGION`. `max_retries`, `timeout` and `connect_timeout` are for all
            of them. Nothing of it is written to a manifest, a report or a message.
        filesystem: A filesystem of `fsspec` that holds the inputs, such as `fsspec.filesystem('sftp', host='host')`: all
            paths, folders and globs are on it. It is the slow path for storage that fastpack does not read itself, since
            Python fetches the bytes, one range after the other. The output is not written to it.
        token: The access token for a hub name.
        revision: The branch, tag or commit of a hub name; refused for a tokenizer on the disk or in memory, which has
            none.
        block_cache: The most bytes that are kept on the local disk of what is fetched from remote storage, such as
            `20GB`, so that another epoch or a resumed job is read from there. They lie in `blocks` inside `cache_dir`, or
            inside `~/.cache/fastpack` without one; what was not used for longest is removed first.
        work_dir: A folder on the local disk in which a job works whose `output` is in remote storage (`s3://`, `gs://`,
            `az://`, `hf://datasets/ORG/NAME`). It needs room for the whole output, which is uploaded when it is finished
            and then removed here. A job that was stopped goes on from there. `~/.cache/fastpack/jobs` if not given. Not
            used by a job whose `output` is on this disk: one `Storage` may serve several calls.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Storage(block_cache="20GB")
        Storage(block_cache='20GB')
    """

    option: ClassVar[str] = "storage"
    kind: ClassVar[str] = "storage"
    plain: ClassVar[str] = "options"

    options: Mapping[str, str] | None = option_field(None, secret=True)
    _: dataclasses.KW_ONLY
    filesystem: FsspecFileSystem | None = option_field(
        None, calls=FILE_CALLS | PACKED_CALLS | {"reindex"}, live=True
    )
    token: str | bool | None = option_field(None, calls=RUNNING_CALLS, secret=True, without_tokenizer=())
    revision: str | None = option_field(None, calls=RUNNING_CALLS, without_tokenizer=())
    block_cache: int | str | None = option_field(None, calls=FILE_CALLS | SHARD_CALLS | {"reindex"})
    work_dir: StrPath | None = option_field(None, calls=FOLDER_CALLS, path="always")

    def check(self) -> None:
        """Refuses what a field cannot be, by the name of the field."""
        wanted = f"a dict of texts such as {_EXAMPLE}"
        check_type("storage.options", self.options, (Mapping, type(None)), wanted, secret=True)
        others = {field.name for field in dataclasses.fields(self)} - {"options", "token"}
        misplaced = next((name for name in self.options or () if name in others), None)
        if misplaced:
            message = f"has `{misplaced}`, which is no option of a store; `Storage({misplaced}=...)` holds it"
            raise OptionError(message, "storage.options")


def storage_of(value: object, call: str = "") -> Storage:
    """The storage that a caller gave; what means nothing to the function `call` is refused."""
    storage = as_value("storage", value, {Storage.kind: Storage})
    assert isinstance(storage, Storage)  # noqa: S101  no other value is taken
    if call:
        refuse_fields(call, storage)
    return storage


STORAGE_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "storage",
        "Mapping[str, str] | Storage | None",
        None,
        EVERY_CALL - {"plan"},
        (
            "Options of remote storage (`s3://`, `gs://`, `az://`, `https://`): credentials, regions and endpoints; from "
            "environment variables if not given. A `Storage` has a filesystem of `fsspec`, the token and revision of a hub "
            "name, and folders of this machine too."
        ),
        flag=Flag(
            "--storage",
            f"options of remote storage, such as {_EXAMPLE}",
            metavar="JSON",
            type="json_object",
            unset="environment variables",
            secret=True,
            example=_EXAMPLE,
        ),
        kinds={Storage.kind: Storage},
    ),
)
