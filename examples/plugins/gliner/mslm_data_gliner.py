"""Example of an annotator plug-in: zero-shot entities by GLiNER (Zaratiana et al. 2024).

A GLiNER model finds entities by prompts, such as "disease or syndrome". The package `gliner`
truncates long texts. Here documents are read in overlapping windows, whose mentions are merged.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from msgspec import Meta, field

from mslm_data.annotate.cached import CachedAnnotator, FoundMentions, filter_mentions
from mslm_data.data.document import Document, Span
from mslm_data.errors import AnnotateError
from mslm_data.registry import Options
from mslm_data.torch.predict import (
    ModelFiles,
    Window,
    WordMention,
    check_gpu,
    find_model,
    machine_errors,
    max_word_tokens,
    merge_windows,
    threads,
    versions,
    windows,
)

_CALLER = "annotator 'gliner'"
_CONFIG = "gliner_config.json"
_MAX_TOKENS = 512
"""Maximum number of tokens of a window, prompts included. The encoder may have a lower one."""
_MIN_ROOM = 4
"""Minimum number of words, and of tokens, in a window besides prompts."""
_DIGITS = 4


class GlinerNer(Options, frozen=True, kw_only=True):
    """Zero-shot entities by a GLiNER model and prompts in plain words.

    Documents are read in overlapping windows of the model's maximum length, across sentences. Of
    overlapping mentions, the one with the highest score is kept. Only safetensors are loaded, from
    a folder with tokenizer and encoder configuration; neither pickles nor custom code.

    The mentions of a document do not depend on other documents. The package versions, device,
    number of threads, batch size and processor may change the last digit of a score and so, rarely,
    a mention.
    """

    model: Annotated[str, Meta(description="Folder of the model, or its name on the hub.")] = ""
    prompts: Annotated[
        Mapping[str, str],
        Meta(
            description='Prompt, such as "disease or syndrome" -> label. Several prompts may have '
            "the same label."
        ),
    ] = field(default_factory=dict)
    min_score: Annotated[float, Meta(ge=0, le=1, description="Minimum score of a mention.")] = 0.5
    batch_size: Annotated[
        int, Meta(ge=1, description="Number of windows of a document in a batch.")
    ] = 1
    device: Annotated[
        Literal["cpu", "cuda"],
        Meta(description='Device of the model. With "cuda", each worker loads a copy.'),
    ] = "cpu"
    threads: Annotated[int, Meta(ge=1, description="Number of CPU threads of a worker.")] = 1
    weak: Annotated[bool, Meta(description="Whether mentions have scores.")] = True
    slow: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not all(text.strip() for pair in self.prompts.items() for text in pair):
            raise ValueError("prompts: expected words and a label for each, got an empty text")

    def digest(self) -> str:
        """Return a digest of model files and package versions."""
        packages = ("gliner", "torch", "transformers")
        digests = [self._files().digest(), *versions(*packages, wanted_by=_CALLER)]
        return hashlib.sha256(" ".join(digests).encode()).hexdigest()

    def labels(self) -> tuple[str, ...]:
        """Return the distinct labels of the prompts, in order."""
        return tuple(dict.fromkeys(self._required_prompts().values()))

    def start(self) -> CachedAnnotator:
        """Load the model on the CPU."""
        files = self._files()

        # Thread pools do not survive a fork of this process into workers.
        with threads(1):
            model = _load(files)
        return CachedAnnotator(LoadedGliner(self, model).find)

    def _required_prompts(self) -> Mapping[str, str]:
        if not self.prompts:
            raise AnnotateError(
                f"{_CALLER}: expected prompts, got none; pass "
                '--set \'annotate.prompts={"disease or syndrome" = "Disease"}\', what the model '
                "is asked for and its label"
            )
        return self.prompts

    def _files(self) -> ModelFiles:
        if not self.model:
            raise AnnotateError(
                f"{_CALLER}: expected model, got none; pass --set annotate.model=MODEL, the folder "
                "of a GLiNER model or its name on the hub"
            )
        files = find_model(self.model, config=_CONFIG)
        _check_model(files)
        return files


class _Stretch(NamedTuple):
    """Consecutive words of a document to cut into windows.

    Attributes:
        starts: First character of each word.
        ends: Character after each word.
        costs: Cost of each word. A window has room for words x tokens.
    """

    starts: list[int]
    ends: list[int]
    costs: list[int]


class LoadedGliner:
    """A loaded GLiNER model. It is moved to its device on first use."""

    def __init__(self, options: GlinerNer, model: Any) -> None:
        """Wrap a model, and compute the room for text in a window.

        Args:
            options: Options of the annotator.
            model: The GLiNER model, on the CPU.

        Raises:
            AnnotateError: The prompts leave no room for text.
        """
        self._options = options
        self._model = model
        self._on_device = options.device == "cpu"

        # Sorted, as the order of prompts can change scores.
        self._prompts = sorted(options._required_prompts())
        self._labels = list(options.labels())
        self._label_numbers = {
            prompt: self._labels.index(options.prompts[prompt]) for prompt in self._prompts
        }

        self._words = int(model.config.max_len)
        self._tokens = self._max_text_tokens()
        if min(self._words, self._tokens) < _MIN_ROOM:
            raise AnnotateError(
                f"{_CALLER}: expected prompts that leave room for {_MIN_ROOM} words, got "
                f"{len(self._prompts)} that leave {max(0, min(self._words, self._tokens))}; ask "
                "for less, or in fewer words"
            )

    def find(self, documents: Sequence[Document]) -> list[FoundMentions]:
        """Return the entities of each document."""
        if documents and not self._on_device:
            # Not earlier, as a process that has initialised CUDA cannot be forked.
            check_gpu(_CALLER)
            self._model.to(self._options.device)
            self._on_device = True

        with threads(self._options.threads), machine_errors(_CALLER):
            return [
                filter_mentions(self._spans(document.text), document.placeholders, min_score=0)
                for document in documents
            ]

    def _spans(self, text: str) -> Iterator[Span]:
        """Yield the entities of a text."""
        room = self._words * self._tokens
        for stretch in self._stretches(text, room):
            places = np.append(0, np.cumsum(stretch.costs))
            text_windows = windows(places, room)
            for mention in merge_windows(
                text_windows, self._window_mentions(text, stretch, text_windows), places
            ):
                score = round(sum(mention.scores) / len(mention.scores), _DIGITS)
                start, end = stretch.starts[mention.start], stretch.ends[mention.end - 1]
                yield Span(start, end, self._labels[mention.label], score=score)

    def _stretches(self, text: str, room: int) -> Iterator[_Stretch]:
        """Yield stretches of words, split at words too long for the model.

        A window has two limits, W words and T tokens. A single limit W * T replaces both, with
        costs `max(W * tokens of the word, T)`: if their sum is at most W * T, the window has at
        most W words and at most T tokens.
        """
        words_found = list(self._model.data_processor.words_splitter(text))
        if not words_found:
            return
        counts = self._num_tokens([word for word, *_ in words_found])
        costs = [max(count * self._words, self._tokens) for count in counts]

        max_tokens = max_word_tokens(room)
        words = zip(words_found, costs, strict=True)
        for is_long, group in groupby(words, key=lambda word: word[1] > max_tokens):
            if not is_long:
                kept = list(group)
                yield _Stretch(
                    starts=[start for (_, start, _), _ in kept],
                    ends=[end for (_, _, end), _ in kept],
                    costs=[cost for _, cost in kept],
                )

    def _window_mentions(
        self, text: str, stretch: _Stretch, text_windows: Sequence[Window]
    ) -> list[list[WordMention]]:
        """Return the mentions of each window, as ranges of words of the stretch."""
        bases = [stretch.starts[window.start] for window in text_windows]
        window_texts = [
            text[base : stretch.ends[window.end - 1]]
            for base, window in zip(bases, text_windows, strict=True)
        ]
        entities = self._model.inference(
            window_texts,
            self._prompts,
            flat_ner=True,
            threshold=self._options.min_score,
            batch_size=self._options.batch_size,
        )

        first_at = {start: number for number, start in enumerate(stretch.starts)}
        last_at = {end: number for number, end in enumerate(stretch.ends, start=1)}
        mentions = []
        for base, window_entities in zip(bases, entities, strict=True):
            window_mentions = []
            for entity in window_entities:
                first = first_at[base + entity["start"]]
                stop = last_at[base + entity["end"]]
                scores = (float(entity["score"]),) * (stop - first)
                window_mentions.append(
                    WordMention(first, stop, self._label_numbers[entity["label"]], scores)
                )
            mentions.append(sorted(window_mentions))
        return mentions

    def _num_tokens(self, words: list[str]) -> list[int]:
        """Return the number of tokens of each word."""
        tokenizer = self._model.data_processor.transformer_tokenizer
        encoded = tokenizer(
            words, is_split_into_words=True, add_special_tokens=False, truncation=False
        )
        counts = Counter(encoded.word_ids())
        return [counts[number] for number in range(len(words))]

    def _max_text_tokens(self) -> int:
        """Return the maximum number of text tokens in a window, without prompts and specials."""
        processor = self._model.data_processor
        (prompt,), _ = processor.prepare_inputs([[]], self._prompts)
        tokenizer = processor.transformer_tokenizer
        other_tokens = sum(self._num_tokens(prompt)) + tokenizer.num_special_tokens_to_add()

        encoder = self._model.config.encoder_config
        max_positions = int(getattr(encoder, "max_position_embeddings", None) or _MAX_TOKENS)
        max_tokens: int = min(_MAX_TOKENS, max_positions, tokenizer.model_max_length) - other_tokens
        return max_tokens


# Files --------------------------------------------------------------------------------------------


def _load(files: ModelFiles) -> Any:
    """Load a model, and check that all its weights are there and finite."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import gliner
    import transformers
    from safetensors import SafetensorError, safe_open

    transformers_log: Any = transformers.utils.logging
    transformers_log.set_verbosity_error()
    transformers_log.disable_progress_bar()
    try:
        model = gliner.GLiNER.from_pretrained(
            str(files.folder), local_files_only=True, map_location="cpu"
        )
        with safe_open(files.folder / "model.safetensors", framework="pt") as weights:
            saved = {*weights.keys(), *(weights.metadata() or ())}
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise AnnotateError(
            f"{files.folder}: expected a model that gliner loads, got {type(error).__name__} from "
            "it; load it where you trust it, and save it with save_pretrained(..., "
            "safe_serialization=True)"
        ) from None

    missing = sorted({name for name, _ in model.model.named_parameters()} - saved)
    if missing:
        raise AnnotateError(
            f"{files.folder}: expected all weights of a GLiNER model, got none for {missing[0]}"
        )

    # With NaN scores, the package silently finds no entities.
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


def _check_model(files: ModelFiles) -> None:
    """Check that a model is complete and runs no custom code.

    Raises:
        AnnotateError: The model names custom code, lacks files, or is of an unsupported kind.
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
