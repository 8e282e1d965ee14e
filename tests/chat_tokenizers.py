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


def write_chat(directory, template=CHATML, *, more=(), eos="</s>", base=None):
    """A tokenizer's directory whose `chat_template` this is; its special tokens are those in the template.

    `base` is a tokenizer whose vocabulary is taken in place of a small one.
    """
    path = (base.save(directory) or directory if base else write_bpe(directory)) / "tokenizer.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    roles = (
        {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": eos} if base else {**ROLES, "eos_token": eos}
    )
    known = {token["content"] for token in data["added_tokens"]}
    first = max([*data["model"]["vocab"].values(), *(token["id"] for token in data["added_tokens"])]) + 1
    flags = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    contents = dict.fromkeys([*roles.values(), *_TOKENS.findall(template), *more])
    added = {each: first + nth for nth, each in enumerate(each for each in contents if each not in known)}
    data["added_tokens"] += [{"id": token, "content": each, **flags} for each, token in added.items()]
    if base:  # else Hugging Face numbers them from the end of the vocabulary on
        data["model"]["vocab"] |= added
    path.write_text(json.dumps(data), encoding="utf-8")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template, **roles}
    (directory / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return directory
