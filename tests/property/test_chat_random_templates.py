"""Random templates: the text of a conversation is the output of transformers' own rendering, or it is refused.

TOKENMILL_TEMPLATES sets the number of templates; four conversations are rendered with each.
"""

import json
import os
import random
from datetime import date

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from tokenmill.chat.records import RecordError, RecordShape
from tokenmill.chat.render import ChatRenderer
from tokenmill.chat.template import ChatTemplate
from tokenmill.errors import TokenmillError

COUNT = int(os.environ.get("TOKENMILL_TEMPLATES", "150"))
SPECIALS = ("<|im_start|>", "<|im_end|>", "<s>", "</s>")
WORDS = [
    "the",
    "mill",
    "안녕",
    "<|im_end|>",
    "{x}",
    "</think>",
    "\ufdd0",
    "\ufdd1x",
    "\ue000",
    "a\nb",
    " ",
    "",
    '"q"',
    "é<b>",
]
PLAIN = ["m.content", "m['content']", "(m.content or '')", "m.content|string", "m.role + ': ' + m.content"]
FILTERS = [
    "|trim", "|upper", "|lower", "|replace('a', '{x}')", "|replace('{x}', '<|im_end|>')", "|tojson", "|tojson(ensure_ascii=true)", "|length|string",
    ".strip()", ".split(' ')|join('_')", ".split('</think>')[-1]", "[:5]", "[::-1]", "|title", "|list|join('')", "|default('none')", "|e", "|indent(2)",
    ".replace('\\n', '')", "|first|default('', true)", "|reverse", "|center(12)", "|wordcount|string", ".lstrip('\\n')", "|map('upper')|join('')",
]  # fmt: skip
TESTS = [
    "m.role == 'user'", "'</think>' in m.content", "m.content|length > 4", "loop.first", "loop.last", "m.content.startswith('the')", "m.tool_calls is defined",
    "loop.index0 % 2 == 0", "m.content == ''", "tools", "m.content|trim", "m.content is string", "(messages|map(attribute='content')|join('')|length) > 9",
]  # fmt: skip
STATEMENTS = [
    "{{ tools | tojson }}", "{% for t in tools or [] %}{{ t.function.name }}{{ t.function | tojson }}{% endfor %}", "{{ messages | map(attribute='content') | join('|') }}",
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}({{ c.function.arguments | tojson }}){% endfor %}", "{{ '%s' % m.content }}", "{{ '{}'.format(m.role) }}",
    "{{ '{x}' | replace('{x}', m.content) }}", "{{ m | tojson }}", "{{ loop.index }}", "{{ bos_token }}", "{{ messages[0].content }}", "{{ m.content ~ m.content }}",
]  # fmt: skip


def make_expression(rng):
    return rng.choice(PLAIN) + "".join(rng.choice(FILTERS) for _ in range(rng.choice([0, 0, 0, 1, 1, 2])))


def make_body(rng, depth=0):
    parts = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.random()
        if kind < 0.45:
            parts.append("{{ " + make_expression(rng) + " }}")
        elif kind < 0.6:
            parts.append(rng.choice(STATEMENTS))
        elif kind < 0.75 and depth < 2:
            parts.append(
                "{% if " + rng.choice(TESTS) + " %}" + make_body(rng, depth + 1) + "{% else %}x{% endif %}"
            )
        elif kind < 0.85:
            parts.append("{% set v = " + make_expression(rng) + " %}{{ v }}{% if v %}!{% endif %}")
        else:
            parts.append(rng.choice([" ", "\n", "A:", "[INST]"]))
    return "".join(parts)


def make_template(rng):
    start = rng.choice(["{{ '<|im_start|>' + m.role + '\n' }}", "<s>{{ m.role }}", "{{ m.role }}: "])
    end = rng.choice(["<|im_end|>\n", "</s>", "{{ eos_token }}", "\n"])
    body = make_body(rng)
    if rng.random() < 0.3:
        body = (
            "{% if m.role == 'assistant' %}{% generation %}"
            + body
            + end
            + "{% endgeneration %}{% else %}"
            + make_body(rng)
            + "{% endif %}"
        )
        end = ""
    prompt = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    return "{% for m in messages %}" + start + body + end + "{% endfor %}" + prompt


def make_record(rng):
    def words():
        return " ".join(rng.choices(WORDS, k=rng.randint(0, 5)))

    messages = [{"role": "system", "content": words()}] if rng.random() < 0.3 else []
    for _ in range(rng.randint(1, 3)):
        messages += [{"role": "user", "content": words()}, {"role": "assistant", "content": words()}]
        if rng.random() < 0.2:
            call = {"type": "function", "function": {"name": "f", "arguments": {"b": words(), "a": 1}}}
            messages[-1]["tool_calls"] = [call]
    record = {"messages": messages}
    if rng.random() < 0.3:
        keys = rng.sample(["name", "description", "strict"], 3)
        function = {key: {"name": "f", "description": words(), "strict": True}[key] for key in keys}
        record["tools"] = [{"type": "function", "function": function}]
    return record


def render_theirs(template, record):
    try:
        rendered, _ = render_jinja_template(
            conversations=[record["messages"]], tools=record.get("tools"), chat_template=template, bos_token="<s>", eos_token="</s>",
        )  # fmt: skip
    except Exception:  # noqa: BLE001 - a random template may fail in any way
        return None
    return rendered[0]


def compare(seed):
    """Return how many of four conversations were equal and refused; assert that none differs."""
    rng = random.Random(seed)
    template = make_template(rng)
    try:
        made = ChatTemplate("t", template, date(2026, 1, 31), {"bos_token": "<s>", "eos_token": "</s>"})
        chat = ChatRenderer(RecordShape("messages"), made, "assistant", SPECIALS)
    except TokenmillError:
        return 0, 4
    equal = refused = 0
    for _ in range(4):
        record = make_record(rng)
        try:
            text = chat.render(json.dumps(record))[0].text
        except (RecordError, TokenmillError):
            refused += 1
            continue
        assert text == render_theirs(template, record), (seed, template, record)
        equal += 1
    return equal, refused


@pytest.mark.timeout(3600)
def test_the_text_is_that_of_transformers_or_refused():
    totals = [sum(column) for column in zip(*map(compare, range(COUNT)), strict=True)]
    print(f"{COUNT} templates, {sum(totals)} conversations: {totals[0]} equal, {totals[1]} refused")
    assert totals[0] > totals[1]
