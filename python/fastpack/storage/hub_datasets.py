"""Finds the files of data sets on the Hugging Face hub: `hf://datasets/ORG/NAME[@REV][/PATH][?config=...&split=...]`."""

from __future__ import annotations

import errno
import re
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from fastpack.errors import InputNotFoundError, OptionError
from fastpack.storage.hub_errors import hub_errors_as

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import huggingface_hub

__all__ = ["files_in_folder", "files_of_hub"]

_T = TypeVar("_T")

_FORM = re.compile(
    r"hf://datasets/(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[^/?]+(?:/convert/parquet)?))?"
    r"(?:/(?P<path>[^?]*))?(?:\?(?P<query>.*))?",
    re.IGNORECASE,
)
"""The form of a name of a data set."""

_CONVERTED = "refs/convert/parquet"
"""The branch on which the hub keeps the rows of a data set as Parquet."""

_DATA = (
    ".jsonl", ".ndjson", ".json", ".parquet", ".arrow", ".csv", ".tsv", ".txt", ".cbor",
    ".jsonl.gz", ".jsonl.zst", ".json.gz", ".json.zst", ".csv.gz", ".txt.gz", ".jsonl.xz", ".jsonl.bz2",
)  # fmt: skip
"""The ends of the names of files of records."""

_SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
"""The words in paths by which files without a description belong to a split."""

_NAMED_IN_MESSAGES = 20
"""The most configurations or splits that a message lists."""


class _DatasetName(NamedTuple):
    """The parts of the name of a data set.

    Attributes:
        text: The name as it was written.
        name: `ORG/NAME`.
        revision: A branch, tag or commit, if one is named.
        path: A file, a folder or a glob in the repository, if one is named.
        config: The configuration, if one is named.
        split: The split, if one is named.
    """

    text: str
    name: str
    revision: str | None
    path: str
    config: str | None
    split: str | None


def files_of_hub(text: str) -> list[tuple[str, str, dict[str, str]]]:
    """The files that a name of the hub stands for, in order: the name, the URL and the headers of each.

    Raises:
        OptionError: The name has another form; it has several configurations or splits, and names none of them.
        InputNotFoundError: The hub has no such data set or file, or cannot be reached.
    """
    return _resolved(_parse(text), _find)


def files_in_folder(text: str) -> list[tuple[str, str, dict[str, str]]]:
    """All files of a folder of a data set, whatever they hold, as `files_of_hub` gives them.

    Raises:
        OptionError: The name has another form.
        InputNotFoundError: The hub has no such data set, or cannot be reached.
    """
    return _resolved(_parse(text), _folder)


def _resolved(
    dataset: _DatasetName, find: Callable[[huggingface_hub.HfApi, _DatasetName], tuple[str, list[str]]]
) -> list[tuple[str, str, dict[str, str]]]:
    """The files that `find` finds on the hub."""
    text = dataset.text
    try:
        import huggingface_hub  # noqa: PLC0415  slow to import, and needed for names of the hub only
    except ImportError:
        message = f"`{text}` needs the package `huggingface_hub`; install the extra `hub`"
        raise OptionError(message, "files") from None
    api = huggingface_hub.HfApi()

    def refusal(said: str) -> InputNotFoundError:
        return InputNotFoundError(errno.ENOENT, f"not to be had from the hub ({said})", text)

    with hub_errors_as(refusal):
        revision, paths = find(api, dataset)
    token = huggingface_hub.get_token()
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return [
        (
            f"hf://datasets/{dataset.name}@{revision}/{path}",
            huggingface_hub.hf_hub_url(
                dataset.name, path, repo_type="dataset", revision=revision, endpoint=api.endpoint
            ),
            headers,
        )
        for path in paths
    ]


def _parse(text: str) -> _DatasetName:
    form = _FORM.fullmatch(text)
    query = dict(parse_qsl(form["query"] or "")) if form else {}
    if form is None or set(query) - {"config", "split"}:
        message = (
            f"`{text}` must have the form hf://datasets/ORG/NAME[@REVISION][/PATH][?config=NAME&split=NAME]"
        )
        raise OptionError(message, "files")
    path = (form["path"] or "").strip("/")
    if path and query:
        message = f"`{text}` names a path and a config or split; leave one of them out"
        raise OptionError(message, "files")
    return _DatasetName(text, form["name"], form["revision"], path, query.get("config"), query.get("split"))


def _find(api: huggingface_hub.HfApi, dataset: _DatasetName) -> tuple[str, list[str]]:
    """The commit, and the paths of the files in it."""
    info = api.dataset_info(dataset.name, revision=dataset.revision)
    files = sorted(file.rfilename for file in info.siblings or ())
    if dataset.path:
        return str(info.sha), _at_path(dataset, files)
    is_script = f"{dataset.name.rpartition('/')[2]}.py" in files
    if is_script:
        # The rows of a data set that is a program are on a branch that the hub makes.
        info = api.dataset_info(dataset.name, revision=_CONVERTED)
        files = sorted(file.rfilename for file in info.siblings or ())
        described = _converted(files)
    else:
        card = getattr(info, "card_data", None)
        described = _described(getattr(card, "configs", None), files) or {"default": _guessed(files)}
    splits = _one(dataset, "config", described, dataset.config)
    return str(info.sha), _one(dataset, "split", splits, dataset.split)


def _folder(api: huggingface_hub.HfApi, dataset: _DatasetName) -> tuple[str, list[str]]:
    """The commit, and the paths of all files below the path."""
    info = api.dataset_info(dataset.name, revision=dataset.revision)
    files = sorted(file.rfilename for file in info.siblings or ())
    start = f"{dataset.path}/" if dataset.path else ""
    return str(info.sha), [file for file in files if file.startswith(start)]


def _at_path(dataset: _DatasetName, files: Sequence[str]) -> list[str]:
    """The files at a path, below a folder or of a glob."""
    if dataset.path in files:
        return [dataset.path]
    below = [file for file in files if file.startswith(f"{dataset.path}/") and file.endswith(_DATA)]
    found = below or [file for file in files if _matches(file, dataset.path)]
    if not found:
        raise InputNotFoundError(
            errno.ENOENT, "the data set has no such file, and no folder with files of records", dataset.text
        )
    return found


def _matches(path: str, pattern: str) -> bool:
    """True if a glob matches a path: `*` stays within a folder, `**` does not."""
    parts, wanted = path.split("/"), pattern.split("/")
    if "**" in wanted:
        at = wanted.index("**")
        head, tail = wanted[:at], wanted[at + 1 :]
        if len(parts) < len(head) + len(tail):
            return False
        return _matches("/".join(parts[: len(head)]), "/".join(head)) and any(
            _matches("/".join(parts[start:]), "/".join(tail))
            for start in range(len(head), len(parts) - len(tail) + 1)
        )
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _described(configs: object, files: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """The files of each split of each configuration, as the card of the data set has them."""
    found: dict[str, dict[str, list[str]]] = {}
    for config in configs if isinstance(configs, list) else ():
        if not isinstance(config, dict):
            continue
        base, listed = str(config.get("data_dir") or ""), config.get("data_files")
        if listed is None:
            inside = [file for file in files if not base or file.startswith(f"{base}/")]
            found[str(config.get("config_name"))] = _guessed(inside)
            continue
        splits: dict[str, list[str]] = {}
        for entry in listed if isinstance(listed, list) else [listed]:
            split, patterns = (
                (entry.get("split"), entry.get("path")) if isinstance(entry, dict) else ("train", entry)
            )
            for pattern in patterns if isinstance(patterns, list) else [patterns]:
                wanted = str(PurePosixPath(base) / str(pattern))
                splits.setdefault(str(split), []).extend(file for file in files if _matches(file, wanted))
        found[str(config.get("config_name"))] = splits
    return found


def _guessed(files: Iterable[str]) -> dict[str, list[str]]:
    """The files of each split, by words in their paths; all are `train` if no path has any."""
    data = [file for file in files if file.endswith(_DATA) and not file.startswith(".")]
    splits: dict[str, list[str]] = {}
    for file in data:
        words = set(re.split(r"[^a-z]+", file.lower()))
        for split, names in _SPLITS.items():
            if words & set(names):
                splits.setdefault(split, []).append(file)
                break
    return splits or ({"train": data} if data else {})


def _converted(files: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """The files on the Parquet branch, which are named `config/split/0000.parquet`."""
    found: dict[str, dict[str, list[str]]] = {}
    for file in files:
        parts = file.split("/")
        if len(parts) == 3 and file.endswith(".parquet"):  # noqa: PLR2004  config, split and file
            found.setdefault(parts[0], {}).setdefault(parts[1].removeprefix("partial-"), []).append(file)
    return found


def _one(dataset: _DatasetName, kind: str, known: dict[str, _T], named: str | None) -> _T:
    """The configuration or split that is named, or the only one."""
    if named is None and len(known) == 1:
        return next(iter(known.values()))
    if named is not None and named in known:
        return known[named]
    if not known:
        raise InputNotFoundError(errno.ENOENT, "the data set has no files of records", dataset.text)
    names = ", ".join(f"`{name}`" for name in list(known)[:_NAMED_IN_MESSAGES])
    more = "" if len(known) <= _NAMED_IN_MESSAGES else f" and {len(known) - _NAMED_IN_MESSAGES} more"
    fault = f"has several {kind}s" if named is None else f"has no {kind} `{named}`"
    message = f"`{dataset.text}` {fault}; name one by `?{kind}=NAME`: {names}{more}"
    raise OptionError(message, "files")
