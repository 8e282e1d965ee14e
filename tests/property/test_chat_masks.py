"""Any conversation, whatever its words: what is learned is what the assistant says, and nothing else is."""

import json
import os
import random
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_tokenizers import CHATML, write_chat
from tokenmill.base.texts import is_learned, strip_marks
from tokenmill.chat.encode import ChatEncoder
from tokenmill.chat.records import FLAGS, RecordError, RecordShape
from tokenmill.chat.render import ChatRenderer
from tokenmill.chat.template import ChatTemplate, list_token_variables
from tokenmill.tokenizer.tokenizer import Tokenizer

TEMPLATES = Path(__file__).parents[1] / "parity" / "chat_templates"
THINKS = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}"
    "{% if '</think>' in m.content %}{{ m.content.split('</think>')[-1].lstrip('\n') }}{% else %}{{ m.content }}"
    "{% endif %}{% else %}{{ m.content | trim }}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PIECES = [
    "<|im_end|>", "<|im_start|>", "assistant\n", "</s>", "<|im_", "end|>", "{{ x }}", "{% for %}", "</think>",
]  # fmt: skip
words = st.lists(st.sampled_from([*PIECES, " ", "\n", "the", "é", "안녕", "x"]), max_size=8).map("".join)
turns = st.lists(st.tuples(words, words), min_size=1, max_size=5)


@cache
def machine(template):
    import tempfile

    tokenizer = Tokenizer.load(write_chat(Path(tempfile.mkdtemp(prefix="tokenmill-chat-")), template))
    encoder = ChatEncoder(tokenizer)
    made = ChatTemplate("t", template, date(2026, 1, 31), list_token_variables(tokenizer.recipe))
    return encoder, ChatRenderer(RecordShape("messages"), made, "assistant", encoder.strings)


def learned_runs(encoder, ids, learned):
    edges = np.flatnonzero(np.diff(np.concatenate([[0], learned.astype(np.int8), [0]])))
    return [encoder.tokenizer.decode(ids[a:b].tolist()) for a, b in edges.reshape(-1, 2)]


def record(pairs):
    messages = []
    for asked, answered in pairs:
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
    return json.dumps({"messages": messages})


@settings(max_examples=300, deadline=None)
@given(turns)
def test_what_is_learned_is_what_the_assistant_says(pairs):
    encoder, chat = machine(CHATML)
    rendered = chat.render(record(pairs))[0]
    try:
        made, _ = encoder.encode(rendered, "text")
    except RecordError as error:
        # Two messages of white space and a header can share a token, which is reported; nothing else is wrong.
        assert error.reason == "unproved_mask"  # noqa: PT017
        return
    ids, learned = strip_marks(made), is_learned(made)
    said = [answered + "<|im_end|>" for _, answered in pairs]
    assert [run.lstrip("\n") for run in learned_runs(encoder, ids, learned)] == [
        each.lstrip("\n") for each in said
    ]
    # Of the special tokens only those that the template wrote are there.
    special = encoder.tokenizer.special_tokens
    assert int((ids == special["<|im_end|>"]).sum()) == 2 * len(pairs)
    assert int((ids == special["<|im_start|>"]).sum()) == 2 * len(pairs)
    assert special["</s>"] not in ids


@settings(max_examples=300, deadline=None)
@given(turns)
def test_a_template_that_looks_into_words_is_followed(pairs):
    """The text is that of the template itself, though it is not run again for words of the same kind."""
    _, chat = machine(THINKS)
    messages = json.loads(record(pairs))["messages"]
    expected = chat.template.render(messages, {})
    said = [text.split("</think>")[-1].lstrip("\n") if "</think>" in text else text for _, text in pairs]
    if any(text.strip() and not kept.strip() for (_, text), kept in zip(pairs, said, strict=True)):
        with pytest.raises(RecordError, match="writes nothing of message"):
            chat.render(record(pairs))[0]
        return
    rendered = chat.render(record(pairs))[0]
    assert rendered.text == expected
    for kept, part in zip(said, rendered.trained, strict=True):
        assert rendered.text[part.start : part.end] == kept + "<|im_end|>"


JUNK = [
    *PIECES,
    "\ufdd0",
    "\ufdd1",
    "\U000f0000",
    "\ue000",
    "<think>",
    "<start_of_turn>",
    "[INST]",
    "\n",
    " ",
    ".",
    "",
]
CONVERSATIONS = int(os.environ.get("TOKENMILL_CONVERSATIONS", "600"))


def flagged(draw):
    """A conversation with words of its own around every part of every message, and which messages are trained on."""

    def speak(name):
        if draw.random() < 0.05:
            return ""
        return f"{name}A{''.join(draw.choices(JUNK, k=draw.randint(0, 3)))}{name}Z"

    messages, trained = [], []
    for number in range(2 * draw.randint(1, 4)):
        role = ("user", "assistant")[number % 2]
        message = {"role": role, "content": speak(f"C{number}")}
        if role == "assistant" and draw.random() < 0.4:
            message["reasoning_content"] = speak(f"R{number}")
        if role == "assistant" and draw.random() < 0.2:
            call = {"name": "mill", "arguments": {"grain": speak(f"T{number}")}}
            message["tool_calls"] = [{"type": "function", "function": call}]
        elif messages and "tool_calls" in messages[-1]:
            message |= {"role": "tool", "name": "mill"}
        flag = draw.choice([None, None, True, False])
        if flag is not None:
            message[draw.choice(FLAGS)] = flag
        messages.append(message)
        trained.append(role == "assistant" if flag is None else flag)
    return messages, trained


def test_real_templates_train_on_the_flagged_messages_or_refuse():
    draw, refused = random.Random(7), 0
    names = sorted(path.name for path in TEMPLATES.glob("*.jinja"))
    for number in range(CONVERSATIONS):
        name = names[number % len(names)]
        messages, trained = flagged(draw)
        encoder, chat = machine((TEMPLATES / name).read_text("utf-8"))
        try:
            rendered = chat.render(json.dumps({"messages": messages}))[0]
            ids, _ = encoder.encode(rendered, "text")
        except RecordError:
            refused += 1
            continue
        shown = encoder.tokenizer.decode(strip_marks(ids)[is_learned(ids)].tolist())
        for at, wanted in enumerate(trained):
            for word in (f"{part}{at}{end}" for part in "CRT" for end in "AZ"):
                assert (word in shown) == (wanted and word in rendered.text), (name, messages)
        written = sum(each in encoder.controls for each in strip_marks(ids).tolist())
        assert written == len(rendered.specials), (name, messages)
    print(f"{CONVERSATIONS:,} conversations, {refused / CONVERSATIONS:.1%} refused")
    assert refused < CONVERSATIONS / 2


@pytest.mark.parametrize("train_on", ["last", "all", "completion"])
def test_other_things_to_learn(train_on):
    _, chat = machine(CHATML)
    other = ChatRenderer(chat.shape, chat.template, train_on, chat.strings)
    rendered = other.render(record([("one", "two"), ("three", "four")]))[0]
    texts = [rendered.text[part.start : part.end] for part in rendered.trained]
    assert texts == ([rendered.text] if train_on == "all" else ["four<|im_end|>"])
