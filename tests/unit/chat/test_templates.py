"""Finding a template and running it in its sandbox."""

import json
import pickle
import sys
from datetime import date

import pytest

from chat_tokenizers import CHATML, write_chat
from tokenmill.chat.encode import ChatEncoder
from tokenmill.chat.records import RecordError, RecordShape
from tokenmill.chat.render import ChatRenderer
from tokenmill.chat.template import ChatTemplate, find_template, list_built_in, list_own_templates
from tokenmill.errors import ConfigError, MissingExtraError
from tokenmill.tokenizer.tokenizer import Tokenizer

DAY = date(2026, 1, 31)
HELLO = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


def chat(source, train_on="assistant", specials=("<|im_start|>", "<|im_end|>")):
    return ChatRenderer(RecordShape("messages"), ChatTemplate("t", source, DAY), train_on, specials)


def render(source, messages=HELLO, **more):
    return chat(source).render(json.dumps({"messages": messages, **more}))[0]


def learned(rendered):
    return [rendered.text[part.start : part.end] for part in rendered.trained]


def test_where_templates_are_found(tmp_path):
    place = write_chat(tmp_path / "t")
    recipe = Tokenizer.load(place).recipe
    assert find_template(recipe, None) == ("tokenizer.json's own", CHATML)
    (place / "chat_template.jinja").write_text("side", encoding="utf-8")
    (place / "additional_chat_templates").mkdir()
    (place / "additional_chat_templates" / "rag.jinja").write_text("more", encoding="utf-8")
    assert list_own_templates(recipe) == {"default": "side", "rag": "more"}
    assert find_template(recipe, "rag") == ("rag", "more")
    (tmp_path / "own.jinja").write_text("file", encoding="utf-8")
    assert find_template(recipe, str(tmp_path / "own.jinja"))[1] == "file"
    assert "im_start" in find_template(recipe, "chatml")[1]
    with pytest.raises(
        ConfigError, match=r"no chat template 'nothing'.*one of alpaca, chatml, plain, default, rag"
    ):
        find_template(recipe, "nothing")


def test_named_templates_of_a_config(tmp_path):
    place = write_chat(tmp_path / "t")
    config = json.loads((place / "tokenizer_config.json").read_text())
    config["chat_template"] = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    (place / "tokenizer_config.json").write_text(json.dumps(config))
    recipe = Tokenizer.load(place).recipe
    assert find_template(recipe, "tool_use") == ("tool_use", "b")


def test_a_tokenizer_without_a_template_names_the_option(tmp_path):
    place = write_chat(tmp_path / "t")
    (place / "tokenizer_config.json").unlink()
    with pytest.raises(ConfigError, match="give `chat_template`"):
        find_template(Tokenizer.load(place).recipe, None)


def test_a_syntax_error_has_its_line():
    with pytest.raises(ConfigError, match="line 3"):
        ChatTemplate("t", "a\nb\n{% if %}", DAY)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[7].content }}", "no element 7"),
        ("{{ ''.__class__.__mro__ }}{{ messages.clear() }}", "unsafe"),
        ("{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(1) }}", "RecursionError"),
        ("{{ [1].index(2) }}", "ValueError"),
        ("{{ ', '.join([1]) }}", "expected str"),
        ("{{ messages[0].content.split('') }}", "ValueError"),
    ],
)
def test_templates_that_refuse_or_fail(source, said):
    with pytest.raises(RecordError) as error:
        render(source)
    assert error.value.reason == "template_refuses"
    assert said in error.value.detail


def test_a_role_that_a_template_passes_over_is_told():
    only = "{% for m in messages if m.role != 'narrator' %}{{ m.content }}{% endfor %}"
    with pytest.raises(RecordError, match="'narrator'"):
        render(only, [{"role": "narrator", "content": "x"}, *HELLO])


def test_helpers_are_those_of_transformers():
    source = "{{ {'a': 'ü<'} | tojson }}{{ strftime_now('%d %b %Y') }}{% for m in messages %}{{ m.content }}{% endfor %}"
    assert render(source).text == '{"a": "ü<"}31 Jan 2026ab'


def test_special_tokens_of_data_and_template_in_one_operation_are_refused():
    source = CHATML.replace("message['content']", "('-<|im_end|>' | replace('-', message['content']))")
    assert learned(render(source)) == ["b<|im_end|><|im_end|>"]
    with pytest.raises(RecordError) as error:
        render(source, [{"role": "user", "content": "<|im_end|>"}, HELLO[1]])
    assert error.value.reason == "special_string"
    wrapped = CHATML.replace("message['content']", "message['content'] | wordwrap(79)")
    rendered = render(wrapped, [{"role": "user", "content": "<|im_end|>"}, HELLO[1]])
    assert len(rendered.specials) == 4


def test_the_order_of_keys_and_earlier_records_change_nothing():
    made = chat("{{ tools | tojson }}" + CHATML)
    tools = [[{"a": 1, "b": 2}], [{"b": 2, "a": 1}]]
    records = [json.dumps({"messages": HELLO, "tools": each}) for each in tools]
    texts = [made.render(record)[0].text for record in records]
    assert [text[:8] for text in texts] == ['[{"a": 1', '[{"b": 2']
    assert [made.render(record)[0].text for record in records] == texts


@pytest.mark.timeout(60)  # a render for each turn would take ten minutes
def test_a_conversation_of_3000_turns():
    rendered = chat(CHATML).render(json.dumps({"messages": HELLO * 3000}))[0]
    assert len(rendered.trained) == 3000


def test_special_tokens_stay_out_of_what_is_no_content():
    for role in ("user<|im_end|>", "im_end|>x<|im_start"):
        with pytest.raises(RecordError) as error:
            render(CHATML, [{"role": role, "content": "a"}, HELLO[1]])
        assert error.value.reason == "special_string"


@pytest.mark.parametrize("name", sorted(list_built_in()))
def test_built_in_templates_learn_the_answer(name):
    source = list_built_in()[name].read_text(encoding="utf-8")
    template = ChatTemplate(name, source, DAY, {"eos_token": "</s>"})
    made = ChatRenderer(
        RecordShape("messages"), template, "assistant", ("</s>", "<|im_end|>", "<|im_start|>")
    )
    rendered = made.render(json.dumps({"messages": HELLO}))[0]
    assert learned(rendered) == ["b<|im_end|>" if name == "chatml" else "b</s>"]
    assert rendered.closed


def test_a_conversation_of_parts_is_text_to_a_template_that_takes_none():
    parts = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "c"}]},
        HELLO[1],
    ]
    assert "ac<|im_end|>" in render(CHATML, parts).text


def test_columns_and_settings_reach_the_template():
    source = CHATML + "{{ tone }}{{ depth }}"
    made = ChatRenderer(
        RecordShape("messages", columns=("tone",)),
        ChatTemplate("t", source, DAY, {"depth": 3}),
        "assistant",
        (),
    )
    assert made.render(json.dumps({"messages": HELLO, "tone": "dry"}))[0].text.endswith("dry3")


def test_chats_pickle_and_say_the_same(tmp_path):
    made = chat(CHATML)
    record = json.dumps({"messages": HELLO})
    assert pickle.loads(pickle.dumps(made)).render(record) == made.render(record)
    encoder = ChatEncoder(Tokenizer.load(write_chat(tmp_path / "t")))
    again = pickle.loads(pickle.dumps(encoder))
    rendered = made.render(record)[0]
    assert again.encode(rendered, "text")[0].tolist() == encoder.encode(rendered, "text")[0].tolist()


def test_generation_blocks_with_the_words_of_others_are_refused():
    source = "{% generation %}{% for m in messages %}{{ m.content }}{% endfor %}{% endgeneration %}"
    with pytest.raises(RecordError) as error:
        render(source)
    assert error.value.reason == "unproved_mask"


def test_a_missing_jinja_names_the_extra(monkeypatch):
    for name in ("jinja2", "jinja2.exceptions", "tokenmill.chat.environment"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"tokenmill\[chat\]"):
        ChatTemplate("t", "a", DAY)
