"""A packed batch trains as its documents do one by one: losses and gradients, in every shape of model."""

from __future__ import annotations

import pytest
import torch
from conftest import documents, pack
from small_models import model_of

from fastpack import Padding
from fastpack.torch import collate, count_trained, loss

ARCHITECTURES = ["llama", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "gemma3", "gpt2"]


def gradients(model):
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


def one_by_one(model, columns):
    """The summed loss of documents that are run alone, by the model's own loss, and its gradients."""
    model.zero_grad()
    total = 0.0
    for ids, labels in zip(columns["input_ids"], columns["labels"], strict=True):
        alone = model(input_ids=torch.tensor([ids]), labels=torch.tensor([labels]), num_items_in_batch=1)
        alone.loss.backward()
        total += alone.loss.item()
    return total, gradients(model)


def packed(model, batches):
    """The summed loss of batches, by the model's own loss, and its gradients."""
    model.zero_grad()
    total = 0.0
    for batch in batches:
        whole = model(**batch, num_items_in_batch=1)
        whole.loss.backward()
        total += whole.loss.item()
    return total, gradients(model)


def differ(one, other):
    """The greatest difference of two runs, relative to the greatest value."""
    losses = abs(one[0] - other[0]) / abs(one[0])
    scale = max(float(grad.abs().max()) for grad in one[1].values())
    return max(losses, *(float((one[1][name] - other[1][name]).abs().max()) / scale for name in one[1]))


SLIDING = {"mistral", "gemma2", "gemma3"}
"""Models whose windows are shorter than the documents; a 4-D mask would leave the windows out."""

WITHOUT_SDPA = {"gemma2"}


@pytest.mark.parametrize(
    ("architecture", "attention"),
    [(name, "eager") for name in ARCHITECTURES]
    + [(name, "sdpa") for name in ARCHITECTURES if name not in WITHOUT_SDPA],
)
def test_loss_and_gradients_of_a_packed_batch_are_those_of_its_documents(architecture, attention):
    columns = documents(14, longest=40)
    rows = pack(columns, max_length=80).to_pylist()
    assert max(len(row["seq_lengths"]) for row in rows) > 2
    model = model_of(architecture, attention)
    truth = one_by_one(model, columns)
    for options in [{}] if architecture in SLIDING else [{}, {"padded": "longest"}]:
        found = packed(model, [collate(rows[:2], **options), collate(rows[2:], **options)])
        assert differ(truth, found) < 1e-5, options


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_with_one_boundary_removed_they_differ(architecture):
    columns = documents(14, longest=40)
    rows = pack(columns, max_length=80).to_pylist()
    model = model_of(architecture, "eager")
    truth = one_by_one(model, columns)
    first, second, *others = rows[0]["seq_lengths"]
    rows[0]["seq_lengths"] = [first + second, *others]
    batch = collate(rows)
    assert differ(truth, packed(model, [batch])) > 1e-3


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "mistral", "gemma3"])
def test_flex_attention_gives_the_logits_of_documents_alone(architecture):
    rows = pack(documents(8), max_length=128, padding=Padding("max_length", token_id=0)).to_pylist()[:1]
    model, flex = model_of(architecture), model_of(architecture, "flex_attention")
    with torch.no_grad():
        expected = model(**collate(rows)).logits
        assert torch.allclose(flex(**collate(rows)).logits, expected, atol=2e-4)
        if architecture not in SLIDING:
            masked = collate(rows, padded="longest", mask="flex")
            assert torch.allclose(flex(**masked).logits, expected, atol=2e-4)


def test_weighted_loss_and_gradients_are_those_of_documents_one_by_one():
    columns = documents(14, longest=40, weighted=True)
    rows = pack(columns, max_length=80).to_pylist()
    model = model_of("llama")
    model.zero_grad()
    total = 0.0
    for ids, labels, weights in zip(*columns.values(), strict=True):
        logits = model(input_ids=torch.tensor([ids])).logits[0, :-1]
        targets, factors = torch.tensor(labels[1:]), torch.tensor(weights[1:])
        each = torch.nn.functional.cross_entropy(logits, targets, reduction="none", ignore_index=-100)
        (each * factors).sum().backward()
        total += (each * factors).sum().item()
    truth = total, gradients(model)
    batches = [collate(rows[:2]), collate(rows[2:])]
    trained = sum(label != -100 for row in rows for label in row["labels"])
    assert count_trained(batches) == trained
    for items, scale in ((1, 1), (trained, trained)):
        model.zero_grad()
        total = 0.0
        for batch in batches:
            labels = batch.pop("labels")
            whole = loss(model(**batch), labels, num_items_in_batch=items)
            whole.backward()
            total += whole.item()
            batch["labels"] = labels
        found = total * scale, {name: grad * scale for name, grad in gradients(model).items()}
        assert differ(truth, found) < 1e-5


def test_loss_is_the_models_own_where_there_are_no_weights(rows):
    model = model_of("llama")
    for options in ({}, {"shift_labels": True}):
        batch = collate(rows, **options)
        labels = batch.pop("labels")
        expected = model(**collate(rows)).loss
        found = loss(model(**batch), labels, shift=not options)
        assert found.item() == pytest.approx(expected.item(), rel=1e-6)
