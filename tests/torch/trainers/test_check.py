"""`check`: set-ups that mix documents are refused with the remedy, right ones pass."""

from __future__ import annotations

import pytest
import torch
from conftest import documents, pack
from small_models import VOCABULARY, model_of
from transformers import AttentionInterface, AttentionMaskInterface, DataCollatorForLanguageModeling
from transformers.masking_utils import flash_attention_mask
from transformers.modeling_flash_attention_utils import _is_packed_sequence

from fastpack import BatchError
from fastpack.torch import check, collate

PACKED = ["llama", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "gemma3", "gpt2"]


def varlen_stand_in(module, query, key, value, attention_mask, *, scaling=None, **given):
    """The treatment of boundaries by flash attention, on a CPU: they are cu_seq_lens, or positions of a single row."""
    rows, heads, width, _ = query.shape
    ends = given.get("cu_seq_lens_q")
    positions = given.get("position_ids")
    if ends is None and positions is not None and bool(_is_packed_sequence(positions, rows)):
        ends = torch.tensor([*(positions[0] == 0).nonzero().flatten(), width])
    number = torch.zeros(width, dtype=torch.long)
    if ends is not None and rows == 1:
        number = torch.searchsorted(ends.long(), torch.arange(width), right=True)
    seen = (number[:, None] == number) & torch.ones(width, width, dtype=torch.bool).tril()
    groups = heads // key.shape[1]
    key, value = (each.repeat_interleave(groups, 1) for each in (key, value))
    made = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=seen, scale=scaling)
    return made.transpose(1, 2).contiguous(), None


AttentionInterface.register("varlen_stand_in", varlen_stand_in)
AttentionMaskInterface.register("varlen_stand_in", flash_attention_mask)


def positions_only(rows):
    """Rows padded to one length with positions, and nothing else."""
    batch = collate(rows, padded="longest")
    return {name: batch[name] for name in ("input_ids", "labels", "position_ids", "use_cache")}


@pytest.mark.parametrize("attention", ["eager", "sdpa", "varlen_stand_in"])
@pytest.mark.parametrize("architecture", PACKED)
def test_a_batch_of_collate_passes(architecture, attention, rows):
    if architecture == "gemma2" and attention == "sdpa":
        pytest.skip("transformers has no SDPA for gemma2")
    check(model_of(architecture, attention), collate(rows))


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gpt2"])
def test_padded_rows_pass(architecture, rows):
    for attention in ("eager", "sdpa"):
        check(model_of(architecture, attention), collate(rows, padded="longest"))
        check(model_of(architecture, attention), positions_only(rows))


def test_rows_of_one_document_pass_with_any_model():
    rows = pack(documents(6), strategy="none").to_pylist()
    lengths = [[len(row["input_ids"])] for row in rows]
    for architecture in ("llama", "opt", "bloom", "mamba"):
        check(
            model_of(architecture, "eager"),
            collate(rows, padded="longest", mask="padding"),
            seq_lengths=lengths,
        )


def test_the_model_is_as_before(rows):
    model = model_of("gpt2").train()
    model.transformer.h[0].eval()
    modes = [module.training for module in model.modules()]
    state = torch.get_rng_state()
    check(model, collate(rows))
    assert [module.training for module in model.modules()] == modes
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_flash_attention_with_several_rows_and_positions_alone_is_refused(rows):
    model = model_of("llama", "varlen_stand_in")
    with pytest.raises(BatchError, match=r"see each other: .*; lay the rows end to end"):
        check(model, positions_only(rows))
    check(model, positions_only(rows[:1]))


def test_a_mask_of_ones_is_refused(rows):
    batch = collate(rows[:1])
    for kept in (("input_ids", "position_ids", "use_cache"), tuple(batch)):
        spoilt = {name: batch[name] for name in kept} | {
            "attention_mask": torch.ones_like(batch["input_ids"])
        }
        with pytest.raises(BatchError, match=r"see each other: .*; leave out `attention_mask`"):
            check(model_of("llama"), spoilt)


def test_a_cache_is_refused(rows):
    batch = collate(rows)
    for spoilt in (batch | {"use_cache": True}, {name: batch[name] for name in batch if name != "use_cache"}):
        with pytest.raises(BatchError, match=r"see each other: .*; call the model with use_cache=False"):
            check(model_of("llama"), spoilt)


def test_lengths_without_positions_are_refused_under_sdpa(rows):
    batch = collate(rows)
    del batch["position_ids"]
    with pytest.raises(BatchError, match=r"`position_ids` are missing; use fastpack.torch.collate"):
        check(model_of("llama"), batch)


@pytest.mark.parametrize("attention", ["sdpa", "varlen_stand_in"])
@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_a_collator_that_makes_other_positions_is_refused(architecture, attention, rows):
    batch = collate(rows)
    batch["position_ids"] = torch.arange(batch["input_ids"].shape[1])[None]
    if (architecture, attention) == ("llama", "varlen_stand_in"):
        check(
            model_of(architecture, attention), batch
        )  # rotary positions are relative, and cu_seq_lens are right
        return
    with pytest.raises(BatchError, match=r"`position_ids` do not begin at 0"):
        check(model_of(architecture, attention), batch)


def test_the_collator_of_language_models_is_refused(rows):
    """It makes a mask of ones; the rows say where documents begin."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), pad_token="<pad>")
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    batch = collator([{"input_ids": row["input_ids"]} for row in rows])
    lengths = [row["seq_lengths"] for row in rows]
    with pytest.raises(BatchError, match="see each other"):
        check(model_of("llama"), dict(batch), seq_lengths=lengths)


@pytest.mark.parametrize("architecture", ["opt", "bloom", "mpt", "mamba", "mamba2", "rwkv", "gpt_oss"])
def test_a_model_that_ignores_positions_is_refused_by_name(architecture, rows):
    batch = positions_only(rows)
    with pytest.raises(BatchError, match=rf"`{architecture}` does not read|cannot be called with this batch"):
        check(model_of(architecture, "eager"), batch)


def test_labels_that_are_shifted_twice_are_refused(rows):
    for options in ({}, {"padded": "longest"}):
        with pytest.raises(BatchError, match="the labels are shifted, and the model shifts them once more"):
            check(model_of("llama"), collate(rows, shift_labels=True, **options))


def test_labels_that_nobody_shifts_are_refused(rows):
    class Unshifted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model_of("llama")

        def forward(self, labels, **batch):
            outputs = self.inner(**batch)
            outputs.loss = torch.nn.functional.cross_entropy(outputs.logits[0], labels[0])
            return outputs

    check(Unshifted(), collate(rows, shift_labels=True))
    with pytest.raises(BatchError, match="does not shift labels; pass shift_labels=True"):
        check(Unshifted(), collate(rows))


@pytest.mark.parametrize("half", [lambda batch: slice(0, batch // 2), lambda batch: slice(batch // 2, None)])
def test_a_batch_that_was_cut_is_refused(rows, half):
    """As `dispatch_batches` and `split_batches` cut columns with a place for each token."""
    batch = collate(rows)
    where = half(batch["input_ids"].shape[1])
    cut = {
        name: value[..., where] if isinstance(value, torch.Tensor) and value.dim() == 2 else value
        for name, value in batch.items()
    }
    with pytest.raises(
        BatchError, match=r"`cu_seq_lens_q` ends at \d+, .* dispatch_batches and split_batches"
    ):
        check(model_of("llama"), cut)


def test_a_boundary_that_the_batch_lost_is_noticed_by_the_lengths_of_its_rows(rows):
    lengths = [row["seq_lengths"] for row in rows]
    first, second, *others = rows[0]["seq_lengths"]
    spoilt = [{**rows[0], "seq_lengths": [first + second, *others]}, *rows[1:]]
    with pytest.raises(BatchError, match="see each other"):
        check(model_of("llama"), collate(spoilt), seq_lengths=lengths)


def test_a_token_outside_the_vocabulary_is_named(rows):
    batch = collate(rows)
    batch["input_ids"][0, 3] = VOCABULARY
    with pytest.raises(
        BatchError, match=rf"`input_ids` has the token {VOCABULARY}, .* has {VOCABULARY} rows"
    ):
        check(model_of("llama"), batch)


def test_a_document_longer_than_the_positions_is_named():
    rows = pack({"input_ids": [[5] * 30, [6] * 257]}, max_length=300, overlong="error").to_pylist()
    with pytest.raises(BatchError, match=r"`seq_lengths` has a document of 257 tokens, .* max_length=256"):
        check(model_of("llama"), collate(rows))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"labels": torch.ones(1, 2)}, "a batch has `input_ids` of the shape"),
        ({"input_ids": torch.ones(3, dtype=torch.long)}, "a batch has `input_ids` of the shape"),
        ({"input_ids": torch.ones(1, 3, dtype=torch.long)}, "does not say where documents begin"),
    ],
)
def test_what_is_no_batch_is_refused(batch, message):
    with pytest.raises(BatchError, match=message):
        check(model_of("llama"), batch)


def test_half_precision_passes_and_is_refused_alike(rows):
    model = model_of("llama").to(torch.bfloat16)
    check(model, collate(rows))
    with pytest.raises(BatchError, match="use_cache=False"):
        check(model, collate(rows) | {"use_cache": True})


def test_a_sliding_window_that_a_mask_replaces_is_noticed():
    ids = documents(60)["input_ids"]
    columns = {"input_ids": [[*ids[0], *ids[1]], [token for each in ids[2:12] for token in each]]}
    rows = pack(columns, max_length=200, strategy="sequential").to_pylist()
    assert rows[0]["seq_lengths"][1] > 2 * 24
    model = model_of("mistral")
    check(model, collate(rows))
    with pytest.raises(BatchError, match="sliding window"):
        check(model, collate(rows, padded="longest"))
