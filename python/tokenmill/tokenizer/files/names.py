"""What the files of a tokenizer are called: no other module spells these names, which a test holds."""

from __future__ import annotations

TOKENIZER = "tokenizer.json"
VOCAB = "vocab.json"
MERGES = "merges.txt"
# OpenAI's own names of the same two.
ENCODER = "encoder.json"
ENCODER_MERGES = "vocab.bpe"
TEKKEN = "tekken.json"
MODEL = "tokenizer.model"
TIKTOKEN = "tokenizer.tiktoken"
# The suffixes under which a vocabulary has a name of its own: `cl100k_base.tiktoken`, `spiece.model`.
ANY_TIKTOKEN = ".tiktoken"
ANY_MODEL = ".model"

# A name that ends like this is a file, not a hub id.
SUFFIXES = (".json", ".txt", ".bpe", ANY_MODEL, ANY_TIKTOKEN)

# Other files of a vocabulary: settings, roles of special tokens, chat templates, a pattern.
TOKENIZER_CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS = "special_tokens_map.json"
CHAT_TEMPLATE = "chat_template.jinja"
CHAT_TEMPLATES = "additional_chat_templates"
# vocab.json and merges.txt cannot hold a pattern, so patterns other than GPT-2's are saved next to them.
PATTERN = "pattern.txt"

CONFIGS = (TOKENIZER_CONFIG, SPECIAL_TOKENS)
TEMPLATES = (CHAT_TEMPLATE, f"{CHAT_TEMPLATES}/*.jinja")
# A vocabulary in the forms that are read here, as they are published.
READ = (TOKENIZER, VOCAB, MERGES, TEKKEN, MODEL, f"*{ANY_TIKTOKEN}")
# A vocabulary in any form, those too that only other tools read.
VOCABULARIES = (
    *(TOKENIZER, VOCAB, MERGES, "vocab.txt", ENCODER, ENCODER_MERGES, TEKKEN, "added_tokens.json"),
    *(f"*{ANY_MODEL}", f"*{ANY_MODEL}.v*", f"*{ANY_TIKTOKEN}"),
)
