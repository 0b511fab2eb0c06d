"""`Tagger.annotate` against transformers' `pipeline("token-classification")`: words per second.

`python -m benchmarks entities`

Both run the same model on the same texts: an encoder of MiniLM's size with a linear tag layer. The
weights are random, as speed does not depend on them. The bias of the tag O is set so that about a
tenth of the tokens are in entities. Entities at random positions make the check of equality harder.
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
from benchmarks.harness import Contestant, Goal, Results, Row, in_turn, make_row, same
from benchmarks.inputs import Inputs
from mslm_data.encode import tokenizer as tokenizer_module
from mslm_data.torch.model.saved import write_tokenizer
from mslm_data.torch.predict.tagger import Tagger

SENTENCES, SHORT, LONG = 400, 120, 8
"""Number of texts of one sentence, of one to eight sentences, and of sixty sentences."""
_ROUNDS = 3
_OUTSIDE = 0.9
"""Share of tokens outside entities."""
_STRIDE = 128
_NAMES = ("O", "B-Drug", "I-Drug", "B-Gene", "I-Gene")

Place = tuple[int, int, str]
"""Start, end (half-open, in characters) and label."""


def run(inputs: Inputs, scratch: Path) -> Results:
    """Compare entities and speed on one thread, in texts shorter and longer than a window."""
    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"

    sentences = [" ".join(word for word, _ in row) for row in inputs_module.read(inputs.train)]
    single = make_texts(sentences, count=SENTENCES, maximum=1)
    short = make_texts(sentences, count=SHORT, maximum=8)
    long = make_texts(sentences, count=LONG, minimum=60, maximum=60)

    tagger, pipeline = contestants(inputs.vocab, scratch / "model", short)
    rows = [
        *_window_rows("sentences", tagger, pipeline, single),
        *_window_rows("short texts", tagger, pipeline, short),
        _long_row(tagger, pipeline, long),
    ]
    caption = (
        f"Entities: {SENTENCES} sentences ({_words(single):,} words), {SHORT} texts of 1 to 8 "
        f"({_words(short):,} words), and {LONG} of 60 ({_words(long):,} words); an encoder of "
        "MiniLM's size, float32, one thread"
    )
    return Results(rows=rows, inputs=[caption])


def make_texts(
    sentences: Sequence[str], *, count: int, minimum: int = 1, maximum: int
) -> list[str]:
    """Join consecutive sentences of a corpus into texts.

    Args:
        sentences: The corpus.
        count: Number of texts.
        minimum: Minimum number of sentences of a text. Default: 1.
        maximum: Maximum number of sentences of a text.
    """
    lengths = random.Random(5)
    texts = []
    place = 0
    for _ in range(count):
        stop = place + lengths.randint(minimum, maximum)
        texts.append(" ".join(sentences[place:stop]))
        place = stop
    return texts


def contestants(
    vocab: Path, folder: Path, texts: Sequence[str], *, device: str = "cpu", **shape: Any
) -> tuple[Tagger, TokenClassificationPipeline]:
    """Return our tagger and transformers' pipeline with the same model.

    Args:
        vocab: A BERT vocabulary.
        folder: New folder for the pipeline's tokenizer.
        texts: Texts on which the share of entities is calibrated.
        device: Device of the model. Default: "cpu".
        shape: Options of `BertConfig` that replace those of MiniLM.
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
    """Set the bias of O so that `_OUTSIDE` of the tokens of the first texts get that tag."""
    encoded = tokenizer(list(texts[:16]), padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        logits = model(**encoded).logits[encoded["attention_mask"] == 1]
        ahead = logits[:, 1:].max(dim=1).values - logits[:, 0]
        model.classifier.bias.data[0] += ahead.quantile(_OUTSIDE)


def ours(tagger: Tagger, texts: Sequence[str]) -> list[list[Place]]:
    """Return the entities of each text, by our tagger."""
    entities = tagger.annotate(texts)
    return [[(m.start, m.end, m.label) for m in text_entities] for text_entities in entities]


def theirs(
    pipeline: TokenClassificationPipeline, texts: Sequence[str], **options: Any
) -> list[list[Place]]:
    """Return the entities of each text, by the pipeline."""
    entities: Any = pipeline(list(texts), **options)
    return [
        [(e["start"], e["end"], e["entity_group"]) for e in text_entities]
        for text_entities in entities
    ]


def _window_rows(
    name: str, tagger: Tagger, pipeline: TokenClassificationPipeline, texts: Sequence[str]
) -> list[Row]:
    """Compare on texts of one window. The pipeline takes texts one by one, then in batches."""
    entities = ours(tagger, texts)
    same(f"entities of {name}", entities, theirs(pipeline, texts))
    count = sum(map(len, entities))

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
    """Compare on texts of several windows, which the two sides cut at different positions."""
    entities = ours(tagger, texts)
    peer_entities = theirs(pipeline, texts, stride=_STRIDE)
    shared = sum(len(set(a) & set(b)) for a, b in zip(entities, peer_entities, strict=True))
    equal = (
        f"{shared:,} entities of our {sum(map(len, entities)):,} and its "
        f"{sum(map(len, peer_entities)):,} were the same: near the seams of windows each sees "
        "other words."
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
    return make_row(
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
