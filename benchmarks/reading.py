"""Source `conll` against a plain loop over lines: words per second.

`python -m benchmarks reading`
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import Contestant, Goal, Results, in_turn, make_row, same
from benchmarks.inputs import Inputs, Sentence, read
from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.documents import Documents
from mslm_data.source.formats.conll import Conll
from mslm_data.source.reading import tagged_lines
from mslm_data.source.reading.files import read_bytes

_WHY = (
    "each line costs the processor some wrong guesses of where a field ends, which take longer "
    "than its bytes; what the encoder takes is ready then, where the peer's strings are yet to be "
    "encoded"
)


def run(inputs: Inputs, scratch: Path) -> Results:  # noqa: ARG001 - interface of topics
    """Time reading to arrays of words and tags, to lists of strings, and to documents."""
    count = _check(inputs.train)

    def times(
        ours: Callable[[Path], object], theirs: Callable[[Path], object]
    ) -> dict[str, list[float]]:
        return in_turn(
            {
                "ours": Contestant(call=lambda _: ours(inputs.train), work=count),
                "peer": Contestant(call=lambda _: theirs(inputs.train), work=count),
                "limit": Contestant(
                    call=lambda _: inputs.train.read_bytes(), work=count, repeat=20
                ),
            },
            rounds=15,
        )

    loop = "the peer is a loop that splits each line at a TAB, to lists of strings"
    return Results(
        rows=[
            make_row(
                "read words and tags",
                times(scan, read),
                unit="words",
                what="`tagged_lines.scan`, which knows every dialect and says what is wrong with "
                "broken lines, to what the encoder takes: one text, the characters of each word in "
                f"it, and the tags numbered; {loop}; the limit is reading the file's bytes. Words, "
                "tags and sentences were equal.",
                goal=Goal(peer=8, why=_WHY),
            ),
            make_row(
                "read words and tags, as lists of strings",
                times(lists, read),
                unit="words",
                what="the same, and then a string of each word and of each tag, in two lists; "
                f"{loop}.",
            ),
            make_row(
                "read documents",
                times(documents, looped),
                unit="words",
                what="source `conll` to documents in columns, with mentions in characters; the "
                "peer is the same loop, with mentions found and text joined by a loop, to the same "
                "documents. Texts, words and mentions were equal.",
            ),
        ]
    )


def _check(path: Path) -> int:
    """Check that both sides read the same, and return the number of words.

    Results are freed, as many live objects would slow the peers' garbage collection.
    """
    sentences = read(path)
    same(
        "words and tags",
        [*zip(*lists(path), strict=True)],
        [pair for sentence in sentences for pair in sentence],
    )
    same("sentences", scan(path).offsets.tolist(), [0, *_running(sentences)])
    same("documents", _described(documents(path)), _described(looped(path)))
    return sum(map(len, sentences))


def scan(path: Path) -> tagged_lines.TaggedSentences:
    """Read words and tags into arrays."""
    return tagged_lines.scan(
        tagged_lines.clean(read_bytes(path)), first=1, columns=Conll().columns(path)
    )


def lists(path: Path) -> tuple[list[str], list[str]]:
    """Read words and tags into lists of strings."""
    parsed = scan(path)
    starts, ends = parsed.bounds.T
    words = [
        parsed.text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return words, [parsed.names[tag] for tag in parsed.tags.tolist()]


def documents(path: Path) -> Documents:
    """Read documents by source `conll`.

    Raises:
        ValueError: A line is broken.
    """
    (parsed,) = Conll().batches(Part(str(path)))
    if isinstance(parsed, SetAside):
        raise ValueError(f"{parsed.place}: {parsed.reason.text}")
    return parsed


Looped = tuple[str, list[tuple[int, int]], list[tuple[int, int, str]]]
"""Text, words and mentions (with labels), as half-open ranges of characters."""


def looped(path: Path) -> list[Looped]:
    """Read documents by a plain loop."""
    parsed = []
    for sentence in read(path):
        bounds = []
        mentions = []
        start = 0
        for word, tag in sentence:
            bounds.append((start, start + len(word)))
            if tag.startswith("B-"):
                mentions.append((start, start + len(word), tag[2:]))
            elif tag.startswith("I-"):
                mentions[-1] = (mentions[-1][0], start + len(word), tag[2:])

            # Words are joined by spaces.
            start += len(word) + 1
        parsed.append((" ".join(word for word, _ in sentence), bounds, mentions))
    return parsed


def _described(collection: Documents | list[Looped]) -> list[Looped]:
    return [
        (
            document.text,
            []
            if document.words is None
            else [(start, end) for start, end in document.words.tolist()],
            [(span.start, span.end, span.label) for span in document.spans],
        )
        if isinstance(document, Document)
        else document
        for document in collection
    ]


def _running(sentences: list[Sentence]) -> list[int]:
    total = 0
    sums = []
    for sentence in sentences:
        total += len(sentence)
        sums.append(total)
    return sums
