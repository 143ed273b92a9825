"""Values that hold options of their own: checked where they are made, and the same in Python, TOML and on the command line."""

from __future__ import annotations

import json
import pickle

import pytest
from rows import shards

import fastpack
from fastpack.cli.flags import FLAGS
from fastpack.cli.main import main
from fastpack.cli.parser import parse
from fastpack.options import OPTIONS
from fastpack.options.value import fields_of, from_table, to_table

KINDS = OPTIONS["objective"].kinds


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
    assert RENAMED[word] in capsys.readouterr().err


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
