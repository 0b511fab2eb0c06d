"""An annotator for mslm-data: takes the entities that a GLiNER model finds for given prompts.

GLiNER (Zaratiana et al. 2024) is asked for entities in words, such as "disease or syndrome". The
package `gliner` cuts off whatever is longer than a model takes, so documents are cut into windows
here, and what the windows say is put together as `text_windows` describes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from mslm_data import _optional
from mslm_data.annotate.cached import CachedAnnotator, FoundMentions, filter_mentions
from mslm_data.data.document import Document, Span
from mslm_data.data.ragged import make_offsets
from mslm_data.errors import AnnotateError
from mslm_data.registry import Help
from mslm_data.torch.predict.model_files import ModelFiles, find_model
from mslm_data.torch.predict.model_ner import (
    check_gpu,
    check_options,
    machine_errors,
    threads,
    versions,
)
from mslm_data.torch.predict.text_windows import (
    Window,
    WordMention,
    max_word_tokens,
    merge_windows,
    windows,
)

_ASKS = "annotator 'gliner'"
_CONFIG = "gliner_config.json"
_MOST_TOKENS = 512
"""Most tokens that an encoder is given, prompts included, if it does not say fewer."""
_LEAST = 4
"""Least room of a window, in words and in tokens."""
_DIGITS = 4


@dataclass(frozen=True, kw_only=True)
class GlinerNer:
    """Finds entities with a GLiNER model, which is asked for them in words.

    Documents are read in overlapping windows, as many words as the model takes, across sentences.
    Of mentions that overlap the model gives the surest. Only safetensors are loaded, with a
    tokenizer and the encoder's configuration beside them, no pickles and no code of others.

    What is found in a document does not depend on the documents beside it. Another version of a
    package, device, number of threads, batch size or kind of processor may change the last digit of
    a score, and so, rarely, a mention.
    """

    model: Annotated[str, Help("The model's folder, or its name on the hub.")] = ""
    prompts: Annotated[
        Mapping[str, str],
        Help(
            'What the model is asked for ("disease or syndrome") -> its label. Several prompts may '
            "have one label."
        ),
    ] = field(default_factory=dict)
    min_score: Annotated[float, Help("Mentions of a lower score are not found.")] = 0.5
    batch_size: Annotated[
        int, Help("Number of windows of one document that the model sees at once.")
    ] = 1
    device: Annotated[
        Literal["cpu", "cuda"],
        Help('"cuda" runs the model on a GPU, of which each worker loads a copy.'),
    ] = "cpu"
    threads: Annotated[int, Help("Number of CPU threads of a worker.")] = 1
    weak: Annotated[bool, Help("Whether mentions carry confidences.")] = True
    slow: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_options(self.min_score, self.batch_size, self.threads)
        if not all(text.strip() for pair in self.prompts.items() for text in pair):
            raise ValueError("prompts: expected words and a label for each, got an empty text")

    def digest(self) -> str:
        """Return a digest of the model's files, and of the versions of what runs it."""
        packages = ("gliner", "torch", "transformers")
        digests = [self._files().digest(), *versions(*packages, wanted_by=_ASKS)]
        return hashlib.sha256(" ".join(digests).encode()).hexdigest()

    def labels(self) -> tuple[str, ...]:
        """Return the labels of the prompts, each once."""
        return tuple(dict.fromkeys(self._asked().values()))

    def start(self) -> CachedAnnotator:
        """Load the model into memory, without looking for a GPU."""
        # This comes first, as it tells the hub's client to be quiet.
        _optional.load("transformers", wanted_by=_ASKS)
        gliner = _optional.load("gliner", wanted_by=_ASKS)
        files = self._files()

        # Workers may be forked from this process, and a pool of threads would not be there.
        with threads(1):
            model = _loaded(gliner, files)
        return CachedAnnotator(LoadedGliner(self, model).find)

    def _asked(self) -> Mapping[str, str]:
        if not self.prompts:
            raise AnnotateError(
                f"{_ASKS}: expected prompts, got none; pass "
                '--set \'annotate.prompts={"disease or syndrome" = "Disease"}\', what the model '
                "is asked for and its label"
            )
        return self.prompts

    def _files(self) -> ModelFiles:
        if not self.model:
            raise AnnotateError(
                f"{_ASKS}: expected model, got none; pass --set annotate.model=MODEL, the folder "
                "of a GLiNER model or its name on the hub"
            )
        files = find_model(self.model, config=_CONFIG)
        _refuse_others(files)
        return files


class _Texts(NamedTuple):
    """Stretches of a document that windows may be in.

    Attributes:
        starts: First character of each word.
        ends: Character after its last.
        costs: int64, how much of a window each word takes.
    """

    starts: list[int]
    ends: list[int]
    costs: list[int]


class LoadedGliner:
    """A GLiNER model in memory, which goes to its device when it is first used."""

    def __init__(self, options: GlinerNer, model: Any) -> None:
        """Keep the model, and find out how much text it takes at once.

        Raises:
            AnnotateError: The prompts leave no room for text.
        """
        self._options = options
        self._model = model
        self._is_there = options.device == "cpu"

        # Prompts are asked in one order, as another could change scores.
        self._prompts = sorted(options._asked())
        self._labels = list(options.labels())
        self._number_of = {
            prompt: self._labels.index(options.prompts[prompt]) for prompt in self._prompts
        }

        self._words = int(model.config.max_len)
        self._tokens = self._most_tokens()
        if min(self._words, self._tokens) < _LEAST:
            raise AnnotateError(
                f"{_ASKS}: expected prompts that leave room for {_LEAST} words, got "
                f"{len(self._prompts)} that leave {max(0, min(self._words, self._tokens))}; ask "
                "for less, or in fewer words"
            )

    def find(self, documents: Sequence[Document]) -> list[FoundMentions]:
        """Return the entities of documents."""
        if documents and not self._is_there:
            # Not before: a process that has used a GPU cannot be forked.
            check_gpu(_ASKS)
            self._model.to(self._options.device)
            self._is_there = True

        with threads(self._options.threads), machine_errors(_ASKS):
            return [
                filter_mentions(self._spans(document.text), document.placeholders, min_score=0)
                for document in documents
            ]

    def _spans(self, text: str) -> Iterator[Span]:
        """Give the entities of a text."""
        room = self._words * self._tokens
        for stretch in self._stretches(text, room):
            places = make_offsets(np.array(stretch.costs, np.int64))
            of_text = list(windows(places, room))
            for mention in merge_windows(of_text, self._in_windows(text, stretch, of_text), places):
                score = round(sum(mention.scores) / len(mention.scores), _DIGITS)
                start, end = stretch.starts[mention.start], stretch.ends[mention.end - 1]
                yield Span(start, end, self._labels[mention.label], score=score)

    def _stretches(self, text: str, room: int) -> Iterator[_Texts]:
        """Give the words of a text, apart where a word has too many tokens to be read.

        A window takes so many words and so many tokens. Both limits are one where a word costs the
        larger of its shares, in fractions of words times tokens.
        """
        found = list(self._model.data_processor.words_splitter(text))
        if not found:
            return
        counts = self._num_tokens([word for word, *_ in found])
        costs = [max(count * self._words, self._tokens) for count in counts]

        most = max_word_tokens(room)
        words = zip(found, costs, strict=True)
        for is_long, group in groupby(words, key=lambda word: word[1] > most):
            if not is_long:
                of_group = list(group)
                yield _Texts(
                    starts=[start for (_, start, _), _ in of_group],
                    ends=[end for (_, _, end), _ in of_group],
                    costs=[cost for _, cost in of_group],
                )

    def _in_windows(
        self, text: str, stretch: _Texts, of_text: Sequence[Window]
    ) -> list[list[WordMention]]:
        """Return what the model finds in each window, in words of the stretch."""
        bases = [stretch.starts[window.start] for window in of_text]
        given = [
            text[base : stretch.ends[window.end - 1]]
            for base, window in zip(bases, of_text, strict=True)
        ]
        found = self._model.inference(
            given,
            self._prompts,
            flat_ner=True,
            threshold=self._options.min_score,
            batch_size=self._options.batch_size,
        )

        first_at = {start: number for number, start in enumerate(stretch.starts)}
        last_at = {end: number for number, end in enumerate(stretch.ends, start=1)}
        mentions = []
        for base, of_window in zip(bases, found, strict=True):
            of_one = []
            for entity in of_window:
                first = first_at[base + entity["start"]]
                past = last_at[base + entity["end"]]
                scores = (float(entity["score"]),) * (past - first)
                of_one.append(WordMention(first, past, self._number_of[entity["label"]], scores))
            mentions.append(sorted(of_one))
        return mentions

    def _num_tokens(self, words: list[str]) -> list[int]:
        """Return how many tokens each word has."""
        tokenizer = self._model.data_processor.transformer_tokenizer
        encoded = tokenizer(
            words, is_split_into_words=True, add_special_tokens=False, truncation=False
        )
        counts = Counter(encoded.word_ids())
        return [counts[number] for number in range(len(words))]

    def _most_tokens(self) -> int:
        """Return how many tokens of text a window has room for, beside prompts and specials."""
        processor = self._model.data_processor
        (prompt,), _ = processor.prepare_inputs([[]], self._prompts)
        tokenizer = processor.transformer_tokenizer
        around = sum(self._num_tokens(prompt)) + tokenizer.num_special_tokens_to_add()

        encoder = self._model.config.encoder_config
        longest = int(getattr(encoder, "max_position_embeddings", None) or _MOST_TOKENS)
        most: int = min(_MOST_TOKENS, longest, tokenizer.model_max_length) - around
        return most


# Files --------------------------------------------------------------------------------------------


def _loaded(gliner: Any, files: ModelFiles) -> Any:
    """Load a model of which all is here."""
    import transformers
    from safetensors import SafetensorError, safe_open

    said: Any = transformers.utils.logging
    said.set_verbosity_error()
    said.disable_progress_bar()
    try:
        model = gliner.GLiNER.from_pretrained(
            str(files.folder), local_files_only=True, map_location="cpu"
        )
        with safe_open(files.folder / "model.safetensors", framework="pt") as weights:
            given = {*weights.keys(), *(weights.metadata() or ())}
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise AnnotateError(
            f"{files.folder}: expected a model that gliner loads, got {type(error).__name__} from "
            "it; load it where you trust it, and save it with save_pretrained(..., "
            "safe_serialization=True)"
        ) from None

    missing = sorted({name for name, _ in model.model.named_parameters()} - given)
    if missing:
        raise AnnotateError(
            f"{files.folder}: expected all weights of a GLiNER model, got none for {missing[0]}"
        )

    # Of scores that are not numbers the package finds nothing, and says nothing.
    damaged = [
        name for name, weights in model.model.named_parameters() if not _are_numbers(weights)
    ]
    if damaged:
        raise AnnotateError(
            f"{files.folder}: expected weights that are numbers, got NaN or infinity in "
            f"{damaged[0]}; copy or train the model again"
        )
    return model


def _are_numbers(weights: Any) -> bool:
    return bool(weights.isfinite().all())


def _refuse_others(files: ModelFiles) -> None:
    """Refuse models that need more than their folder, or that can run code of others.

    Raises:
        AnnotateError: The model is such a one.
    """
    config = files.config
    splitter = config.get("words_splitter_type", "whitespace")
    reason = ""
    if _has_key(config, "auto_map"):
        reason = "one that names code of its own (auto_map)"
    elif not (files.folder / "model.safetensors").is_file():
        reason = "weights in several files or of another name"
    elif not (files.folder / "tokenizer_config.json").is_file():
        reason = "one without its tokenizer"
    elif not isinstance(config.get("encoder_config"), dict):
        reason = "one without its encoder's configuration"
    elif config.get("labels_encoder") and not isinstance(config.get("labels_encoder_config"), dict):
        reason = "one without the configuration of its encoder of labels"
    elif config.get("labels_decoder"):
        reason = "one that writes labels"
    elif splitter != "whitespace":
        reason = f"one whose words are split by '{splitter}'"
    if reason:
        raise AnnotateError(
            f"{files.folder}: expected a GLiNER model that is whole, with words split at white "
            f"space, got {reason}; load it where you trust it, and save it with "
            "save_pretrained(..., safe_serialization=True), or choose another"
        )


def _has_key(value: Any, key: str) -> bool:
    """Return whether a mapping has a key at any depth."""
    if isinstance(value, Mapping):
        return key in value or any(_has_key(item, key) for item in value.values())
    if isinstance(value, list):
        return any(_has_key(item, key) for item in value)
    return False
