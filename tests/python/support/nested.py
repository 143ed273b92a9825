"""`nested`: options by the flat names that they had, as the values that hold them now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import fastpack
from fastpack.options import OPTIONS
from fastpack.options.value import KIND, Value, fields_of, from_table, nondefault_fields, word_of

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELDS: Final[dict[str, str]] = {
    "align_documents_to": "strategy.align_to",
    "all_reduce": "ranks.all_reduce",
    "balance_ranks": "order.ranks",
    "block_cache": "storage.block_cache",
    "bos": "special_tokens.bos",
    "chat_template": "chat_template.source",
    "chat_template_kwargs": "chat_template.variables",
    "compression": "format.compression",
    "decode_arguments": "chat_template.decode_arguments",
    "drop_last": "strategy.drop_last",
    "eos": "special_tokens.eos",
    "examples": "reading.examples",
    "fields": "reading.fields",
    "filesystem": "storage.filesystem",
    "format": "format.name",
    "group_size": "groups.size",
    "hf_layout": "format.hf_layout",
    "lanes": "ranks.lanes",
    "layout": "format.layout",
    "max_document_tokens": "select.max_tokens",
    "max_documents_per_pack": "strategy.max_documents",
    "min_document_tokens": "select.min_tokens",
    "now": "chat_template.now",
    "on_end": "ranks.on_end",
    "on_exhausted": "weights.on_exhausted",
    "on_remainder": "order.on_remainder",
    "open_packs": "strategy.open_rows",
    "pad_to": "padding.to",
    "pad_token_id": "padding.token_id",
    "padding_side": "padding.side",
    "per_file": "format.per_file",
    "prompt": "reading.prompt",
    "rank": "ranks.rank",
    "recursive": "reading.recursive",
    "revision": "storage.revision",
    "separator": "reading.separator",
    "shape": "reading.shape",
    "shard_size": "format.shard_size",
    "shuffle": "strategy.shuffle",
    "shift_labels": "objective.shift_labels",
    "skip": "select.skip",
    "special_in_text": "special_tokens.in_text",
    "stopping_strategy": "weights.stopping_strategy",
    "storage_options": "storage.options",
    "stride": "select.stride",
    "take": "select.take",
    "template_engine": "chat_template.engine",
    "token": "storage.token",
    "train_on_eos": "special_tokens.train_on_eos",
    "truncation_side": "overlong.side",
    "wait": "exists.wait",
    "weight_unit": "weights.unit",
    "weights": "weights.shares",
    "where": "select.where",
    "work_dir": "storage.work_dir",
    "world_size": "ranks.world_size",
}
"""The option and the field that an option of before is now; `overwrite` and `sources` are words and lists of `exists` and `files`."""

GROUPED: Final[dict[str, str]] = {"rank": "groups.rank", "world_size": "groups.world_size"}
"""The places of ranks in a call with groups."""


IDLE: Final = frozenset({"max_documents", "on_remainder"})
"""Fields that were taken where they say nothing: rows of one document each, and rows that no ranks share."""


def place(option: str) -> str:
    """The place of an option that has an old name; any other name is returned unchanged."""
    return FIELDS.get(option, option)


class Flat:
    """The functions of `fastpack`, with options by their flat names."""

    def __getattr__(self, name: str) -> Any:
        """The function of this name."""
        if name == "stream":
            return lambda *arguments, **old: fastpack.stream(*arguments, **of_stream(old))
        return lambda *arguments, **old: getattr(fastpack, name)(*arguments, **nested(old))


flat = Flat()


def of_stream(old: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The arguments of a stream that were flat, whose `shuffle` is its own."""
    given = {name: value for name, value in old.items() if name != "shuffle"}
    own = {"shuffle": old["shuffle"]} if "shuffle" in old else {}
    return {**nested(given, base, strategy="best_fit"), **own}


def nested(old: Mapping[str, Any], base: Mapping[str, Any] | None = None, **words: str) -> dict[str, Any]:
    """The arguments of a call that were flat, over those of `base`; `words` are the words of options that are not among them.

    A field that says nothing where it stands, because it is empty or its word has none, is left out.
    """
    old = dict(old)
    if old.pop("overwrite", False):
        old["exists"] = "overwrite"
    if (sources := old.pop("sources", None)) is not None:
        old["files"] = sources
    given = {
        **(base or {}),
        **{name: value for name, value in old.items() if name not in FIELDS or isinstance(value, Value)},
    }
    old = {name: value for name, value in old.items() if not isinstance(value, Value)}
    places = {**FIELDS, **(GROUPED if "group_size" in old or "groups" in given else {})}
    for option in dict.fromkeys(places[name].partition(".")[0] for name in old if name in places):
        kinds = OPTIONS[option].kinds
        only = kinds.get(option)
        before = given.get(option)
        inner = (
            {name: getattr(before, name) for name in nondefault_fields(before)}
            if isinstance(before, Value)
            else {}
        )
        if only and only.plain and not isinstance(before, Value) and before is not None:
            inner = {only.plain: before}
        word = option if only else word_of(before or words.get(option, OPTIONS[option].default))
        for name, place in places.items():
            holder, _, field = place.partition(".")
            if holder == option and old.get(name) is not None:
                inner[field] = old[name]
        usual = {field.name: field.default for field in fields_of(kinds.values())}
        if word is None and any(
            inner.get(field, usual[field]) != usual[field] for field in usual if field not in IDLE
        ):
            word = next(iter(kinds))
        if word not in kinds:
            continue
        known = {field.name for field in fields_of([kinds[word]])}
        inner = {
            field: value
            for field, value in inner.items()
            if field in known or (value != usual.get(field) and field not in IDLE)
        }
        if inner:
            given[option] = from_table(option, {KIND: word, **inner}, kinds)
    return given
