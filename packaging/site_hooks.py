"""Hooks of MkDocs: pages work at any address of the site, and request only files that exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlparse

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Remove the `link`s to other languages, whose site maps the theme would request. The switch stays.

    The switch of a home page gets relative links, as on all other pages.
    """
    output = re.sub(r'\s*<link rel="alternate"[^>]*>', "", output)
    root = re.escape(urlparse(config.site_url).path)
    up = "../" * page.url.count("/") or "./"
    return re.sub(rf'href="{root}((?:ko/|zh/)?)"', rf'href="{up}\1"', output)
