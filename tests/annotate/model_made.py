"""Hand-made models that find given names and nothing else, without training.

The encoder passes embeddings on: attention and feed-forward layers add zeros. Each word of a name
has its own embedding dimension. A classifier tags the first word of a name as B-X and the others as
I-X.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TAGS = ["O", "B-X", "I-X"]


def name_tagger(folder: Path, names: Sequence[str], *, label: str = "X", longest: int = 64) -> str:
    """Save a model with its tokenizer, and return the path of the folder."""
    import torch
    from transformers import BertForTokenClassification

    words = words_of(names)
    firsts = {name.lower().split()[0] for name in names}
    write_tokenizer(folder, words)

    id2label = {number: tag.replace("X", label) for number, tag in enumerate(TAGS)}
    model = BertForTokenClassification(config_for(words, longest, id2label=id2label))
    with torch.no_grad():
        hand_on(model.bert, words)
        zero(model.classifier)
        model.classifier.weight[0, -1] = 2.0
        for number, word in enumerate(words):
            model.classifier.weight[1 if word in firsts else 2, number] = 2.0
    model.save_pretrained(folder)
    return str(folder)


def words_of(names: Sequence[str]) -> list[str]:
    return [word for name in names for word in name.lower().split()]


def config_for(words: Sequence[str], longest: int, **options: Any) -> Any:
    from transformers import BertConfig

    return BertConfig(
        vocab_size=len(SPECIALS) + len(words),
        hidden_size=2 * -(-(len(words) + 1) // 2),
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=4,
        max_position_embeddings=longest,
        **options,
    )


def zero(module: Any) -> None:
    for parameter in module.parameters():
        parameter.zero_()


def hand_on(bert: Any, words: Sequence[str]) -> None:
    """Make an encoder pass embeddings on: one dimension per word, and the last for all other words."""
    import torch

    for name, weight in bert.named_parameters():
        if "LayerNorm" not in name:
            weight.zero_()
    embeddings = bert.embeddings.word_embeddings.weight
    embeddings[:, -1] = 1.0
    for number in range(len(words)):
        one_hot = torch.nn.functional.one_hot(torch.tensor(number), embeddings.shape[1])
        embeddings[len(SPECIALS) + number] = one_hot


def write_tokenizer(folder: Path, words: Sequence[str]) -> None:
    vocabulary = {word: number for number, word in enumerate([*SPECIALS, *words])}
    core = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    core.add_special_tokens(SPECIALS)
    folder.mkdir(parents=True, exist_ok=True)
    core.save(str(folder / "tokenizer.json"))
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
