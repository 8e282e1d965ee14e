"""The shapes in which conversations are published, and what is said of records that have none of them."""

import json

import pytest

from tokenmill.chat.records import RecordError, RecordShape, read_conversation

MESSAGES = RecordShape("messages")
PAIR = RecordShape(prompt=("instruction", "input"), completion="output")


def read(record, shape=MESSAGES):
    found = read_conversation(json.dumps(record), shape)
    return [(message["role"], message.get("content")) for message in found.messages]


def test_messages_and_share_gpt():
    assert read({"messages": [{"role": "user", "content": "a"}]}) == [("user", "a")]
    told = {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}
    assert read(told, RecordShape("conversations")) == [("user", "a"), ("assistant", "b")]
    assert read({"chat": {"turns": '[{"role": "user", "content": "a"}]'}}, RecordShape("chat.turns")) == [
        ("user", "a")
    ]


def test_prompt_and_completion():
    assert read({"instruction": "a", "input": "", "output": "b"}, PAIR) == [("user", "a"), ("assistant", "b")]
    assert read({"instruction": "a", "input": "c", "output": "b"}, PAIR)[0] == ("user", "a\n\nc")
    chat = RecordShape(prompt=("prompt",), completion="completion")
    messages = {
        "prompt": [{"role": "user", "content": "a"}],
        "completion": [{"role": "assistant", "content": "b"}],
    }
    found = read_conversation(json.dumps(messages), chat)
    assert found.answered == 1
    assert len(found.messages) == 2


def test_a_system_message_comes_first():
    shape = RecordShape("messages", system="Be brief.")
    assert read({"messages": [{"role": "user", "content": "a"}]}, shape)[0] == ("system", "Be brief.")
    assert read({"messages": [{"role": "user", "content": "a"}], "system": "Own."}, shape)[0] == (
        "system",
        "Own.",
    )
    own = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]}
    assert read(own, shape)[0] == ("system", "s")


def test_reasoning_tools_and_parts():
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"function": {"name": "f"}}],
        "thinking": "hm",
    }
    found = read_conversation(json.dumps({"messages": [message], "tools": "[{}]"}), MESSAGES)
    assert found.messages[0]["reasoning_content"] == "hm"
    assert found.messages[0]["content"] is None
    assert found.variables == {"tools": [{}]}
    parts = [{"type": "text", "text": "a"}]
    assert read({"messages": [{"role": "user", "content": parts}]}) == [("user", parts)]


def test_roles_of_other_tools():
    call = '{"name": "weather", "arguments": {"city": "Rome"}}'
    told = [
        {"from": "human", "value": "a"},
        {"from": "function_call", "value": call},
        {"from": "observation", "value": "c"},
        {"from": "gpt", "value": "d"},
    ]
    found = read_conversation(json.dumps({"conversations": told}), RecordShape("conversations")).messages
    assert [message["role"] for message in found] == ["user", "assistant", "tool", "assistant"]
    assert found[1]["tool_calls"] == [{"type": "function", "function": json.loads(call)}]
    own = [{"role": "human", "content": "a"}, {"role": "observation", "content": "b"}]
    assert read({"messages": own}) == [("user", "a"), ("observation", "b")]


def test_flags_are_taken_from_messages():
    messages = [
        {"role": "user", "content": "a", "train": True},
        {"role": "assistant", "content": "b", "weight": 0, "train": None},
        {"role": "assistant", "content": "c"},
        {"role": "assistant", "content": "d", "loss": 1.0, "trainable": True},
    ]
    found = read_conversation(json.dumps({"messages": messages, "system": "s"}), MESSAGES)
    assert found.flags == {1: True, 2: False, 4: True}
    assert all(set(message) == {"role", "content"} for message in found.messages)


@pytest.mark.parametrize(
    ("record", "reason", "said"),
    [
        ({"text": "a"}, "missing_field", "no field 'messages'; it has 'text'"),
        ({"messages": 5}, "bad_messages", "'messages' is 5, expected a list"),
        ({"messages": []}, "bad_messages", "no message"),
        ({"messages": "no json"}, "bad_messages", "not JSON"),
        ({"messages": ["a"]}, "bad_messages", "message 1 is 'a', expected"),
        ({"messages": [{"content": "a"}]}, "bad_role", "role of message 1 is None"),
        ({"messages": [{"role": 5, "content": "a"}]}, "bad_role", "role of message 1 is 5"),
        ({"messages": [{"role": "user"}]}, "missing_field", "message 1 (user) has no content"),
        ({"messages": [{"role": "user", "content": 5}]}, "bad_content", "is 5, expected text"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "bad_content", "'image'"),
        ({"messages": [{"role": "user", "content": "a", "weight": 0.5}]}, "bad_flag", "weight is 0.5"),
        (
            {"messages": [{"role": "user", "content": "a", "train": "no"}]},
            "bad_flag",
            "message 1: train is 'no'",
        ),
        ({"messages": [{"role": "user", "content": "a", "train": 1, "loss": 0}]}, "bad_flag", "contradict"),
        ({"messages": [{"from": "function_call", "value": "call it"}]}, "bad_content", "not JSON"),
        ({"messages": [{"from": "function_call", "value": "[5]"}]}, "bad_content", "a name and arguments"),
        (
            {"messages": [{"role": "assistant", "tool_calls": {"a": 1}}]},
            "bad_content",
            "is {'a': 1}, expected a list",
        ),
    ],
)
def test_what_is_no_conversation_is_told(record, reason, said):
    with pytest.raises(RecordError) as error:
        read(record)
    assert error.value.reason == reason
    assert said in error.value.detail
