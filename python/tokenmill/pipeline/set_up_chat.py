"""What a job of conversations settles by itself: rows, the date in its template, and lines that say so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.datasets.ledger.plan import load_plan
from tokenmill.sources.stores import is_remote
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenmill.pipeline.job import Job
    from tokenmill.settings.resolve import Resolved
    from tokenmill.settings.schema import JobConfig


def prefers_chat(config: JobConfig, encoder: Any) -> bool:
    """Whether a prompt and its completion are a conversation: if there is a template for them."""
    if not isinstance(encoder, Tokenizer):
        return False
    # Here, since most jobs have no conversations.
    from tokenmill.chat.template import find_own_templates

    return config.chat.chat_template is not None or bool(find_own_templates(encoder.recipe))


def settle_chat(resolved: Resolved, config: JobConfig) -> JobConfig:
    """Rows that keep conversations whole, and the date of the job that is resumed."""
    packing = config.packing
    if packing.mode == "concat" and not resolved.is_set_by_user("packing.mode"):
        config = replace(config, packing=replace(packing, mode="bestfit"))
    path = config.output.path
    if config.chat.chat_date is None and path is not None and not is_remote(path):
        plan = load_plan(Path(path))
        planned = plan.values.get("chat.chat_date") if plan is not None else None
        if planned is not None:
            config = replace(config, chat=replace(config.chat, chat_date=planned))
    return config


def describe_chat(job: Job) -> list[str]:
    """Lines that say how conversations are read."""
    if job.chat is None:
        return []
    chat = job.chat.chat
    dated = f", with the date {chat.template.today}" if chat.template.tells_the_date else ""
    lines = [f"Chat template: {chat.template.name}{dated}", f"Learned: {job.config.chat.train_on}"]
    if job.too_long is not None:
        lines.append(f"Conversations longer than {job.packing.context_length} tokens: {job.too_long}")
    return lines
