"""The slow twin of `mslm_data.source.formats.conll`: one line after the other, nothing looked up, nothing cut.

It knows the tag's column beforehand, and gives a document as (id, sentences of (word, tag)), None for one with a
broken line. A row without a word and with the tag O is none, unless it is all that its sentence has.
"""

from __future__ import annotations

import re

PREFIXES = set("BIESLUMW")
ASCII_BLANKS = " \t\r\f\v"
Sentence = list[tuple[str, str]]


def documents(
    data: bytes, *, stem: str, tag_column: int
) -> list[tuple[str, list[Sentence] | None]]:
    text = data.decode("utf-8").removeprefix("\ufeff")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    marked = any(is_mark(line) for line in lines)
    found: list[tuple[str, list[Sentence] | None]] = []
    name, sentences, sentence, broken, seen = "", [], [], False, False
    number = 0

    def close_sentence() -> None:
        nonlocal sentence, broken
        if sentence:
            sentences.append([pair for pair in sentence if pair[0].strip(ASCII_BLANKS)])
            broken |= not sentences[-1]
        sentence = []

    def close_document() -> None:
        nonlocal name, sentences, broken, seen, number
        close_sentence()
        if seen:
            found.append((name or f"{stem}:{number}", None if broken else sentences))
            number += 1
        name, sentences, broken, seen = "", [], False, False

    for line in lines:
        if is_mark(line):
            close_document()
            name, seen = id_of(line), True
        elif line.strip(ASCII_BLANKS) == "":
            close_sentence() if marked else close_document()
        else:
            seen = True
            fields = line.split("\t") if "\t" in line else re.split(" +", line.rstrip(" "))
            good = len(fields) > tag_column
            tag = fields[tag_column].strip(ASCII_BLANKS) if good else ""
            may_be_empty = tag in ("O", "o")
            good = good and is_tag(tag) and (fields[0].strip(ASCII_BLANKS) != "" or may_be_empty)
            if good:
                sentence.append((fields[0], tag))
            else:
                broken = True
    close_document()
    return found


def is_mark(line: str) -> bool:
    rest = line.removeprefix("-DOCSTART-")
    return line.startswith("###MEDLINE:") or (
        rest != line and rest[:1] in ("", " ", "\t", "\r", "(")
    )


def id_of(line: str) -> str:
    if line.startswith("###MEDLINE:"):
        rest = line.removeprefix("###MEDLINE:")
        return rest.split()[0] if rest[:1].strip() else ""
    found = re.match(r"-DOCSTART-[ \t]*\(([^()\s]+)\)", line)
    return found[1] if found else ""


def is_tag(tag: str) -> bool:
    return (
        tag in ("O", "o")
        or tag in PREFIXES
        or (tag[:1].upper() in PREFIXES and tag[1:2] in ("-", "_") and len(tag) > 2)
    )


def mentions(tags: list[str], *, untyped: str) -> list[tuple[int, int, str]]:
    """Ask of each word alone whether a mention begins or ends there; conlleval's way."""
    prefixes = ["O", *(tag[0] for tag in tags), "O"]
    labels = ["", *("" if tag == "O" else tag[2:] or untyped for tag in tags), ""]
    for i, tag in enumerate(tags, start=1):
        if tag in ("I", "E", "M", "L") and prefixes[i - 1] not in "OESLUW":
            labels[i] = labels[i - 1]
    found = []
    start = -1
    for i in range(1, len(prefixes)):
        before, here = prefixes[i - 1], prefixes[i]
        apart = before in "OESLUW" or here in "OBSUW" or labels[i - 1] != labels[i]
        if start >= 0 and apart:
            found.append((start, i - 1, labels[i - 1]))
            start = -1
        if here != "O" and apart:
            start = i - 1
    return found
