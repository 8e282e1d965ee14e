"""Small byte-level tokenizers with the special tokens of a chat template, for our engine and for transformers."""

import json
import re

from small_tokenizers import write_bpe

ROLES = {"bos_token": "<s>", "eos_token": "</s>"}
# Spellings of special tokens in templates: <|im_end|>, <｜User｜>, <start_of_turn>, <turn|>.
_TOKENS = re.compile(r"<\|[^|<>{}'\"\s]+\|>|<｜[^｜<>]+｜>|<\|[a-z_]+>|<[a-z_]+\|>|<(?:start|end)_of_turn>")
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def special_tokens(template):
    return [*ROLES.values(), *dict.fromkeys(_TOKENS.findall(template))]


def write_chat(directory, template=CHATML, *, more=()):
    """A tokenizer's directory whose `chat_template` this is; its special tokens are those in the template."""
    path = write_bpe(directory) / "tokenizer.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    first = max(token["id"] for token in data["added_tokens"]) + 1
    flags = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    contents = [*special_tokens(template), *more]
    data["added_tokens"] += [
        {"id": first + nth, "content": each, **flags} for nth, each in enumerate(contents)
    ]
    path.write_text(json.dumps(data), encoding="utf-8")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template, **ROLES}
    (directory / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return directory
