"""Small models with random weights take 50 steps from rows of each objective, and their loss falls."""

from __future__ import annotations

import copy
import json

import pytest
import torch
import transformers
import trl

import fastpack

WORDS = [f"w{number}" for number in range(60)]
STEPS = 50
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 2}


@pytest.fixture(scope="module")
def tokenizer():
    """A tokenizer of whole words, with all special tokens that an objective needs."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    sentinels = [f"<extra_id_{number}>" for number in range(30)]
    special = ["<pad>", "<unk>", "</s>", "[CLS]", "[SEP]", "[MASK]", *sentinels]
    vocabulary = {word: at for at, word in enumerate([*special, *WORDS])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(special)
    ends = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="</s>",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        extra_special_tokens=sentinels,
    )


def text(number, words=18):
    """A text that repeats a few words, so that one tells of the next."""
    return " ".join(WORDS[(number * 5 + at % 3) % len(WORDS)] for at in range(words))


def files(tmp_path, records):
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return path


def losses(model, stream, names):
    """The losses of steps on the tables of a stream."""
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    found = []
    for table in stream:
        loss = model(**{name: torch.tensor(table[name].to_pylist()) for name in names}).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def falls(found, to):
    """True if the mean loss of the last steps is a share of that of the first."""
    assert len(found) == STEPS
    first, last = sum(found[:5]) / 5, sum(found[-5:]) / 5
    return last < to * first


def streamed(path, tokenizer, **options):
    return fastpack.stream(
        path, tokenizer, max_length=32, padding="max_length", epochs=None, max_steps=STEPS, **options
    )


def test_a_bert_learns_from_masked_texts(tokenizer, tmp_path):
    path = files(tmp_path, [{"text": text(number)} for number in range(40)])
    stream = streamed(path, tokenizer, objective="mlm", strategy="none")
    config = transformers.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=32, **SIZES)
    found = losses(transformers.BertForMaskedLM(config), stream, ["input_ids", "attention_mask", "labels"])
    assert falls(found, 0.8), found


def test_a_t5_learns_from_corrupted_spans(tokenizer, tmp_path):
    path = files(tmp_path, [{"text": text(number)} for number in range(40)])
    stream = streamed(
        path, tokenizer, objective=fastpack.SpanCorruption(max_target_length=16), strategy="none"
    )
    config = transformers.T5Config(
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_heads=4,
        num_layers=2,
        decoder_start_token_id=0,
        pad_token_id=0,
    )
    model = transformers.T5ForConditionalGeneration(config)
    found = losses(model, stream, ["input_ids", "attention_mask", "labels", "decoder_attention_mask"])
    assert falls(found, 0.8), found


@pytest.mark.parametrize("objective", ["classification", "multi_label"])
def test_a_classifier_learns_from_pairs_of_texts(tokenizer, tmp_path, objective):
    several = objective == "multi_label"
    records = [
        {
            "sentence1": text(number, 6),
            "sentence2": text(number if number % 2 else number + 9, 6),
            "labels": ["same"] * (number % 2) if several else number % 2,
        }
        for number in range(32)
    ]
    value = fastpack.MultiLabel(["same"]) if several else fastpack.Classification(2)
    stream = streamed(files(tmp_path, records), tokenizer, objective=value)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), max_position_embeddings=32, num_labels=1 if several else 2, **SIZES
    )
    config.problem_type = f"{'multi' if several else 'single'}_label_classification"
    model = transformers.BertForSequenceClassification(config)
    names = ["input_ids", "token_type_ids", "attention_mask", "labels"]
    found = losses(model, stream, names)
    assert falls(found, 0.8), found


def test_a_dpo_trainer_takes_rows_as_they_are_and_its_loss_falls(tokenizer, tmp_path):
    from datasets import Dataset

    records = [
        {
            "prompt": text(number, 4),
            "chosen": f" {WORDS[number % 3]}",
            "rejected": f" {WORDS[9 + number % 3]}",
        }
        for number in range(32)
    ]
    rows = fastpack.pack_records(records, tokenizer, objective="preference")

    class Trainer(trl.DPOTrainer):
        def _prepare_dataset(self, dataset, *arguments):
            return dataset

    torch.manual_seed(0)
    sizes = {**SIZES, "num_key_value_heads": 4}
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes)
    arguments = trl.DPOConfig(
        output_dir=str(tmp_path / "out"),
        max_steps=STEPS,
        per_device_train_batch_size=4,
        learning_rate=5e-3,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
    )
    model = transformers.LlamaForCausalLM(config)
    trainer = Trainer(
        model=model,
        ref_model=copy.deepcopy(model),
        args=arguments,
        train_dataset=Dataset(rows),
        processing_class=tokenizer,
    )
    trainer.train()
    found = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert falls(found, 0.8), found
