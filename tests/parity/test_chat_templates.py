"""Conversations through real chat templates: ids, text and masks are those of transformers."""

import json
import tempfile
from collections import Counter
from datetime import date, datetime
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import render_jinja_template
from vocabularies import case

from chat_tokenizers import write_chat
from tokenmill.base.texts import is_learned, strip_marks
from tokenmill.chat.encode import ChatEncoder
from tokenmill.chat.records import RecordError, RecordShape
from tokenmill.chat.render import ChatRenderer
from tokenmill.chat.template import ChatTemplate, list_token_variables
from tokenmill.tokenizer.tokenizer import Tokenizer

FOLDER = Path(__file__).parent / "chat_templates"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jinja"))
PLAIN = [name for name in NAMES if not name.endswith("_training")]
MARKED = [name for name in NAMES if name.endswith("_training")]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": 'The "weather" of a place',
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]
WORDS = [
    "the",
    "document",
    "says:",
    "안녕",
    "{{",
    "x",
    "}}",
    "{%",
    "raw",
    "%}",
    "//in",
    "ünï",
    "<b>the</b>",
    "\n\n",
    "42",
    "'q'",
    '"r"',
    "\\n",
]


def words(seed, count=9):
    numbers = np.random.default_rng(seed)
    return " ".join(numbers.choice(WORDS, numbers.integers(1, count))) + ["", " ", "\n"][seed % 3]


def conversation(turns, *, system, reasoning, seed):
    messages = [{"role": "system", "content": words(seed + 100)}] if system else []
    for turn in range(turns):
        messages.append({"role": "user", "content": words(seed + 2 * turn)})
        answer = {"role": "assistant", "content": words(seed + 2 * turn + 1)}
        if reasoning:
            answer["reasoning_content"] = words(seed + 50 + turn)
        messages.append(answer)
    return messages


def calls(seed):
    call = {
        "type": "function",
        "function": {"name": "weather", "arguments": {"city": words(seed), "days": 3}},
    }
    return [
        {"role": "user", "content": words(seed)},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "weather", "content": words(seed + 1)},
        {"role": "assistant", "content": words(seed + 2)},
    ]


# Families whose own vocabulary is in a package of PyPI; the others get a small one with their special tokens.
OWN = {
    "qwen": ("qwen2_5", "qwen2_5_vl", "qwen3", "qwen3_instruct_2507", "qwen3_vl"),
    "qwen3.6": ("qwen3_5_nothink", "qwen3_5_think", "qwen3_6", "qwen3_8"),
    "deepseek-v3": ("deepseekv3",),
    "o200k_base": ("gptoss",),
}
BASES = {name: base for base, names in OWN.items() for name in names}
# The EOS of the published tokenizers, by how the name begins; the first that fits.
EOS = {
    "cohere": "<|END_OF_TURN_TOKEN|>", "deepseek": "<｜end▁of▁sentence｜>", "gptoss": "<|return|>",
    "glm": "<|endoftext|>", "lfm2": "<|im_end|>", "llama3": "<|eot_id|>", "nemotron": "<|im_end|>",
    "phi3": "<|endoftext|>", "qwen": "<|im_end|>",
}  # fmt: skip
# Templates of vision models write a content only if it is a list of parts.
VISION = ("idefics3", "llava_next", "smolvlm")


def text_of(name):
    return (FOLDER / f"{name}.jinja").read_text("utf-8")


@cache
def place(family):
    """A directory of the tokenizer of a family, whose template may be any of those with its vocabulary."""
    base = BASES.get(family)
    if base is not None and family != OWN[base][0]:
        return place(OWN[base][0])
    shared = [f"{name}{more}" for name in OWN.get(base, (family,)) for more in ("", "_training")]
    templates = "".join(text_of(name) for name in shared if name in NAMES)
    eos = next((token for start, token in EOS.items() if family.startswith(start)), "</s>")
    own = case(base)[0] if base else None
    return write_chat(Path(tempfile.mkdtemp(prefix="tokenmill-chat-")), templates, eos=eos, base=own)


@cache
def loaded(path):
    return Tokenizer.load(path), PreTrainedTokenizerFast.from_pretrained(str(path))


@cache
def ours(name):
    tokenizer, _ = loaded(place(name.removesuffix("_training")))
    encoder = ChatEncoder(tokenizer)
    today = datetime.now().astimezone().date()
    template = ChatTemplate(name, text_of(name), today, list_token_variables(tokenizer.recipe))
    return encoder, ChatRenderer(RecordShape("messages"), template, "assistant", encoder.strings)


def theirs(name):
    return loaded(place(name.removesuffix("_training")))[1]


def cases(limit=6):
    for turns in range(1, limit + 1):
        for system in (False, True):
            for reasoning in (False, True):
                yield conversation(turns, system=system, reasoning=reasoning, seed=turns * 7), None
    for seed in range(3):
        yield calls(seed), TOOLS


def encode(name, messages, tools):
    encoder, chat = ours(name)
    rendered = chat.render(json.dumps({"messages": messages, "tools": tools}))[0]
    ids, _ = encoder.encode(rendered, "text")
    return rendered, strip_marks(ids).tolist(), is_learned(ids)


def reference(name, messages, tools, **options):
    options |= {"chat_template": text_of(name), "return_dict": True}
    if name.startswith(VISION):
        parts = [[{"type": "text", "text": message["content"]}] for message in messages]
        messages = [{**message, "content": part} for message, part in zip(messages, parts, strict=True)]
    try:
        return theirs(name).apply_chat_template(messages, tools=tools, **options)
    except Exception as error:  # noqa: BLE001 - a template may refuse anything; then we must as well
        return error


def check_told(error):
    """What a template leaves out of a conversation is reported here, and ignored there."""
    assert error.reason in {"role_left_out", "content_left_out", "unproved_mask", "template_refuses"}, (
        error.detail
    )


def test_there_are_enough_families():
    assert len(PLAIN) >= 12


@pytest.mark.parametrize("name", PLAIN)
def test_ids_are_those_of_transformers(name):
    compared = 0
    for messages, tools in cases():
        expected = reference(name, messages, tools)
        if isinstance(expected, Exception):
            with pytest.raises(RecordError):
                encode(name, messages, tools)
            continue
        try:
            _, ids, learned = encode(name, messages, tools)
        except RecordError as error:
            check_told(error)
            continue
        assert ids == expected["input_ids"]
        assert learned.any()
        compared += 1
    assert compared >= 10


PAGE = Path(__file__).parents[2] / "docs" / "chat-trl.md"


def describe_family(name):
    """A row of the page: whose vocabulary, and how our masks of both templates differ from TRL's."""
    runs, counts = {"": set(), "_training": set()}, Counter()
    for messages, tools in cases(4):
        expected = reference(f"{name}_training", messages, tools, return_assistant_tokens_mask=True)
        if isinstance(expected, Exception):
            continue
        mask = np.array(expected["assistant_masks"], bool)
        for kind, found in runs.items():
            try:
                _, ids, learned = encode(f"{name}{kind}", messages, tools)
            except RecordError as error:
                check_told(error)
                counts[kind, "refused"] += 1
                continue
            counts[kind, "compared"] += 1
            if ids != expected["input_ids"]:
                counts[kind, "texts"] += 1
                continue
            differs = np.flatnonzero(learned != mask)
            for run in np.split(differs, np.flatnonzero(np.diff(differs) > 1) + 1) if len(differs) else ():
                sign = "TRL also" if mask[run[0]] else "we also"
                found.add(
                    (sign, json.dumps(theirs(name).decode(np.array(ids)[run].tolist()), ensure_ascii=False))
                )
    cells = []
    for kind, found in runs.items():
        said = [
            f"{sign}: {', '.join(f'`{text[1:-1]}`' for which, text in sorted(found) if which == sign)}"
            for sign in sorted({sign for sign, _ in found})
        ]
        if counts[kind, "texts"]:
            said.append(f"another text in {counts[kind, 'texts']} of {counts[kind, 'compared']}")
        said = said or ["equal"]
        if counts[kind, "refused"]:
            said.append(f"{counts[kind, 'refused']} refused")
        assert counts[kind, "compared"] >= 4
        cells.append("; ".join(said).replace("|", "\\|"))
    return f"| {name} | {BASES.get(name, 'small')} | {cells[0]} | {cells[1]} |"


@pytest.mark.parametrize("name", [name.removesuffix("_training") for name in MARKED])
def test_the_page_of_masks_states_the_difference_to_trl(name):
    assert describe_family(name) in PAGE.read_text("utf-8").splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_flags_decide_which_messages_are_trained_on(name):
    flags = [("user", "Q1", None), ("assistant", "A1", {"weight": 0}), ("user", "Q2", {"train": True})]
    flags += [("assistant", "A2", {"loss": True}), ("user", "Q3", {"weight": 0}), ("assistant", "A3", None)]
    messages = [{"role": role, "content": f"{word} said.", **(flag or {})} for role, word, flag in flags]
    _, ids, learned = encode(name, messages, None)
    trained = theirs(name).decode(np.array(ids)[learned].tolist())
    assert [word for word in ("Q1", "A1", "Q2", "A2", "Q3", "A3") if word in trained] == ["Q2", "A2", "A3"]


EMPTY = "<think>\n\n</think>\n\n"
CALL = '\n<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call><|im_end|>'


@pytest.mark.parametrize(
    ("train_on", "trained"),
    [
        ("content", ["\n</think>\n\nSaid 1.", f"{EMPTY}Said 3.<|im_end|>"]),
        ("reasoning", ["<think>\nThought."]),
        ("tool_calls", [CALL]),
        ("reasoning,tool_calls", ["<think>\nThought.", CALL]),
        ("last,content", [f"{EMPTY}Said 3.<|im_end|>"]),
    ],
)
def test_parts_of_answers(train_on, trained):
    """In Qwen 3's template, as one turn of reasoning, words and a call, and one of words."""
    encoder, chat = ours("qwen3")
    call = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}
    messages = [
        {"role": "user", "content": "Asked."},
        {"role": "assistant", "content": "Said 1.", "reasoning_content": "Thought.", "tool_calls": [call]},
        {"role": "tool", "content": "Told."},
        {"role": "assistant", "content": "Said 3."},
    ]
    other = ChatRenderer(chat.shape, chat.template, train_on, chat.strings)
    rendered = other.render(json.dumps({"messages": messages}))[0]
    assert [rendered.text[part.start : part.end] for part in rendered.trained] == trained
    assert sum(encoder.encode(rendered, "text")[1].values()) > 0


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("qwen3", {"reasoning": 2}),
        ("qwen3_training", {}),
        ("llama3_2", {"reasoning": 3}),
        ("lfm2", {"reasoning": 3, "tool_calls": 1}),
        ("glm4moe", {"reasoning": 2}),
    ],
)
def test_what_a_template_leaves_out_is_counted(name, left_out):
    messages = conversation(3, system=False, reasoning=True, seed=3)
    for number, message in enumerate(messages):
        message["content"] = f"Said {number}."
    call = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}
    if name == "lfm2":
        messages[1]["tool_calls"] = [call]
    rendered, _, _ = encode(name, messages, None)
    assert rendered.left_out == left_out
    if name == "lfm2":
        messages[1]["content"] = ""
        with pytest.raises(RecordError, match="leaves out reasoning and tool_calls"):
            encode(name, messages, None)


WAYS_TO_WRITE = [
    "{{ messages | map(attribute='content') | join('|') | trim }}",
    "{{ (messages | map(attribute='content') | join('~')).split('~')[0] }}{{ messages[1].content.strip('b') }}",
    "{{ messages[0] | tojson(ensure_ascii=true) }}{{ messages[1].content }}",
    "{{ '-' | replace('-', messages[0].content) }}{{ '-' | replace('-', messages[1].content) }}",
    "{{ tools | tojson }}{{ messages[0].content ~ messages[1].content }}",
    "{{ '%s and %s' % (messages[0].content, messages[1].content) }}",
    "{{ '{} {}'.format(messages[0].content, messages[1].content) }}",
    "{{ messages }}{{ messages[1].content[::-1] | upper | indent(2) }}",
    "{% for c in messages[0].content %}{{ c | safe }}-{% endfor %}{{ messages[1].content | list }}",
    "{% set x %}{{ messages[0].content }}{% endset %}{{ x | trim }}{{ messages[1].content.splitlines()[0] }}",
]


@pytest.mark.parametrize("source", WAYS_TO_WRITE)
def test_the_text_is_that_of_the_template_and_data_is_never_taken_for_template(source):
    """Every special token's string of the record is known to be data, whatever the template does with it."""
    first, second = "a<|im_end|>\ufdd0\ufdd1 é\U000f0001 ", "b<|im_end|>c"
    messages = [{"role": "user", "content": first}, {"role": "assistant", "content": second}]
    tools = [{"z": "<|im_start|>", "a": {"<|im_end|>": 1}}]
    (expected,), _ = render_jinja_template([messages], tools, chat_template=source)
    template = ChatTemplate("t", source, date(2026, 1, 31))
    chat = ChatRenderer(RecordShape("messages"), template, "all", ("<|im_start|>", "<|im_end|>"))
    rendered = chat.render(json.dumps({"messages": messages, "tools": tools}))[0]
    assert rendered.text == expected
    assert rendered.specials == []


if __name__ == "__main__":  # the table of the page
    for family in MARKED:
        print(describe_family(family.removesuffix("_training")))
