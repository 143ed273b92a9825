"""The names that other tools have for the options, words and columns of fastpack."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from fastpack.arguments.checks import nearest
from fastpack.arguments.message import Message, Setting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "FOREIGN_COMMANDS",
    "FOREIGN_NAMES",
    "FOREIGN_OPTIONS",
    "FOREIGN_WORDS",
    "INSTEAD",
    "MOVED",
    "OPTION_ADVICE",
    "WORD_ADVICE",
    "meant_word",
]

_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "max_length": (
        "block_size",
        "chunk_size",
        "context_length",
        "context_window",
        "cutoff_len",
        "max_len",
        "max_seq_len",
        "max_seq_length",
        "max_sequence_length",
        "max_tokens",
        "model_max_length",
        "pack_length",
        "pack_size",
        "seq_len",
        "seq_length",
        "seqlen",
        "sequence_len",
        "sequence_length",
        "target_length",
    ),
    "strategy": ("algorithm", "bin_packing", "method", "pack_strategy", "packing_method", "packing_strategy"),
    "overlong": ("long_sequences", "on_overlong", "too_long", "truncation_mode"),
    "seed": ("packing_seed", "random_seed", "random_state", "rng", "shuffle_seed"),
    "padding": ("pad_length", "pad_to", "pad_to_max_length", "pad_to_multiple_of", "pad_to_sequence_len"),
    "columns": ("column_names", "fields_to_keep", "output_columns"),
    "tokenizer": (
        "model",
        "model_id",
        "model_name",
        "model_name_or_path",
        "processing_class",
        "processor",
        "tokenizer_name",
        "tokenizer_name_or_path",
        "tokenizer_path",
    ),
    "chat_template": ("chat_template_path", "conversation_template", "jinja_template", "template"),
    "files": (
        "data",
        "data_files",
        "data_path",
        "dataset",
        "dataset_path",
        "file",
        "input",
        "input_file",
        "input_files",
        "inputs",
        "path",
        "paths",
        "train_file",
    ),
    "output": ("dest", "destination", "out", "out_dir", "output_dir", "output_path", "save_path", "save_to"),
    "format": ("file_format", "filetype", "fmt", "out_format", "output_format"),
    "validation": (
        "eval_size",
        "holdout",
        "test_size",
        "val_set_size",
        "val_size",
        "val_split",
        "validation_size",
        "validation_split",
    ),
    "cache_dir": ("cache", "cache_folder", "cache_path", "dataset_prepared_path"),
    "filter": ("filter_fn", "predicate"),
    "map": ("function", "map_fn", "preprocess", "preprocessing_fn", "transform"),
    "on_bad_record": ("errors", "ignore_errors", "on_error", "skip_bad", "skip_errors"),
    "max_lost": ("max_dropped", "max_loss"),
    "threads": (
        "dataset_num_proc",
        "jobs",
        "n_jobs",
        "n_threads",
        "nproc",
        "num_proc",
        "num_processes",
        "num_threads",
        "num_workers",
        "preprocessing_num_workers",
        "workers",
    ),
    "progress": ("progress_bar", "quiet", "show_progress", "tqdm", "verbose"),
    "memory": ("max_memory", "memory_limit"),
}

FOREIGN_OPTIONS: Final[dict[str, str]] = {name: option for option, names in _NAMES.items() for name in names}
"""Our option, by the name that another tool has for it: TRL, Axolotl, Megatron, NeMo, datasets, tokenizers."""


def _set(option: str, value: object, effect: str) -> Message:
    """The sentence that a setting has an effect."""
    return Message("`", Setting(option, value), f"` {effect}")


_MOVED: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("objective.probability", "MaskedLM"): ("mlm_probability", "mask_prob"),
    ("objective.mask_replace_prob", "MaskedLM"): ("mask_replace_prob",),
    ("objective.random_replace_prob", "MaskedLM"): ("random_replace_prob",),
    ("objective.whole_words", "MaskedLM"): ("whole_word_mask",),
    ("objective.noise_density", "SpanCorruption"): ("noise_density",),
    ("objective.mean_noise_span_length", "SpanCorruption"): ("mean_noise_span_length",),
    ("objective.mean_gap_length", "SpanCorruption"): ("mean_gap_length",),
    ("objective.max_target_length", "SpanCorruption"): ("max_target_length",),
    ("objective.rate", "FillInMiddle"): ("fim_rate",),
    ("objective.spm_rate", "FillInMiddle"): ("fim_spm_rate",),
    ("objective.tokens", "FillInMiddle"): ("fim_tokens",),
    ("objective.form", "Preference"): ("preference_form",),
    ("objective.function", "Custom"): ("objective_function",),
    ("objective.fingerprint", "Custom"): ("objective_function_fingerprint",),
    ("padding.side", "Padding"): ("padding_side",),
    ("padding.token_id", "Padding"): ("pad_token_id", "pad_id", "pad_token", "padding_value"),
    ("chat_template.variables", "ChatTemplate"): ("chat_template_kwargs", "template_args", "template_kwargs"),
    ("chat_template.engine", "ChatTemplate"): ("template_engine",),
    ("chat_template.now", "ChatTemplate"): ("now",),
    ("chat_template.decode_arguments", "ChatTemplate"): ("decode_arguments",),
    ("special_tokens.eos", "SpecialTokens"): (
        "eos",
        "add_eos",
        "add_eos_token",
        "append_eod",
        "append_eos",
        "eos_token",
    ),
    ("special_tokens.bos", "SpecialTokens"): ("bos", "add_bos", "add_bos_token", "bos_token", "prepend_bos"),
    ("special_tokens.in_text", "SpecialTokens"): ("special_in_text",),
    ("special_tokens.train_on_eos", "SpecialTokens"): ("train_on_eos",),
    ("objective.shift_labels", "CausalLM"): ("shift_labels",),
    ("storage.options", "Storage"): ("storage_options",),
    ("storage.filesystem", "Storage"): ("filesystem", "fs"),
    ("storage.token", "Storage"): ("token", "api_token", "auth_token", "hf_token", "use_auth_token"),
    ("storage.revision", "Storage"): ("revision",),
    ("storage.block_cache", "Storage"): ("block_cache",),
    ("storage.work_dir", "Storage"): ("work_dir",),
    ("reading.shape", "Reading"): ("shape",),
    ("reading.fields", "Reading"): ("fields",),
    ("reading.prompt", "Reading"): ("prompt",),
    ("reading.examples", "Reading"): ("examples",),
    ("reading.separator", "Reading"): ("separator",),
    ("reading.recursive", "Reading"): ("recursive",),
    ("format.compression", "Format"): ("compression", "codec", "compress"),
    ("format.layout", "Format"): ("layout",),
    ("format.per_file", "Format"): ("per_file",),
    ("format.hf_layout", "Format"): ("hf_layout",),
    ("format.shard_size", "Format"): ("shard_size", "max_shard_size", "rows_per_shard", "shard_bytes"),
    ("groups.size", "Groups"): ("group_size",),
    ("exists.wait", "Exists"): ("wait",),
    ("select.where", "Select"): ("where",),
    ("select.skip", "Select"): ("skip",),
    ("select.take", "Select"): ("take",),
    ("select.stride", "Select"): ("stride",),
    ("select.min_tokens", "Select"): ("min_document_tokens",),
    ("select.max_tokens", "Select"): ("max_document_tokens",),
    ("weights.unit", "Weights"): ("weight_unit",),
    ("weights.on_exhausted", "Weights"): ("on_exhausted",),
    ("weights.stopping_strategy", "Weights"): ("stopping_strategy",),
    ("ranks.lanes", "Ranks"): ("lanes",),
    ("ranks.on_end", "Ranks"): ("on_end",),
    ("ranks.all_reduce", "Ranks"): ("all_reduce",),
    ("order.on_remainder", "Balanced"): ("on_remainder",),
    ("overlong.side", "Truncate"): ("truncation_side", "truncate_side"),
    ("strategy.drop_last", "Concat"): ("drop_last", "drop_incomplete", "drop_remainder", "tail"),
    ("strategy.open_rows", "BestFit"): ("open_packs",),
    ("strategy.shuffle", "Sequential"): ("shuffle", "shuffle_documents"),
    ("strategy.max_documents", "Mix"): (
        "max_documents_per_pack",
        "max_docs_per_pack",
        "max_num_seqs",
        "max_seqs_per_bin",
        "max_seqs_per_pack",
        "max_sequences_per_pack",
        "packing_max_sequences",
    ),
    ("strategy.align_to", "Mix"): (
        "align_documents_to",
        "pad_docs_to",
        "pad_seq_to_mult",
        "pad_sequences_to",
        "sequence_parallel_multiple",
    ),
}
"""Names of options that are fields of a value, by the place of the field and the value."""

_CLASSES: Final = ("classes", "label_names", "num_classes")
"""Names of the option `objective.classes`, which two values hold."""

_RANKS: Final = ("balance_ranks", "data_parallel_size", "dp_size", "num_ranks", "num_replicas")
"""Names of the option `order.ranks`, which is the first argument of its value."""

MOVED: Final[dict[str, str]] = {
    **{name: place for (place, _), names in _MOVED.items() for name in names},
    **dict.fromkeys(_RANKS, "order.ranks"),
    **dict.fromkeys(_CLASSES, "objective.classes"),
    "filter_fingerprint": "filter.fingerprint",
    "map_fingerprint": "map.fingerprint",
}
"""The places of options that are fields of a value, by the names that they had or have in another tool."""


def _held_by(place: str, value: str) -> Message:
    """The sentence that a value holds an option."""
    option, _, field = place.partition(".")
    such = "a value such as " if place in {"strategy.align_to", "strategy.max_documents"} else ""
    return Message("`", option, f"` takes {such}`{value}({field}=...)`, which holds that option")


INSTEAD: Final[dict[str, str]] = {
    "epochs": "objectives that draw anew for each copy of a document hold `copies`, such as `MaskedLM(copies=2)`",
}
"""Advice for options of other functions."""

OPTION_ADVICE: Final[dict[str, str]] = {
    "packing": 'rows are always packed; `strategy="none"` gives a row per document',
    "append": _set("exists", "append", "adds the files to those that the folder was packed of"),
    "truncation": _set("overlong", "truncate", "cuts what is longer than a row"),
    "return_tensors": "rows are Arrow; `fastpack.torch.collate` makes tensors of them",
    "batched": "fastpack reads in batches by itself; leave it out",
    "remove_columns": "`columns` names the columns that rows have",
    "add_special_tokens": "`special_tokens` takes `SpecialTokens(eos=..., bos=...)`",
    "add_generation_prompt": "a conversation that is trained on ends with its answer; leave it out",
    "mask_history": _set("turns", "last", "trains the last turn alone"),
    "train_on_last_turn": _set("turns", "last", "trains the last turn alone"),
    "completion_only_loss": _set("train_on", "completion", "trains the completions alone"),
    "completions_only": _set("train_on", "completion", "trains the completions alone"),
    "assistant_only_loss": _set("train_on", "assistant", "trains what the assistant writes alone"),
    "mask_inputs": _set("train_on", "completion", "trains no prompt"),
    "mask_prompt": _set("train_on", "completion", "trains no prompt"),
    "train_on_input": _set("train_on", "all", "trains prompts too"),
    "train_on_inputs": _set("train_on", "all", "trains prompts too"),
    "train_on_prompt": _set("train_on", "all", "trains prompts too"),
    "roles_to_train": "`train_on` takes a `TrainOn` with the `roles`; `train` and `weight` of a message win over it",
    **{name: _held_by(place, value) for (place, value), names in _MOVED.items() for name in names},
    **dict.fromkeys(
        _CLASSES,
        "`objective` takes `Classification(classes=...)` or `MultiLabel(classes=...)`, which hold that option",
    ),
    **dict.fromkeys(
        ("overwrite", "exist_ok", "force", "overwrite_output_dir"),
        _set("exists", "overwrite", "replaces what fastpack wrote before"),
    ),
    **{
        name: Message("`", option, "` takes ", value, ", which holds that option")
        for (option, value), names in {
            ("files", "a list of dicts with a `path`"): ("sources",),
            ("ranks", "`Ranks(rank=..., world_size=...)`, as `groups` does `Groups(...)`"): (
                "rank",
                "world_size",
            ),
            ("order", "`Balanced(ranks, on_remainder=...)`"): _RANKS,
        }.items()
        for name in names
    },
    "filter_fingerprint": "`filter` takes a `Function`, which holds its fingerprint",
    "map_fingerprint": "`map` takes a `Function`, which holds its fingerprint",
    "text_field": _set("reading.fields", {"text": "..."}, "names the field"),
    "text_column": _set("reading.fields", {"text": "..."}, "names the field"),
    "text_column_name": _set("reading.fields", {"text": "..."}, "names the field"),
    "dataset_text_field": _set("reading.fields", {"text": "..."}, "names the field"),
    "message_field": _set("reading.fields", {"messages": "..."}, "names the field"),
    "messages_field": _set("reading.fields", {"messages": "..."}, "names the field"),
    "messages_column": _set("reading.fields", {"messages": "..."}, "names the field"),
    "conversation_column": _set("reading.fields", {"messages": "..."}, "names the field"),
    "field_messages": _set("reading.fields", {"messages": "..."}, "names the field"),
    "prompt_field": _set("reading.fields", {"prompt": "..."}, "names the field"),
    "prompt_column": _set("reading.fields", {"prompt": "..."}, "names the field"),
    "completion_field": _set("reading.fields", {"completion": "..."}, "names the field"),
    "formatting_func": "`map` takes a function of record batches, `prompt` a text with places",
    "limit": _set("files", [{"path": "...", "limit": 1000}], "reads the first records"),
    "max_examples": _set("files", [{"path": "...", "limit": 1000}], "reads the first records"),
    "max_records": _set("files", [{"path": "...", "limit": 1000}], "reads the first records"),
    "max_samples": _set("files", [{"path": "...", "limit": 1000}], "reads the first records"),
    "num_samples": _set("files", [{"path": "...", "limit": 1000}], "reads the first records"),
    "split": "`validation` sets documents aside; a table is of one split",
    "streaming": "`fastpack.stream` packs while it reads",
}
"""A sentence for an option of another tool that is no single option here."""

FOREIGN_WORDS: Final[dict[str, dict[str, str]]] = {
    "strategy": {
        **dict.fromkeys(("bfd", "best", "bestfit", "bf", "best_fit_decreasing", "bfd_split"), "best_fit"),
        **dict.fromkeys(
            ("ffd", "first_fit", "first_fit_decreasing", "first_fit_shuffle", "ff", "binpack", "auto"), "mix"
        ),
        **dict.fromkeys(("wrapped", "wrap", "concatenate", "chunk", "chunked", "concat_chunk"), "concat"),
        **dict.fromkeys(("greedy", "next_fit", "online", "nf"), "sequential"),
        **dict.fromkeys(("off", "false", "no", "no_packing", "unpacked"), "none"),
    },
    "objective": {
        **dict.fromkeys(("clm", "lm", "sft", "language_modeling", "causal_lm", "next_token"), "causal"),
        **dict.fromkeys(("masked", "masked_lm", "bert"), "mlm"),
        **dict.fromkeys(("t5", "span_corruption", "spans"), "span"),
        **dict.fromkeys(("infill", "infilling", "fill_in_the_middle"), "fim"),
        **dict.fromkeys(("dpo", "orpo", "simpo", "cpo", "ipo", "reward", "rm", "preferences"), "preference"),
        **dict.fromkeys(("grpo", "ppo", "rl", "rlhf", "rloo", "prompt", "prompts", "generate"), "generation"),
        **dict.fromkeys(("cls", "classifier", "sequence_classification", "classify"), "classification"),
        **dict.fromkeys(("multilabel", "multi_label_classification"), "multi_label"),
    },
    "overlong": {
        **dict.fromkeys(("trunc", "cut", "clip", "truncation", "longest_first"), "truncate"),
        **dict.fromkeys(("skip", "filter", "remove", "discard", "ignore"), "drop"),
        **dict.fromkeys(("chunk", "wrap", "wrapped"), "split"),
        **dict.fromkeys(("raise", "fail", "strict"), "error"),
    },
    "train_on": {
        **dict.fromkeys(("completions", "completion_only", "response", "responses", "answer"), "completion"),
        **dict.fromkeys(
            ("assistants", "assistant_only", "gpt", "model", "assistant_tokens", "turns"), "assistant"
        ),
        **dict.fromkeys(("full", "everything", "inputs", "prompt", "text"), "all"),
    },
    "turns": {
        **dict.fromkeys(("last_assistant", "last_turn", "final"), "last"),
        **dict.fromkeys(("all", "every", "turn", "split"), "each"),
        **dict.fromkeys(("single", "one", "conversation"), "whole"),
    },
    "special_tokens.train_on_eos": {
        "false": "none",
        "true": "turn",
        "no": "none",
        **dict.fromkeys(("all", "every", "yes"), "turn"),
    },
    "special_tokens.in_text": {
        **dict.fromkeys(("allow", "parse", "special", "false"), "encode"),
        **dict.fromkeys(("sanitize", "text", "escape", "plain", "true"), "split"),
        **dict.fromkeys(("raise", "disallow", "refuse"), "error"),
    },
    "overlong.side": {"start": "left", "beginning": "left", "end": "right"},
    "padding.side": {"start": "left", "beginning": "left", "end": "right"},
    "order": {
        **dict.fromkeys(("shuffled", "random"), "shuffle"),
        **dict.fromkeys(("sorted", "original", "in_order", "sequential"), "input"),
        "balance": "balanced",
    },
    "order.on_remainder": {"padding": "pad", "skip": "drop", "duplicate": "repeat"},
    "ranks.on_end": {"padding": "pad", "drop_last": "drop", "duplicate": "repeat", "wrap": "repeat"},
    "chat_template.engine": {
        **dict.fromkeys(("jinja", "jinja2", "transformers", "hf"), "python"),
        **dict.fromkeys(("rust", "fast", "compiled"), "native"),
    },
    "on_bad_record": {
        **dict.fromkeys(("ignore", "drop", "warn", "continue"), "skip"),
        **dict.fromkeys(("raise", "fail", "strict", "stop"), "error"),
    },
    "reading.shape": {
        **dict.fromkeys(("chat", "chats", "messages", "sharegpt", "chatml", "openai"), "conversations"),
        **dict.fromkeys(("alpaca", "instruct", "instructions"), "instruction"),
        **dict.fromkeys(("qa", "question"), "question_answer"),
        **dict.fromkeys(("completion", "completions"), "prompt_completion"),
        **dict.fromkeys(("ids", "tokenized", "pretokenized", "input_ids"), "tokens"),
        **dict.fromkeys(("plain", "raw", "corpus"), "text"),
    },
    "reading.fields": {
        **dict.fromkeys(
            ("message", "conversation", "conversations", "dialog", "dialogue", "turns"), "messages"
        ),
        **dict.fromkeys(("response", "answers", "target", "targets", "completions"), "completion"),
        **dict.fromkeys(("content", "texts", "body"), "text"),
        **dict.fromkeys(("system_prompt", "system_message"), "system"),
        **dict.fromkeys(("ids", "tokens"), "input_ids"),
        **dict.fromkeys(("assistant_mask", "completion_mask"), "assistant_masks"),
        **dict.fromkeys(("mask",), "attention_mask"),
        **dict.fromkeys(("image", "picture", "pictures", "photo", "photos"), "images"),
        **dict.fromkeys(("query", "inputs"), "prompt"),
        **dict.fromkeys(("good", "better", "preferred", "accepted", "winner", "win"), "chosen"),
        **dict.fromkeys(("bad", "worse", "dispreferred", "loser", "lose"), "rejected"),
        **dict.fromkeys(("sentiment", "class", "classes", "category", "categories", "tags"), "label"),
        "weights": "loss_weights",
    },
    "columns": {
        **dict.fromkeys(("ids", "tokens", "input_id"), "input_ids"),
        **dict.fromkeys(("seq_lens", "seqlens", "sequence_lengths", "lengths", "seq_length"), "seq_lengths"),
        **dict.fromkeys(("positions", "pos_ids", "position_id"), "position_ids"),
        **dict.fromkeys(("segment_ids", "doc_ids", "sequence_ids", "seq_idx"), "document_ids"),
        "targets": "labels",
        **dict.fromkeys(("weights", "loss_mask", "loss_weight"), "loss_weights"),
        "source": "source_file",
    },
    "format.name": {
        **dict.fromkeys(("ipc", "feather", "hf", "datasets"), "arrow"),
        **dict.fromkeys(("json", "ndjson", "jsonlines"), "jsonl"),
        **dict.fromkeys(("pq", "parq"), "parquet"),
        **dict.fromkeys(("msgpack", "messagepack", "msgpack_array"), "msgpack_arrays"),
    },
    "format.compression": {"zst": "zstd", "zstandard": "zstd", "false": "none", "uncompressed": "none"},
    "padding": dict.fromkeys(("max", "full", "true", "max_len", "yes"), "max_length"),
    "weights.on_exhausted": {
        "all_exhausted": "repeat",
        "first_exhausted": "stop",
        "all_exhausted_without_replacement": "drop",
    },
}
"""Our word, by the option and the word that another tool has for it."""

WORD_ADVICE: Final[dict[str, dict[str, str]]] = {
    "columns": {
        "cu_seqlens": "`fastpack.torch.collate` makes `cu_seq_lens` of `seq_lengths`",
        "cu_seq_lens": "`fastpack.torch.collate` makes `cu_seq_lens` of `seq_lengths`",
        "token_type_ids": "packed rows have none; leave it out",
        "text": "rows hold tokens; `fastpack.inspect` shows their text",
        "messages": "rows hold tokens; `fastpack.inspect` shows their text",
    },
    "objective": dict.fromkeys(
        ("kto", "bco", "unpaired", "unpaired_preference"), '`Preference(form="kto")` is meant?'
    ),
    "train_on": dict.fromkeys(
        ("last_assistant", "last", "last_turn", "final"),
        _set("turns", "last", "trains the last turn alone"),
    ),
    "padding": {
        "longest": "batches are not padded here; leave it out, `fastpack.torch.collate` joins rows without padding",
    },
    "chat_template": {
        "chatml": Message(
            "save a tokenizer with that template, or give its Jinja text or file; requests without turns take `",
            Setting("reading.prompt", "chatml"),
            "`",
        ),
    },
    "special_tokens.eos": {
        "yes": "True is meant?",
        "true": "True is meant?",
        "no": "False is meant?",
        "none": "False is meant?",
        "false": "False is meant?",
    },
    "special_tokens.bos": {
        "yes": "True is meant?",
        "true": "True is meant?",
        "no": "False is meant?",
        "none": "False is meant?",
        "false": "False is meant?",
    },
}
"""A sentence for a word of another tool that is no single word here."""

FOREIGN_NAMES: Final[dict[str, str]] = {
    "pack": "pack_files",
    "pack_dataset": "pack_table",
    "pack_dataframe": "pack_table",
    "pack_folder": "pack_dir",
    "load": "read",
    "load_from_disk": "read",
    "AutoTokenizer": "Tokenizer",
    "tokenize": "Tokenizer",
    "dry_run": "scan",
    "show": "inspect",
}
"""Our public name, by what another tool calls it."""

FOREIGN_COMMANDS: Final[dict[str, str]] = {
    **dict.fromkeys(("convert", "prepare", "preprocess", "process", "run", "tokenize", "build"), "pack"),
    **dict.fromkeys(("dryrun", "analyze", "analyse", "count", "info", "profile"), "scan"),
    **dict.fromkeys(("stat", "stats", "statistics", "summary"), "report"),
    **dict.fromkeys(("show", "view", "print", "cat", "head", "look", "decode"), "inspect"),
    **dict.fromkeys(("check", "validate", "test"), "verify"),
    **dict.fromkeys(("resume", "rerun", "retry"), "pack"),
    **dict.fromkeys(("completions", "autocomplete"), "completion"),
}
"""Our command, by what another tool calls it."""


def meant_word(option: str, value: object, words: Sequence[str]) -> str:
    """A hint for a wrong word of an option, or of an option in a value such as `padding.side`; empty if no word is near."""
    for word in _words_in(value):
        plain = re.sub(r"[-_ ]+", "_", word.strip().lower())
        advice = WORD_ADVICE.get(option, {}).get(plain)
        # `True`, which was refused for another reason, is not offered again.
        if advice and not advice.startswith(f"{value} "):
            return advice
        if word in words:
            continue
        foreign = FOREIGN_WORDS.get(option, {}).get(plain)
        meant = foreign if foreign in words else nearest(plain, words)
        if meant:
            return f'did you mean "{meant}"?'
    return ""


def _words_in(value: object) -> Iterator[str]:
    """The words in a value: itself, or its entries or keys."""
    if isinstance(value, (str, bool)):
        yield str(value)
    elif isinstance(value, (list, tuple, Mapping)):
        yield from (each for each in value if isinstance(each, str))
