"""Tokenizers in the style of each known model, trained on given texts: their patterns, normalizers, pre-tokenizers, decoders
and special tokens are those of the published tokenizer.json files."""
import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
LLAMA3 = rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{SIGNS}|{BLANKS}"
QWEN2 = rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{SIGNS}|{BLANKS}"
QWEN35 = (rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{BLANKS}")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PREFIX = r"[^\r\n\p{L}\p{N}]?"
O200K = (rf"{PREFIX}{UPPER}*{LOWER}+{CONTRACTIONS}?|{PREFIX}{UPPER}+{LOWER}*{CONTRACTIONS}?|\p{{N}}{{1,3}}"
         rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{BLANKS}")
TEKKEN = rf"{PREFIX}{UPPER}*{LOWER}+|{PREFIX}{UPPER}+{LOWER}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{BLANKS}"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
R50K = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
          r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s")
# The last one is another form of Llama 3's.
PATTERNS = (GPT2, R50K, LLAMA3, CL100K, QWEN2, QWEN35, O200K, TEKKEN,
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")


def byte_level(pattern, special, ignore_merges=False, nfc=False, template=None, prefix=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    if pattern:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}, special, template


def sentencepiece(legacy):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if legacy:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    options = {"special_tokens": ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))],
               "limit_alphabet": 3000}
    return tokenizer, options, [], "<s>"


STYLES = {
    "gpt2": lambda: byte_level(None, ["<|endoftext|>"]),
    "prefix": lambda: byte_level(None, ["<s>", "</s>"], prefix=True),
    "llama3": lambda: byte_level(LLAMA3, ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], True,
                                 template="<|begin_of_text|>"),
    "qwen2": lambda: byte_level(QWEN2, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], nfc=True),
    "qwen35": lambda: byte_level(QWEN35, ["<|endoftext|>"], nfc=True),
    "o200k": lambda: byte_level(O200K, ["<|startoftext|>", "<|endoftext|>"], True),
    "tekken": lambda: byte_level(TEKKEN, ["<s>", "</s>"], True, template="<s>"),
    "llama2": lambda: sentencepiece(True),
    "mistral": lambda: sentencepiece(False),
}


def train(style, texts, size):
    """A tokenizer of this style with `size` tokens, besides added ones."""
    tokenizer, options, special, template = STYLES[style]()
    spaced = style in ("llama2", "mistral")  # as sentencepiece, no token has a blank after another character
    if spaced:
        kept = tokenizer.normalizer, tokenizer.pre_tokenizer
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("▁*[^▁\n]+|▁+|\n"), "isolated")
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, show_progress=False, **options))
    if spaced:
        tokenizer.normalizer, tokenizer.pre_tokenizer = kept
        document = json.loads(tokenizer.to_str())  # the bytes' tokens are not special
        document["added_tokens"] = [token for token in document["added_tokens"] if not token["content"].startswith("<0x")]
        tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    tokenizer.add_tokens([AddedToken("<pad1>", normalized=False, lstrip=True), AddedToken("<r>", normalized=False, rstrip=True),
                          AddedToken("wurd", normalized=False, single_word=True), AddedToken("<norm>", normalized=True),
                          AddedToken("<norm>x", normalized=True)])
    if template:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{template} $A", special_tokens=[(template, tokenizer.token_to_id(template))])
    return tokenizer
