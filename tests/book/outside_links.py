#!/usr/bin/env python3
"""A preprocessor of mdBook: of a link to a file outside of docs the text stays, because the book lacks the file.

mdBook runs it, with the book as JSON on the standard input; docs/book.toml names it.
"""

import json
import posixpath
import re
import sys

LINK = re.compile(r"(!?)\[((?:[^\]`]|`[^`]*`)*)\]\(([^)\s]+)\)")


def inside(text, page):
    """Returns a page without its links to files outside of the book."""
    def link(match):
        mark, label, target = match.groups()
        path = target.partition("#")[0]
        if re.match(r"[a-z]+:", target) or not path:
            return match.group()
        leaves = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)).startswith("../")
        return ("" if mark else label) if leaves else match.group()
    return LINK.sub(link, text)


def visit(items):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            chapter["content"] = inside(chapter["content"], chapter["path"] or "")
            visit(chapter["sub_items"])


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "supports":
        return
    _, book = json.load(sys.stdin)
    visit(book.get("items") or book.get("sections"))
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
