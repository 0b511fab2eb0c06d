"""Loads tokenizers from files, folders and the Hugging Face Hub.

All tokenizers are changed to encode deterministically, without loss: truncation, padding and BPE
dropout, which a `tokenizer.json` may have, are switched off. Text that looks like a special token,
such as `[SEP]`, is encoded as text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import tokenizers
from tokenizers import BertWordPieceTokenizer, decoders, models, pre_tokenizers, processors

from mslm_data.data.examples import TokenIds
from mslm_data.errors import TokenizerError
from mslm_data.io import hub
from mslm_data.log import LOGGER

_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
)

_PROBE = "a 0 the A \u2603\U0010fffd 7x"
"""Text to find the special tokens around a row. Its last characters are missing from almost all
vocabularies: a tokenizer that cannot encode unknown characters fails here, and not in a build."""

AT_ONCE = 1 << 18
"""Maximum number of characters in a call of the library, which needs up to 1 KiB per token."""

_USUAL = {
    "mask": ("[MASK]", "<mask>"),
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "bos": ("<s>", "<|begin_of_text|>", "<bos>"),
    "eos": ("</s>", "<|end_of_text|>", "<|endoftext|>", "<eos>"),
}
"""Kind of special token -> its usual names."""

_SENTINELS = ("<extra_id_{}>", "\u2581<extra_id_{}>")
"""Names of sentinels, with their number: those of T5, and those in the vocabulary of mT5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """A tokenizer with its special ids.

    Attributes:
        core: Tokenizer of the `tokenizers` library.
        ids: Special ids.
        prefix: Special ids before a row, such as `[CLS]`.
        suffix: Special ids after a row, such as `[SEP]`.
        lead: Characters added before a word that is tokenised by itself: a space for byte-level
            tokenizers, whose pieces include it; "" for others.
        json: Content of `tokenizer.json`.
        digest: SHA-256 of `tokenizer.json`.
    """

    core: tokenizers.Tokenizer
    ids: TokenIds
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    lead: str
    json: str
    digest: str

    @property
    def reads_text(self) -> bool:
        """Whether tokens include white space, so that a row is tokenised as one text.

        So it is with BPE and Unigram. WordPiece and WordLevel tokenise words one at a time.
        """
        return isinstance(self.core.model, models.BPE | models.Unigram)

    @property
    def control(self) -> tuple[int, ...]:
        """Special ids that text must not have, and that become `unk`; none without `unk`."""
        if self.ids.unk < 0:
            return ()
        return tuple(id_ for id_ in self.ids.special if id_ != self.ids.unk)

    def config(self, *, max_tokens: int | None = None) -> dict[str, Any]:
        """Return the content of `tokenizer_config.json`.

        Without this file, `AutoTokenizer` does not know the special tokens.

        Args:
            max_tokens: Maximum number of tokens for the model. Default: None, unknown.
        """
        ids = {kind: getattr(self.ids, kind) for kind in _USUAL}
        if self.ids.mask >= 0:  # an encoder
            if self.prefix:
                ids["cls"] = self.prefix[0]
            if self.suffix:
                ids["sep"] = self.suffix[-1]

        config: dict[str, Any] = {
            f"{kind}_token": self.core.id_to_token(id_) for kind, id_ in ids.items() if id_ >= 0
        }
        if self.ids.sentinels:
            config["additional_special_tokens"] = [
                self.core.id_to_token(id_) for id_ in self.ids.sentinels
            ]
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
        config["clean_up_tokenization_spaces"] = False
        config["model_input_names"] = ["input_ids", "attention_mask"]
        if max_tokens is not None:
            config["model_max_length"] = max_tokens
        return config

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as JSON with the special ids."""
        return _unpickle, (self.json, self.ids)


def _unpickle(text: str, ids: TokenIds) -> Tokenizer:
    return replace(parse_tokenizer(text), ids=ids)


def load_tokenizer(name: str, *, lowercase: bool | None = None) -> Tokenizer:
    """Load a tokenizer from a file, a folder or the Hugging Face Hub.

    Args:
        name: A `tokenizer.json`, a BERT `vocab.txt`, a folder written by `save_pretrained`, or a
            Hub id.
        lowercase: For a `vocab.txt`: whether to convert text to lower case. Default: None, if the
            vocabulary has no capital letters. `do_lower_case` in a config is ignored, because
            Bio_ClinicalBERT sets it for a cased vocabulary.

    Raises:
        TokenizerError: The tokenizer does not exist, is invalid or not supported.
    """
    path = Path(name)
    if path.is_dir():
        return _read_folder(path, lowercase)
    if path.is_file():
        return _read_file(path, {}, lowercase)
    if path.suffix in (".json", ".txt") or not hub.is_repository_name(name):
        raise TokenizerError(
            f"{name}: no such file or folder; pass a tokenizer.json, a vocab.txt or a folder with "
            "one"
        )
    try:
        folder = hub.fetch_files(name, _FILES, wanted_by="a tokenizer of the hub")
    except hub.NotFetchedError as error:
        raise TokenizerError(
            f"{name}: no such file or folder, and the hub {error}; pass "
            "a path to a tokenizer.json, a vocab.txt or a folder"
        ) from None
    return _read_folder(folder, lowercase)


def parse_tokenizer(
    text: str, names: Mapping[str, str] | None = None, *, place: str = "tokenizer.json"
) -> Tokenizer:
    """Parse the content of a `tokenizer.json`.

    Args:
        text: Content of the file.
        names: Kind of special token, such as `mask` or `eos` -> token, for unusual names. Default:
            None, the usual names such as `[MASK]` and `<mask>`.
        place: Name of the file, for errors.

    Raises:
        TokenizerError: The text is not a valid tokenizer.
    """
    with library_errors(f"{place}: not a tokenizer of the tokenizers library: "):
        core = tokenizers.Tokenizer.from_str(text)

    core.no_truncation()
    core.no_padding()
    if isinstance(core.model, models.BPE):
        core.model.dropout = None
    core.encode_special_tokens = True  # encode `[SEP]` in text as text

    changed_text = core.to_str()
    # ByteLevel may be nested in a Sequence, so search the whole pre-tokenizer.
    pre_tokenizer = json.dumps(json.loads(changed_text)["pre_tokenizer"])
    prefix, suffix = _find_special_around(core)

    given = names or {}
    wanted = _USUAL | {kind: (name,) for kind, name in given.items()}
    added_tokens = core.get_added_tokens_decoder()
    if added_tokens:
        # A piece of the vocabulary with a usual name is then only text.
        candidates = {token.content for token in added_tokens.values()} | set(given.values())
        wanted = {
            kind: tuple(token for token in tokens if token in candidates)
            for kind, tokens in wanted.items()
        }
    known = {kind: _find_id(core, tokens) for kind, tokens in wanted.items()}
    sentinels = _find_sentinels(core)
    added = {id_ for id_, token in added_tokens.items() if token.special}
    present = {id_ for id_ in known.values() if id_ >= 0}
    return Tokenizer(
        core=core,
        ids=TokenIds(
            size=max(core.get_vocab(with_added_tokens=True).values()) + 1,
            sentinels=sentinels,
            special=tuple(sorted(added | present | {*sentinels, *prefix, *suffix})),
            **known,
        ),
        prefix=prefix,
        suffix=suffix,
        lead=" " if '"ByteLevel"' in pre_tokenizer else "",
        json=changed_text,
        digest=hashlib.sha256(changed_text.encode()).hexdigest(),
    )


def find_batches(texts: Sequence[str]) -> list[int]:
    """Return the bounds of batches of at most `AT_ONCE` characters, or of one longer text."""
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // AT_ONCE)) + 1
    return [0, *cuts.tolist(), len(texts)]


def open_tokenizer(file: Path) -> tokenizers.Tokenizer:
    """Open the tokenizer of a built folder with its library alone, to show token ids as text.

    Raises:
        OSError: The file cannot be read.
        TokenizerError: The file is damaged.
    """
    # Read the file here, because errors of the library do not name it.
    data = file.read_bytes()
    with library_errors(f"{file}: expected a tokenizer of the tokenizers library: "):
        return tokenizers.Tokenizer.from_buffer(data)


@contextmanager
def library_errors(expected: str, *, private: bool = False) -> Iterator[None]:
    """Convert exceptions and panics of the `tokenizers` library to `TokenizerError`.

    Args:
        expected: Start of the message, followed by the message of the library.
        private: Whether to replace the message of the library by the name of its class, because it
            could contain text of the corpus. Default: False.

    Raises:
        TokenizerError: The library raised an exception.
    """
    try:
        yield
    except BaseException as error:
        # A Rust panic is a BaseException, whose class cannot be imported.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        got = type(error).__name__ if private else error
        raise TokenizerError(f"{expected}{got}") from None


def _read_folder(folder: Path, lowercase: bool | None) -> Tokenizer:
    names = _read_token_names(folder)
    for file in ("tokenizer.json", "vocab.txt"):
        if (folder / file).is_file():
            return _read_file(folder / file, names, lowercase)

    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        with library_errors(f"{folder}: cannot read vocab.json and merges.txt as byte-level BPE: "):
            text = _make_byte_level(folder)
        return parse_tokenizer(text, names)

    raise TokenizerError(
        f"{folder}: no tokenizer.json, vocab.txt, or vocab.json with merges.txt found; convert a "
        "SentencePiece model with "
        f"AutoTokenizer.from_pretrained(...).save_pretrained(...)"
    )


def _read_file(path: Path, names: Mapping[str, str], lowercase: bool | None) -> Tokenizer:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise TokenizerError(
            f"{path}: not valid UTF-8; pass a tokenizer.json or a vocab.txt in UTF-8"
        ) from None
    except OSError as error:
        raise TokenizerError(f"{path}: cannot read the file: {error.strerror}") from None

    if not text.lstrip().startswith("{"):
        text = _make_word_piece(path, text, lowercase)
    return parse_tokenizer(text, names, place=str(path))


def _read_token_names(folder: Path) -> dict[str, str]:
    """Read the names of special tokens from the config files of a folder."""
    names: dict[str, str] = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        if not (folder / file).is_file():
            continue
        try:
            config = msgspec.json.decode((folder / file).read_bytes(), type=dict[str, Any])
        except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
            raise TokenizerError(f"{folder / file}: expected a JSON object: {error}") from None
        for kind in _USUAL:
            token = config.get(f"{kind}_token")
            if isinstance(token, dict):
                token = token.get("content")
            if isinstance(token, str):
                names.setdefault(kind, token)
    return names


def _make_word_piece(path: Path, text: str, lowercase: bool | None) -> str:
    """Make the `tokenizer.json` of a BERT tokenizer from a vocabulary with a piece per line."""
    # An empty line is a piece too: removing it would shift the following ids.
    pieces = [line.removesuffix("\r") for line in text.split("\n")]
    if not pieces[-1]:
        pieces.pop()
    vocab = {piece: number for number, piece in enumerate(pieces)}
    missing = [token for token in ("[UNK]", "[CLS]", "[SEP]") if token not in vocab]
    if missing:
        raise TokenizerError(
            f"{path}: not a BERT vocabulary (one piece per line), it lacks {', '.join(missing)}"
        )

    # Ignore special tokens such as `[UNK]`, which have capitals in uncased vocabularies too.
    is_cased = any(piece != piece.lower() for piece in pieces if not piece.startswith("["))
    lower = not is_cased if lowercase is None else lowercase
    if lower and is_cased:
        LOGGER.warning("%s: lower-casing text for a vocabulary that has capitals", path.name)

    content: str = BertWordPieceTokenizer(vocab, lowercase=lower).to_str()
    return content


def _make_byte_level(folder: Path) -> str:
    """Make the `tokenizer.json` of a RoBERTa tokenizer from its vocabulary and merges."""
    core = tokenizers.Tokenizer(
        models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    )
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()

    vocab = core.get_vocab()
    if "<s>" in vocab and "</s>" in vocab:
        core.post_processor = processors.RobertaProcessing(
            ("</s>", vocab["</s>"]), ("<s>", vocab["<s>"])
        )
    special = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    core.add_special_tokens([token for token in special if token in vocab])
    content: str = core.to_str()
    return content


def _find_id(core: tokenizers.Tokenizer, tokens: tuple[str, ...]) -> int:
    """Return the id of the first token in the vocabulary; -1 if there is none."""
    for token in tokens:
        id_ = core.token_to_id(token)
        if id_ is not None:
            return int(id_)
    return -1


def _find_sentinels(core: tokenizers.Tokenizer) -> tuple[int, ...]:
    """Return the ids of sentinel 0, 1 and so on, up to the first number without a token."""
    ids: list[int] = []
    while True:
        id_ = _find_id(core, tuple(name.format(len(ids)) for name in _SENTINELS))
        if id_ < 0:
            return tuple(ids)
        ids.append(id_)


def _find_special_around(core: tokenizers.Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the special ids before and after a row."""
    with library_errors("tokenizer: cannot encode text: "):
        encoding = core.encode(_PROBE)
    is_special = encoding.special_tokens_mask
    if 0 not in is_special:
        raise TokenizerError(
            "tokenizer: expected tokens for 'a 0 the A', got none; check its vocabulary"
        )

    start = is_special.index(0)
    stop = len(is_special) - is_special[::-1].index(0)
    return tuple(encoding.ids[:start]), tuple(encoding.ids[stop:])
