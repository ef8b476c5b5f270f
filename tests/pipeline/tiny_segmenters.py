"""Segmenters that train within seconds, and what they learn."""

import spacy
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed

SENTENCES = {
    "zh": [
        "我 喜欢 北京 的 秋天 。",
        "他们 在 图书馆 里 读 书 。",
        "北京 的 图书馆 很 大 。",
        "我们 喜欢 读 2024 年 的 书 。",
    ],
    "ja": ["私 は 東京 に 行き ます 。", "東京 は 大きい です 。", "私 は パン を 食べ ます 。"],
    "th": ["ฉัน กิน ข้าว", "เขา ไป ตลาด", "ฉัน ไป ตลาด ซื้อ ข้าว"],
}
TOKENIZER = {"@tokenizers": "spacy-bilstm-crf.CharacterTokenizer.v1"}
EMBED = {
    "@architectures": "spacy-bilstm-crf.CharNgramEmbed.v1",
    "width": 16,
    "pair_width": 8,
    "class_width": 4,
    "min_count": 1,
}
MODEL = {"@architectures": "spacy-bilstm-crf.BiLSTMCRF.v1", "hidden_width": 16, "tok2vec": EMBED}


def make_nlp(lang="xx", *, tokenizer=TOKENIZER, model=None, **settings):
    """A pipeline with a segmenter that is not initialized. "xx" needs no library for its language."""
    nlp = spacy.blank(lang, config={"nlp": {"tokenizer": tokenizer}})
    nlp.add_pipe("segmenter_crf", config={"model": {**MODEL, **(model or {})}, **settings})
    return nlp


def make_words(nlp, sentence):
    """A reference: words in a text without spaces."""
    words = sentence.split()
    return Doc(nlp.vocab, words=words, spaces=[False] * len(words))


def make_examples(nlp, sentences=SENTENCES["zh"]):
    """Examples of characters and words."""
    references = [make_words(nlp, sentence) for sentence in sentences]
    return [Example(nlp.make_doc(reference.text), reference) for reference in references]


def train(nlp, sentences=SENTENCES["zh"], *, n_steps=40):
    """Overfit, and return the pipeline."""
    fix_random_seed(0)
    examples = make_examples(nlp, sentences)
    optimizer = nlp.initialize(lambda: examples)
    optimizer.learn_rate = 0.02
    for _ in range(n_steps):
        nlp.update(examples, sgd=optimizer)
    return nlp


def segment(nlp, text):
    """The words of a text."""
    return [token.text for token in nlp(text)]
