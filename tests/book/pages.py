#!/usr/bin/env python3
"""Checks the text of the documents: how many words they have, how long a sentence is, where dates stand, and that the
book has each page. Writes or compares the generated pages of docs/reference.

    tests/book/pages.py [DIRECTORY]     DIRECTORY: the repository, this one if none is named

A word has a letter or a digit; blocks of code are no text, and a code span is one word of a sentence. The limit is for what
users and contributors read: not for CHANGELOG.md, which is a history, docs/reference, which is generated, the table of
contents, docs/skill, which is for coding agents, and the notes in tests. tests/links checks links and anchors.
"""

import pathlib
import re
import subprocess
import sys

MAX_WORDS = 25_000
MAX_SENTENCE = 30
# A change of this page is a log, by date.
HISTORY = {"CHANGELOG.md"}
GENERATED = "docs/reference/"
CONTENTS = "docs/SUMMARY.md"
# Files for coding agents, which the book does not have.
APART = "docs/skill/"
# Pages that may have dates: measurements, and this project's history.
DATED = {"docs/BENCHMARKS.md"} | HISTORY
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
WORD = re.compile(r"[^\W_]")
BLOCK = re.compile(r"^\s*(?:[-*] |\d+\. |#+ |\||> |$)")


def without_code(text):
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.S | re.M)


def blocks(text):
    """Yields paragraphs, items of lists, headings and cells of tables."""
    lines = []
    for line in [*re.sub(r"<!--.*?-->", "", without_code(text), flags=re.S).splitlines(), ""]:
        if BLOCK.match(line):
            yield " ".join(lines)
            lines = []
        if line.lstrip().startswith("|"):
            yield from re.split(r"(?<!\\)\|", re.sub(r"`[^`]*`", "code", line))
        else:
            lines.append(re.sub(r"^\s*(?:[-*] |\d+\. |#+ |> )", "", line.strip()))
    yield " ".join(lines)


def sentences(block):
    block = re.sub(r"`[^`]+`", "code", block)
    block = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", block)
    return re.split(r"(?<=[.!?])[\"')*]*\s+", block)


def words(text):
    return sum(1 for word in text.split() if WORD.search(word))


def findings(name, text):
    """Yields the faults of a page."""
    for block in blocks(text):
        for sentence in sentences(block):
            if words(sentence) > MAX_SENTENCE:
                yield f"{name}: a sentence of {words(sentence)} words, at most {MAX_SENTENCE}: {sentence.strip()}"
    if name not in DATED:
        for date in DATE.findall(re.sub(r"`[^`]+`", "", without_code(text))):
            yield f"{name}: the date {date}; measurements with dates stand in docs/BENCHMARKS.md"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-co", "--exclude-standard", "*.md"], capture_output=True, text=True, check=True)
    names = [name for name in sorted(set(listed.stdout.splitlines())) if (root / name).exists()]
    if CONTENTS not in names:
        sys.exit(f"{root}: no {CONTENTS}")
    wrong, counts = [], {}
    summary = (root / CONTENTS).read_text()
    for name in names:
        text = (root / name).read_text()
        is_page = name.startswith("docs/") and not name.startswith(APART) and name != CONTENTS
        if is_page and f"]({name.removeprefix('docs/')})" not in summary:
            wrong.append(f"{name}: {CONTENTS} does not have the page")
        if name in HISTORY or name.startswith(GENERATED):
            continue
        wrong += findings(name, text)
        if not name.startswith(("tests/", APART)) and name != CONTENTS:
            counts[name] = words(re.sub(r"<!--.*?-->", "", without_code(text), flags=re.S))
    total = sum(counts.values())
    if total > MAX_WORDS:
        sizes = ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda each: -each[1]))
        wrong.append(f"the documents have {total:,} words, at most {MAX_WORDS:,}: {sizes}")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(counts)} documents: {total:,} words, no sentence over {MAX_SENTENCE}")


if __name__ == "__main__":
    main()
