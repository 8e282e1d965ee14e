"""Write the bundled sample: small documents in English, Korean and Chinese, with some code, from seeded templates.

    python examples/make_sample.py python/tokenmill/data/sample.jsonl

The texts are our own, so the project's licence covers them.
"""

import json
import random
import sys
from pathlib import Path

ENGLISH = {
    "subject": "the miller|a river|our old clock|the night train|every student|a small robot|the harbour|my neighbour|the library|an engineer|the orchard|that violin".split("|"),
    "verb": "turns|follows|remembers|measures|carries|repairs|describes|watches|counts|collects|paints|answers".split("|"),
    "object": "the grain|a long story|seven lanterns|the missing page|a quiet street|the weather|an honest question|the broken wheel|a map of the valley|twelve letters|the morning tide|a list of names".split("|"),
    "tail": "before the sun comes up|without saying a word|because it doesn't rain today|while the others sleep|as it was done in 1974|and nobody notices|for the third time this week|so that we'll know tomorrow|in less than 25 minutes|at the edge of town".split("|"),
}  # fmt: skip
KOREAN = {
    "subject": "방앗간 주인은|작은 강물이|우리 할머니는|밤 기차가|모든 학생들이|도서관 사서가|항구의 등대는|이웃집 아이가|늙은 시계는|과수원 농부가".split(
        "|"
    ),
    "object": "곡식을|긴 이야기를|일곱 개의 등불을|잃어버린 쪽지를|조용한 골목을|오늘의 날씨를|부서진 바퀴를|계곡의 지도를|열두 통의 편지를|아침 바다를".split(
        "|"
    ),
    "tail": "해가 뜨기 전에|말없이|비가 오지 않아서|다른 사람들이 자는 동안|1974년처럼|이번 주에 세 번째로|25분 안에|마을 끝에서".split(
        "|"
    ),
    "verb": "돌린다.|따라간다.|기억한다.|잰다.|나른다.|고친다.|설명한다.|바라본다.|센다.|모은다.".split("|"),
}
CHINESE = {
    "subject": "磨坊主人|小河|我们的祖母|夜里的火车|每个学生|图书馆员|港口的灯塔|邻居的孩子|旧时钟|果园里的农夫".split(
        "|"
    ),
    "tail": "在日出之前|一言不发地|因为今天没有下雨|趁着别人睡觉|像一九七四年那样|这个星期第三次|在二十五分钟之内|在小镇的尽头".split(
        "|"
    ),
    "verb": "转动|跟随|记住|测量|搬运|修理|描述|观察|清点|收集".split("|"),
    "object": "谷物。|一个长长的故事。|七盏灯笼。|丢失的那一页。|安静的街道。|今天的天气。|坏掉的车轮。|山谷的地图。|十二封信。|清晨的潮水。".split(
        "|"
    ),
}
CODE = [
    "def {a}_{b}(items, limit={n}):\n    return [x for x in items if x.{a} < limit]\n",
    "for (let i = 0; i < {n}; i++) {{\n  {a}.push({b}[i] * {n});\n}}\n",
    'if {a} is None:\n    raise ValueError(f"no {b} at line {{line}}")\n',
]  # fmt: skip
NAMES = "count weight offset token shard rank index value".split()


def sentence(rng, language):
    if language == "code":
        return rng.choice(CODE).format(a=rng.choice(NAMES), b=rng.choice(NAMES), n=rng.randrange(2, 4096))
    parts = {"en": ENGLISH, "ko": KOREAN, "zh": CHINESE}[language]
    words = [rng.choice(choices) for choices in parts.values()]
    if language == "en":
        return (" ".join(words) + ".").capitalize()
    return (" " if language == "ko" else "").join(words)


def document(rng, number):
    language = rng.choice(["en", "en", "ko", "ko", "zh", "zh", "code"])
    joint = {"en": " ", "ko": " ", "zh": "", "code": "\n"}[language]
    paragraphs = [
        joint.join(sentence(rng, language) for _ in range(rng.randrange(2, 7)))
        for _ in range(rng.randrange(1, 5))
    ]
    return {"id": f"sample-{number:04d}", "lang": language, "text": "\n\n".join(paragraphs)}


def main(path, documents=600, seed=20):
    rng = random.Random(seed)
    lines = [json.dumps(document(rng, number), ensure_ascii=False) for number in range(documents)]
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:2])
