"""Objectives beyond causal language modeling: statistics over a million tokens, references, and the law of roads."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from collections import Counter
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from nested import place
from processes import kill_at_work, start
from rows import shards

import fastpack
from fastpack.options.objective import KINDS
from fastpack.types import ObjectiveName

WORDS = 2000
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
FIM = ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"]


def save(folder, vocabulary, added, **named):
    """Writes a tokenizer of whole words, some of them pieces that go on with a word."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(vocabulary)}, unk_token=vocabulary[1])
    )
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(added)
    folder.mkdir()
    made.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **named}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A tokenizer with a mask token, a third of whose words go on with the word before."""
    words = [f"##w{at}" if at % 3 == 0 else f"w{at}" for at in range(WORDS)]
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    folder = tmp_path_factory.mktemp("tokenizers") / "bert"
    return save(folder, SPECIAL + words, SPECIAL, mask_token="[MASK]", **names)


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    """A tokenizer with sentinels and an end of text."""
    sentinels = [f"<extra_id_{at}>" for at in range(100)]
    vocabulary = ["<pad>", "<unk>", "</s>", *(f"w{at}" for at in range(WORDS)), *sentinels]
    folder = tmp_path_factory.mktemp("tokenizers") / "t5"
    special = ["<pad>", "<unk>", "</s>", *sentinels]
    return save(folder, vocabulary, special, pad_token="<pad>", unk_token="<unk>", eos_token="</s>")


@pytest.fixture(scope="module")
def coder(tmp_path_factory):
    """A tokenizer of code, with the tokens for filling in the middle."""
    vocabulary = ["<pad>", "<unk>", "</s>", *FIM, *(f"w{at}" for at in range(WORDS))]
    folder = tmp_path_factory.mktemp("tokenizers") / "coder"
    special = ["<pad>", "<unk>", "</s>", *FIM]
    return save(folder, vocabulary, special, pad_token="<pad>", unk_token="<unk>", eos_token="</s>")


def documents(count, first, *, around=(), length=250, seed=1):
    """Documents of random words, which begin and end with the given ids."""
    chance = np.random.default_rng(seed)
    begin, end = around or ([], [])
    return [
        [*begin, *map(int, chance.integers(first, first + WORDS, length + at % 7)), *end]
        for at in range(count)
    ]


def packed(ids, tokenizer, **options):
    """The documents of rows: inputs and labels, in input order."""
    table = fastpack.pack_table(
        pa.table({"input_ids": ids}),
        tokenizer,
        **{"max_length": 1024, "columns": [*COLUMNS, "source_row"], **options},
    )
    return sorted(split(table))


COLUMNS = ["input_ids", "labels", "seq_lengths"]


def split(table):
    """Each document of some rows: its record, its inputs and its labels."""
    for row in table.to_pylist():
        lengths = row["seq_lengths"]
        targets = row.get("target_seq_lengths") or lengths
        starts, others = np.cumsum([0, *lengths]), np.cumsum([0, *targets])
        for at, record in enumerate(row["source_row"]):
            if record >= 0:
                inputs = row["input_ids"][starts[at] : starts[at + 1]]
                yield record, inputs, row["labels"][others[at] : others[at + 1]]


def within(found, of, share, sigmas=4.5):
    """True if a count is one that a share gives by chance."""
    return abs(found - of * share) <= sigmas * math.sqrt(of * share * (1 - share))


class TestMlm:
    """Masked language modeling."""

    @pytest.fixture(scope="class")
    @classmethod
    def ids(cls):
        return documents(4200, len(SPECIAL), around=([2], [3]))

    @pytest.fixture(scope="class")
    @classmethod
    def made(cls, ids, bert):
        return packed(ids, bert, objective="mlm", seed=3)

    def test_fifteen_percent_are_chosen_and_no_special_token(self, ids, made):
        tokens = sum(len(each) - 2 for each in ids)
        chosen = sum(label != -100 for _, _, labels in made for label in labels)
        assert tokens > 1_000_000
        assert within(chosen, tokens, 0.15)
        assert all(labels[0] == labels[-1] == -100 for _, _, labels in made)
        assert all((inputs[0], inputs[-1]) == (2, 3) for _, inputs, _ in made)

    @pytest.mark.parametrize(("kind", "tells"), [("BertTokenizer", True), ("DistilBertTokenizer", False)])
    def test_rows_have_token_types_where_a_call_of_the_tokenizer_returns_them(
        self, bert, tmp_path, kind, tells
    ):
        config = json.loads((bert / "tokenizer_config.json").read_text())
        folder = shutil.copytree(bert, tmp_path / "model")
        (folder / "tokenizer_config.json").write_text(json.dumps(config | {"tokenizer_class": kind}))
        ids = pa.table({"input_ids": documents(3, len(SPECIAL))})
        options = {"objective": "mlm", "max_length": 512}
        rows = fastpack.pack_table(ids, folder, **options, padding="max_length")
        plain = fastpack.pack_table(ids, bert, **options, padding="max_length")
        assert ("token_type_ids" in rows.column_names) == tells
        assert rows.select(plain.column_names).equals(plain)
        for row in rows.to_pylist():
            pairs = zip(row["attention_mask"], row["labels"], strict=True)
            assert all(label == -100 for mask, label in pairs if not mask)
        if tells:
            assert rows["token_type_ids"].to_pylist() == [[0] * 512] * rows.num_rows
            usual = ["input_ids", "token_type_ids", "labels", "position_ids", "seq_lengths"]
            assert rows.column_names == [*usual, "attention_mask"]
            assert fastpack.pack_table(ids, folder, **options).column_names == usual

    def test_labels_and_inputs_together_are_the_document(self, ids, made):
        assert [
            [label if label != -100 else token for token, label in zip(inputs, labels, strict=True)]
            for _, inputs, labels in made
        ] == ids

    def test_of_chosen_tokens_eighty_percent_are_masked_and_ten_are_random(self, made):
        pairs = [
            (token, label)
            for _, inputs, labels in made
            for token, label in zip(inputs, labels, strict=True)
            if label != -100
        ]
        masked = sum(token == 4 for token, _ in pairs)
        random = [token for token, label in pairs if token not in (4, label)]
        vocabulary = WORDS + len(SPECIAL)
        assert within(masked, len(pairs), 0.8 + 0.1 / vocabulary)
        assert within(len(random), len(pairs), 0.1 * (1 - 2 / vocabulary))
        # Random tokens are uniform over the vocabulary, as those of transformers.
        counts = np.bincount(random, minlength=vocabulary)
        expected = len(random) / (vocabulary - 1)
        chi = ((np.delete(counts, 4) - expected) ** 2 / expected).sum()
        assert abs(chi - vocabulary) < 6 * math.sqrt(2 * vocabulary)

    def test_the_shares_are_those_of_the_collator_of_transformers(self, ids, made, bert):
        from transformers import AutoTokenizer, DataCollatorForLanguageModeling

        collator = DataCollatorForLanguageModeling(
            AutoTokenizer.from_pretrained(bert), return_tensors="np", seed=1
        )
        theirs = [collator([{"input_ids": each} for each in ids[at : at + 64]]) for at in range(0, 4200, 64)]
        inputs = np.concatenate([each["input_ids"].ravel() for each in theirs])
        labels = np.concatenate([each["labels"].ravel() for each in theirs])
        shares = []
        ours = (
            np.array([x for _, i, _ in made for x in i]),
            np.array([x for _, _, kept in made for x in kept]),
        )
        for tokens, kept in ((inputs, labels), ours):
            chosen = kept != -100
            masked, same = (tokens == 4) & chosen, (tokens == kept) & chosen
            shares.append((chosen.sum() / 1.06e6, masked.sum() / chosen.sum(), same.sum() / chosen.sum()))
        assert np.allclose(*shares, atol=0.004)

    def test_whole_words_are_chosen_as_the_collator_of_transformers_chooses_them(self, bert):
        ids = documents(4200, len(SPECIAL), seed=5)
        # The record of each begins with a word, as a text does.
        ids = [[each for each in document if (each - 5) % 3 != 0 or at] for at, document in enumerate(ids)]
        made = packed(
            ids,
            bert,
            objective=fastpack.MaskedLM(whole_words=True, mask_replace_prob=1, random_replace_prob=0),
        )
        goes_on = lambda token: (token - len(SPECIAL)) % 3 == 0  # noqa: E731
        words, chosen, tokens, masked = 0, 0, 0, 0
        for (_, inputs, labels), document in zip(made, ids, strict=True):
            begins = [at for at, token in enumerate(document) if at == 0 or not goes_on(token)]
            for begin, end in zip(begins, [*begins[1:], len(document)], strict=True):
                taken = {label != -100 for label in labels[begin:end]}
                assert len(taken) == 1
                words, chosen = words + 1, chosen + taken.pop()
            tokens, masked = tokens + len(document), masked + sum(token == 4 for token in inputs)
        assert tokens > 1_000_000
        assert within(chosen, words, 0.15)
        assert abs(masked / tokens - 0.15) < 0.005
        theirs = self.whole_words_of_transformers(ids[:600], bert, goes_on)
        assert abs(theirs - 0.15) < 0.005

    def whole_words_of_transformers(self, ids, bert, goes_on):
        """The share of tokens that the collator masks, given where words begin by offsets."""
        from transformers import AutoTokenizer, DataCollatorForLanguageModeling

        tokenizer = AutoTokenizer.from_pretrained(bert)
        collator = DataCollatorForLanguageModeling(
            tokenizer,
            whole_word_mask=True,
            mask_replace_prob=1,
            random_replace_prob=0,
            return_tensors="np",
            seed=2,
        )
        masked, tokens = 0, 0
        for document in ids:
            offsets, at = [], 0
            for token in document:
                at += not goes_on(token)
                offsets.append((at, at + 1))
                at += 1
            example = {
                "input_ids": document,
                "offset_mapping": offsets,
                "special_tokens_mask": [0] * len(document),
            }
            made = collator([example])
            masked, tokens = masked + int((made["labels"] != -100).sum()), tokens + len(document)
        return masked / tokens


def noise_of_t5(length, density, mean, chance):
    """The lengths of spans by the published rule, written from its description."""
    noise = min(max(int(np.round(length * density)), 1), length - 1)
    spans = min(max(int(np.round(noise / mean)), 1), noise, length - noise)
    cuts = np.sort(chance.choice(np.arange(1, noise), spans - 1, replace=False))
    return np.diff([0, *cuts, noise])


class TestSpan:
    """Span corruption."""

    COLUMNS = (*COLUMNS, "target_seq_lengths", "source_row")

    @pytest.fixture(scope="class")
    @classmethod
    def ids(cls):
        return documents(4200, 3, length=248)

    @pytest.fixture(scope="class")
    @classmethod
    def made(cls, ids, t5):
        return packed(
            ids, t5, objective=fastpack.SpanCorruption(max_target_length=256), columns=cls.COLUMNS, seed=2
        )

    @staticmethod
    def spans(labels):
        """The spans of the targets of a document, each with its sentinel."""
        assert labels[-1] == 2
        found = []
        for token in labels[:-1]:
            if token >= 3 + WORDS:
                found.append((token, []))
            else:
                found[-1][1].append(token)
        return found

    def test_inputs_and_targets_together_are_the_document(self, ids, made):
        for (_, inputs, labels), document in zip(made, ids, strict=True):
            spans = dict(self.spans(labels))
            assert [*spans] == [3 + WORDS + at for at in range(len(spans))]
            assert inputs[-1] == 2
            again = [piece for token in inputs[:-1] for piece in spans.get(token, [token])]
            assert again == document

    def test_lengths_are_those_that_t5_gives(self, ids, made):
        for (_, inputs, labels), document in zip(made, ids, strict=True):
            length = len(document)
            noise = int(np.round(length * 0.15))
            spans = int(np.round(noise / 3.0))
            assert (len(inputs), len(labels)) == (length - noise + spans + 1, noise + spans + 1)

    def test_spans_are_distributed_as_those_of_t5(self, ids, made):
        found = Counter(len(span) for _, _, labels in made for _, span in self.spans(labels))
        chance = np.random.default_rng(3)
        wanted = Counter(
            int(length) for document in ids for length in noise_of_t5(len(document), 0.15, 3.0, chance)
        )
        total = sum(found.values())
        assert total == sum(wanted.values())
        assert sum(map(len, ids)) > 1_000_000
        assert abs(sum(size * count for size, count in found.items()) / total - 3.0) < 0.08
        for size in range(1, 13):
            deviation = math.sqrt(found[size] + wanted[size] + 1)
            assert abs(found[size] - wanted[size]) < 5 * deviation, size

    def test_rows_exceed_neither_limit(self, ids, t5):
        for strategy in ["mix", "best_fit", "heap", "sequential"]:
            table = fastpack.pack_table(
                pa.table({"input_ids": ids[:800]}),
                t5,
                objective=fastpack.SpanCorruption(
                    noise_density=[0.15, 0.5], mean_noise_span_length=[3.0, 8.0], max_target_length=200
                ),
                max_length=512,
                strategy=strategy,
            )
            for row in table.to_pylist():
                assert len(row["input_ids"]) == sum(row["seq_lengths"]) <= 512
                assert len(row["labels"]) == sum(row["target_seq_lengths"]) <= 200

    def test_a_mixture_takes_each_density_as_often(self, ids, t5):
        densities = [0.15, 0.5]
        made = packed(
            ids, t5, objective=fastpack.SpanCorruption(noise_density=densities), columns=self.COLUMNS
        )
        dense = sum(len(labels) > 90 for _, _, labels in made)
        assert within(dense, len(made), 0.5)

    def test_gaps_and_spans_are_drawn_around_their_means(self, ids, t5):
        made = packed(
            ids,
            t5,
            objective=fastpack.SpanCorruption(mean_gap_length=16, mean_noise_span_length=2),
            columns=self.COLUMNS,
        )
        sizes = [len(span) for _, _, labels in made for _, span in self.spans(labels)]
        # A normal number around 2, cut down to a whole one of at least 1, is 1.68 on average.
        assert abs(np.mean(sizes) - 1.68) < 0.02
        for (_, inputs, labels), document in zip(made, ids, strict=True):
            spans = dict(self.spans(labels))
            assert [piece for token in inputs[:-1] for piece in spans.get(token, [token])] == document

    def test_a_long_text_is_cut_where_both_limits_allow(self, t5, tmp_path):
        words = " ".join(f"w{at % WORDS}" for at in range(5000))
        (tmp_path / "long.jsonl").write_text(json.dumps({"text": words}), encoding="utf-8")
        table = fastpack.pack_files(
            tmp_path / "long.jsonl",
            t5,
            objective=fastpack.SpanCorruption(max_target_length=114),
            max_length=512,
            strategy="sequential",
            columns=self.COLUMNS,
        )
        report = fastpack.Report.of(table)
        assert report.truncated.tokens == report.tokens.dropped == 0
        # 568 tokens fill 512 inputs and 114 targets: the figures that T5's own code computes.
        first = table.slice(0, 1).to_pylist()[0]
        assert (len(first["input_ids"]), len(first["labels"])) == (512, 114)

    def test_padding_and_masks_go_with_inputs_and_targets(self, ids, t5):
        for side in ["left", "right"]:
            table = fastpack.pack_table(
                pa.table({"input_ids": ids[:50]}),
                t5,
                objective=fastpack.SpanCorruption(max_target_length=128),
                max_length=512,
                padding=fastpack.Padding("max_length", side=side),
            )
            for row in table.to_pylist():
                assert {len(row[name]) for name in ("input_ids", "attention_mask")} == {512}
                assert {len(row[name]) for name in ("labels", "decoder_attention_mask")} == {128}
                assert [label == -100 for label in row["labels"]] == [
                    mask == 0 for mask in row["decoder_attention_mask"]
                ]
                assert [token == 0 for token in row["input_ids"]] == [
                    mask == 0 for mask in row["attention_mask"]
                ]


class TestFim:
    """Filling in the middle."""

    @pytest.fixture(scope="class")
    @classmethod
    def ids(cls):
        return documents(4200, 6, around=([], [2]))

    def test_the_three_parts_together_are_the_document(self, ids, coder):
        made = packed(ids, coder, objective=fastpack.FillInMiddle(rate=0.7, spm_rate=0.4))
        cut, swapped = 0, 0
        for (_, inputs, labels), document in zip(made, ids, strict=True):
            assert labels == [-100, *inputs[1:]]
            if inputs == document:
                continue
            cut += 1
            assert inputs[0] == 3
            assert inputs[-1] == 2
            suffix, middle, body = inputs.index(4), inputs.index(5), inputs[:-1]
            if suffix == 1:
                swapped += 1
                # The end of the prefix is not marked: the suffix is the end of the document.
                assert [*body[middle + 1 :], *body[2:middle], 2] == document
            else:
                prefix, last = body[1:suffix], body[suffix + 1 : middle]
                assert [*prefix, *body[middle + 1 :], *last, 2] == document
        assert within(cut, len(ids), 0.7)
        # An empty prefix looks like a swapped one, in one of 250 documents.
        assert abs(swapped / cut - 0.4) < 0.035

    def test_a_row_holds_what_is_added_too(self, coder):
        ids = documents(200, 6, length=61)
        table = fastpack.pack_table(
            pa.table({"input_ids": ids}),
            coder,
            objective=fastpack.FillInMiddle(rate=1),
            max_length=64,
            overlong="split",
        )
        assert max(map(len, table["input_ids"].to_pylist())) == 64
        report = fastpack.Report.of(table)
        # Of a piece of one token nothing can be learned, as with causal rows.
        assert report.truncated.tokens == 0
        assert set(report.dropped) == {"no_trained_token"}

    def test_shifted_labels_stand_where_they_are_predicted(self, ids, coder):
        made = packed(ids[:50], coder, objective=fastpack.FillInMiddle(shift_labels=True))
        assert all(labels == [*inputs[1:], -100] for _, inputs, labels in made)


def options_of(objective, copies=1):
    """Options that let an objective draw as much as it can."""
    values = {
        "mlm": fastpack.MaskedLM(whole_words=True, copies=copies),
        "span": fastpack.SpanCorruption(noise_density=[0.15, 0.5], max_target_length=512, copies=copies),
        "fim": fastpack.FillInMiddle(copies=copies),
    }
    columns = TestSpan.COLUMNS if objective == "span" else [*COLUMNS, "source_row"]
    return {"objective": values[objective], "max_length": 512, "columns": columns}


@pytest.mark.parametrize("objective", ["mlm", "span", "fim"])
class TestRoads:
    """No choice depends on the function, the threads, the packing or a stop."""

    @pytest.fixture
    def tokenizer(self, objective, bert, t5, coder):
        return {"mlm": bert, "span": t5, "fim": coder}[objective]

    @pytest.fixture
    def lines(self, tmp_path):
        chance = np.random.default_rng(9)
        texts = [" ".join(f"w{at}" for at in chance.integers(0, WORDS, 40 + n % 90)) for n in range(700)]
        file = tmp_path / "texts.jsonl"
        file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        return file

    def test_every_road_gives_each_document_the_same_columns(self, objective, tokenizer, lines, tmp_path):
        options = options_of(objective)
        wanted = sorted(split(fastpack.pack_files(lines, tokenizer, **options)))
        assert len(wanted) == 700
        records = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
        for strategy in ["best_fit", "heap", "sequential", "none"]:
            for threads in [1, 2, 8]:
                table = fastpack.pack_files(lines, tokenizer, strategy=strategy, threads=threads, **options)
                assert sorted(split(table)) == wanted
        assert sorted(split(fastpack.pack_records(records, tokenizer, **options))) == wanted
        assert (
            sorted(split(fastpack.pack_table(pa.Table.from_pylist(records), tokenizer, **options))) == wanted
        )
        cached = {"cache_dir": tmp_path / "cache"}
        for _ in range(2):
            assert sorted(split(fastpack.pack_files(lines, tokenizer, **cached, **options))) == wanted
        fastpack.pack_dir(lines, tmp_path / "out", tokenizer=tokenizer, keep_tokens=True, memory=1, **options)
        assert sorted(split(fastpack.read(tmp_path / "out"))) == wanted
        for source in [tmp_path / "out", tmp_path / "causal"]:
            if source.name == "causal":
                # Kept tokens serve every objective.
                fastpack.pack_dir(lines, source, tokenizer=tokenizer, keep_tokens=True, max_length=512)
            again = tmp_path / f"again-{source.name}"
            fastpack.repack(source, again, tokenizer=tokenizer, strategy="sequential", **options)
            assert sorted(split(fastpack.read(again))) == wanted
        stream = fastpack.stream(
            lines, tokenizer, batch_size=8, ranks=fastpack.Ranks(lanes=4), epochs=1, **options
        )
        assert sorted(each for table in stream for each in split(table)) == wanted

    def test_a_stream_resumed_anywhere_gives_the_same_rows(self, objective, tokenizer, lines):
        options = {"batch_size": 4, "ranks": fastpack.Ranks(lanes=4), "epochs": 2, **options_of(objective)}
        tables = list(fastpack.stream(lines, tokenizer, **options))
        for at in [0, 3, len(tables) // 2]:
            again = fastpack.stream(lines, tokenizer, **options)
            again.load_state_dict(fastpack.state_of(tables[at]))
            assert [table.to_pydict() for table in again] == [table.to_pydict() for table in tables[at + 1 :]]

    def test_another_epoch_seed_or_repetition_draws_anew(self, objective, tokenizer, lines):
        options = options_of(objective)
        twice = list(
            split(fastpack.pack_files(files=[{"path": lines, "repeat": 2}], tokenizer=tokenizer, **options))
        )
        other = list(split(fastpack.pack_files(lines, tokenizer, seed=1, **options)))
        stream = fastpack.stream(
            lines, tokenizer, batch_size=8, ranks=fastpack.Ranks(lanes=4), epochs=2, **options
        )
        epochs = [each for table in stream for each in split(table)]
        first = {
            record: inputs for record, inputs, _ in split(fastpack.pack_files(lines, tokenizer, **options))
        }
        changed = sum(inputs != first[record] for record, inputs, _ in other)
        assert changed > 400
        for drawn in [twice, epochs]:
            assert len(drawn) == 1400
            same = sum(inputs == first[record] for record, inputs, _ in drawn)
            assert 700 <= same < 1100

    def test_copies_are_the_epochs_of_a_stream(self, objective, tokenizer, lines, tmp_path):
        stream = fastpack.stream(
            lines, tokenizer, batch_size=8, ranks=fastpack.Ranks(lanes=4), epochs=3, **options_of(objective)
        )
        options = options_of(objective, copies=3)
        wanted = sorted(each for table in stream for each in split(table))
        for strategy in ["mix", "sequential"]:
            table = fastpack.pack_files(lines, tokenizer, strategy=strategy, **options)
            assert sorted(split(table)) == wanted
            assert fastpack.Report.of(table).documents.kept == 2100
        fastpack.pack_dir(lines, tmp_path / "out", tokenizer=tokenizer, memory=1, **options)
        assert sorted(split(fastpack.read(tmp_path / "out"))) == wanted
        # Each copy is whole before the next begins.
        first = table.slice(0, table.num_rows // 3)
        assert len({record for record, *_ in split(first)}) > 690

    def test_a_killed_run_goes_on_to_the_same_bytes(self, objective, tokenizer, lines, tmp_path):
        lines.write_text(lines.read_text(encoding="utf-8") * 12, encoding="utf-8")
        options = {**options_of(objective, copies=2), "format": fastpack.Format(shard_size="200KB")}
        start(lines, tokenizer, tmp_path / "whole", **options).communicate()
        kill_at_work(lines, tokenizer, tmp_path / "killed", threads=1, **options)
        assert not shards(tmp_path / "killed")
        start(lines, tokenizer, tmp_path / "killed", threads=2, **options).communicate()
        assert shards(tmp_path / "killed") == shards(tmp_path / "whole") != {}


@pytest.mark.parametrize(
    ("options", "option", "said"),
    [
        ({"objective": "mlm"}, "objective", "mask_token"),
        ({"objective": "fim"}, "objective", "<fim_prefix>"),
        ({"objective": fastpack.FillInMiddle(tokens=["a", "b", "c"])}, "objective.tokens", "`a`"),
        ({"objective": "span", "strategy": "concat"}, "strategy", "concat"),
        ({"objective": "span", "max_length": 4}, "max_length", "8"),
        ({"objective": "span", "padding": "max_length"}, "objective.max_target_length", "padding"),
        ({"objective": "span", "train_on": "all"}, "train_on", "objective"),
        ({"objective": "span", "columns": ["input_ids", "loss_weights"]}, "columns", "loss_weights"),
        ({"columns": ["input_ids", "target_seq_lengths"]}, "columns", "target_seq_lengths"),
        ({"objective": "bert"}, "objective", "mlm"),
        ({"objective": fastpack.SpanCorruption(copies=2), "validation": 0.5}, "validation", "copies"),
    ],
)
def test_what_an_objective_lacks_or_cannot_heed_is_refused_by_name(options, option, said, t5, tmp_path):
    (tmp_path / "text.jsonl").write_text('{"text": "w1 w2 w3"}\n', encoding="utf-8")
    with pytest.raises(fastpack.OptionError, match=said) as refused:
        fastpack.pack_files(tmp_path / "text.jsonl", t5, **{"max_length": 64, **options})
    assert option is None or refused.value.option == place(option)


@pytest.mark.parametrize("objective", sorted(set(KINDS) - {"causal", "mlm", "fim"}))
def test_labels_are_shifted_by_objectives_that_say_so_alone(objective, tmp_path):
    assert "shift_labels" not in {field.name for field in dataclasses.fields(KINDS[objective])}
    config = tmp_path / "recipe.toml"
    config.write_text(f'objective = {{kind = "{objective}", shift_labels = true}}\n', encoding="utf-8")
    with pytest.raises(fastpack.OptionError, match=r"is no option of .*; it is one of ") as refused:
        fastpack.load_config(config)
    assert refused.value.option == "objective.shift_labels"


@pytest.mark.parametrize("objective", [name for name in get_args(ObjectiveName) if name != "causal"])
def test_the_compact_layout_is_refused_where_columns_cannot_be_made_of_ids(objective, t5, tmp_path):
    with pytest.raises(fastpack.OptionError, match=objective) as refused:
        fastpack.pack_records(
            [], t5, objective=objective, output=tmp_path / "out", format=fastpack.Format(layout="compact")
        )
    assert (refused.value.option, list(tmp_path.iterdir())) == ("format.layout", [])


def test_an_objective_that_needs_a_tokenizer_says_so_for_ids(t5, bert, tmp_path):
    table = pa.table({"input_ids": [[5, 6, 7]]})
    with pytest.raises(fastpack.OptionError, match="tokenizer"):
        fastpack.pack_table(table, objective="span", max_length=64)
    fastpack.pack_table(table, t5, max_length=64, output=tmp_path / "kept", keep_tokens=True)
    with pytest.raises(fastpack.OptionError, match="another"):
        fastpack.repack(tmp_path / "kept", tmp_path / "again", max_length=64, objective="mlm", tokenizer=bert)


def test_masks_of_tokens_and_padding_go_with_every_objective(t5):
    table = pa.table({"input_ids": [[5, 6, 7]] * 3})
    columns = ["input_ids", "attention_mask", "token_type_ids"]
    made = fastpack.pack_table(table, t5, max_length=16, padding=16, columns=columns)
    assert made["attention_mask"].to_pylist() == [[1] * 9 + [0] * 7]
    assert made["token_type_ids"].to_pylist() == [[0] * 16]
