"""Resolve all settings that affect the output once, so that every unit uses the same values."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.datasets.documents import LOSS_MASK
from tokenmill.datasets.formats.format import Format, find_format, list_formats
from tokenmill.datasets.ledger.manifest import PackingIdentity, Target, TokenizerIdentity
from tokenmill.datasets.ledger.selection import TRAINING, Split
from tokenmill.datasets.remote import Remote
from tokenmill.datasets.views import make_view
from tokenmill.errors import ConfigError
from tokenmill.pipeline.encode import TextFilters
from tokenmill.settings.schema import JobConfig, PackingConfig
from tokenmill.sources.fields import list_record_fields
from tokenmill.tokenizer.engines.backend import Special
from tokenmill.tokenizer.recipe import Role
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenmill.chat.encode import ChatWork, IdsWork


@dataclass(frozen=True)
class Job:
    """The config, the tokenizer and the values resolved from both. It can be pickled."""

    config: JobConfig
    root: Path
    encoder: Tokenizer
    tokenizer: TokenizerIdentity
    packing: PackingIdentity
    dtype: str
    filters: TextFilters
    values: dict[str, Any]
    # Counts strings of special tokens that are read as plain text.
    special_strings: tuple[str, ...] = ()
    remote: Remote | None = None
    # The side of a training/validation split, if there is one.
    split: Split | None = None
    # None if documents are texts.
    chat: ChatWork | IdsWork | None = None

    @property
    def location(self) -> str:
        """Return the output as the user named it."""
        return self.remote.address if self.remote is not None else str(self.root)

    @property
    def target(self) -> Target:
        """Return the description of the dataset that the plan records."""
        return Target(self.config.output.format, self.dtype, self.tokenizer, self.packing)

    @property
    def frame(self) -> tuple[int | None, int | None]:
        """Return the ids of BOS and EOS."""
        return self.packing.bos_id, self.packing.eos_id

    def name_token(self, token: int | None) -> str:
        """Return a readable token: `"<|im_end|> (151645)"`, or `"none"`."""
        if token is None:
            return "none"
        special = (text for text, each in self.encoder.special_tokens.items() if each == token)
        return f"{next(special, None) or repr(self.encoder.decode([token]))} ({token})"

    @property
    def lenient_special(self) -> Special:
        """Return the `special` mode for samples. A forbidden token is reported later, with file and row."""
        special = self.config.tokenizer.special
        return "text" if special == "forbid" else special

    @property
    def frames_at_once(self) -> bool:
        """True if the engine can add BOS and EOS, because no document is dropped after encoding."""
        limits = self.config.filter
        return limits.min_tokens is None and limits.max_tokens is None and self.encoder.engine.native


def make_job(
    config: JobConfig,
    encoder: Tokenizer,
    root: Path,
    remote: Remote | None = None,
    keep: Callable[[str], bool] | None = None,
) -> Job:
    """Resolve ids, types and filters. Raise `ConfigError` for contradictions before anything is written."""
    chat = _make_chat(config, encoder) if list_record_fields(config.source) else None
    written_as = find_format(config.output.format)
    packing = _settle_packing(config.packing, encoder, written_as, conversations=chat is not None)
    written_as.check_columns(packing.columns)
    dtype = written_as.choose_dtype(config.output.dtype, encoder.vocab_size)
    identity = TokenizerIdentity(
        config.tokenizer.tokenizer_name or "tokenizer", encoder.fingerprint, encoder.vocab_size
    )
    values = config.list_deciding_settings()
    if not written_as.holds_rows:
        # Rows are computed when read. These settings are the default view and change no byte.
        values = {key: value for key, value in values.items() if not key.startswith("packing.")}
    if chat is None:
        fields = ("messages_field", "prompt_field", "completion_field", "ids_field", "chat_columns")
        unused = {f"source.{name}" for name in fields}
        values = {key: value for key, value in values.items() if key not in unused and key[:5] != "chat."}
    values |= {
        "output.dtype": dtype,
        "packing.bos": packing.bos_id,
        "packing.eos": packing.eos_id,
        "tokenizer.fingerprint": encoder.fingerprint,
    }
    if written_as.holds_rows:
        values["packing.pad_token"] = packing.pad_id
    if chat is not None and not config.source.ids_field:
        values |= chat.identify()  # type: ignore[union-attr] # records of ids have no template
    if keep is not None:
        # A name that depends on the function's code, so that a resumed job detects a change.
        own = getattr(keep, "__qualname__", type(keep).__name__)
        code = getattr(keep, "__code__", None)
        mark = "" if code is None else f"#{hashlib.sha256(code.co_code).hexdigest()[:12]}"
        values["filter.function"] = f"{getattr(keep, '__module__', '')}.{own}{mark}"
    filters = TextFilters(config.filter, keep)
    plain = tuple(encoder.special_tokens) if config.tokenizer.special == "text" else ()
    split, chosen = None, config.filter
    if chosen.validation is not None:
        by_id = chosen.validation_by == "id-field"
        if by_id and config.source.id_field is None:
            raise ConfigError("validation_by id-field needs an `id_field`: the column that names a document")
        split = Split(chosen.validation_part or TRAINING, chosen.validation, by_id)
    return Job(config, root, encoder, identity, packing, dtype, filters, values, plain, remote, split, chat)


def _make_chat(config: JobConfig, encoder: Any) -> ChatWork | IdsWork:
    """Build the reader of records of a job. Raise `ConfigError` for a missing or invalid template."""
    if not isinstance(encoder, Tokenizer):
        raise ConfigError("conversations need a tokenizer that tokenmill loads; give its path or its hub id")
    from tokenmill.chat.encode import ChatWork, IdsWork
    from tokenmill.chat.records import RecordShape
    from tokenmill.chat.template import make_template

    source, chat = config.source, config.chat
    if source.ids_field:
        return IdsWork(encoder, source.ids_field)
    shape = RecordShape(
        source.messages_field, source.prompt_field, source.completion_field, chat.system, source.chat_columns
    )
    template = make_template(encoder.recipe, chat)
    options = {"replaces": source.on_error == "replace", "one_sample_per_answer": chat.one_sample_per_answer}
    return ChatWork(encoder, shape, template, chat.train_on, **options)


def _settle_packing(
    config: PackingConfig, encoder: Tokenizer, written_as: Format, *, conversations: bool
) -> PackingIdentity:
    view = None
    if config.context_length is not None and (config.mode != "stream" or not written_as.holds_rows):
        view = make_view(
            context_length=config.context_length,
            packing=config.mode,
            overlap=config.overlap,
            tail=None if config.bos_aligned else config.tail,
            max_documents=config.max_documents_per_row,
            too_long=config.too_long,
            multiple_of=config.multiple_of,
            bos_aligned=config.bos_aligned,
            columns=config.columns,
            conversations=conversations,
        )
    columns: tuple[str, ...] = config.columns if written_as.holds_rows else ()
    if conversations and LOSS_MASK not in columns:
        columns = (*columns, LOSS_MASK)
    alone = set(config.columns) <= ({LOSS_MASK} if conversations else set())
    if view is None and not alone and not written_as.document_columns:
        others = " or ".join(known.name for known in list_formats() if known.document_columns)
        raise ConfigError(
            "columns belong to rows, and a stream has none: set `context_length`, request them when reading, "
            f"or write {others}, which have them for whole documents too"
        )
    # A template renders its own tokens around a conversation.
    eos = _find_id(encoder, config.eos, "eos", automatic=not conversations)
    pad = _find_id(encoder, config.pad_token, "pad", automatic=True)
    if pad is None and view is not None:
        # Padding is identified by the mask and the spans, not by its id, so any id works. EOS is usual.
        pad = eos if eos is not None else encoder.special_id("eos") or 0
    bos = _find_id(encoder, config.bos, "bos", automatic=False)
    return PackingIdentity(bos, eos, pad, columns, view)


def _find_id(encoder: Tokenizer, value: Any, role: Role, *, automatic: bool) -> int | None:
    """Return the id of a role. `True`: the tokenizer's token. `False`: no token. None: as `automatic`."""
    if value is False or (value is None and not automatic):
        return None
    if value is None or value is True:
        found = encoder.special_id(role)
        if found is None and value is True:
            raise ConfigError(
                f"{role}: this tokenizer has no {role.upper()} token; give its string or its id"
            )
        return found
    known, size = encoder.special_tokens, encoder.vocab_size
    if value in known:
        return known[value]
    if str(value).isdecimal() and int(value) < size:
        return int(value)
    shown = ", ".join(list(known)[:8]) or "none"
    raise ConfigError(
        f"{role}: {value!r} is neither a special token of this tokenizer ({shown}) nor an id, 0..{size - 1}"
    )
