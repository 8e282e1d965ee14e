"""Upload a finished dataset to the Hugging Face hub, with a card that describes it."""

from __future__ import annotations

from pathlib import Path

from tokenmill.base.durable import PROGRESS
from tokenmill.datasets.formats.format import find_format
from tokenmill.datasets.layout import VIEWS
from tokenmill.datasets.ledger.manifest import Manifest, load_manifest
from tokenmill.errors import ConfigError, StoreError, explain_missing
from tokenmill.sources.discover import HUB_NAME

CARD = "README.md"


def push_dataset(root: str | Path, name: str, *, private: bool = False) -> str:
    """Upload a dataset as `ORG/NAME` and return the URL of the commit.

    Files already on the hub are not uploaded again. Raise `StoreError` if the upload fails.
    """
    if not HUB_NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is not the name of a dataset on the hub; expected ORG/NAME")
    manifest = load_manifest(Path(root))
    with explain_missing("huggingface_hub", "hf", "pushing to the hub"):
        from huggingface_hub import HfApi
    api = HfApi()
    message = f"tokenmill dataset {manifest.content_hash[:12]}"
    ignored = [PROGRESS, ".*", "*.tmp", CARD, f"{VIEWS}/*"]
    target = {"repo_id": name, "repo_type": "dataset", "commit_message": message}
    try:
        api.create_repo(name, repo_type="dataset", private=private, exist_ok=True)
        api.upload_folder(folder_path=str(root), ignore_patterns=ignored, **target)
        card = make_card(name, manifest).encode()
        done = api.upload_file(path_or_fileobj=card, path_in_repo=CARD, **target)
    except Exception as error:  # any error class of the client means that the upload failed
        line = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise StoreError(
            f"{name}: the hub did not take the dataset ({type(error).__name__}: {line})\n"
            "log in with a token that may write: hf auth login, or set HF_TOKEN\n"
            "the same command continues where this one ended"
        ) from error
    return str(done.commit_url)


def make_card(name: str, manifest: Manifest) -> str:
    """Return the README of the dataset: its figures, its tokenizer, and how to open it."""
    tokenizer, reader = manifest.tokenizer, find_format(manifest.format).read_by
    return f"""---
tags:
- tokenmill
- tokenized
---

# {name}

{manifest.tokens:,} token ids of {manifest.documents:,} documents, prepared with tokenmill; read by {reader}.

| | |
|---|---|
| format | {manifest.format}, {manifest.layout}, {manifest.dtype}, {len(manifest.shards)} shards |
| tokenizer | {tokenizer.name}, {tokenizer.vocab_size:,} tokens, fingerprint `{tokenizer.fingerprint}` |
| content hash | `{manifest.content_hash}` |

```python
from huggingface_hub import snapshot_download
import tokenmill

dataset = tokenmill.open(snapshot_download("{name}", repo_type="dataset"))
```
"""
