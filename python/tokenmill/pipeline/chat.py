"""Jobs of conversations: their settings, their account, and the markers around them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.texts import BIT, Texts, is_learned, strip_marks
from tokenmill.chat.encode import ChatBatch, ChatWork
from tokenmill.chat.ids import IdsWork
from tokenmill.datasets.documents import frame_documents
from tokenmill.datasets.ledger.plan import load_plan
from tokenmill.datasets.ledger.receipt import Account
from tokenmill.errors import ConfigError
from tokenmill.settings.resolve import Resolved
from tokenmill.settings.schema import JobConfig
from tokenmill.sources.stores import is_remote
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenmill.pipeline.job import Job

logger = logging.getLogger("tokenmill.prepare")
_reported: set[tuple[str, str]] = set()
# Sample documents to log, and the maximum number of ids of each.
SAMPLES, SHOWN = 3, 50


def prefers_chat(config: JobConfig, encoder: Any) -> bool:
    """Return True if a prompt and its completion are read as a conversation, which needs a template."""
    if not isinstance(encoder, Tokenizer):
        return False
    from tokenmill.chat.template import list_own_templates

    return config.chat.chat_template is not None or bool(list_own_templates(encoder.recipe))


def settle_chat(resolved: Resolved, config: JobConfig) -> JobConfig:
    """Return settings with best-fit packing unless set, and the chat date of a resumed job."""
    packing = config.packing
    given = [each.name for each in fields(config.chat) if resolved.is_set_by_user(f"chat.{each.name}")]
    if config.source.ids_field and given:
        raise ConfigError(f"{', '.join(given)}: records of ids are not rendered; leave this setting out")
    if packing.mode == "concat" and not resolved.is_set_by_user("packing.mode"):
        config = replace(config, packing=replace(packing, mode="bestfit"))
    path = config.output.path
    if config.chat.chat_date is None and path is not None and not is_remote(path):
        plan = load_plan(Path(path))
        if plan is not None and (planned := plan.values.get("chat.chat_date")):
            config = replace(config, chat=replace(config.chat, chat_date=planned))
    return config


def make_chat(config: JobConfig, encoder: Any) -> ChatWork | IdsWork:
    """Build the reader of records of a job. Raise `ConfigError` for a missing or invalid template."""
    if not isinstance(encoder, Tokenizer):
        raise ConfigError("conversations need a tokenizer that tokenmill loads; give its path or its hub id")
    if config.source.ids_field:
        return IdsWork(encoder, config.source.ids_field)
    from tokenmill.chat.encode import make_chat_work
    from tokenmill.chat.records import RecordShape
    from tokenmill.chat.template import make_template

    source, chat = config.source, config.chat
    shape = RecordShape(
        source.messages_field, source.prompt_field, source.completion_field, chat.system, source.chat_columns
    )
    template = make_template(encoder.recipe, chat)
    options = {"replaces": source.on_error == "replace", "one_sample_per_answer": chat.one_sample_per_answer}
    return make_chat_work(encoder, shape, template, chat.train_on, **options)


def describe_chat(job: Job) -> list[str]:
    """Return lines that describe how conversations are read."""
    lines, view = job.chat.describe() if isinstance(job.chat, ChatWork) else [], job.packing.view
    if job.chat and view is not None and view.too_long is not None:
        lines.append(f"Conversations longer than {view.context_length} tokens: {view.too_long}")
    return lines


def encode_chats(job: Job, work: ChatWork | IdsWork, texts: Texts, account: Account) -> ChatBatch:
    """Encode the conversations in some records. Add the counts to `account`."""
    batch = work.encode(texts, job.config.tokenizer.special, drop_blank=job.config.filter.drop_blank)
    account.text_bytes += batch.text_bytes - texts.nbytes
    account.documents_read += batch.documents - len(texts)
    account.rejected.update(error.reason for error in batch.errors.values())
    account.documents_dropped.update(batch.dropped)
    account.tokens_dropped.update(batch.tokens_dropped)
    account.special_strings += batch.special_strings
    account.tokens_encoded += len(batch.ids) + batch.tokens_dropped.total()
    account.learned_roles.update(batch.roles)
    account.learned_left_out.update(batch.left_out)
    account.learned_read += int(is_learned(batch.ids).sum())
    if job.config.source.ids_field and _is_first(job, "ids"):
        for marked in batch.found[:SAMPLES]:
            parts = [strip_marks(marked), strip_marks(marked[is_learned(marked)])]
            shown = [f"{len(part)}, {job.encoder.decode(part[:SHOWN].tolist())!r}" for part in parts]
            logger.info("Sample: %s; trained on %s", *shown)
    return batch


def _is_first(job: Job, topic: str) -> bool:
    """Return True for the first call with a topic in this process."""
    known = (str(job.root), topic) in _reported
    _reported.add((str(job.root), topic))
    return not known


def warn_left_out(job: Job, part: str, name_place: Callable[[], str]) -> None:
    """Warn once per job and part that the template does not render a part of a message."""
    if not _is_first(job, part):
        return
    remedy = "give a template that writes it, with --chat-template"
    if part == "reasoning":
        remedy += ", or, if it writes that of the last answer only, --one-sample-per-answer"
    logger.warning(
        "%s: the chat template leaves out the %s of a message; such parts are counted as left_out in the "
        "account. To train on them %s.", name_place(), part, remedy
    )  # fmt: skip


def frame_chats(ids: Any, offsets: Any, bos: int | None, eos: int | None) -> tuple[Any, Any]:
    """Add BOS and EOS to conversations. An EOS after a trained token is trained."""
    if bos is None and eos is None:
        return ids, offsets
    ids, offsets = frame_documents(ids, offsets, bos, eos, wide=True)
    ids = np.array(ids)
    if eos is not None and len(offsets) > 1:
        last = np.asarray(offsets)[1:] - 1
        ids[last] |= np.where(is_learned(ids[last - 1]), BIT, np.uint32(0))
    return ids, offsets


def count_trained(ids: Any, offsets: Any) -> NDArray[np.int64]:
    """Return the number of trained tokens of each document."""
    sums = np.concatenate([[0], np.cumsum(is_learned(ids))])
    return np.diff(sums[np.asarray(offsets)])
