"""Finding entities in texts: `annotate` beside `pipeline("token-classification")`.

Both have the same model, an encoder of MiniLM's size with one linear layer for its tags, and the
same texts. The weights are random, with a bias by which about a tenth of the words is in entities:
time does not depend on what weights mean, and entities in odd places try the comparison harder.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForTokenClassification,
    TokenClassificationPipeline,
)

from benchmarks import inputs as inputs_module
from benchmarks.epoch import ENCODERS
from benchmarks.harness import Contestant, Goal, Results, Row, in_turn, row_of, same
from benchmarks.inputs import Inputs
from mslm_data.encode import tokenizer as tokenizer_module
from mslm_data.torch.model.saved import write_tokenizer
from mslm_data.torch.predict.tagger import Tagger

SENTENCES, SHORT, LONG = 400, 120, 8
"""How many texts of one sentence there are, of one to eight, and of sixty."""
_ROUNDS = 3
_OUTSIDE = 0.9
"""Share of tokens that are in no entity."""
_STRIDE = 128
_NAMES = ("O", "B-Drug", "I-Drug", "B-Gene", "I-Gene")

Place = tuple[int, int, str]
"""First character, the character after the last, and the label."""


def run(inputs: Inputs, scratch: Path) -> Results:
    """Compare entities and their rates, on one thread, in texts below and above a window."""
    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"

    sentences = [" ".join(word for word, _ in row) for row in inputs_module.read(inputs.train)]
    single = texts_of(sentences, count=SENTENCES, most=1)
    short = texts_of(sentences, count=SHORT, most=8)
    long = texts_of(sentences, count=LONG, least=60, most=60)

    tagger, pipeline = contestants(inputs.vocab, scratch / "model", short)
    rows = [
        *_window_rows("sentences", tagger, pipeline, single),
        *_window_rows("short texts", tagger, pipeline, short),
        _long_row(tagger, pipeline, long),
    ]
    says = (
        f"Entities: {SENTENCES} sentences ({_words(single):,} words), {SHORT} texts of 1 to 8 "
        f"({_words(short):,} words), and {LONG} of 60 ({_words(long):,} words); an encoder of "
        "MiniLM's size, float32, one thread"
    )
    return Results(rows=rows, inputs=[says])


def texts_of(sentences: Sequence[str], *, count: int, least: int = 1, most: int) -> list[str]:
    """Return texts of so many sentences each, those of a corpus one after the other."""
    lengths = random.Random(5)
    texts = []
    place = 0
    for _ in range(count):
        stop = place + lengths.randint(least, most)
        texts.append(" ".join(sentences[place:stop]))
        place = stop
    return texts


def contestants(
    vocab: Path, folder: Path, texts: Sequence[str], *, device: str = "cpu", **shape: Any
) -> tuple[Tagger, TokenClassificationPipeline]:
    """Return our tagger and the pipeline, which share a model.

    Args:
        vocab: A BERT vocabulary.
        folder: Where the pipeline's tokenizer is written.
        texts: Some of the texts, by which the share of entities is set.
        device: Where the model runs.
        shape: Options of the `BertConfig` in place of MiniLM's.
    """
    tokenizer = tokenizer_module.load_tokenizer(str(vocab))
    torch.manual_seed(11)
    config = BertConfig(
        vocab_size=tokenizer.ids.size,
        id2label=dict(enumerate(_NAMES)),
        label2id={name: number for number, name in enumerate(_NAMES)},
        **(ENCODERS["MiniLM"] | shape),
    )
    model: Any = BertForTokenClassification(config).eval()
    torch.nn.init.normal_(model.classifier.weight, std=1.0)

    folder.mkdir()
    write_tokenizer(folder, tokenizer, model)
    fast: Any = AutoTokenizer.from_pretrained(folder)
    _set_share_outside(model, fast, texts)

    transformers.logging.set_verbosity_error()
    pipeline = TokenClassificationPipeline(
        model=model.to(device), tokenizer=fast, aggregation_strategy="first", device=device
    )
    return Tagger(model, tokenizer), pipeline


def _set_share_outside(model: Any, tokenizer: Any, texts: Sequence[str]) -> None:
    """Set the bias of O, so that this share of the tokens of some texts has it."""
    given = tokenizer(list(texts[:16]), padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        logits = model(**given).logits[given["attention_mask"] == 1]
        ahead = logits[:, 1:].max(dim=1).values - logits[:, 0]
        model.classifier.bias.data[0] += ahead.quantile(_OUTSIDE)


def ours(tagger: Tagger, texts: Sequence[str]) -> list[list[Place]]:
    """Find the entities of texts by our tagger."""
    found = tagger.annotate(texts)
    return [[(m.start, m.end, m.label) for m in of_text] for of_text in found]


def theirs(
    pipeline: TokenClassificationPipeline, texts: Sequence[str], **options: Any
) -> list[list[Place]]:
    """Find the entities of texts by the pipeline."""
    found: Any = pipeline(list(texts), **options)
    return [[(e["start"], e["end"], e["entity_group"]) for e in of_text] for of_text in found]


def _window_rows(
    name: str, tagger: Tagger, pipeline: TokenClassificationPipeline, texts: Sequence[str]
) -> list[Row]:
    """Compare on texts that are one window, with the pipeline by default and in batches."""
    found = ours(tagger, texts)
    same(f"entities of {name}", found, theirs(pipeline, texts))
    count = sum(map(len, found))

    rates = _rates(
        texts,
        {
            "ours": lambda _: tagger.annotate(texts),
            "one by one": lambda _: pipeline(list(texts)),
            "batches": lambda _: pipeline(list(texts), batch_size=8),
        },
    )
    equal = f"the {count:,} entities were equal, place by place."
    return [
        _row(
            f"entities of {name}",
            rates,
            "one by one",
            f"the peer takes one text after the other, as it does by default; {equal}",
        ),
        _row(
            f"entities of {name}, peer in batches",
            rates,
            "batches",
            f"the peer with `batch_size=8`, padded in the order of the texts; {equal}",
        ),
    ]


def _long_row(tagger: Tagger, pipeline: TokenClassificationPipeline, texts: Sequence[str]) -> Row:
    """Compare on texts of several windows, whose seams differ."""
    found = ours(tagger, texts)
    peers = theirs(pipeline, texts, stride=_STRIDE)
    shared = sum(len(set(a) & set(b)) for a, b in zip(found, peers, strict=True))
    equal = (
        f"{shared:,} entities of our {sum(map(len, found)):,} and its {sum(map(len, peers)):,} "
        "were the same: near the seams of windows each sees other words."
    )
    rates = _rates(
        texts,
        {
            "ours": lambda _: tagger.annotate(texts),
            "windows": lambda _: pipeline(list(texts), stride=_STRIDE),
        },
    )
    return _row(
        "entities of long texts", rates, "windows", f"the peer with `stride={_STRIDE}`; {equal}"
    )


def _rates(texts: Sequence[str], calls: Mapping[str, Any]) -> dict[str, list[float]]:
    words = _words(texts)
    timed = {name: Contestant(call=call, work=words) for name, call in calls.items()}
    return in_turn(timed, rounds=_ROUNDS)


def _row(name: str, rates: Mapping[str, list[float]], peer: str, what: str) -> Row:
    return row_of(
        name,
        {"ours": rates["ours"], "peer": rates[peer]},
        unit="words",
        what=f'`Tagger.annotate`; the peer is `pipeline("token-classification", '
        f'aggregation_strategy="first")` with the same model; {what}',
        goal=Goal(
            peer=2.0,
            why="nearly all of the time goes into the model's matrix products, on either side; "
            "alone, a text has no padding.",
        ),
    )


def _words(texts: Sequence[str]) -> int:
    return sum(len(text.split()) for text in texts)
