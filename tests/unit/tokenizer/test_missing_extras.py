"""A name that needs a package which is not there is answered with the extra that brings it."""

import sys

import pytest

from tokenmill import MissingExtraError, Tokenizer


def test_a_published_encoding_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tokenmill\[tiktoken\]'") as caught:
        Tokenizer.load("cl100k_base")
    assert "or pass the path of cl100k_base.tiktoken" in str(caught.value)
