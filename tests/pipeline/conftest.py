"""Trained pipelines that test files share. Tests do not change them."""

import pytest
from tiny_pipelines import train_nlp


@pytest.fixture(scope="session")
def trained():
    """A pipeline in the default tag scheme."""
    return train_nlp()


@pytest.fixture(scope="session", params=["BIO", "BIOES", "IO", "BMES"])
def trained_in_scheme(request, trained):
    """A pipeline in each tag scheme."""
    return trained if request.param == "BIOES" else train_nlp(tag_scheme=request.param)


@pytest.fixture(scope="session")
def trained_bytes(trained):
    """The trained pipeline, to be loaded where a test wants to change it."""
    return trained.to_bytes()
