"""`as_hf()` against the `PreTrainedTokenizerFast` of the same files: the same answer to every call, errors too."""

import copy
import itertools
import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from configurations import built
from tokenizers import decoders, processors

from tokenmill import Tokenizer
from tokenmill.tokenizer.interop.hf import CoreBackend

transformers = pytest.importorskip("transformers", exc_type=ImportError)

TEXTS = [
    "The cat sat on the mat; it's 1234 cats' mats.",
    "",
    "안녕 세상 中文 日本語 and a <|endoftext|> in the midst  ",
    "a",
    "x" * 90 + " the   cat\n\n\tsat",
]
OTHERS = ["the other text", "中文 " * 12, "", "b c d e f g", "<s>y</s>"]
ONE, PAIR, BATCH, BATCH_PAIR = (TEXTS[0],), (TEXTS[2], OTHERS[0]), (TEXTS,), (TEXTS, OTHERS)


def bert_like():
    hf = built("gpt2")
    hf = type(hf).from_str(hf.to_str())
    hf.add_special_tokens(["[CLS]", "[SEP]"])
    ids = {token: hf.token_to_id(token) for token in ("[CLS]", "[SEP]")}
    hf.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:2 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=list(ids.items()),
    )
    return hf


def bert_processing():
    hf = bert_like()
    hf.post_processor = processors.BertProcessing(
        ("[SEP]", hf.token_to_id("[SEP]")), ("[CLS]", hf.token_to_id("[CLS]"))
    )
    return hf


OWN = {"bert-template": bert_like, "bert-processing": bert_processing}
NAMES = ["gpt2", "roberta", "llama3", "qwen-nfc", "starcoder", "added", "llama2", "gemma", "mistral-metaspace", "clip", *OWN]  # fmt: skip


@cache
def both(name):
    """`(ours, transformers' own)`."""
    hf = OWN[name]() if name in OWN else built(name)
    tokenizer = Tokenizer.load(hf)
    made = {"pad_token": "<|pad|>", "model_max_length": 64}
    ours = tokenizer.as_hf(**made)
    assert isinstance(ours._tokenizer, CoreBackend)
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        return ours, transformers.PreTrainedTokenizerFast.from_pretrained(folder, **made)


def calls():
    """Keyword arguments, many of which contradict each other: then both must raise alike."""
    lengths = [
        {},
        {"truncation": True, "max_length": 9},
        {"truncation": "only_first", "max_length": 16},
        {"truncation": "only_second", "max_length": 17},
        {"truncation": "longest_first", "max_length": 2},
        {"max_length": 7},
    ]
    overflows = [{}, {"stride": 2, "return_overflowing_tokens": True}]
    paddings = [
        {},
        {"padding": True},
        {"padding": "max_length", "max_length": 24},
        {"padding": True, "pad_to_multiple_of": 8, "padding_side": "left"},
    ]
    extras = [
        {},
        {"add_special_tokens": False},
        {"return_special_tokens_mask": True, "return_token_type_ids": True, "return_length": True},
        {"return_offsets_mapping": True, "return_attention_mask": False},
        {"return_tensors": "np"},
        {"split_special_tokens": True},
    ]
    for length, overflow, padding, extra in itertools.product(lengths, overflows, paddings, extras):
        yield length | overflow | padding | extra


CALLS = list(calls())


def answer(tokenizer, arguments, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = tokenizer(*arguments, **options)
        except BaseException as error:  # noqa: BLE001 - a panic of Rust is one
            return type(error).__name__, str(error)
    return {key: plain(value) for key, value in found.items()}


def plain(value):
    if isinstance(value, np.ndarray):
        return str(value.dtype), [plain(each) for each in value]
    return [plain(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", NAMES)
def test_every_call(name, monkeypatch):
    # Two texts of a batch may be refused for different reasons: with threads either is reported, with one the first.
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    ours, theirs = both(name)
    wrong = []
    for place, options in enumerate(CALLS):
        # All four kinds of input for one tokenizer; for the others each call has one, in turn.
        kinds = (ONE, PAIR, BATCH, BATCH_PAIR)
        for arguments in kinds if name == "bert-template" else (kinds[place % 4],):
            mine, own = answer(ours, arguments, options), answer(theirs, arguments, options)
            if mine != own:
                wrong.append((arguments, options, mine, own))
    assert wrong[:1] == []


@pytest.mark.parametrize("name", ["gpt2", "llama2", "bert-template"])
def test_all_that_is_not_a_call(name, tmp_path):
    ours, theirs = both(name)
    text = TEXTS[2]
    ids = theirs.encode(text, OTHERS[0])
    assert ours.encode(text, OTHERS[0]) == ids
    for act in (
        lambda t: t.is_fast,
        lambda t: (len(t), t.vocab_size, t.get_vocab(), t.all_special_ids, t.special_tokens_map),
        lambda t: (t.pad_token_id, t.bos_token, t.eos_token_id, t.model_max_length, t.padding_side),
        lambda t: (t.decode(ids), t.decode(ids, skip_special_tokens=True), t.batch_decode([ids, ids[:3]])),
        lambda t: t.convert_ids_to_tokens(ids),
        lambda t: t.convert_tokens_to_ids(["a", "nothing", "<|pad|>"]),
        lambda t: t.convert_tokens_to_string(t.tokenize(text)),
        lambda t: t.num_special_tokens_to_add(pair=True),
        lambda t: t(text.split(), is_split_into_words=True).data,
        lambda t: t(text_target=text, max_target_length=5, truncation=True).data,
        lambda t: [getattr(t(text, OTHERS[0]), way)() for way in ("tokens", "word_ids", "sequence_ids")],
        lambda t: (t(text).char_to_token(4), t(text).token_to_chars(1), t(text).word_to_tokens(1)),
        lambda t: t.pad({"input_ids": [[5, 6], [7]]}, padding="max_length", max_length=4).data,
    ):
        assert act(ours) == act(theirs)
    ours.save_pretrained(tmp_path)
    again = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert again.encode(text, OTHERS[0]) == ids
    assert Tokenizer.load(tmp_path).encode(text) == theirs.encode(text, add_special_tokens=False)
    for copied in (pickle.loads(pickle.dumps(ours)), copy.deepcopy(ours)):
        assert isinstance(copied._tokenizer, CoreBackend)
        assert copied.encode(text, OTHERS[0]) == ids


def test_what_is_changed_afterwards_counts():
    ours, theirs = (copy.deepcopy(each) for each in both("gpt2"))
    for tokenizer in (ours, theirs):
        tokenizer("cat")
        tokenizer.add_tokens(["cat sat", "mat"])
    assert ours.encode(TEXTS[0]) == theirs.encode(TEXTS[0])
    for tokenizer in (ours, theirs):
        tokenizer.add_special_tokens({"bos_token": "<bos>", "additional_special_tokens": ["<x>"]})
        tokenizer.add_bos_token = True
    assert ours.encode("a<x>b", "c") == theirs.encode("a<x>b", "c")
    for tokenizer in (ours, theirs):
        tokenizer.backend_tokenizer.pre_tokenizer.add_prefix_space = True
    assert ours.encode(TEXTS[0]) == theirs.encode(TEXTS[0])
    from tokenizers import normalizers

    for tokenizer in (ours, theirs):
        tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    assert ours.encode(TEXTS[0]) == theirs.encode(TEXTS[0])


def test_chat_templates_collators_and_map(tmp_path):
    ours, theirs = (copy.deepcopy(each) for each in both("llama2"))
    template = "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"
    chat = [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "안녕 a"}]
    for tokenizer in (ours, theirs):
        tokenizer.chat_template = template
    assert ours.apply_chat_template(chat)["input_ids"] == theirs.apply_chat_template(chat)["input_ids"]
    assert ours.apply_chat_template(chat, tokenize=False) == theirs.apply_chat_template(chat, tokenize=False)
    rows = [ours("the cat"), ours("a")]
    collate = transformers.DataCollatorWithPadding
    mine = collate(ours, return_tensors="np")(rows)
    assert {k: v.tolist() for k, v in mine.items()} == {
        k: v.tolist() for k, v in collate(theirs, return_tensors="np")(rows).items()
    }
    import datasets

    data = datasets.Dataset.from_dict({"text": TEXTS * 20})
    mapped = [
        data.map(
            lambda batch, t=t: t(batch["text"], truncation=True, max_length=12), batched=True, batch_size=7
        )
        for t in (ours, theirs)
    ]
    assert mapped[0].features == mapped[1].features
    assert mapped[0].to_dict() == mapped[1].to_dict()


def test_a_batch_that_was_pickled_still_knows_its_words():
    ours, theirs = both("gpt2")
    kept = pickle.loads(pickle.dumps(ours(TEXTS[0])))
    assert kept.word_ids() == theirs(TEXTS[0]).word_ids()


def test_what_is_asked_later_is_of_the_call_that_it_belongs_to():
    ours, theirs = both("gpt2")
    first, own = (t(TEXTS[0], truncation=True, max_length=5) for t in (ours, theirs))
    ours(TEXTS[0], padding="max_length", max_length=40)
    assert first.tokens() == own.tokens()
    assert len(ours(TEXTS[0])["input_ids"]) > 5


def test_what_is_asked_later_is_of_the_texts_at_the_time_of_the_call():
    ours, theirs = both("gpt2")
    texts = TEXTS.copy()
    late, own = ours(texts), theirs(TEXTS)
    texts[:] = ["something else"] * len(texts)
    assert late["input_ids"] == own["input_ids"]
    for index in range(len(TEXTS)):
        assert late.tokens(index) == own.tokens(index)
        assert late.word_ids(index) == own.word_ids(index)
        assert late.encodings[index].offsets == own.encodings[index].offsets


def test_what_the_core_does_not_run_is_hugging_face_s(tmp_path):
    from small_tokenizers import write_word_piece

    tokenizer = Tokenizer.load(write_word_piece(tmp_path))
    assert tokenizer.as_hf()("the document")["input_ids"] == tokenizer.encode("the document")


def test_lone_surrogates_fail_as_with_transformers():
    ours, theirs = both("gpt2")
    assert answer(ours, ("a\ud800",), {}) == answer(theirs, ("a\ud800",), {})


def test_a_pickle_is_of_the_tokenizer_as_it_is_now():
    ours = Tokenizer.load(built("gpt2")).as_hf(pad_token="<|pad|>")
    pickle.dumps(ours)
    ours.add_tokens(["sat on"])
    ours(TEXTS, truncation=True, max_length=3, padding=True)
    backend = ours._tokenizer
    backend.decoder = decoders.Metaspace()
    again = pickle.loads(pickle.dumps(ours))
    assert again._tokenizer.to_str() == backend.to_str()
    assert again(TEXTS)["input_ids"] == ours(TEXTS)["input_ids"]
