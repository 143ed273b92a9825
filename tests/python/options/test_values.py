"""Values that hold options of their own: checked where they are made, and the same in Python, TOML and on the command line."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import json
import pickle
import re
from pathlib import Path

import pytest
from nested import FIELDS
from rows import shards
from tokenizers import Tokenizer

import fastpack
from fastpack.api.recipes import options_of_manifest
from fastpack.arguments.message import Setting
from fastpack.cli.flags import FLAGS
from fastpack.cli.main import main
from fastpack.cli.parser import parse
from fastpack.options import OPTIONS
from fastpack.options.value import fields_of, from_table, names_of, nondefault_fields, to_table

ROOT = Path(__file__).parents[3]
KINDS = OPTIONS["objective"].kinds
HELD = {name: option for name, option in OPTIONS.items() if option.owns_kinds}
"""The options whose values are of no other option."""


def made_by(documents):
    """The documents as they are."""
    return documents.select(["input_ids", "labels"])


VALUES = [
    fastpack.CausalLM(),
    fastpack.MaskedLM(probability=0.2, whole_words=True, copies=2),
    fastpack.MaskedLM(mask_replace_prob=0.5, random_replace_prob=0.5),
    fastpack.SpanCorruption(noise_density=[0.15, 0.5], mean_noise_span_length=[3, 8], max_target_length=64),
    fastpack.SpanCorruption(mean_gap_length=16, mean_noise_span_length=2),
    fastpack.FillInMiddle(rate=1, spm_rate=0.25, tokens=["a", "b", "c"]),
    fastpack.Preference("kto"),
    fastpack.Generation(),
    fastpack.Classification(["no", "yes"]),
    fastpack.MultiLabel(3),
    fastpack.Custom(made_by, fingerprint="v1"),
]

OTHERS = [
    fastpack.Mix(max_documents=8, align_to=16),
    fastpack.BestFit(open_rows=32),
    fastpack.Heap(),
    fastpack.Sequential(max_documents=2),
    fastpack.Concat(shuffle=True, drop_last=True),
    fastpack.Weights({"a": 1.0, "b": 2.0}, stopping_strategy="all_exhausted"),
    fastpack.Unpacked(align_to=8),
    fastpack.Truncate(side="left"),
    fastpack.Balanced(8, on_remainder="drop"),
    fastpack.Padding("max_length", side="left", token_id=3),
    fastpack.Padding(128),
    fastpack.Reading(images=fastpack.Images(folder="/photos", processor_kwargs={"max_pixels": 4096})),
    fastpack.Reading(images="reference"),
    fastpack.CausalLM(shift_labels=True),
    fastpack.SpecialTokens(eos=True, bos=True, in_text="split", train_on_eos="last"),
    fastpack.ChatTemplate(
        "chatml.jinja",
        variables={"enable_thinking": False, "tools": ["a"]},
        engine="python",
        now=dt.datetime(2026, 1, 31, 12),  # noqa: DTZ001  templates know no zones
        decode_arguments=True,
    ),
    fastpack.Reading("question_answer", fields={"question": "q"}, prompt="alpaca", separator="--"),
    fastpack.Reading(examples=[("1 + 1?", "2")], recursive=True),
    fastpack.Storage(revision="main", block_cache="20GB", work_dir=Path("work")),
    fastpack.Format("parquet", compression="snappy", shard_size="1GB"),
    fastpack.Format(layout="compact", per_file=True, hf_layout=True),
    fastpack.Groups("4GB", rank=1, world_size=2),
    fastpack.Exists("overwrite", wait=False),
    fastpack.Select({"lang": ["en", "de"]}, skip=1, take=2, stride=3, min_tokens=4, max_tokens=5),
    fastpack.Weights({"web": 3, "code": 1}, unit="rows", on_exhausted="drop"),
    fastpack.TrainOn("tool", mask_tool_calls=True, mask_generation_prompt=False),
    fastpack.TrainOn(mask_reasoning_content=True, drop_history_reasoning_content=True),
    fastpack.Ranks(rank=0, world_size=8, lanes=64, on_end="drop"),
]
"""Values of the other options; of each, all fields are given somewhere."""


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_its_call_and_its_table(value):
    names = {**vars(fastpack), "made_by": made_by, **{kind.__name__: kind for kind in KINDS.values()}}
    if not isinstance(value, fastpack.Custom):
        assert eval(repr(value), names) == value
        assert from_table("objective", json.loads(json.dumps(to_table(value))), KINDS) == value
    again = pickle.loads(pickle.dumps(value))
    assert (again, hash(again)) == (value, hash(value))
    assert value == type(value)(
        **{field.name: getattr(value, field.name) for field in fields_of([type(value)])}
    )
    with pytest.raises((AttributeError, TypeError)):
        value.copies = 3


@pytest.mark.parametrize("value", OTHERS, ids=repr)
def test_a_value_of_another_option_is_its_call_and_its_table(value):
    names = {
        **vars(fastpack),
        **{name: getattr(fastpack, name) for name in fastpack.__all__},
        "datetime": dt,
    }
    assert eval(repr(value), names) == value
    again = pickle.loads(pickle.dumps(value))
    assert (again, hash(again)) == (value, hash(value))
    kinds = OPTIONS[value.option].kinds
    assert from_table(value.option, json.loads(json.dumps(to_table(value))), kinds) == value
    assert OPTIONS[value.option].value_in({value.option: value}) == value


def test_every_field_of_every_value_is_given_somewhere_and_told():
    spelled = {flag.option for flags in FLAGS.values() for flag in flags}
    given = {(value.option, name) for value in [*VALUES, *OTHERS] for name in nondefault_fields(value)}
    for name, option in HELD.items():
        for field in fields_of(option.kinds.values()):
            assert field.doc, (name, field.name)
            live = (name, field.name) in {("storage", "filesystem"), ("ranks", "all_reduce")}
            secret = (name, field.name) in {("storage", "options"), ("storage", "token")}
            plain = {kind.plain for kind in option.kinds.values()}
            assert live or field.name in plain or f"{name}.{field.name}" in spelled, (name, field.name)
            assert live or secret or (name, field.name) in given or field.name == "kind", (name, field.name)


def test_no_secret_is_in_the_call_or_the_table_of_a_value():
    storage = fastpack.Storage({"aws_secret_access_key": "s3cr3t"}, token="hf_s3cr3t", revision="main")
    assert repr(storage) == "Storage(options=..., token=..., revision='main')"
    assert to_table(storage) == {"revision": "main"}
    assert pickle.loads(pickle.dumps(storage)) == storage


def test_a_message_names_a_value_that_holds_the_field():
    """A message in Python writes `special_tokens.in_text` as `SpecialTokens(in_text=...)`."""
    sources = [
        *(ROOT / "rust/core/src").rglob("*.rs"),
        *(ROOT / "python/fastpack/options/mistakes").glob("*.py"),
    ]
    places = re.compile(r'(?:\bset|\bSetting|\b_set)\(\s*"(\w+)\.(\w+)"')
    named = {place for path in sources for place in places.findall(path.read_text(encoding="utf-8"))}
    assert len(named) > 8
    for option, field in named:
        kind = str(Setting(f"{option}.{field}", 1)).partition("=")[2].partition("(")[0]
        assert getattr(fastpack, kind) in OPTIONS[option].kinds.values(), (option, field)
        assert field in names_of(getattr(fastpack, kind)), (option, field)


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (lambda storage: fastpack.read("none", storage=storage), {"token": "x"}),
        (lambda storage: fastpack.inspect("none", storage=storage), {"revision": "main"}),
        (lambda storage: fastpack.verify("none", storage=storage), {"block_cache": "1GB"}),
        (
            lambda storage: fastpack.export("none", "out", format="megatron", storage=storage),
            {"work_dir": "x"},
        ),
        (lambda storage: fastpack.Report.of("none", storage=storage), {"block_cache": "1GB"}),
        (lambda storage: fastpack.status("none", storage=storage), {"filesystem": object()}),
        (lambda storage: fastpack.reindex("none", "out", storage=storage), {"token": "x"}),
    ],
    ids=["read", "inspect", "verify", "export", "Report.of", "status", "reindex"],
)
def test_what_means_nothing_to_a_reader_is_refused(call, given):
    [field] = given
    with pytest.raises(fastpack.OptionError, match="means nothing to") as refused:
        call(fastpack.Storage(**given))
    assert refused.value.option == f"storage.{field}"


@pytest.mark.parametrize(
    ("call", "most"),
    [
        ("pack_dir", 32),
        ("stream", 32),
        ("pack_table", 32),
        ("pack_records", 32),
        ("pack_files", 26),
        ("scan", 20),
        ("repack", 20),
        ("plan", 10),
    ],
)
def test_a_call_has_few_options(call, most):
    assert len(inspect.signature(getattr(fastpack, call)).parameters) <= most


def told_of_before():
    """The rows of the page of options of before: the old name, and the new spelling."""
    page = (ROOT / "docs/reference/options-of-before.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(\w+)=` \| `(\w+)=([^`]+)` \|$", page, re.MULTILINE)


BEFORE = """
    align_documents_to all_reduce append balance_ranks block_cache bos chat_template_kwargs classes compression
    decode_arguments drop_last eos examples fields filesystem filter_fingerprint fim_rate fim_spm_rate fim_tokens
    group_size hf_layout lanes layout map_fingerprint mask_replace_prob max_document_tokens max_documents_per_pack
    max_target_length mean_gap_length mean_noise_span_length min_document_tokens mlm_probability noise_density now
    objective_function objective_function_fingerprint on_end on_exhausted on_remainder open_packs overwrite pad_to
    pad_token_id padding_side per_file preference_form prompt random_replace_prob rank recursive revision separator
    shape shard_size shift_labels skip sources special_in_text stopping_strategy storage_options stride take
    template_engine token train_on_eos truncation_side wait weight_unit where whole_word_mask work_dir world_size
"""
"""The keywords that the functions had while each option was one, and have no more."""


def test_the_page_of_options_of_before_has_every_keyword_that_is_gone():
    named = {old for old, _, _ in told_of_before()}
    assert named == {*BEFORE.split()}
    assert {*FIELDS} - {"chat_template", "format", "shuffle", "weights"} <= named
    assert not named & OPTIONS.keys()


@pytest.mark.parametrize(("old", "option", "new"), told_of_before())
def test_an_old_word_is_refused_with_the_new_one(old, option, new, tmp_path):
    assert option in OPTIONS
    call = next(call for call in ("pack_dir", "stream") if call in OPTIONS[option].calls)
    wanted = new.partition("(")[0] if "(" in new else option
    with pytest.raises(fastpack.OptionTypeError, match=re.escape(option)) as refused:
        getattr(fastpack, call)("none", max_length=8, **{old: 1})
    assert refused.value.option == old
    assert wanted in refused.value.reason or old == "pad_to"
    if "(" in new and "..." not in new and "(function" not in new:
        made = eval(new, {name: getattr(fastpack, name) for name in fastpack.__all__})
        assert OPTIONS[option].value_in({option: made}) == made
    if "(" in new and "(function" not in new:
        field = re.search(r"(\w+)=[^=]*\)$", new)
        kind = getattr(fastpack, wanted)
        assert field is None or field[1] in {each.name for each in fields_of([kind])}


def test_a_manifest_of_before_is_refused_by_the_name_of_its_options(tmp_path):
    with pytest.raises(fastpack.OptionError, match="takes `Padding") as refused:
        options_of_manifest(tmp_path / "manifest.json", {"recipe": {"max_length": 8, "padding_side": "left"}})
    assert refused.value.option == "padding_side"


FIELD_ERRORS = [
    (lambda: fastpack.Padding(side="start"), "padding.side", 'did you mean "left"?'),
    (lambda: fastpack.Padding(to="longest"), "padding.to", "max_length"),
    (lambda: fastpack.Balanced(0), "order.ranks", "from 1 to"),
    (lambda: fastpack.Balanced(2, on_remainder="skip"), "order.on_remainder", 'did you mean "drop"?'),
    (lambda: fastpack.Truncate(side="end"), "overlong.side", 'did you mean "right"?'),
    (lambda: fastpack.Concat(drop_last=1), "strategy.drop_last", "True or False"),
    (lambda: fastpack.SpecialTokens(eos="yes"), "special_tokens.eos", "True is meant?"),
    (lambda: fastpack.SpecialTokens(in_text="escape"), "special_tokens.in_text", 'did you mean "split"?'),
    (lambda: fastpack.ChatTemplate(engine="jinja2"), "chat_template.engine", 'did you mean "python"?'),
    (lambda: fastpack.ChatTemplate(now="noon"), "chat_template.now", "is no time"),
    (lambda: fastpack.Reading("sharegpt"), "reading.shape", 'did you mean "conversations"?'),
    (lambda: fastpack.Reading(fields={"response": "a"}), "reading.fields", 'did you mean "completion"?'),
    (lambda: fastpack.Storage(3), "storage.options", "dict of texts"),
    (lambda: fastpack.Storage({"revision": "main"}), "storage.options", "`Storage(revision=...)` holds it"),
    (lambda: fastpack.Format("pq"), "format.name", 'did you mean "parquet"?'),
    (lambda: fastpack.Format(compression="zst"), "format.compression", 'did you mean "zstd"?'),
    (lambda: fastpack.Exists("replace"), "exists.then", '"overwrite"'),
    (lambda: fastpack.Weights({"a": 1}, unit="bytes"), "weights.unit", '"tokens"'),
    (lambda: fastpack.Ranks(on_end="wrap"), "ranks.on_end", 'did you mean "repeat"?'),
    (lambda: fastpack.Ranks(lanes=0), "ranks.lanes", "from 1 to"),
    (lambda: fastpack.Format(shard_size=0), "format.shard_size", '"512MB"'),
    (lambda: fastpack.Groups("much"), "groups.size", '"4GB"'),
    (lambda: fastpack.Weights(unit="rows"), "weights.unit", "means nothing without `weights.shares`"),
    (lambda: fastpack.Select(skip=-1), "select.skip", "from 0"),
    (lambda: fastpack.Select(stride=0), "select.stride", "from 1 to"),
    (lambda: fastpack.Select(min_tokens=5, max_tokens=3), "select.min_tokens", "at most `max_tokens`, 3"),
    (lambda: fastpack.TrainOn("asistant"), "train_on.roles", "did you mean `assistant`?"),
    (lambda: fastpack.TrainOn(mask_tool_calls="yes"), "train_on.mask_tool_calls", "True or False"),
]


@pytest.mark.parametrize(("make", "option", "said"), FIELD_ERRORS)
def test_a_field_says_what_it_cannot_be_and_what_was_meant(make, option, said):
    with pytest.raises(fastpack.OptionError, match=re.escape(said)) as refused:
        make()
    assert refused.value.option == option


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"storage": fastpack.Storage(filesystem=object())}, "storage.filesystem"),
        ({"storage": fastpack.Storage(block_cache="1GB")}, "storage.block_cache"),
        ({"reading": fastpack.Reading(separator="--")}, "reading.separator"),
        ({"format": fastpack.Format(per_file=True), "output": "out"}, "format.per_file"),
    ],
)
def test_a_field_that_a_call_does_not_heed_is_refused(options, option):
    with pytest.raises(fastpack.OptionError, match="means nothing to pack_records") as refused:
        fastpack.pack_records([], None, max_length=8, **options)
    assert refused.value.option == option


def test_every_field_is_told_and_has_a_flag():
    spelled = {flag.option for flags in FLAGS.values() for flag in flags}
    for field in fields_of(KINDS.values()):
        assert field.doc, field.name
        assert f"objective.{field.name}" in spelled


@pytest.mark.parametrize(
    ("make", "option", "said"),
    [
        (lambda: fastpack.MaskedLM(probability=2), "objective.probability", "from 0 to 1, not `2`"),
        (lambda: fastpack.MaskedLM(probability="half"), "objective.probability", "from 0 to 1"),
        (
            lambda: fastpack.MaskedLM(random_replace_prob=0.3),
            "objective.random_replace_prob",
            "mask_replace_prob",
        ),
        (lambda: fastpack.MaskedLM(whole_words=1), "objective.whole_words", "True or False"),
        (lambda: fastpack.MaskedLM(copies=0), "objective.copies", "from 1 to"),
        (lambda: fastpack.SpanCorruption(noise_density=1), "objective.noise_density", "below 1"),
        (
            lambda: fastpack.SpanCorruption(noise_density=[0.1, 0.2], mean_noise_span_length=[1, 2, 3]),
            "objective.mean_noise_span_length",
            "as many",
        ),
        (lambda: fastpack.SpanCorruption(mean_gap_length=0), "objective.mean_gap_length", "from 1 to"),
        (lambda: fastpack.SpanCorruption(max_target_length=0), "objective.max_target_length", "from 1 to"),
        (lambda: fastpack.FillInMiddle(tokens=["a"]), "objective.tokens", "three tokens"),
        (lambda: fastpack.FillInMiddle(rate=-1), "objective.rate", "from 0 to 1"),
        (lambda: fastpack.Preference("ppo"), "objective.form", '"kto"'),
        (lambda: fastpack.Classification(["a", "a"]), "objective.classes", "twice"),
        (lambda: fastpack.Classification([]), "objective.classes", "at least one"),
        (lambda: fastpack.Classification(0), "objective.classes", "from 1 to"),
        (lambda: fastpack.MultiLabel("ab"), "objective.classes", "names of the classes"),
        (lambda: fastpack.Custom(3), "objective.function", "must be a function"),
        (lambda: fastpack.Custom(made_by, fingerprint=""), "objective.fingerprint", "not be empty"),
        (lambda: fastpack.Custom(fingerprint="v1"), "objective.fingerprint", "objective.function"),
    ],
)
def test_what_a_field_cannot_be_is_refused_where_the_value_is_made(make, option, said):
    with pytest.raises(fastpack.OptionError, match=said) as refused:
        make()
    assert refused.value.option == option


@pytest.mark.parametrize(
    ("given", "option", "said"),
    [
        ("bert", "objective", '"mlm"'),
        (3, "objective", "must be one of"),
        (fastpack.MaskedLM, "objective", "must be one of"),
        ({"kind": "mlm"}, "objective", "must be one of"),
    ],
)
def test_another_value_is_refused(given, option, said):
    with pytest.raises(fastpack.OptionError, match=said) as refused:
        fastpack.pack_records([], None, max_length=8, objective=given)
    assert refused.value.option == option


def test_copies_are_no_option_of_a_stream(tmp_path):
    with pytest.raises(fastpack.OptionError, match="epochs") as refused:
        fastpack.stream(tmp_path / "none", max_length=8, objective=fastpack.MaskedLM(copies=2))
    assert refused.value.option == "objective.copies"


def test_kept_tokens_have_their_classes_and_need_no_function(tmp_path):
    for value, option in [
        (fastpack.Classification(["a"]), "objective.classes"),
        (fastpack.Custom(made_by), "objective.function"),
    ]:
        with pytest.raises(fastpack.OptionError, match="kept tokens") as refused:
            fastpack.repack(tmp_path, tmp_path / "out", max_length=8, objective=value)
        assert refused.value.option == option


RENAMED = {
    "mlm_probability": "MaskedLM",
    "mask_replace_prob": "MaskedLM",
    "random_replace_prob": "MaskedLM",
    "whole_word_mask": "MaskedLM",
    "noise_density": "SpanCorruption",
    "mean_noise_span_length": "SpanCorruption",
    "mean_gap_length": "SpanCorruption",
    "max_target_length": "SpanCorruption",
    "fim_rate": "FillInMiddle",
    "fim_spm_rate": "FillInMiddle",
    "fim_tokens": "FillInMiddle",
    "preference_form": "Preference",
    "classes": "Classification",
    "objective_function": "Custom",
    "objective_function_fingerprint": "Custom",
}
"""The value that holds an option, by a word that other tools have for it."""


@pytest.mark.parametrize("word", RENAMED)
def test_a_word_of_other_tools_names_the_value(word, capsys):
    with pytest.raises(fastpack.OptionError, match=RENAMED[word]):
        fastpack.pack_files("none", max_length=8, **{word: 1})
    with pytest.raises(SystemExit):
        main(["pack", "none", "-o", "out", f"--{word.replace('_', '-')}", "1"])
    assert f"--objective {getattr(fastpack, RENAMED[word]).kind}" in capsys.readouterr().err


FLAGGED = [
    ("--objective mlm --objective.probability 0.2 --objective.whole-words", VALUES[1], {"copies": 2}),
    (
        "--objective span --objective.noise-density 0.15,0.5 --objective.mean-noise-span-length 3,8",
        VALUES[3],
        {"max-target-length": 64},
    ),
    ("--objective fim --objective.rate 1 --objective.spm-rate 0.25 --objective.tokens a,b,c", VALUES[5], {}),
    ("--objective preference --objective.form kto", VALUES[6], {}),
    ("--objective classification --objective.classes no,yes", VALUES[8], {}),
    ("--objective multi_label --objective.classes 3", VALUES[9], {}),
]


@pytest.mark.parametrize(("flags", "value", "more"), FLAGGED)
def test_flags_and_tables_are_values(flags, value, more, tmp_path):
    from fastpack.cli.flags import with_values

    typed = flags.split() + [
        part for name, given in more.items() for part in (f"--objective.{name}", str(given))
    ]
    parsed = with_values(parse(["pack", "none", "-o", "out", "-m", "8", *typed]))
    assert parsed["objective"] == value
    lines = [f"{name} = {json.dumps(given)}" for name, given in to_table(value).items()]
    (tmp_path / "job.toml").write_text("[objective]\n" + "\n".join(lines), encoding="utf-8")
    assert fastpack.load_config(tmp_path / "job.toml") == {"objective": value}


PICTURED = [
    ("--reading.images reference", None, fastpack.Images()),
    ("--reading.images.folder photos", None, fastpack.Images(folder="photos")),
    ("--reading.images embed --reading.images.folder a", None, fastpack.Images(embed=True, folder="a")),
    (
        "--reading.images.max-images-per-pack 3 --no-reading.images.embed",
        fastpack.Images(embed=True, folder="photos"),
        fastpack.Images(folder="photos", max_images_per_pack=3),
    ),
    (
        '--reading.images.processor-kwargs {"max_pixels":401408}',
        fastpack.Images(folder="photos"),
        fastpack.Images(folder="photos", processor_kwargs={"max_pixels": 401408}),
    ),
]


@pytest.mark.parametrize(("flags", "before", "expected"), PICTURED)
def test_a_value_in_a_value_has_flags(flags, before, expected):
    """What is not given stays as the file of `--like` or `--config` has it."""
    from fastpack.cli.flags import with_values

    base = {"reading": fastpack.Reading("conversations", images=before)}
    parsed = with_values(parse(["pack", "none", "-o", "out", "-m", "8", *flags.split()]), base)
    assert parsed["reading"] == fastpack.Reading("conversations", images=expected)
    alone = with_values(parse(["pack", "none", "-o", "out", "-m", "8", "--reading", "text", *flags.split()]))
    assert alone["reading"].shape == "text"


def test_a_wrong_flag_of_a_value_in_a_value_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["pack", "none", "-o", "out", "-m", "8", "--reading.images.max-images-per-pack", "many"])
    assert "--reading.images.max-images-per-pack" in capsys.readouterr().err


def test_all_spellings_give_the_same_bytes(tokenizer_dir, tmp_path):
    """A function in a file, named by Python, by a flag and by TOML."""
    (tmp_path / "made.py").write_text(
        "def same(documents):\n    return documents.select(['input_ids', 'labels'])\n", encoding="utf-8"
    )
    place = f"{tmp_path / 'made.py'}:same"
    lines = [
        'files = "text.jsonl"',
        'output = "toml"',
        f'tokenizer = "{tokenizer_dir}"',
        "max_length = 64",
        "[objective]",
        'kind = "custom"',
        'function = "made.py:same"',
        'fingerprint = "v1"',
    ]
    (tmp_path / "job.toml").write_text("\n".join(lines), encoding="utf-8")
    text = tmp_path / "text.jsonl"
    text.write_text("".join(json.dumps({"text": f"line {at}"}) + "\n" for at in range(50)), encoding="utf-8")
    objective = fastpack.Custom(made_by, fingerprint="v1")
    fastpack.pack_dir(text, tmp_path / "python", tokenizer=tokenizer_dir, max_length=64, objective=objective)
    common = ["-t", str(tokenizer_dir), "-m", "64"]
    own = ["--objective", "custom", "--objective.function", place, "--objective.fingerprint", "v1"]
    assert main(["pack", str(text), "-o", str(tmp_path / "flags"), *common, *own]) == 0
    assert main(["pack", "--config", str(tmp_path / "job.toml")]) == 0
    # A manifest names the function, and loads none.
    assert main(["pack", "--like", str(tmp_path / "flags"), "-o", str(tmp_path / "like")]) == 2
    assert main(["pack", "--like", str(tmp_path / "flags"), "-o", str(tmp_path / "like"), *own]) == 0
    made = [shards(tmp_path / name) for name in ("python", "flags", "toml", "like")]
    assert made[0] == made[1] == made[2] == made[3] != {}


def test_flags_change_the_value_of_a_folder(tokenizer_dir, tmp_path):
    text = tmp_path / "text.jsonl"
    text.write_text('{"text": "a river and a boat"}\n', encoding="utf-8")
    first, second = tmp_path / "first", tmp_path / "second"
    fim = fastpack.FillInMiddle(rate=1, tokens=["<|start|>", "<|end|>", "<|endoftext|>"])
    fastpack.pack_dir(text, first, tokenizer=tokenizer_dir, max_length=64, objective=fim)
    assert main(["pack", "--like", str(first), "-o", str(second), "--objective.rate", "0"]) == 0
    from fastpack.api.recipes import load_manifest

    wanted = fastpack.FillInMiddle(rate=0, tokens=fim.tokens)
    assert load_manifest(second)["objective"] == wanted
    assert main(["pack", "--like", str(first), "-o", str(tmp_path / "no"), "--objective.form", "kto"]) == 2


CHANGED = [
    ({"max_length": 128}, "max_length"),
    ({"seed": 3}, "seed"),
    ({"overlong": "truncate"}, "overlong"),
    ({"overlong": fastpack.Truncate(side="left")}, "overlong"),
    ({"strategy": fastpack.BestFit()}, "strategy"),
    ({"strategy": fastpack.Mix(max_documents=2)}, "strategy.max_documents"),
    ({"strategy": fastpack.Mix(align_to=8)}, "strategy.align_to"),
    ({"strategy": fastpack.Concat(shuffle=True)}, "strategy"),
    ({"order": fastpack.Balanced(2)}, "order"),
    ({"padding": fastpack.Padding("max_length")}, "padding"),
    ({"padding": fastpack.Padding("max_length", side="left")}, "padding.side"),
    ({"padding": fastpack.Padding(token_id=3)}, "padding.token_id"),
    ({"special_tokens": fastpack.SpecialTokens(eos=False)}, "special_tokens.eos"),
    ({"special_tokens": fastpack.SpecialTokens(in_text="split")}, "special_tokens.in_text"),
    ({"chat_template": fastpack.ChatTemplate(now="2026-01-01T00:00:00")}, "chat_template.now"),
    ({"chat_template": "{{ messages[0].content }}"}, "chat_template"),
    ({"train_on": "all"}, "train_on"),
    ({"train_on": fastpack.TrainOn("user")}, "train_on"),
    ({"train_on": fastpack.TrainOn(mask_reasoning_content=True)}, "train_on"),
    ({"columns": ["input_ids"]}, "columns"),
    ({"reading": fastpack.Reading(shape="conversations")}, "reading.shape"),
    ({"on_bad_record": "skip"}, "on_bad_record"),
    ({"format": "parquet"}, "format"),
    ({"format": fastpack.Format(compression="zstd")}, "format.compression"),
    ({"format": fastpack.Format(layout="compact")}, "format.layout"),
    ({"format": fastpack.Format(shard_size="1MB")}, "format.shard_size"),
    ({"format": fastpack.Format(per_file=True)}, "format.per_file"),
    ({"format": fastpack.Format(hf_layout=True)}, "format.hf_layout"),
    ({"groups": "1MB"}, "groups.size"),
    ({"keep_tokens": True}, "keep_tokens"),
    ({"validation": 2}, "validation"),
    ({"map": fastpack.Function(str, fingerprint="one")}, "filter, map and the function of the objective"),
    ({"objective": fastpack.CausalLM(shift_labels=True)}, "objective.shift_labels"),
]
"""A change of the options of a job, and the name by which a message tells of it."""


@pytest.fixture(scope="module")
def mask_tokenizer(tokenizer_dir, tmp_path_factory):
    """The tokenizer with a token for masks, and those that stand for spans."""
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer = Tokenizer.from_file(str(tokenizer_dir / "tokenizer.json"))
    tokenizer.add_special_tokens(["[MASK]", *(f"<extra_id_{at}>" for at in range(100))])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = json.loads((tokenizer_dir / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"mask_token": "[MASK]"}))
    return folder


OF_OBJECTIVES = [
    (fastpack.MaskedLM(), {"probability": 0.2, "mask_replace_prob": 0.5, "random_replace_prob": 0.05}),
    (fastpack.MaskedLM(), {"whole_words": True, "copies": 2}),
    (fastpack.SpanCorruption(), {"noise_density": 0.3, "mean_noise_span_length": 2, "copies": 2}),
    (fastpack.SpanCorruption(max_target_length=32), {"max_target_length": 48}),
    (
        fastpack.SpanCorruption(mean_gap_length=16, mean_noise_span_length=2),
        {"mean_gap_length": 8, "mean_noise_span_length": 3},
    ),
    (
        fastpack.FillInMiddle(rate=0.5, tokens=["<|start|>", "<|end|>", "<|endoftext|>"]),
        {"rate": 1, "spm_rate": 0.25, "tokens": ["<|end|>", "<|start|>", "<|endoftext|>"], "copies": 2},
    ),
]
"""Objectives, and other values of their fields."""


@pytest.mark.parametrize(
    ("objective", "field", "value"),
    [(objective, field, value) for objective, fields in OF_OBJECTIVES for field, value in fields.items()],
    ids=str,
)
def test_a_field_of_an_objective_that_differs_is_named(objective, field, value, mask_tokenizer, tmp_path):
    (tmp_path / "data.jsonl").write_text(json.dumps({"text": "a river and a boat " * 9}) + "\n")
    job = {"files": tmp_path / "data.jsonl", "output": tmp_path / "out", "tokenizer": mask_tokenizer}
    job |= {"max_length": 64, "progress": False}
    fastpack.pack_dir(**job, objective=objective)
    with pytest.raises(fastpack.OutputError, match="differs in ") as error:
        fastpack.pack_dir(**job, objective=dataclasses.replace(objective, **{field: value}))
    told = re.findall(r"`([^`]+)` \(", str(error.value).split("differs in ")[1])
    assert f"objective.{field}" in told
    assert set(told) <= {f"objective.{each.name}" for each in fields_of([type(objective)])} | {"objective"}


@pytest.fixture(scope="module")
def packed(tokenizer_dir, tmp_path_factory):
    """A job of few options that has finished: its files, and the folder of its output."""
    folder = tmp_path_factory.mktemp("packed")
    messages = [{"role": role, "content": "some words"} for role in ("user", "assistant")]
    (folder / "data.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    job = {
        "files": folder / "data.jsonl",
        "output": folder / "out",
        "tokenizer": tokenizer_dir,
        "max_length": 64,
    }
    fastpack.pack_dir(**job, progress=False)
    return job


@pytest.mark.parametrize(("change", "named"), CHANGED, ids=str)
def test_what_differs_between_two_jobs_is_named_as_it_is_given(change, named, packed):
    with pytest.raises(fastpack.OutputError, match="differs in ") as error:
        fastpack.pack_dir(**(packed | {"progress": False} | change))
    fields = {
        f"{name}.{field.name}" for name, option in HELD.items() for field in fields_of(option.kinds.values())
    }
    told = re.findall(r"`([^`]+)` \(", str(error.value).split("differs in ")[1])
    assert named in told
    assert set(told) <= {*OPTIONS, *fields, named}


@pytest.mark.parametrize(
    ("make", "option", "reason"),
    [
        (
            lambda: fastpack.TrainOn(mask_reasoning=True),
            "train_on.mask_reasoning",
            "did you mean `mask_reasoning_content`?",
        ),
        (lambda: fastpack.Weights(unti="tokens"), "weights.unti", "did you mean `unit`?"),
        (lambda: fastpack.Padding(colour=3), "padding.colour", "is no option of Padding; it has `to`"),
        (lambda: fastpack.Padding(64, "left"), "padding", "Padding takes `to` without a name"),
    ],
)
def test_a_field_that_a_value_does_not_have_is_refused_by_its_name(make, option, reason):
    with pytest.raises(fastpack.OptionError, match=re.escape(reason)) as refused:
        make()
    assert refused.value.option == option
    # As any call of Python would.
    assert isinstance(refused.value, TypeError)


@pytest.mark.parametrize(
    "kind", sorted({kind for option in HELD.values() for kind in option.kinds.values()}, key=str)
)
def test_every_value_refuses_fields_that_it_does_not_have(kind):
    with pytest.raises(fastpack.OptionError, match="is no option of"):
        kind(colour="red")
