#!/usr/bin/env python3
"""Fails when a link of the book's HTML leads to a file or an anchor that the book lacks.

    tests/book/rendered.py DIRECTORY     what mdBook has made
"""

import html.parser
import pathlib
import re
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    """The anchors of a page, and what it refers to."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.targets = set(), []
        self.feed(text)

    def handle_starttag(self, _, attributes):
        for name, value in attributes:
            if name == "id":
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.targets.append(value)


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = {path: Page(path.read_text()) for path in sorted(root.rglob("*.html"))}
    wrong, links = [], 0
    for path, page in pages.items():
        for target in page.targets:
            if re.match(r"[a-z]+:|//", target) or path.name in ("404.html", "toc.html"):
                continue
            links += 1
            file, _, anchor = target.partition("#")
            leads_to = (path.parent / urllib.parse.unquote(file)).resolve() if file else path
            if not leads_to.exists():
                wrong.append(f"{path.relative_to(root)}: {target}: no such file")
            elif anchor and leads_to in pages and urllib.parse.unquote(anchor) not in pages[leads_to].anchors:
                wrong.append(f"{path.relative_to(root)}: {target}: no such heading")
    if links < 500:
        wrong.append(f"only {links} links were found")
    if wrong:
        sys.exit("\n".join(sorted(set(wrong))))
    print(f"the book: {len(pages)} pages, every link leads somewhere ({links})")


main()
