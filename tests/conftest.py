"""Where tests find real data, and small helpers that more than one test file needs."""

import os
from pathlib import Path

import pytest
import spacy
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data():
    """The folder of the public corpora: beside the repository, or where SPACY_BILSTM_CRF_DATA says."""
    path = Path(os.environ.get("SPACY_BILSTM_CRF_DATA") or REPOSITORY.parent / "shared" / "data")
    if not path.is_dir():
        pytest.skip(f"the corpora are not at {path} (set SPACY_BILSTM_CRF_DATA)")
    return path


@pytest.fixture
def nlp():
    """A fresh English pipeline without components."""
    return spacy.blank("en")


@pytest.fixture
def write(tmp_path):
    """Write a file, as text or as bytes, and return its path."""

    def write_file(content, name="data.conll"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf8"))
        return path

    return write_file
