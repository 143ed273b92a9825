"""Processors and records that the tests of pictures share."""

from __future__ import annotations

from functools import cache

import pytest
import transformers
from picture_models import save_processor
from picture_records import forms_of


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory):
    return cache(lambda name: save_processor(name, tmp_path_factory.mktemp(name)))


@pytest.fixture(scope="session")
def processor_of(folder_of):
    return cache(lambda name: transformers.AutoProcessor.from_pretrained(folder_of(name)))


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """The folder of two pictures, and the same conversation with them in every form."""
    folder = tmp_path_factory.mktemp("forms")
    return folder, forms_of(folder)
