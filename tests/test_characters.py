"""Where a text may be cut when nothing is known of its words."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spacy_bilstm_crf import characters
from spacy_bilstm_crf.characters import N_CLASSES, character_class, split_units, unit_starts

# What the units of real text are made of, in odd orders.
PIECES = st.sampled_from(
    [
        "中",
        "、",
        "a",
        "B",
        "é",
        "e\u0301",
        "1",
        "１",
        "Ａ",
        " ",
        "\u3000",
        "\n",
        "\u200d",
        "👩",
        "👍🏽",
        "\ufe0f",
        "ที่",
        "か",
        "\U00020000",
    ]
)
TEXTS = st.one_of(st.text(), st.lists(PIECES).map("".join))


def join(units, spaces):
    return "".join(unit + " " * space for unit, space in zip(units, spaces, strict=True))


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("", []),
        ("我很好。", "我|很|好|。"),
        ("iPhone 12很好", "i|Phone|12|很|好"),
        ("WalterDamrosch", "Walter|Damrosch"),
        ("NBA球员2,004.5万%", "NBA|球|员|2|,|004|.|5|万|%"),
        ("ＡＢｃ１２", "ＡＢｃ|１２"),
        ("東京タワーへ", "東|京|タ|ワ|ー|へ"),
        ("ที่นี่", "ที่|นี่"),
        ("e\u0301te\u0301中\u0301", "e\u0301te\u0301|中\u0301"),
        ("👩\u200d💻👍🏽", "👩\u200d💻|👍🏽"),
        ("한국어 مرحبا", "한국어|مرحبا"),
        ("  a  b\r\n\n c ", "  |a| |b|\r\n\n |c"),
        ("\u3000中 \u0301", "\u3000|中|\u0301"),
        ("中 \u200d文", "中|\u200d文"),
        ("\U00020000\U0002a6a5", "\U00020000|\U0002a6a5"),
    ],
)
def test_units_are_what_is_written_as_one(text, units):
    assert split_units(text)[0] == (units.split("|") if units else [])


@given(TEXTS)
@example(" " * 3)
@example("\u0301")
def test_units_give_the_text_back(text):
    units, spaces = split_units(text)
    assert join(units, spaces) == text
    assert all(units)


@given(TEXTS)
def test_starts_are_those_of_the_units(text):
    units, spaces = split_units(text)
    starts, offset = [], 0
    for unit, space in zip(units, spaces, strict=True):
        starts.append(offset)
        offset += len(unit) + space
    assert unit_starts(text) == starts


@given(TEXTS)
def test_marks_stay_with_what_they_are_written_on(text):
    units, spaces = split_units(text)
    for i, unit in enumerate(units[1:]):
        if unicodedata.category(unit[0])[0] == "M":
            assert spaces[i] or units[i].isspace()


@given(st.text(alphabet="中文一二三，。", min_size=1))
def test_chinese_is_cut_between_all_characters(text):
    assert split_units(text) == (list(text), [False] * len(text))


@given(st.characters(exclude_categories=()))
def test_every_character_has_a_class(character):
    assert 0 <= character_class(character) < N_CLASSES


@pytest.mark.parametrize(
    ("name", "members"),
    {
        "HAN": "中龥々〆\U00020000㐀豈",
        "NUMERAL": "一万〇两",
        "KANA": "あンｱー",
        "SOLID": "กລကཀㄅꀀ",
        "UPPER": "AÉΩЖＡǅ",
        "LOWER": "aßωжａ",
        "LETTER": "한مאªदʰ",
        "DIGIT": "7７٣",
        "SPACE": " \u3000\n\u00a0\u2028",
        "PUNCT": "。、.!？「",
        "SYMBOL": "+€😀①½\u200b\ue000",
        "MARK": "\u0301\ufe0f\u20e3\U0001f3fb\U000e0101\u200c",
        "JOINER": "\u200d",
    }.items(),
)
def test_classes_hold_what_their_names_say(name, members):
    assert {character_class(member) for member in members} == {getattr(characters, name)}
