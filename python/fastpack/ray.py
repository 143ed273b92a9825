"""Packing on a Ray cluster: a job as tasks, one for each group of its inputs, and records of a Ray `Dataset` as rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from fastpack import _fastpack
from fastpack.api import pack_dir as pack_here
from fastpack.api import pack_table
from fastpack.api.recipes import recipe_of
from fastpack.arguments.checks import check_type, reason_of, shown, whole_number
from fastpack.errors import OptionError, StorageError
from fastpack.options import OPTIONS, options_of
from fastpack.options.native import (
    native_inputs,
    native_model,
    native_options,
    native_output,
    value_in,
)
from fastpack.options.output import Groups
from fastpack.options.storage import Storage
from fastpack.runtime.progress import watching
from fastpack.storage.filesystem import choose_filesystem
from fastpack.tokenizer.tokenizer import Tokenizer

try:
    import ray
    from ray.data import Dataset
except ImportError as missing:
    _needed = "fastpack.ray needs `ray`: pip install 'fastpack-train[ray]'"
    raise ImportError(_needed) from missing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import pyarrow as pa

    from fastpack.report.report import Report
    from fastpack.runtime.progress import NativeProgress
    from fastpack.types import Files, ProgressOption, StrPath

__all__ = ["pack_dataset", "pack_dir"]

_RETRIES: Final = 3
"""The number of times that a task is started again after a loss of its node, or a failure of the storage."""

_NOT_HERE: Final = frozenset({"progress", "cache_dir"})
"""Options of `fastpack.pack_dir` that Ray decides, or that have no use on a cluster."""


def pack_dir(  # type: ignore[explicit-any]  # the options are those of `fastpack.pack_dir`
    files: Files,
    output: StrPath,
    *,
    groups: int | str,
    num_cpus: int = 1,
    max_retries: int = _RETRIES,
    remote_args: Mapping[str, Any] | None = None,
    progress: ProgressOption = None,
    **options: Any,  # noqa: ANN401
) -> Report:
    """Packs files into files in a folder, each group of inputs as a task of a Ray cluster.

    The files are those of `fastpack.pack_dir` with the same `groups`, whatever the cluster. All nodes, and this
    process, must see the files and the folder, or the bucket, under the same paths. A task that a lost node took with it is started
    again elsewhere, and resumes its group. Run again after a failure, the call packs the groups that are missing.

    Args:
        files: As in `fastpack.pack_dir`.
        output: As in `fastpack.pack_dir`.
        groups: The size of the groups into which the inputs are cut, such as `"4GB"`; a group is a task.
        num_cpus: The cores of a task, and its threads unless `threads` is given.
        max_retries: How often a task is started again after a loss of its node, or a failure of the storage, that of a
            filesystem included.
        remote_args: Further options of the tasks, as `ray.remote` takes them.
        progress: As in `fastpack.pack_dir`: told of a group when it is packed.
        **options: Other options of `fastpack.pack_dir`: `tokenizer`, `max_length` and so on. A filesystem of a `Storage` is made again in each
            process of the cluster, and must show the same files there.

    Returns:
        The report of the whole job.

    Raises:
        FastpackError: As in `fastpack.pack_dir`; an error in a task ends the job, and is raised here. So is what a function
            or a filesystem of the caller raises there.
        OptionError: `num_cpus`, `max_retries` or `remote_args` is not as Ray takes it.
    """
    whole_number("num_cpus", num_cpus, 1)
    # Ray takes -1 for any number of times.
    whole_number("max_retries", max_retries, -1)
    remote_args = _remote_args(remote_args, {"num_cpus", "max_retries", "retry_exceptions"})
    _refuse_unknown(options)
    _refuse_unsent(value_in(options, Storage).filesystem)
    defaults = {option.name: option.default for option in options_of("pack_dir")}
    threads = {"threads": num_cpus} if options.get("threads") is None else {}
    arguments = {**defaults, **options, **threads, "files": files, "output": output, "groups": Groups(groups)}
    sizes, steps = _fastpack.list_groups(native_inputs(arguments), native_output(arguments))
    with _refused_by_ray():
        task = ray.remote(_pack_group).options(
            num_cpus=num_cpus,
            max_retries=max_retries,
            retry_exceptions=[StorageError, _FilesystemFailed],
            **remote_args,
        )
    # Ray sends a large value to a node once, and not with every task.
    shared = ray.put(arguments)
    with watching(progress) as callback:
        for number, step in enumerate(steps):
            pending = {task.remote(shared, group, number): group for group in range(len(sizes))}
            _follow(pending, sizes, step == steps[-1], callback)
    here = {name: value for name, value in arguments.items() if name not in _NOT_HERE}
    return pack_here(**here, progress=False)


def _follow(
    pending: dict[ray.ObjectRef, int], sizes: list[int], last: bool, callback: NativeProgress | None
) -> None:
    """Waits for tasks, and tells the callback of each. The first error cancels the others."""
    done = [0, 0, 0, 0]
    try:
        while pending:
            (ready, *_), _ = ray.wait(list(pending), num_returns=1)
            group = pending.pop(ready)
            counts = (sizes[group], *ray.get(ready))
            done = [before + count for before, count in zip(done, counts, strict=True)]
            if callback is not None:
                bytes_, documents, tokens, rows = done
                callback("write" if last else "tokenize", bytes_, sum(sizes), documents, tokens, rows)
    except ray.exceptions.RayTaskError as failed:
        cause = failed.cause
        if isinstance(cause, _FilesystemFailed):
            cause = cause.raised
        raise (cause if isinstance(cause, BaseException) else failed) from None
    finally:
        for task in pending:
            ray.cancel(task)


class _FilesystemFailed(Exception):  # noqa: N818  it is raised for Ray alone
    """An exception of the caller's filesystem in a task. Ray retries the task."""

    def __init__(self, raised: Exception) -> None:
        super().__init__(raised)
        self.raised = raised


def _pack_group(arguments: Mapping[str, object], group: int, step: int) -> tuple[int, int, int]:
    """Takes a group through a step, in a process of the cluster. Returns its documents, tokens and rows."""
    storage = value_in(arguments, Storage)
    filesystem = choose_filesystem(storage.filesystem)
    # Told apart from other failures by what this object has raised.
    watched = dataclasses.replace(storage, filesystem=filesystem)  # type: ignore[arg-type]  # it is taken as it is
    try:
        report = _fastpack.pack_group(
            native_inputs({**arguments, "storage": watched}),
            native_output(arguments, recipe=recipe_of(arguments)),
            native_options(arguments),
            *native_model(arguments),
            group,
            step,
        )
    except Exception as failed:
        if filesystem is not None and filesystem.has_raised(failed):
            raise _FilesystemFailed(failed) from failed
        raise
    return report.documents.read, report.tokens.read, report.rows


def _remote_args(remote_args: Mapping[str, object] | None, decided: set[str]) -> dict[str, Any]:  # type: ignore[explicit-any]
    """Options for Ray that the caller gives, none of which this module has `decided`."""
    if remote_args is None:
        return {}
    check_type("remote_args", remote_args, Mapping, "a dict of options of `ray.remote`")
    for name in remote_args:
        if name in decided:
            message = f"must not have `{name}`, which has an argument of its own or is decided by fastpack"
            raise OptionError(message, "remote_args")
    return dict(remote_args)


@contextmanager
def _refused_by_ray() -> Iterator[None]:
    """Names `remote_args` in an error of Ray about its options: the others are checked before."""
    try:
        yield
    except (TypeError, ValueError) as refused:
        message = f"is refused by Ray: {reason_of(refused)}"
        raise OptionError(message, "remote_args") from refused


def _check_concurrency(concurrency: object) -> None:
    """Refuses what is neither a number of actors, nor the least and the most of them."""
    match concurrency:
        case tuple((least, most)):
            if whole_number("concurrency", least, 1) > whole_number("concurrency", most, 1):
                message = f"must be the least number of actors and the most, not `{shown(concurrency)}`"
                raise OptionError(message, "concurrency")
        case _:
            whole_number("concurrency", concurrency, 1)


def _refuse_unsent(filesystem: object) -> None:
    """Refuses a filesystem that cannot be made again in the processes of the cluster."""
    try:
        ray.cloudpickle.dumps(filesystem)
    except Exception as failed:  # what a filesystem raises is its own
        message = f"cannot be sent to the tasks of a cluster: {failed}"
        raise OptionError(message, "storage.filesystem") from failed


def _refuse_unknown(options: Mapping[str, object]) -> None:
    """Refuses options that `fastpack.pack_dir` does not have, or that Ray decides."""
    known = {option.name for option in options_of("pack_dir")}
    for name in options:
        if name in _NOT_HERE:
            reason = "is decided by Ray" if name in OPTIONS else "is none"
            message = f"{reason}; leave it out"
            raise OptionError(message, name)
        if name not in known:
            message = "is no option of `pack_dir`"
            raise OptionError(message, name)


class _Packer:
    """An actor that packs batches of records, and keeps the tokenizer."""

    def __init__(self, tokenizer: StrPath | None, options: dict[str, Any]) -> None:  # type: ignore[explicit-any]
        self._tokenizer = None if tokenizer is None else Tokenizer(tokenizer)
        self._options = options

    def __call__(self, records: pa.Table) -> Iterator[pa.Table]:
        """The rows of a batch of records, which are packed by themselves."""
        packed = pack_table(records, self._tokenizer, progress=False, **self._options)
        yield packed


def pack_dataset(  # type: ignore[explicit-any]  # the options are those of `fastpack.pack_table`
    dataset: Dataset,
    tokenizer: StrPath | None = None,
    *,
    batch_size: int = 10_000,
    concurrency: int | tuple[int, int] = 1,
    num_cpus: int = 1,
    remote_args: Mapping[str, Any] | None = None,
    **options: Any,  # noqa: ANN401
) -> Dataset:
    """Packs the records of a Ray `Dataset` into rows, as a `Dataset`.

    Each batch of records is packed by itself by an actor that keeps the tokenizer: large batches fill rows better. It is
    lazy, as all operations of a `Dataset` are. For a report of the whole, and rows that resume, write files and call
    `pack_dir`.

    Args:
        dataset: The records, of any of the shapes that files have.
        tokenizer: A folder, a `tokenizer.json` or a hub name, which each actor loads. Records that are ids need none.
        batch_size: The records of a batch.
        concurrency: The number of actors, or the least and the most of them.
        num_cpus: The cores of an actor, and its threads unless `threads` is given.
        remote_args: Further options of the actors, as `ray.remote` takes them.
        **options: Options of `fastpack.pack_table` but `output` and `validation`: `max_length` and so on.

    Returns:
        The rows: the columns that `fastpack.pack_table` returns.

    Raises:
        OptionError: An option has no use here, or is not as Ray takes it. Errors about records are raised when the rows are read.
    """
    check_type("dataset", dataset, Dataset, "a `ray.data.Dataset`")
    whole_number("num_cpus", num_cpus, 1)
    whole_number("batch_size", batch_size, 1)
    _check_concurrency(concurrency)
    decided = {"batch_format", "batch_size", "concurrency", "fn_constructor_args", "num_cpus"}
    remote_args = _remote_args(remote_args, decided)
    for name in ("output", "validation", "progress"):
        if name in options:
            message = "has no use for a `Dataset`, which is packed in batches; leave it out"
            raise OptionError(message, name)
    if options.get("threads") is None:
        options["threads"] = num_cpus
    with _refused_by_ray():
        # Of an actor, Ray would look at them when the rows are read.
        ray.remote(_Packer).options(num_cpus=num_cpus, **remote_args)
        return dataset.map_batches(
            _Packer,
            fn_constructor_args=(tokenizer, options),
            batch_size=batch_size,
            batch_format="pyarrow",
            concurrency=concurrency,
            num_cpus=num_cpus,
            **remote_args,
        )
