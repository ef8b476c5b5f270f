"""Classes of characters, and where a text may be cut at all when nothing is known of its words.

Scripts written without spaces are cut between any two characters, apart from marks, which stay with the character they
are written on. What other scripts write as one (a word in Latin letters, a number, a run of white space) is not cut:
"iPhone 12 很好" has the units i|Phone|12|很|好. A capital letter after a small one begins a unit, since names
are often written without the space between them; whether it begins a word, too, is for a model to say.
"""

import re
import unicodedata
from functools import lru_cache

import numpy
from numpy.typing import NDArray

# HAN to SOLID belong to scripts written without spaces; UPPER, LOWER and LETTER (without case) to the others.
HAN, NUMERAL, KANA, SOLID, UPPER, LOWER, LETTER, DIGIT, SPACE, PUNCT, SYMBOL, MARK, JOINER = range(13)
N_CLASSES = 13

_NUMERALS = "零〇一二三四五六七八九十百千万亿萬億两兩"
_ZERO_WIDTH_JOINER = "\u200d"
# The zero width non-joiner changes a letter, skin tones change the symbol before them.
_OTHER_MARKS = "\u200c" + "".join(map(chr, range(0x1F3FB, 0x1F400)))
# First and last code points of blocks.
_BLOCKS = {
    HAN: [(0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF)],
    KANA: [(0x3031, 0x3035), (0x3040, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F), (0x1AFF0, 0x1B16F)],
    # Thai, Lao, Tibetan; Myanmar; Khmer; scripts of the Tai; Balinese; Bopomofo; Yi; Javanese; Cham.
    SOLID: [
        *((0x0E00, 0x0FFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x1950, 0x19DF), (0x1A20, 0x1AAF), (0x1B00, 0x1B7F)),
        *((0x3100, 0x312F), (0x31A0, 0x31BF), (0xA000, 0xA4CF), (0xA980, 0xA9FF), (0xAA00, 0xAADF)),
    ],
    MARK: [(0xE0020, 0xE007F), (0xE0100, 0xE01EF)],  # tags and variation selectors
}
# What lies beyond is either in these blocks or not assigned.
_N_LISTED = 0x20000


@lru_cache(maxsize=1)
def _class_table() -> NDArray[numpy.uint8]:
    # Made when the first text comes: programs that never segment do not wait for it.
    characters = [chr(code) for code in range(_N_LISTED)]
    categories = numpy.array([unicodedata.category(character) for character in characters])
    kinds = categories.astype("U1")
    listed = numpy.full(_N_LISTED, SYMBOL, dtype="uint8")
    listed[kinds == "P"] = PUNCT
    listed[kinds == "L"] = LETTER
    listed[(categories == "Lu") | (categories == "Lt")] = UPPER
    listed[categories == "Ll"] = LOWER
    for letter_class in (HAN, KANA, SOLID):
        for first, last in _BLOCKS[letter_class]:
            block = slice(first, last + 1)
            listed[block][numpy.isin(kinds[block], ["L", "N", "S"])] = letter_class
    listed[categories == "Nd"] = DIGIT
    listed[kinds == "M"] = MARK
    listed[[character.isspace() for character in characters]] = SPACE
    table = numpy.concatenate((listed, numpy.full(0x110000 - _N_LISTED, SYMBOL, dtype="uint8")))
    for first, last in [_BLOCKS[HAN][-1], *_BLOCKS[MARK]]:
        table[first : last + 1] = HAN if first == _N_LISTED else MARK
    for text, character_class in ((_NUMERALS, NUMERAL), (_OTHER_MARKS, MARK), (_ZERO_WIDTH_JOINER, JOINER)):
        table[[ord(character) for character in text]] = character_class
    return table


def character_class(character: str) -> int:
    """Find the class of a character.

    character (str): The character.
    RETURNS (int): Its class, less than `N_CLASSES`.
    """
    return int(_class_table()[ord(character)])


def _charset(*classes: int) -> str:
    """Write classes as the inside of a set in a regular expression."""
    is_member = numpy.isin(_class_table(), classes)
    edges = numpy.flatnonzero(numpy.diff(is_member, prepend=False, append=False)).reshape(-1, 2).tolist()
    return "".join(f"\\U{first:08x}-\\U{end - 1:08x}" for first, end in edges)


@lru_cache(maxsize=1)
def _unit_pattern() -> re.Pattern[str]:
    """Match a run of units of one character each, or else one unit and the space that belongs to it."""
    mark, joiner = f"[{_charset(MARK, JOINER)}]", f"[{_charset(JOINER)}]"
    upper, lower, letter, digit = (f"(?:[{_charset(kind)}]{mark}*)" for kind in (UPPER, LOWER, LETTER, DIGIT))
    space = f"[{_charset(SPACE)}]"
    single = f"[{_charset(HAN, NUMERAL, KANA, SOLID, PUNCT, SYMBOL)}]"
    unit = f"{single}{mark}*|{upper}+{lower}*|{lower}+|{digit}+|{letter}+|{mark}+"
    # A joiner makes one of what is around it, as in the emoji of a family.
    unit = f"(?:{unit})(?:(?<={joiner})(?:{unit}))*|{space}+"
    return re.compile(f"({single}+(?!{mark}| ))|({unit})( ?)")


def split_units(text: str) -> tuple[list[str], list[bool]]:
    """Cut a text into units, as spaCy keeps tokens: one space after a unit belongs to it.

    text (str): The text.
    RETURNS (tuple): The units, and for each of them whether a space belongs to it. Joined they give the text back.
    """
    units: list[str] = []
    spaces: list[bool] = []
    for run, unit, space in _unit_pattern().findall(text):
        units += run or (unit,)
        spaces += [False] * len(run) if run else (space != "",)
    return units, spaces


def unit_starts(text: str) -> list[int]:
    """List where the units of a text begin.

    text (str): The text.
    RETURNS (list[int]): Offsets in characters. What is left of white space behind a unit and its space begins one, too.
    """
    starts: list[int] = []
    for match in _unit_pattern().finditer(text):
        starts += range(match.start(), match.end(1)) if match[1] else (match.start(),)
    return starts
