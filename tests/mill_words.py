"""Words of a small corpus in two languages, for the tests of vocabularies that grow and shrink."""

ENGLISH = ["mill", "miller", "turning", "water", "wheel", "flour", "grain", "stone", "river", "bread"]
KOREAN = [
    "방앗간", "방앗간이", "돌아간다", "물레방아", "곡식을", "밀가루", "빵을", "강물이", "돌로", "빻는다",
]  # fmt: skip
