"""Read a built site as a crawler does: every link and every file that a page asks for."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlparse

HOME = "http://site.invalid/"
# Elements that a browser fetches by itself, and the attribute with the address.
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
# `link` elements that only name a page; nothing is fetched for them.
NAMING = {"canonical", "alternate", "prev", "next"}


class Page(HTMLParser):
    """The ids of a page, where it links to, and what it fetches."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.fetched = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids |= {values[key] for key in ("id", "name") if values.get(key)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in FETCHED and values.get(FETCHED[tag]) and values.get("rel") not in NAMING:
            self.fetched.append(values[FETCHED[tag]])


def read_site(root):
    """Each page by its address, `http://site.invalid/tutorial/`."""
    pages = {}
    for path in sorted(Path(root).rglob("*.html")):
        address = HOME + str(path.relative_to(root)).removesuffix("index.html")
        pages[address] = Page(path.read_text(encoding="utf-8"))
    return pages


def find_foreign(root):
    """`(page, address)` for everything that a page or a style sheet would fetch from another host."""
    foreign = [
        (address, link)
        for address, page in read_site(root).items()
        for link in page.fetched
        if urlparse(urljoin(address, link)).hostname not in ("site.invalid", None)
    ]
    for path in Path(root).rglob("*.css"):
        found = re.findall(r"url\(\s*['\"]?((?:https?:)?//[^)'\"]+)", path.read_text(encoding="utf-8"))
        foreign += [(path.name, link) for link in found]
    return foreign
