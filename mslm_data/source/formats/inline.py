"""Reads texts with mentions marked inline: by pairs of marks, in brackets, or by tags of words."""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source import Guess, Sample
from mslm_data.source.form import (
    Blocks,
    ByFile,
    Container,
    FilledLines,
    Findings,
    FormSource,
    Record,
)
from mslm_data.source.reading import tags
from mslm_data.source.reading.encodings import TextSource
from mslm_data.source.reading.files import NumberedLine, lines, read_bytes
from mslm_data.source.reading.joined_words import (
    JoinedWords,
    TagsBeside,
    find_joined,
    find_tag_file,
    read_tag_file,
)
from mslm_data.source.reading.records import RecordError, decode_utf8
from mslm_data.source.reading.standoff import Annotation

Syntax = Literal["opennlp", "brackets", "elements", "yedda", "links", "labels", "words"]

# Possessive quantifiers, so that a long line takes linear time.
_NAME = r"(?P<closes>/?)(?P<name>[^\W\d_][\w.-]*+)"
_PAIRS: Mapping[Syntax, re.Pattern[str]] = {
    "opennlp": re.compile(r"<(?P<name>START)(?P<detail>(?::[^\s:<>]*+)?)> ?| ?<(?P<closes>END)>"),
    "brackets": re.compile(rf"\[{_NAME}(?P<detail>)\]"),
    "elements": re.compile(rf"<{_NAME}(?P<detail>(?:\s[^<>=]*+=[^<>]*+|\s*+))>"),
}
"""Marks of each syntax. Both marks of a pair have the same name, or the second has none."""
_WHOLE: Mapping[Syntax, re.Pattern[str]] = {
    "yedda": re.compile(r"\[@(?P<words>[^\[\]#*]++)#(?P<label>[^\[\]#*]++)\*\]"),
    "links": re.compile(r"\[(?P<words>[^\[\]()]++)\]\((?P<label>[\w-]++)\)"),
    "labels": re.compile(r"\[(?P<label>[A-Z][A-Z_-]++) (?P<words>[^\[\]]++)\]"),
}
"""Marks of syntaxes in which both marks of a pair are one match, with the words between them."""
_SURE = frozenset({"opennlp", "brackets", "elements", "yedda"})
"""Syntaxes that nothing but labels in capitals has."""
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
_SUFFIXES = (".txt", ".text", ".train", ".dev", ".test", ".anns", "")
_NO_WORDS = Reason("without words")


_DOCUMENTS: Mapping[str, Container[Any]] = {"line": FilledLines(), "block": Blocks()}
"""Unit of documents -> container."""


class _Mark(NamedTuple):
    """A mark of a mention.

    Attributes:
        start: Its first character.
        end: The character after its last.
        name: Name that both marks of a pair have.
        closes: Whether the mention ends with it.
        label: Label of the mention, "" if it has none. Only for marks that open.
    """

    start: int
    end: int
    name: str
    closes: bool
    label: str = ""


class _Marks(NamedTuple):
    """The marks of a file.

    Attributes:
        syntax: Their syntax.
        names: Names of pairs in the beginning of the file.
        words: How lines are split into words and tags, for syntax "words".
    """

    syntax: Syntax
    names: set[str]
    words: JoinedWords | TagsBeside | None = None

    def must_pair(self, mark: _Mark) -> bool:
        """Return whether a mark needs a partner. Else it is a word without one, as `[CLS]` is."""
        return self.syntax == "opennlp" or mark.closes or mark.name in self.names


class Inline(FormSource, TextSource, frozen=True, kw_only=True):
    """Lines of text with marked mentions, such as `<START:person> Ada Lovelace <END> wrote .`.

    | syntax | marks |
    |---|---|
    | `opennlp` | `<START:person> Ada <END>`, `<START> Ada <END>`; spaces beside Ada are removed |
    | `brackets` | `[PERSON]Ada[/PERSON]` |
    | `elements` | `<PERSON>Ada</PERSON>`; a `TYPE` is the label: `<ENAMEX TYPE="PERSON">` |
    | `yedda` | `[@Ada#PERSON*]` |
    | `links` | `[Ada]` with `(PERSON)` behind it, as links in Markdown |
    | `labels` | `[PERSON Ada]` |
    | `words` | `Ada/B-PERSON wrote/O`, `Ada|NNP|I-PERSON`; labels alone, as `Ada/PERSON` |

    Marks are removed from the text. The rest of it, such as `&amp;`, is kept. Each line is a
    sentence, and no mention crosses its end. Nested pairs are nested mentions.

    Formatting of HTML and forums, such as `<b>` or `[quote]`, is text. So are marks without a
    partner whose name has no pair in the beginning of the file, such as `[CLS]`. Other marks
    without a partner set their document aside.

    Tags of words are those of CoNLL. Any separator is found. Words without a tag at the end of a
    line, such as an intent, are left out; others set their document aside. A file of words may have
    its tags in a file beside it, line by line: `seq.in` in `seq.out`, `a.words.txt` in `a.tags.txt`
    or `a.labels.txt`, and `sentences.txt` in `labels.txt` or `tags.txt`.
    """

    suffixes = (".txt",)
    by_content = True
    container = ByFile(lambda options, _: _DOCUMENTS[options.documents])

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
        if find_tag_file(sample.path):
            return Guess("a file beside it has a tag for each of its words")
        texts = _decode_lines(sample.head)
        suffix = Path(sample.path.name.removesuffix(".gz")).suffix.lower()
        if suffix not in _SUFFIXES or not texts or texts[0].startswith(("<?", "<!", '{"', '[{"')):
            return Guess()
        if find_joined(texts):
            return Guess("its lines have words that are joined with tags")
        guesses = [_guess(texts, syntax) for syntax in (*_PAIRS, *_WHOLE)]
        evident = [guess for guess in guesses if guess.why]
        found = evident or [guess for guess in guesses if guess.problem]
        return found[0] if len(found) == 1 else Guess()

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Find texts, without the files that have the tags of others; see `Source.find`."""
        by_split = super().find(inputs)
        beside = {find_tag_file(path) for paths in by_split.values() for path in paths}
        return {
            split: [path for path in paths if path not in beside]
            for split, paths in by_split.items()
        }

    def files(self, path: Path) -> Sequence[Path]:
        """Return a text, and the file with its tags."""
        return [path, *filter(None, [find_tag_file(path)])]

    def for_file(self, path: Path) -> Callable[[Record, Findings], None]:
        """Read documents with the marks that the file's beginning shows."""
        return functools.partial(self.understand, marks=self.find_marks(path))

    def find_marks(self, path: Path) -> _Marks:
        """Return the marks of a file, judged by its beginning.

        Raises:
            SourceError: The beginning of the file does not show the syntax.
        """
        tag_file = find_tag_file(path)
        if tag_file and self.syntax in ("auto", "words"):
            return _Marks("words", set(), read_tag_file(tag_file))
        beginning = self.beginning(path, _BEGINNING)
        joined = _find_joined(beginning)
        if joined and self.syntax in ("auto", "words"):
            return _Marks("words", set(), joined)
        found: Mapping[Syntax, set[str]] = {}
        if self.syntax != "words":
            found = _find_names(beginning)
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
        if marks.words:
            self._read_words(document, marks.words, found)
            return
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
            for start, stop, label in mentions:
                words = plain[start:stop]
                first = offset + stop - len(words.lstrip())
                if words.strip():
                    fragment = (first, first + len(words.strip()))
                    found.mentions.append(Annotation([fragment], label or self.untyped))
                else:
                    found.left_out[_NO_WORDS] += 1
            offset += len(plain) + 1

    def _read_words(
        self, document: Iterable[NumberedLine], tagged: JoinedWords | TagsBeside, found: Findings
    ) -> None:
        """Read lines of words with tags, each a sentence."""
        values = [tag for line in document for tag in tagged.list_tags(line)]
        found.lost = sum(tag[:1] in ("B", "S", "U") for tag in values)
        found.words = []
        num_words = 0
        for line in document:
            try:
                words, word_tags = tagged.split(line)
            except RecordError as error:
                raise RecordError(error.reason, line=line.number) from None
            if tagged.are_labels:
                spans = tags.runs(word_tags, outside="O")
            else:
                spans = found.decode(word_tags, untyped=self.untyped)
            found.spans += [span.shifted(num_words) for span in spans]
            found.words.append(words)
            num_words += len(words)


def _decode_lines(data: bytes) -> list[str]:
    """Decode the lines that are not blank. Invalid bytes are replaced."""
    return [line.data.decode(errors="replace") for line in lines(data) if line.data.strip()]


@functools.lru_cache(maxsize=4)
def _find_joined(beginning: bytes) -> JoinedWords | None:
    return find_joined(_decode_lines(beginning))


@functools.lru_cache(maxsize=4)
def _find_names(beginning: bytes) -> Mapping[Syntax, set[str]]:
    """Return syntax -> names of its pairs in a beginning. Cached, for all parts of a file."""
    texts = _decode_lines(beginning)
    found: dict[Syntax, set[str]] = {}
    for syntax in (*_PAIRS, *_WHOLE):
        names = {opening.name for text in texts for opening, _ in _pair_marks(text, syntax)[0]}
        if names:
            found[syntax] = names
    return found


def _find_marks(text: str, syntax: Syntax) -> Iterator[_Mark]:
    """Yield the marks in a text."""
    if syntax in _WHOLE:
        for match in _WHOLE[syntax].finditer(text):
            label = match["label"]
            yield _Mark(match.start(), match.start("words"), label, closes=False, label=label)
            yield _Mark(match.end("words"), match.end(), label, closes=True)
        return
    for match in _PAIRS[syntax].finditer(text):
        if not _FORMATTING.fullmatch(match[0]):
            name = match["name"] or "START"
            closes = bool(match["closes"])
            label = "" if closes else _label(match)
            yield _Mark(match.start(), match.end(), name, closes, label)


def _label(mark: re.Match[str]) -> str:
    """Return the label of a mark that opens, "" if it has none."""
    if mark.re is _PAIRS["opennlp"]:
        return mark["detail"][1:]
    given = _TYPE.search(mark["detail"])
    return given[1].strip("\"'") if given else mark["name"]


def _pair_marks(text: str, syntax: Syntax) -> tuple[list[tuple[_Mark, _Mark]], list[_Mark]]:
    """Pair each mark that closes with the last open one of its name.

    Returns:
        The pairs, and the marks without a partner: those that are open between the marks of a pair
        are among them.
    """
    pairs: list[tuple[_Mark, _Mark]] = []
    single: list[_Mark] = []
    opened: list[_Mark] = []
    num_opened: Counter[str] = Counter()
    for mark in _find_marks(text, syntax):
        if not mark.closes:
            opened.append(mark)
            num_opened[mark.name] += 1
        elif not num_opened[mark.name]:
            single.append(mark)
        else:
            while opened[-1].name != mark.name:
                num_opened[opened[-1].name] -= 1
                single.append(opened.pop())
            num_opened[mark.name] -= 1
            pairs.append((opened.pop(), mark))
    return pairs, single + opened


def _remove_marks(
    text: str, pairs: Iterable[tuple[_Mark, _Mark]]
) -> tuple[str, list[tuple[int, int, str]]]:
    """Return a text without marks, and start, end and label of each mention in it."""
    pieces: list[str] = []
    mentions: list[tuple[int, int, str]] = []
    opened: list[tuple[int, _Mark]] = []
    position = 0
    end = 0
    for mark in sorted(itertools.chain.from_iterable(pairs)):
        pieces.append(text[end : mark.start])
        position += len(pieces[-1])
        end = mark.end
        if mark.closes:
            start, opening = opened.pop()
            mentions.append((start, position, opening.label))
        else:
            opened.append((position, mark))
    return "".join([*pieces, text[end:]]), mentions


def _guess(texts: Iterable[str], syntax: Syntax) -> Guess:
    """Guess from lines whether they are text with mentions in pairs of marks, and nothing else."""
    names: Counter[str] = Counter()
    single: list[_Mark] = []
    num_inside = 0
    num_characters = 0
    for text in texts:
        pairs, unpaired = _pair_marks(text, syntax)
        # A mark alone in a line is the structure of a document, as in XML.
        if _FORMATTING.search(text) or _are_alone(unpaired, text):
            return Guess()
        single += unpaired
        names.update(opening.name for opening, _ in pairs)
        if pairs:
            plain, mentions = _remove_marks(text, pairs)
            num_inside += sum(stop - start for start, stop, _ in mentions)
            num_characters += len(plain)

    num_damaged = sum(mark.closes or mark.name in names for mark in single)
    if num_damaged * 20 > names.total() or num_inside * 2 >= num_characters:
        return Guess()
    labels = {name: number for name, number in names.items() if not _UNSURE.fullmatch(name)}
    in_capitals = [number for name, number in labels.items() if name.isupper()]
    if _repeats(in_capitals) and syntax in _SURE:
        return Guess(f"its lines have pairs of marks ({syntax})")
    if _repeats(labels.values()):
        reason = "have names that are not in capitals" if syntax in _SURE else "are links or words"
        return Guess(
            problem=f"pairs of marks may be formatting, as such marks often {reason}; set "
            f'[source] syntax = "{syntax}" if they are labels'
        )
    return Guess()


def _are_alone(marks: Iterable[_Mark], text: str) -> bool:
    """Return whether a line is a mark."""
    return any(text[mark.start : mark.end].strip() == text.strip() for mark in marks)


def _repeats(counts: Collection[int]) -> bool:
    """Return whether there are at least three pairs, and a label with several."""
    return sum(counts) >= 3 and max(counts) > 1
