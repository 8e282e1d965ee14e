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


def push_dataset(root: str | Path, name: str, *, private: bool = False, revision: str | None = None) -> str:
    """Upload a dataset as `ORG/NAME` and return the URL of the commit.

    Files already on the hub are not uploaded again. Raise `StoreError` if the upload fails.
    """
    if not HUB_NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is not the name of a dataset on the hub; expected ORG/NAME")
    manifest = load_manifest(Path(root))
    with explain_missing("huggingface_hub", "hf", "pushing to the hub"):
        from huggingface_hub import HfApi
    api = HfApi()
    try:
        api.create_repo(name, repo_type="dataset", private=private, exist_ok=True)
        ignored = [PROGRESS, ".*", "*.tmp", CARD, f"{VIEWS}/*"]
        api.upload_folder(
            repo_id=name,
            folder_path=str(root),
            repo_type="dataset",
            revision=revision,
            ignore_patterns=ignored,
            commit_message=f"tokenmill dataset {manifest.content_hash[:12]}",
        )
        done = api.upload_file(
            path_or_fileobj=make_card(name, manifest).encode(),
            path_in_repo=CARD,
            repo_id=name,
            repo_type="dataset",
            revision=revision,
            commit_message="Card",
        )
    except Exception as error:  # any error class of the client means that the upload failed
        line = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise StoreError(
            f"{name}: the hub did not take the dataset ({type(error).__name__}: {line})\n"
            "log in with a token that may write: hf auth login, or set HF_TOKEN\n"
            "the same command continues where this one ended"
        ) from error
    return str(done.commit_url)


def make_card(name: str, manifest: Manifest) -> str:
    """Return the README of the dataset: its figures, its inputs, and how to open it."""
    packing = manifest.packing
    rows = f", rows of {packing.context_length}" if manifest.layout == "rows" else ""
    facts = {
        "tokens": f"{manifest.tokens:,}",
        "documents": f"{sum(shard.documents for shard in manifest.shards):,}",
        "shards": f"{len(manifest.shards)} ({manifest.format}, {manifest.dtype}{rows})",
        "tokenizer": f"{manifest.tokenizer.name}, {manifest.tokenizer.vocab_size:,} tokens, "
        f"fingerprint `{manifest.tokenizer.fingerprint}`",
        "content hash": f"`{manifest.content_hash}`",
    }
    table = "".join(f"| {key} | {value} |\n" for key, value in facts.items())
    inputs = "".join(f"- `{entry.path}`\n" for entry in manifest.inputs[:20])
    more = len(manifest.inputs) - 20
    rest = f"- and {more} more\n" if more > 0 else ""
    return (
        "---\ntags:\n- tokenmill\n- tokenized\n---\n\n"
        f"# {name}\n\nToken ids, prepared with tokenmill; read by {find_format(manifest.format).read_by}.\n\n"
        f"| | |\n|---|---|\n{table}\n## Made from\n\n{inputs}{rest}\n"
        "## Use\n\n```python\nfrom huggingface_hub import snapshot_download\nimport tokenmill\n\n"
        f'dataset = tokenmill.open(snapshot_download("{name}", repo_type="dataset"))\n```\n'
    )
