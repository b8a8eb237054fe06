"""One small random model of every family, made by transformers, with a tokenizer trained on a few lines."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LINES = [
    "I love this film, and I love her much.",
    "It wasn't unhappily made: watch it twice!",
    "The acting was awful, the story was worse... 10/10 for nothing.",
    "A café, a naïve hero and an unbelievable ending (1999).",
    "not good, not bad, not for everyone",
]
WIDTH, HEADS, POSITIONS = 16, 2, 64


def wordpiece() -> Tokenizer:
    """As BERT's: lower case, no accents, pieces with ##, [CLS] and [SEP]."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(LINES, trainers.WordPieceTrainer(vocab_size=120, special_tokens=special))
    return around(tokenizer, "[CLS] $A [SEP]")


def byte_level(template: str | None = None, *, trim: bool = True, prefix_space: bool = False) -> Tokenizer:
    """As GPT-2's, RoBERTa's and Llama 3's: BPE over bytes, the space before a word is part of it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        LINES, trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet)
    )
    bytes_again = processors.ByteLevel(trim_offsets=trim)
    if template is None:
        tokenizer.post_processor = bytes_again
        return tokenizer
    around(tokenizer, template)
    tokenizer.post_processor = processors.Sequence([bytes_again, tokenizer.post_processor])
    return tokenizer


def unigram() -> Tokenizer:
    """As XLM-RoBERTa's: SentencePiece with NFKC, ▁ for the space before a word."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(
        LINES, trainers.UnigramTrainer(vocab_size=150, special_tokens=special, unk_token="<unk>")
    )
    return around(tokenizer, "<s> $A </s>")


def llama() -> Tokenizer:
    """As Llama 2's: no pre-tokenizer at all, ▁ for spaces, bytes for what is unknown, <s> before the text alone."""
    special = ["<unk>", "<s>", "</s>"]
    vocabulary = {token: i for i, token in enumerate(special + [f"<0x{byte:02X}>" for byte in range(256)])}
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trained.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    trained.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=200))
    learned = json.loads(trained.to_str())["model"]
    for token in sorted(learned["vocab"], key=learned["vocab"].__getitem__):
        vocabulary.setdefault(token, len(vocabulary))
    merges = [tuple(pair) for pair in learned["merges"]]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = trained.normalizer
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(special)
    return around(tokenizer, "<s> $A")


def around(tokenizer: Tokenizer, template: str) -> Tokenizer:
    """With the special tokens of this template around every text."""
    used = [(token, tokenizer.token_to_id(token)) for token in template.split() if token != "$A"]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=used)
    return tokenizer


TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "wordpiece": wordpiece,
    "byte-level": byte_level,
    "byte-level, untrimmed": lambda: byte_level("<s> $A", trim=False),
    "byte-level, prefix space": lambda: byte_level("<s> $A </s>", prefix_space=True),
    "unigram": unigram,
    "llama": llama,
}


@dataclass(frozen=True)
class Kind:
    """How transformers names a family, and the settings that make it small."""

    config: str
    tokenizer: Callable[[], Tokenizer]
    settings: dict[str, Any]
    model: str = ""
    head: str = ""


_LAYERS = {
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "num_hidden_layers": 1,
    "intermediate_size": 16,
    "max_position_embeddings": POSITIONS,
}
_SENTENCE = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}


def _roberta_tokenizer() -> Tokenizer:
    return byte_level("<s> $A </s>")


KINDS = {
    "bert": Kind("Bert", wordpiece, _LAYERS, head="ForMaskedLM"),
    "roberta": Kind("Roberta", _roberta_tokenizer, _LAYERS | _SENTENCE, head="ForMaskedLM"),
    "xlm-roberta": Kind("XLMRoberta", unigram, _LAYERS | _SENTENCE, head="ForMaskedLM"),
    "camembert": Kind("Camembert", unigram, _LAYERS | _SENTENCE, head="ForMaskedLM"),
    "distilbert": Kind(
        "DistilBert",
        wordpiece,
        {"dim": WIDTH, "n_heads": HEADS, "n_layers": 1, "hidden_dim": 16, "max_position_embeddings": POSITIONS},
        head="ForMaskedLM",
    ),
    "mpnet": Kind("MPNet", _roberta_tokenizer, _LAYERS | _SENTENCE, head="ForMaskedLM"),
    "electra": Kind("Electra", wordpiece, _LAYERS | {"embedding_size": 12}, head="ForPreTraining"),
    "electra, one width": Kind("Electra", wordpiece, _LAYERS | {"embedding_size": WIDTH}, head="ForPreTraining"),
    "gpt2": Kind(
        "GPT2",
        byte_level,
        {
            "n_embd": WIDTH,
            "n_head": HEADS,
            "n_layer": 1,
            "n_positions": POSITIONS,
            "bos_token_id": 0,
            "eos_token_id": 2,
        },
        head="LMHeadModel",
    ),
    "llama": Kind("Llama", llama, _LAYERS | {"num_key_value_heads": 1}, head="ForCausalLM"),
    "mistral": Kind("Mistral", llama, _LAYERS | {"num_key_value_heads": 1}, head="ForCausalLM"),
    "qwen2": Kind("Qwen2", byte_level, _LAYERS | {"num_key_value_heads": 1}, head="ForCausalLM"),
    "qwen3": Kind("Qwen3", byte_level, _LAYERS | {"num_key_value_heads": 1, "head_dim": 8}, head="ForCausalLM"),
}
# As models only: their layer 0 is not read from files.
OTHERS = {
    "gemma": Kind("Gemma", llama, _LAYERS | {"num_key_value_heads": 1, "head_dim": 8}, head="ForCausalLM"),
}


_DEPTHS = ("num_hidden_layers", "n_layers", "n_layer")


def write_model(
    folder: Path, kind: str, *, head: bool | str = False, layers: int = 1, spread: float = 1.0, **saving: object
) -> torch.nn.Module:
    """A random model of a family with its tokenizer, saved as transformers saves it; the model without its head.

    `head`: the family's language model, or the end of the name of another class, such as "ForSequenceClassification".
    """
    transformers = pytest.importorskip("transformers")
    family = (KINDS | OTHERS)[kind]
    tokenizer = family.tokenizer()
    settings = {name: layers if name in _DEPTHS else value for name, value in family.settings.items()}
    config = getattr(transformers, f"{family.config}Config")(vocab_size=tokenizer.get_vocab_size(), **settings)
    torch.manual_seed(0)
    model = getattr(
        transformers, family.config + (head if isinstance(head, str) else family.head if head else "Model")
    )(config).eval()
    with torch.no_grad():  # gains of 1 and shifts of 0 would hide a mistake
        for parameter in model.base_model.parameters():
            torch.nn.init.normal_(parameter, std=spread)
    model.save_pretrained(folder, **saving)
    tokenizer.save(str(folder / "tokenizer.json"))
    return model.base_model
