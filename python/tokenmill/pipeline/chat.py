"""A block of records to marked ids: conversations rendered, encoded and proved, and their faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.learned import BIT, is_learned
from tokenmill.chat.conversation import RecordError
from tokenmill.datasets.documents import frame_documents, select_documents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.base.texts import Texts
    from tokenmill.chat.chat import Chat
    from tokenmill.chat.ids import ChatEncoder
    from tokenmill.chat.script import Rendered
    from tokenmill.datasets.ledger.account import Account
    from tokenmill.pipeline.job import Job

    Mask = NDArray[np.bool_]
    Faults = dict[int, RecordError]

NO_ANSWER = "no_answer"
NOTHING_LEARNED = "nothing_learned"
BLANK = "blank"


@dataclass(frozen=True)
class ChatWork:
    """What a job of conversations does with a record."""

    chat: Chat
    encoder: ChatEncoder


@dataclass
class ChatBatch:
    """Framed and marked documents of some records: which records they are, and what is wrong with others."""

    ids: Any
    offsets: Any
    kept: Mask
    faults: Faults


def encode_chats(job: Job, work: ChatWork, texts: Texts, account: Account) -> ChatBatch:
    """The conversations in some records; `account` gets what is dropped, read and learned."""
    kept = np.zeros(len(texts), bool)
    rendered, faults = _render(job, work, texts, kept, account)
    account.text_bytes += sum(len(each.text) for each in rendered) - texts.nbytes
    made = work.encoder.encode(rendered, job.config.tokenizer.special, 1)
    numbers = np.flatnonzero(kept)
    for place, error in made.faults.items():
        faults[int(numbers[place])] = error
        kept[numbers[place]] = False
    account.documents_read -= len(faults)
    account.rejected.update(error.reason for error in faults.values())
    account.special_strings += made.special_strings
    whole = np.array([place not in made.faults for place in range(len(rendered))], bool)
    ids, offsets = select_documents(made.ids, made.offsets, whole)
    account.tokens_encoded += len(ids)
    account.learned_roles.update(made.roles)
    account.learned_read += int(is_learned(ids).sum())
    chosen = drop_unlearned(ids, offsets, account)
    kept[np.flatnonzero(kept)[~chosen]] = False
    ids, offsets = select_documents(ids, offsets, chosen)
    return ChatBatch(ids, offsets, kept, faults)


def _render(
    job: Job, work: ChatWork, texts: Texts, kept: Mask, account: Account
) -> tuple[list[Rendered], Faults]:
    rendered: list[Rendered] = []
    faults: Faults = {}
    drops_blank = job.config.filter.drop_blank
    for number, record in enumerate(texts):
        try:
            each = work.chat.render(record)
        except RecordError as error:
            faults[number] = error
            continue
        if not each.learned:
            account.documents_dropped[NO_ANSWER] += 1
        elif drops_blank and _is_blank(each):
            account.documents_dropped[BLANK] += 1
        else:
            kept[number] = True
            rendered.append(each)
    return rendered, faults


def _is_blank(each: Rendered) -> bool:
    """Whether nobody says anything in what is learned; a text whose words are not known has some."""
    if not each.words:
        return False
    for start, end in each.words:
        if (
            any(part.start < end and part.end > start for part in each.learned)
            and each.text[start:end].strip()
        ):
            return False
    return True


def drop_unlearned(ids: Any, offsets: Any, account: Account) -> Mask:
    """Which documents have something to learn; the others are dropped and counted, never written."""
    chosen: Mask = count_learned(ids, offsets) > 0
    if not chosen.all():
        account.documents_dropped[NOTHING_LEARNED] += int((~chosen).sum())
        account.tokens_dropped[NOTHING_LEARNED] += int(np.diff(offsets)[~chosen].sum())
    return chosen


def frame_chats(ids: Any, offsets: Any, bos: int | None, eos: int | None) -> tuple[Any, Any]:
    """Conversations between the tokens that were asked for; an EOS after a learned token is learned."""
    if bos is None and eos is None:
        return ids, offsets
    ids, offsets = frame_documents(ids, offsets, bos, eos, "uint32")
    ids = np.array(ids)
    if eos is not None and len(offsets) > 1:
        last = np.asarray(offsets)[1:] - 1
        ids[last] |= np.where(is_learned(ids[last - 1]), BIT, np.uint32(0))
    return ids, offsets


def count_learned(ids: Any, offsets: Any) -> NDArray[np.int64]:
    """How many learned tokens each document has."""
    sums = np.concatenate([[0], np.cumsum(is_learned(ids))])
    return np.diff(sums[np.asarray(offsets)])
