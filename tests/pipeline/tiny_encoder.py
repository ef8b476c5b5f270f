"""A transformer that nobody has trained, for tests."""

import string
from pathlib import Path


def make_encoder(path: Path) -> Path:
    """Save a BERT that reads single characters. Returns its folder."""
    import transformers

    path.mkdir(parents=True, exist_ok=True)
    characters = string.ascii_letters + string.digits + string.punctuation
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters, *(f"##{char}" for char in characters)]
    (path / "vocab.txt").write_text("\n".join(words), encoding="utf8")
    tokenizer = transformers.BertTokenizerFast(str(path / "vocab.txt"), do_lower_case=False, model_max_length=512)
    tokenizer.save_pretrained(path)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=512, **sizes)
    transformers.BertModel(config).save_pretrained(path)
    return path
