"""Reading a file of words and tags, beside the loop that anyone would write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import Contestant, Goal, Results, in_turn, row_of, same
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


def run(inputs: Inputs, scratch: Path) -> Results:  # noqa: ARG001 - all topics have this form
    """Time reading to words and tags (arrays, then strings) and to documents with mentions."""
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
            row_of(
                "read words and tags",
                times(scan, read),
                unit="words",
                what="`tagged_lines.scan`, which knows every dialect and says what is wrong with "
                "broken lines, to what the encoder takes: one text, the characters of each word in "
                f"it, and the tags numbered; {loop}; the limit is reading the file's bytes. Words, "
                "tags and sentences were equal.",
                goal=Goal(peer=8, why=_WHY),
            ),
            row_of(
                "read words and tags, as lists of strings",
                times(lists, read),
                unit="words",
                what="the same, and then a string of each word and of each tag, in two lists; "
                f"{loop}.",
            ),
            row_of(
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
    """Return the number of words, or refuse to compare unless all read the same.

    Nothing of it stays in memory, which would slow the peers down.
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
    """Read a file to words and tags in arrays."""
    return tagged_lines.scan(
        tagged_lines.clean(read_bytes(path)), first=1, columns=Conll().columns(path)
    )


def lists(path: Path) -> tuple[list[str], list[str]]:
    """Read a file to its words and their tags."""
    found = scan(path)
    starts, ends = found.bounds.T
    words = [
        found.text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return words, [found.names[tag] for tag in found.tags.tolist()]


def documents(path: Path) -> Documents:
    """Read a file without a broken line to documents."""
    (found,) = Conll().batches(Part(str(path)))
    if isinstance(found, SetAside):
        raise ValueError(f"{found.place}: {found.reason.text}")
    return found


Looped = tuple[str, list[tuple[int, int]], list[tuple[int, int, str]]]
"""Text, words and mentions in characters."""


def looped(path: Path) -> list[Looped]:
    """Read a file to documents by loops."""
    found = []
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

            # A space stands after each word.
            start += len(word) + 1
        found.append((" ".join(word for word, _ in sentence), bounds, mentions))
    return found


def _described(made: Documents | list[Looped]) -> list[Looped]:
    return [
        (
            one.text,
            [] if one.words is None else [(start, end) for start, end in one.words.tolist()],
            [(span.start, span.end, span.label) for span in one.spans],
        )
        if isinstance(one, Document)
        else one
        for one in made
    ]


def _running(sentences: list[Sentence]) -> list[int]:
    total = 0
    sums = []
    for sentence in sentences:
        total += len(sentence)
        sums.append(total)
    return sums
