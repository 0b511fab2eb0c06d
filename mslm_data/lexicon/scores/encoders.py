"""Load frozen Hugging Face models for scoring, and run them on batches of rows.

Weights come from safetensors files only, no code of a repository is run, and nothing is fetched
unless the name is not a folder. A model is only used if all its weights were in its files: what
transformers would fill in at random is refused.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mslm_data import _optional
from mslm_data.data.ragged import Ragged
from mslm_data.encode import tokenizer as tokenizers
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import VocabularyError
from mslm_data.io import hub
from mslm_data.io.files import hash_file

TOKENS_AT_ONCE = 1 << 13
"""Tokens of a batch, padding included, if its rows are not longer than that."""
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json")
_WANTED = (
    "config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    *_TOKENIZER_FILES,
    "merges.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_MOST_PADDING = 128
"""Embeddings beyond the last id, less one: models pad their vocabulary to a multiple of 8, 64 or
128."""

Head = Literal["AutoModel", "AutoModelForTokenClassification"]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrozenEncoder:
    """A frozen model with its tokenizer.

    Attributes:
        name: As the user gave it.
        model: The transformers model, float32, in evaluation mode.
        tokenizer: That of its folder, None where there is none.
        digest: SHA-256 over its configuration, weights and tokenizer: what it computes.
        device: `cuda` or `cpu`.
        limit: Tokens of its longest row, None where positions are not counted.
        has_pooler: Whether its files have the pooler's weights.
    """

    name: str
    model: Any
    tokenizer: Tokenizer | None
    digest: str
    device: str
    limit: int | None
    has_pooler: bool

    @property
    def about(self) -> dict[str, str]:
        """Metadata of the model for lexicons and score columns: its digest, never a path."""
        return {"class": type(self.model).__name__, "sha256": self.digest}

    def shares_ids(self, tokenizer: Tokenizer) -> bool:
        """Return whether token ids of this tokenizer mean the same to the model.

        So it is where every piece has the same id in the model's own tokenizer. Where the model has
        none at hand, its number of embeddings must be the tokenizer's, or larger by no more than
        padding.
        """
        spare = self.model.get_input_embeddings().weight.shape[0] - tokenizer.ids.size
        if self.tokenizer is None:
            return bool(0 <= spare < _MOST_PADDING)
        own = self.tokenizer.core.get_vocab()
        return bool(spare >= 0) and all(
            own.get(piece) == id_ for piece, id_ in tokenizer.core.get_vocab().items()
        )

    def check_shares_ids(self, tokenizer: Tokenizer) -> None:
        """Check that the model uses the rows' token ids; see `shares_ids`.

        Raises:
            VocabularyError: It cannot.
        """
        if not self.shares_ids(tokenizer):
            raise VocabularyError(
                f"{self.name}: its vocabulary differs from that of the shards "
                f"({tokenizer.ids.size} ids); build the folder with this model's tokenizer"
            )

    def require_room_for(self, longest: int) -> None:
        """Check that the model accepts rows of this length.

        Args:
            longest: Tokens of the longest row, specials included.

        Raises:
            VocabularyError: They are.
        """
        if self.limit is not None and longest > self.limit:
            raise VocabularyError(
                f"{self.name}: expected rows of at most {self.limit} tokens, got {longest}; "
                f"build the folder with encode.max_tokens={self.limit}"
            )

    def batches(
        self, rows: Ragged, *, squares: int | None = None, **options: Any
    ) -> Iterator[tuple[Places, Any]]:
        """Yield the model's outputs for all rows, longest first, rows of similar length together.

        The same rows make the same batches, so that the same machine gives the same numbers.

        Args:
            rows: int32, ids as the model has them, specials included.
            squares: Most cells of one `[rows, length, length]`, None if that does not matter.
            **options: For the model, such as `output_attentions`.

        Yields:
            Numbers of the rows in the batch `[B]`, and the model's output for these, on its device.
        """
        torch = _optional.load("torch", wanted_by="scores of an encoder")
        pad = self.model.config.get_text_config().pad_token_id or 0
        for places in cut(rows.lengths, squares=squares):
            lengths = rows.lengths[places]
            inside = np.arange(lengths.max()) < lengths[:, None]
            ids = np.full(inside.shape, pad, np.int64)
            ids[inside] = np.concatenate([rows[place] for place in places.tolist()])
            with torch.inference_mode():
                yield (
                    places,
                    self.model(
                        input_ids=torch.from_numpy(ids).to(self.device),
                        attention_mask=torch.from_numpy(inside.astype(np.int64)).to(self.device),
                        **options,
                    ),
                )


def cut(lengths: npt.NDArray[np.int64], *, squares: int | None = None) -> Iterator[Places]:
    """Split rows into batches: longest first, at most `TOKENS_AT_ONCE` cells, at least one row.

    Args:
        lengths: Tokens of each row, `[N]`, none 0.
        squares: See `FrozenEncoder.batches`.

    Yields:
        Numbers of the rows of a batch; each row is in one.
    """
    order = np.argsort(-lengths, kind="stable")

    start = 0
    while start < len(order):
        longest = int(lengths[order[start]])
        room = TOKENS_AT_ONCE // longest
        if squares is not None:
            room = min(room, squares // longest**2)

        yield order[start : start + max(1, room)]
        start += max(1, room)


def load_encoder(name: str, *, head: Head = "AutoModel", attentions: bool = False) -> FrozenEncoder:
    """Load a model.

    Args:
        name: A folder as `save_pretrained` writes it, or a hub id, whose files go to the hub's own
            cache.
        head: Which of transformers' classes.
        attentions: Whether attention weights are wanted; slower.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        VocabularyError: No such model, or one that cannot be used: weights that are missing or no
            safetensors, code of its own, an adapter.
        TokenizerError: Its tokenizer cannot be used.
    """
    torch = _optional.load("torch", wanted_by="scores of an encoder")
    _optional.load("transformers", wanted_by="scores of an encoder")

    folder = Path(name) if Path(name).is_dir() else _from_hub(name)
    if (folder / "adapter_config.json").is_file():
        raise VocabularyError(
            f"{name}: an adapter, not a complete model; merge it into its base model"
        )
    if not (folder / "config.json").is_file():
        raise VocabularyError(f"{name}: no config.json in this folder; pass a complete model")

    model, has_pooler = _loaded(name, folder, head=head, attentions=attentions)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    own = any((folder / file).is_file() for file in _TOKENIZER_FILES)
    tokenizer = tokenizers.load_tokenizer(str(folder)) if own else None
    return FrozenEncoder(
        name=name,
        model=model.to(device).eval(),
        tokenizer=tokenizer,
        digest=_digest(folder, tokenizer),
        device=device,
        limit=_limit(model),
        has_pooler=has_pooler,
    )


def _loaded(name: str, folder: Path, *, head: Head, attentions: bool) -> tuple[Any, bool]:
    """Load a model's weights from a folder; also return whether they include a pooler.

    Raises:
        VocabularyError: See `load_encoder`.
    """
    transformers = _optional.load("transformers", wanted_by="scores of an encoder")
    torch = _optional.load("torch", wanted_by="scores of an encoder")
    options: dict[str, Any] = {"attn_implementation": "eager"} if attentions else {}
    try:
        with _quietly(transformers):
            model, found = getattr(transformers, head).from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                output_loading_info=True,
                **options,
            )
    except (OSError, ValueError, RuntimeError, ImportError, KeyError) as error:
        said = str(error).strip().partition("\n")[0]
        raise VocabularyError(
            f"{name}: expected a model of safetensors ({type(error).__name__}: {said})"
        ) from None

    # Of missing weights transformers makes random ones. Only a pooler may be missing, if nobody
    # asks for it.
    pooler = {key for key in found["missing_keys"] if "pooler" in key}
    missing = len(set(found["missing_keys"]) - pooler)
    if missing:
        raise VocabularyError(
            f"{name}: expected the weights of {type(model).__name__}, got none for {missing} of "
            "them; not trained?"
        )
    return model, getattr(model, "pooler", None) is not None and not pooler


def _from_hub(name: str) -> Path:
    """Download a model to the hub's cache; no pickles, no code."""
    if not _HUB_ID.fullmatch(name):
        raise VocabularyError(f"{name}: no such folder; pass a model's folder or a hub id")
    try:
        return hub.fetch_files(name, _WANTED, wanted_by="an encoder of the hub")
    except hub.NotFetchedError as error:
        raise VocabularyError(
            f"{name}: no such folder, and the hub {error}; pass a folder written by save_pretrained"
        ) from None


def _digest(folder: Path, tokenizer: Tokenizer | None) -> str:
    files = sorted(folder.glob("*.safetensors"))
    parts = [
        hash_file(folder / "config.json"),
        *map(hash_file, files),
        tokenizer.digest if tokenizer else "",
    ]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def _limit(model: Any) -> int | None:
    """Return the maximum row length by the position table; for RoBERTa less the padding id."""
    tables = [
        module for name, module in model.named_modules() if name.endswith("position_embeddings")
    ]
    tables = [table for table in tables if hasattr(table, "num_embeddings")]
    if not tables:
        return None
    padding = tables[0].padding_idx
    return int(tables[0].num_embeddings - (0 if padding is None else padding + 1))


@contextmanager
def _quietly(transformers: Any) -> Iterator[None]:
    """Suppress the library's reports and progress bars within a `with` block."""
    log = transformers.utils.logging
    level, bar = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bar:
            log.enable_progress_bar()
