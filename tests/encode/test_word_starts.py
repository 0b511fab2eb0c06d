"""First tokens of words, found from ids, compared with the encoder's words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from mslm_data.data.document import Document
from mslm_data.data.documents import Documents, Ranges
from mslm_data.encode.layout import lay_out
from mslm_data.encode.tokenizer import Tokenizer, load_tokenizer
from mslm_data.encode.word_starts import WordStarts
from mslm_data.encode.word_table import WordTable
from tests import made

TEXTS = (
    "IL-2(alpha) binds p53/MDM2.",
    "  of [3H]thymidine, 99 +/- 3 %; see ( 1 ) . Café cafe\u0301 naïve β-blocker",
    "non-small-cell carcinoma\nT1/2 3.5h\tpH7 (sensitive).",
)


def found_and_expected(
    tokenizer: Tokenizer, texts: tuple[str, ...]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    documents = Documents.from_documents([Document(id="", text=text) for text in texts])
    each_whole = Ranges(np.arange(len(documents) + 1), documents.starts, documents.ends)
    layout = lay_out(documents, each_whole, WordTable(tokenizer))
    word_starts = WordStarts.from_tokenizer(tokenizer)
    rows = np.split(layout.ids, layout.offsets[1:-1])
    found = np.concatenate([word_starts.find_first_tokens(row[None])[0] for row in rows])
    return found, layout.heads


@pytest.mark.parametrize("name", made.TOKENIZERS)
def test_find_first_tokens__equal_those_of_the_text(name: str) -> None:
    # The Unigram has no line break, which it encodes as an unknown letter.
    texts = TEXTS if name != "unigram" else tuple(" ".join(text.split()) for text in TEXTS)

    found, expected = found_and_expected(made.TOKENIZERS[name](), texts)

    assert not expected.all()
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "vocabulary",
    ["bert-base-cased__Bio_ClinicalBERT.vocab.txt", "PubMedBERT_BiomedBERT.vocab.txt"],
)
def test_find_first_tokens__equal_those_of_real_abstracts(real: Path, vocabulary: str) -> None:
    file = real / "pubtator" / "ncbi" / "NCBItestset_corpus.txt"
    lines = file.read_text(encoding="utf-8").splitlines()
    abstracts = tuple(line.split("|", 2)[2] for line in lines if line.count("|") >= 2)

    found, expected = found_and_expected(
        load_tokenizer(str(real / "tokenizers" / vocabulary)), abstracts
    )

    assert len(expected) > 20_000
    assert found.tolist() == expected.tolist()


def test_find_first_tokens__include_the_token_after_special_tokens() -> None:
    tokenizer = made.word_piece()
    row = tokenizer.core.encode("p53 binds")

    first = WordStarts.from_tokenizer(tokenizer).find_first_tokens(np.array([row.ids]))

    assert first[0].tolist() == [
        place == 0 or row.word_ids[place] is None or row.word_ids[place] != row.word_ids[place - 1]
        for place in range(len(row.ids))
    ]
