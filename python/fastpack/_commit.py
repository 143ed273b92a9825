"""Puts the output of a job on the Hugging Face hub, as one commit of the finished folder."""

from __future__ import annotations

import errno
import glob
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fastpack._fastpack import is_sealed
from fastpack._storage import staged
from fastpack.errors import OptionError, OutputError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import huggingface_hub

__all__ = ["committed", "is_of_hub"]

_Done = TypeVar("_Done")

_FORM = re.compile(
    r"hf://datasets/(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[^/?]+))?(?:/(?P<path>[^?]*))?", re.IGNORECASE
)
"""The form of an output on the hub."""


def is_of_hub(output: object) -> bool:
    """Whether an output is a data set of the hub, `hf://datasets/ORG/NAME`."""
    return isinstance(output, str) and output.lower().startswith("hf://")


def committed(given: Mapping[str, object], pack: Callable[[Mapping[str, object]], _Done]) -> _Done:
    """Runs a job in a folder of the local disk, commits the folder, and removes it.

    Args:
        given: The arguments of the call, with an `output` on the hub.
        pack: What packs into a folder.

    Returns:
        What `pack` returns.

    Raises:
        OptionError: The output has another form, several processes are to write it, or `huggingface_hub` is not installed.
        OutputError: The data set holds an output already, and is not to be overwritten.
        StorageError: The hub takes no commit.
    """
    output = str(given["output"])
    form = _FORM.fullmatch(output)
    if form is None:
        message = f"`{output}` must have the form hf://datasets/ORG/NAME[@REVISION][/PATH]"
        raise OptionError(message, "output")
    if given.get("rank") is not None or given.get("world_size") is not None:
        message = (
            f"cannot be given with an output on the hub, `{output}`, which one process commits; write to a folder or a "
            "bucket, and upload it"
        )
        raise OptionError(message, "rank")
    try:
        import huggingface_hub  # noqa: PLC0415  slow to import, and needed for names of the hub only
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError  # noqa: PLC0415
    except ImportError:
        message = f"`{output}` needs the package `huggingface_hub`; install the extra `hub`"
        raise OptionError(message, "output") from None
    name, revision, path = form["name"], form["revision"], (form["path"] or "").strip("/")
    api = huggingface_hub.HfApi()
    folder = staged(output, given.get("work_dir"))
    try:
        api.create_repo(name, repo_type="dataset", exist_ok=True)
        manifest = f"{path}/manifest.json" if path else "manifest.json"
        is_there = api.file_exists(name, manifest, repo_type="dataset", revision=revision)
        if is_there and not given.get("overwrite"):
            reason = "holds an output of fastpack; `overwrite=True` replaces it"
            raise OutputError(errno.EEXIST, reason, output)
        old = _listed(api, name, manifest, revision, output) if is_there else None
        done = _packed({**given, "output": folder, "work_dir": None}, pack)
        api.upload_folder(
            repo_id=name,
            repo_type="dataset",
            revision=revision,
            folder_path=folder,
            path_in_repo=path or None,
            commit_message="Add rows packed by fastpack",
            ignore_patterns=[".fastpack/**"],
            delete_patterns=old,
        )
    except (HFValidationError, HfHubHTTPError) as refused:
        said = str(refused).strip().splitlines()
        reason = f"the hub takes no commit ({said[0] if said else type(refused).__name__})"
        raise StorageError(errno.EIO, reason, output) from refused
    if Path(folder).is_dir() and os.path.basename(folder).startswith("fastpack-"):
        shutil.rmtree(folder)
    return done


def _packed(given: Mapping[str, object], pack: Callable[[Mapping[str, object]], _Done]) -> _Done:
    """Packs into the folder of the local disk. An output of another job, whose commit was refused, is replaced there."""
    try:
        return pack({**given, "overwrite": False})
    except OutputError:
        return pack({**given, "overwrite": True})


def _listed(
    api: huggingface_hub.HfApi, name: str, manifest: str, revision: str | None, output: str
) -> list[str]:
    """The files of an output on the hub, as its manifest lists them: no others are removed with it."""
    with tempfile.TemporaryDirectory() as folder:
        path = api.hf_hub_download(name, manifest, repo_type="dataset", revision=revision, local_dir=folder)
        text = Path(path).read_bytes()
    try:
        # What has no seal lists nothing.
        listed = json.loads(text if is_sealed(text) else b"null")
        names = [str(file["name"]) for kind in ("files", "beside") for file in listed.get(kind, ())]
        tokens = ["tokens.fastpack"] if listed.get("tokens") else []
    except (ValueError, TypeError, AttributeError, KeyError):
        reason = "holds a `manifest.json` that fastpack did not write, or that has changed since; write to another folder of the data set"
        raise OutputError(errno.EEXIST, reason, output) from None
    return [glob.escape(name) for name in names + tokens]
