"""Puts the output of a job on the Hugging Face hub, as one commit of the finished folder."""

from __future__ import annotations

import dataclasses
import errno
import glob
import json
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from fastpack._fastpack import is_sealed
from fastpack.dataset.manifest import MANIFEST
from fastpack.errors import OptionError, OutputError, StorageError
from fastpack.options import OPTIONS
from fastpack.options.output import Exists, Groups
from fastpack.options.storage import Storage
from fastpack.storage.hub_errors import hub_errors_as
from fastpack.storage.remote_options import staged
from fastpack.storage.removal import remove_finished

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import huggingface_hub

__all__ = ["committed", "is_of_hub"]

_Done = TypeVar("_Done")

_NAMED: Final = 5
"""The most files that a message names."""

_FORM = re.compile(
    r"hf://datasets/(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[^/?]+))?(?:/(?P<path>[^?]*))?", re.IGNORECASE
)
"""The form of an output on the hub."""


def is_of_hub(output: object) -> bool:
    """True if an output is a data set of the hub, `hf://datasets/ORG/NAME`."""
    return isinstance(output, str) and output.lower().startswith("hf://")


def committed(arguments: Mapping[str, object], pack: Callable[[Mapping[str, object]], _Done]) -> _Done:
    """Runs a job in a folder of the local disk, commits the folder, and removes it.

    Args:
        arguments: The arguments of the call, with an `output` on the hub.
        pack: The call that packs into a folder.

    Returns:
        What `pack` returns.

    Raises:
        OptionError: The output has another form, several processes are to write it, or `huggingface_hub` is not installed.
        OutputError: The data set holds an output already, and is not to be overwritten.
        StorageError: The hub takes no commit.
    """
    output = str(arguments["output"])
    form = _FORM.fullmatch(output)
    if form is None:
        message = f"`{output}` must have the form hf://datasets/ORG/NAME[@REVISION][/PATH]"
        raise OptionError(message, "output")
    storage, exists, groups = (OPTIONS[name].value_in(arguments) for name in ("storage", "exists", "groups"))
    assert isinstance(storage, Storage) and isinstance(exists, Exists) and isinstance(groups, Groups)  # noqa: S101, PT018
    if groups.rank is not None or groups.world_size is not None:
        message = (
            f"cannot be given with an output on the hub, `{output}`, which one process commits; write to a folder or a "
            "bucket, and upload it"
        )
        raise OptionError(message, "groups.rank")
    try:
        import huggingface_hub  # noqa: PLC0415  slow to import, and needed for names of the hub only
    except ImportError:
        message = f"`{output}` needs the package `huggingface_hub`; install the extra `hub`"
        raise OptionError(message, "output") from None
    name, revision, path = form["name"], form["revision"], (form["path"] or "").strip("/")
    api = huggingface_hub.HfApi()
    folder = staged(output, storage.work_dir)
    manifest = f"{path}/{MANIFEST}" if path else MANIFEST

    def refusal(said: str) -> StorageError:
        return StorageError(errno.EIO, f"the hub takes no commit ({said})", output)

    with hub_errors_as(refusal):
        api.create_repo(name, repo_type="dataset", exist_ok=True)
        is_there = api.file_exists(name, manifest, repo_type="dataset", revision=revision)
        if is_there and exists.then != "overwrite":
            _tidy(api, name, manifest, revision, Path(folder))
            reason = 'holds an output of fastpack; `exists="overwrite"` replaces it'
            raise OutputError(errno.EEXIST, reason, output)
    here = {**arguments, "output": folder, "storage": dataclasses.replace(storage, work_dir=None)}
    if groups.size is not None:
        # Whatever ranks the environment names, this process packs alone.
        here["groups"] = dataclasses.replace(groups, rank=0, world_size=1)
    done = _packed(here, exists, pack)
    with hub_errors_as(refusal):
        # The hub refuses the commit if anything was committed since.
        head = api.dataset_info(name, revision=revision).sha
        there = _there(api, name, path, head)
        old = _listed(api, name, manifest, head, output) if is_there else {}
        _refuse_others(Path(folder), there, old, output)
        api.upload_folder(
            repo_id=name,
            repo_type="dataset",
            revision=revision,
            folder_path=folder,
            path_in_repo=path or None,
            commit_message="Add rows packed by fastpack",
            ignore_patterns=[".fastpack/**"],
            parent_commit=head,
            delete_patterns=[glob.escape(file) for file in old if file in there] or None,
        )
    if Path(folder).is_dir() and os.path.basename(folder).startswith("fastpack-"):
        remove_finished(Path(folder))
    return done


def _packed(
    arguments: Mapping[str, object], exists: Exists, pack: Callable[[Mapping[str, object]], _Done]
) -> _Done:
    """Packs into the folder of the local disk. An output of another job, whose commit was refused, is replaced there."""
    try:
        return pack({**arguments, "exists": dataclasses.replace(exists, then="error")})
    except OutputError:
        return pack({**arguments, "exists": dataclasses.replace(exists, then="overwrite")})


def _there(
    api: huggingface_hub.HfApi, name: str, path: str, revision: str | None
) -> dict[str, huggingface_hub.hf_api.RepoFile]:
    """The files below the path of the output on the hub, each with its size and the commit that changed it last."""
    from huggingface_hub.errors import EntryNotFoundError  # noqa: PLC0415  slow to import
    from huggingface_hub.hf_api import RepoFile  # noqa: PLC0415  likewise

    entries: dict[str, huggingface_hub.hf_api.RepoFile | huggingface_hub.hf_api.RepoFolder] = {}
    try:
        for entry in api.list_repo_tree(
            name,
            path_in_repo=path or None,
            recursive=True,
            expand=True,
            repo_type="dataset",
            revision=revision,
        ):
            # The pages of the list follow each other as the server says.
            if entry.path in entries:
                message = f"the hub lists `{entry.path}` twice, so its list may have no end"
                raise StorageError(errno.EIO, message, f"hf://datasets/{name}")
            entries[entry.path] = entry
    except EntryNotFoundError:
        return {}
    start = f"{path}/" if path else ""
    return {
        file.removeprefix(start): entry
        for file, entry in entries.items()
        if isinstance(entry, RepoFile) and file.startswith(start)
    }


def _listed(
    api: huggingface_hub.HfApi, name: str, manifest: str, revision: str | None, output: str
) -> dict[str, int]:
    """The files of an output on the hub and their sizes, as its manifest lists them: no others are removed with it."""
    text = _fetched(api, name, manifest, revision)
    try:
        # A manifest without a seal lists nothing.
        listed = json.loads(text if is_sealed(text) else b"null")
        sizes = {
            str(file["name"]): file["bytes"] for kind in ("files", "beside") for file in listed.get(kind, ())
        }
        if listed.get("tokens"):
            sizes["tokens.fastpack"] = listed["tokens"]["bytes"]
    except (ValueError, TypeError, AttributeError, KeyError):
        reason = "holds a `manifest.json` that fastpack did not write, or that has changed since; write to another folder of the data set"
        raise OutputError(errno.EEXIST, reason, output) from None
    return {**sizes, MANIFEST: len(text)}


def _refuse_others(
    folder: Path,
    there: Mapping[str, huggingface_hub.hf_api.RepoFile],
    old: Mapping[str, int],
    output: str,
) -> None:
    """Refuses to replace or remove files on the hub that the manifest there does not list, or that have changed since it was committed.

    Files that the hub itself makes, such as `.gitattributes`, are none of an output.
    """
    new = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    manifest = there.get(MANIFEST)

    def is_other(name: str) -> bool:
        return there[name].size != old.get(name) or manifest is None or _is_later(there[name], manifest)

    others = sorted(name for name in there if name in new | old.keys() and is_other(name))
    if others:
        named = ", ".join(f"`{name}`" for name in others[:_NAMED]) + (
            " and others" if others[_NAMED:] else ""
        )
        reason = f"holds files that fastpack did not write, or that have changed since: {named}; write to another folder of it"
        raise OutputError(errno.EEXIST, reason, output)


def _is_later(file: huggingface_hub.hf_api.RepoFile, manifest: huggingface_hub.hf_api.RepoFile) -> bool:
    """True if another commit changed a file when the manifest was committed or later. The seal of the manifest tells its own changes."""
    changed, committed = file.last_commit, manifest.last_commit
    if changed is None or committed is None:
        return True
    return changed.oid != committed.oid and changed.date >= committed.date


def _fetched(api: huggingface_hub.HfApi, name: str, file: str, revision: str | None) -> bytes:
    """The bytes of a small file of the hub."""
    with tempfile.TemporaryDirectory() as folder:
        path = api.hf_hub_download(name, file, repo_type="dataset", revision=revision, local_dir=folder)
        return Path(path).read_bytes()


def _tidy(api: huggingface_hub.HfApi, name: str, manifest: str, revision: str | None, folder: Path) -> None:
    """Removes the folder of the local disk if the hub holds its output: a run was killed after its commit."""
    try:
        here = (folder / MANIFEST).read_bytes()
    except OSError:
        return
    if _fetched(api, name, manifest, revision) == here:
        remove_finished(folder)
