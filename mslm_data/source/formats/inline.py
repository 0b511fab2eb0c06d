"""Reads texts with mentions marked inline: by OpenNLP's marks, in brackets, or as elements."""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from mslm_data.data.document import Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source import Guess, Sample
from mslm_data.source.form import Blocks, Container, FilledLines, Findings, FormSource, Record
from mslm_data.source.reading.encodings import TextSource
from mslm_data.source.reading.files import lines, read_bytes
from mslm_data.source.reading.records import RecordError, decode_utf8
from mslm_data.source.reading.standoff import Annotation

Syntax = Literal["opennlp", "brackets", "elements"]
_Pair = tuple[re.Match[str], re.Match[str]]

# Possessive quantifiers, so that a long line takes linear time.
_NAME = r"(?P<closes>/?)(?P<name>[^\W\d_][\w.-]*+)"
_MARKS: Mapping[Syntax, re.Pattern[str]] = {
    "opennlp": re.compile(r"<(?P<name>START)(?P<detail>(?::[^\s:<>]*+)?)> ?| ?<(?P<closes>END)>"),
    "brackets": re.compile(rf"\[{_NAME}(?P<detail>)\]"),
    "elements": re.compile(rf"<{_NAME}(?P<detail>(?:\s[^<>=]*+=[^<>]*+|\s*+))>"),
}
"""Marks of each syntax. Both marks of a pair have the same name, or the second has none."""
_TYPE = re.compile(r"""\stype\s*+=\s*+("[^"]*+"|'[^']*+'|\S++)""", re.IGNORECASE)
_FORMATTING = re.compile(
    r"[<\[]/?(?:"
    # HTML
    r"a|abbr|b|big|blockquote|body|br|center|cite|div|em|font|h[1-6]|head|hr|html|i|img|li|ol|p|"
    r"pre|q|s|script|small|span|strike|strong|style|su[bp]|table|tbody|t[dhrt]|u|ul|"
    # wikis, forums, prompts of language models
    r"gallery|nowiki|math|ref|attach|hide|list|media|quote|spoiler|video|youtube|inst|think"
    r")(?=[\s=/>\]])[^<>\[\]]*+[>\]]",
    re.IGNORECASE,
)
"""Formatting: text, even in pairs."""
_UNSURE = re.compile(r"URL|EMAIL|.|.*\d", re.IGNORECASE)
"""Labels that are no evidence: links of forums, `<T>` of code, `[E1]` of corpora of relations."""

_BEGINNING = 1 << 20
_SUFFIXES = (".txt", ".text", ".train", ".dev", ".test", "")
_NO_WORDS = Reason("without words")


_DOCUMENTS: Mapping[str, Container[Any]] = {"line": FilledLines(), "block": Blocks()}
"""Unit of documents -> container."""


class _Marks(NamedTuple):
    """The marks of a file.

    Attributes:
        syntax: Their syntax.
        names: Names of pairs in the beginning of the file.
    """

    syntax: Syntax
    names: set[str]

    def must_pair(self, mark: re.Match[str]) -> bool:
        """Return whether a mark needs a partner. Else it is a word without one, as `[CLS]` is."""
        return self.syntax == "opennlp" or bool(mark["closes"]) or mark["name"] in self.names


class Inline(FormSource, TextSource, frozen=True, kw_only=True):
    """Lines of text with marked mentions, such as `<START:person> Ada Lovelace <END> wrote .`.

    | syntax | marks |
    |---|---|
    | `opennlp` | `<START:person> Ada <END>`, `<START> Ada <END>`; spaces beside Ada are removed |
    | `brackets` | `[PERSON]Ada[/PERSON]` |
    | `elements` | `<PERSON>Ada</PERSON>`; a `TYPE` is the label: `<ENAMEX TYPE="PERSON">` |

    Marks are removed from the text. The rest of it, such as `&amp;`, is kept. Each line is a
    sentence, and no mention crosses its end. Nested pairs are nested mentions.

    Formatting of HTML and forums, such as `<b>` or `[quote]`, is text. So are marks without a
    partner whose name has no pair in the beginning of the file, such as `[CLS]`. Other marks
    without a partner set their document aside.
    """

    suffixes = (".txt",)
    by_content = True
    container = _DOCUMENTS["line"]

    syntax: Annotated[
        Literal["auto"] | Syntax,
        Meta(description='Syntax of the marks. "auto": that of the pairs in a file\'s beginning.'),
    ] = "auto"
    documents: Annotated[
        Literal["line", "block"],
        Meta(description="Unit of a document: a line, or a block of lines between blank lines."),
    ] = "line"
    untyped: Annotated[str, Meta(description="Label of OpenNLP's marks without a label.")] = (
        "Entity"
    )

    def sniff(self, sample: Sample) -> Guess:
        """Recognise pairs of marks within text; see `Source.sniff`."""
        texts = _decode_lines(sample.head)
        suffix = Path(sample.path.name.removesuffix(".gz")).suffix.lower()
        if suffix not in _SUFFIXES or not texts or texts[0].startswith(("<?", "<!", '{"', '[{"')):
            return Guess()
        guesses = [_guess(texts, syntax) for syntax in _MARKS]
        evident = [guess for guess in guesses if guess.why]
        found = evident or [guess for guess in guesses if guess.problem]
        return found[0] if len(found) == 1 else Guess()

    def records(self, part: Part) -> Iterator[Record | SetAside]:
        """Yield the lines or blocks of a part; see `FormSource.records`."""
        return _DOCUMENTS[self.documents].records(self, part)

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file between documents; see `Source.cut`."""
        return _DOCUMENTS[self.documents].cut(self, part, target_bytes=target_bytes)

    def for_file(self, path: Path) -> Callable[[Record, Findings], None]:
        """Read documents with the marks that the file's beginning shows."""
        return functools.partial(self.understand, marks=self.find_marks(path))

    def find_marks(self, path: Path) -> _Marks:
        """Return the marks of a file, judged by its beginning.

        Raises:
            SourceError: The beginning of the file does not show the syntax.
        """
        found = _find_names(self.beginning(path, _BEGINNING))
        if self.syntax != "auto":
            return _Marks(self.syntax, found.get(self.syntax, set()))
        # In a short file without pairs of marks, any syntax will do.
        if not found and not read_bytes(path, _BEGINNING, _BEGINNING + 1):
            return _Marks("opennlp", set())
        if len(found) != 1:
            raise SourceError(
                f"{path.name}: expected marks of one syntax in its beginning, got "
                f"{' and '.join(found) or 'none'}; set [source] syntax"
            )
        return _Marks(*next(iter(found.items())))

    def understand(self, record: Record, found: Findings, marks: _Marks | None = None) -> None:
        """Read each line. A mark without its partner sets the document aside."""
        marks = marks or self.find_marks(record.path)
        document = record.content if self.documents == "block" else [record.content]
        paired = []
        found.lost = 0
        for line in document:
            pairs, single = _pair_marks(line.data.decode(errors="replace"), marks.syntax)
            damaged = [mark for mark in single if marks.must_pair(mark)]
            paired.append((line, pairs, damaged))
            found.lost += len(pairs) + len(damaged)

        offset = 0
        for line, pairs, damaged in paired:
            text = decode_utf8(line.data, line=line.number)
            if damaged:
                raise RecordError(
                    "expected marks in pairs within a line, got one without its partner",
                    line=line.number,
                )
            plain, mentions = _remove_marks(text, pairs)
            found.pieces.append((offset, plain))
            for start, stop, opening in mentions:
                words = plain[start:stop]
                first = offset + stop - len(words.lstrip())
                if words.strip():
                    fragment = (first, first + len(words.strip()))
                    found.mentions.append(Annotation([fragment], _label(opening) or self.untyped))
                else:
                    found.left_out[_NO_WORDS] += 1
            offset += len(plain) + 1


def _decode_lines(data: bytes) -> list[str]:
    """Decode the lines that are not blank. Invalid bytes are replaced."""
    return [line.data.decode(errors="replace") for line in lines(data) if line.data.strip()]


@functools.lru_cache(maxsize=4)
def _find_names(beginning: bytes) -> Mapping[Syntax, set[str]]:
    """Return syntax -> names of its pairs in a beginning. Cached, for all parts of a file."""
    texts = _decode_lines(beginning)
    found: dict[Syntax, set[str]] = {}
    for syntax in _MARKS:
        names = {opening["name"] for text in texts for opening, _ in _pair_marks(text, syntax)[0]}
        if names:
            found[syntax] = names
    return found


def _label(mark: re.Match[str]) -> str:
    """Return the label of a mark that opens, "" if it has none."""
    if mark.re is _MARKS["opennlp"]:
        return mark["detail"][1:]
    given = _TYPE.search(mark["detail"])
    return given[1].strip("\"'") if given else mark["name"]


def _pair_marks(text: str, syntax: Syntax) -> tuple[list[_Pair], list[re.Match[str]]]:
    """Pair each mark that closes with the last open one of its name.

    Returns:
        The pairs, and the marks without a partner: those that are open between the marks of a pair
        are among them.
    """
    pairs: list[_Pair] = []
    single: list[re.Match[str]] = []
    opened: list[re.Match[str]] = []
    num_opened: Counter[str] = Counter()
    for mark in _MARKS[syntax].finditer(text):
        name = mark["name"] or "START"
        if _FORMATTING.fullmatch(mark[0]):
            continue
        if not mark["closes"]:
            opened.append(mark)
            num_opened[name] += 1
        elif not num_opened[name]:
            single.append(mark)
        else:
            while opened[-1]["name"] != name:
                num_opened[opened[-1]["name"]] -= 1
                single.append(opened.pop())
            num_opened[name] -= 1
            pairs.append((opened.pop(), mark))
    return pairs, single + opened


def _remove_marks(
    text: str, pairs: Iterable[_Pair]
) -> tuple[str, list[tuple[int, int, re.Match[str]]]]:
    """Return a text without marks, and start, end and opening mark of each mention in it."""
    pieces: list[str] = []
    mentions: list[tuple[int, int, re.Match[str]]] = []
    opened: list[tuple[int, re.Match[str]]] = []
    position = 0
    end = 0
    for mark in sorted(itertools.chain.from_iterable(pairs), key=re.Match.start):
        pieces.append(text[end : mark.start()])
        position += len(pieces[-1])
        end = mark.end()
        if mark["closes"]:
            start, opening = opened.pop()
            mentions.append((start, position, opening))
        else:
            opened.append((position, mark))
    return "".join([*pieces, text[end:]]), mentions


def _guess(texts: Iterable[str], syntax: Syntax) -> Guess:
    """Guess from lines whether they are text with mentions in pairs of marks, and nothing else."""
    names: Counter[str] = Counter()
    single: list[re.Match[str]] = []
    num_inside = 0
    num_characters = 0
    for text in texts:
        pairs, unpaired = _pair_marks(text, syntax)
        # A mark alone in a line is the structure of a document, as in XML.
        if _FORMATTING.search(text) or any(mark[0].strip() == text.strip() for mark in unpaired):
            return Guess()
        single += unpaired
        names.update(opening["name"] for opening, _ in pairs)
        if pairs:
            plain, mentions = _remove_marks(text, pairs)
            num_inside += sum(stop - start for start, stop, _ in mentions)
            num_characters += len(plain)

    num_damaged = sum(bool(mark["closes"]) or mark["name"] in names for mark in single)
    if num_damaged * 20 > names.total() or num_inside * 2 >= num_characters:
        return Guess()
    labels = {name: number for name, number in names.items() if not _UNSURE.fullmatch(name)}
    if _repeats([number for name, number in labels.items() if name.isupper()]):
        return Guess(f"its lines have pairs of marks ({syntax})")
    if _repeats(labels.values()):
        return Guess(
            problem="pairs of marks may be formatting, as their names are not in capitals; set "
            f'[source] syntax = "{syntax}" if they are labels'
        )
    return Guess()


def _repeats(counts: Collection[int]) -> bool:
    """Return whether there are at least three pairs, and a label with several."""
    return sum(counts) >= 3 and max(counts) > 1
