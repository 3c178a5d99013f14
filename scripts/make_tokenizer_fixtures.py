# SPDX-License-Identifier: Apache-2.0
"""Trains small tokenizers with the pipelines of well-known models, and records what the `tokenizers` package makes of
texts that are hard to cut: tests/fixtures/tokenizers.

    python scripts/make_tokenizer_fixtures.py            # needs tokenizers 0.23.3, sentencepiece 0.2.3, tiktoken 0.14.0

A tokenizer that is there is kept, since training breaks ties by chance: remove its file to have it trained again.
benchmarks/tokenizers/compare.py trains larger ones with the same functions.
"""
import base64
import io
import json
import pathlib
import re
import sys
import unicodedata

import sentencepiece
import tiktoken
import tiktoken_ext.openai_public
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/fixtures/tokenizers"
SPACE = "\u2581"

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level(texts, size, split, *, normalizer=None, ignore_merges=False, special=(), bos=None):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if split is None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(split), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    post = processors.ByteLevel(trim_offsets=False)
    if bos is not None:
        post = processors.Sequence([post, processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))])])
    tokenizer.post_processor = post
    return tokenizer


def sentencepiece_bpe(texts, size, normalizer, pre_tokenizer, added=()):
    """A BPE of characters with bytes for what it does not know, as Llama's first files have it."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, limit_alphabet=400, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    names = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    names += [text for text, _ in sorted(model["vocab"].items(), key=lambda entry: entry[1])]
    names = list(dict.fromkeys(names))
    tokenizer = Tokenizer(models.BPE(vocab={text: i for i, text in enumerate(names)},
                                     merges=[tuple(merge) for merge in model["merges"]], unk_token="<unk>",
                                     fuse_unk=True, byte_fallback=True))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in names[:3]])
    tokenizer.add_tokens(list(added))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    return tokenizer


def charsmap(texts, rules):
    """The map of characters of a SentencePiece model: a named one, or one of a few rules, which is small."""
    model = io.BytesIO()
    options = {"normalization_rule_name": rules} if isinstance(rules, str) else {}
    if not options:
        table = OUT / "rules.tsv"
        table.write_text("".join(f"{' '.join(f'{ord(c):X}' for c in a)}\t{' '.join(f'{ord(c):X}' for c in b)}\n"
                                 for a, b in rules), encoding="utf-8")
        options = {"normalization_rule_tsv": str(table)}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter([t for t in texts if t.isascii() and t][:2000]),
                                             model_writer=model,
                                             vocab_size=300, hard_vocab_limit=False, minloglevel=2, **options)
    if not isinstance(rules, str):
        table.unlink()
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


RULES = [("\ufb01", "fi"), ("\u2460", "1"), ("\uff21", "A"), ("\u3000", " "), ("\u00a0", " "), ("e\u0301", "\u00e9"),
         ("\u200b", " "), ("\u1100\u1161", "\uac00"), ("\u00ad", ""), ("\t", " "), ("\n", " "), ("\r", " "),
         ("\u2026", "...")]


def unigram(texts, size, normalizer, pre_tokenizer, *, byte_fallback=False):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    few_letters = [text for text in texts if all(ord(c) < 0x100 for c in text)]  # each is a token, however rare
    tokenizer.train_from_iterator(few_letters, trainers.UnigramTrainer(
        vocab_size=size, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    if byte_fallback:
        data = json.loads(tokenizer.to_str())
        data["model"]["vocab"] += [[f"<0x{b:02X}>", 0.0] for b in range(256)]
        data["model"]["byte_fallback"] = True
        tokenizer = Tokenizer.from_str(json.dumps(data))
    end = tokenizer.token_to_id("</s>")
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", end)])
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def wordpiece(texts, size):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=size, limit_alphabet=300, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")])
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def odds(texts, size):
    """What no well-known model has together: every other part that files may hold."""
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Nmt(), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(),
        normalizers.Strip(left=True, right=False), normalizers.Replace(Regex(r"[!?]{2,}"), "!")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.CharDelimiterSplit("|"), pre_tokenizers.Whitespace(),
        pre_tokenizers.Punctuation("merged_with_next"), pre_tokenizers.Digits(individual_digits=True)])
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, limit_alphabet=150, special_tokens=["[UNK]"], continuing_subword_prefix="##",
        end_of_word_suffix="</w>", show_progress=False))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<r>", rstrip=True)])
    tokenizer.add_tokens([AddedToken("day", single_word=True), AddedToken("Caf\u00e9"), AddedToken("  ", normalized=False)])
    unk = tokenizer.token_to_id("[UNK]")
    tokenizer.post_processor = processors.BertProcessing(("[UNK]", unk), ("<r>", tokenizer.token_to_id("<r>")))
    tokenizer.decoder = decoders.BPEDecoder("</w>")
    return tokenizer


def pipelines(size, rules=RULES):
    """Each by its name: a function of texts that trains it."""
    chat = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    return {
        "gpt2": lambda t: byte_level(t, size, None, special=["<|endoftext|>"]),
        "llama3": lambda t: byte_level(t, size, LLAMA3, ignore_merges=True, bos="<|begin_of_text|>", special=[
            "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]),
        "qwen2": lambda t: byte_level(t, size, QWEN2, normalizer=normalizers.NFC(), special=chat),
        "tekken": lambda t: byte_level(t, size, TEKKEN, ignore_merges=True, bos="<s>",
                                       special=["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]),
        "llama2": lambda t: sentencepiece_bpe(
            t, size, normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]), None),
        "mistral": lambda t: sentencepiece_bpe(
            t, size, None, pre_tokenizers.Metaspace(SPACE, prepend_scheme="first", split=False)),
        "gemma": lambda t: sentencepiece_bpe(
            t, size, normalizers.Replace(" ", SPACE), pre_tokenizers.Split(" ", "merged_with_previous"),
            [AddedToken(text, normalized=False) for text in ("\n\n", "\n\n\n", SPACE * 2, SPACE * 3, "\t\t", "<td>")]),
        "t5": lambda t: unigram(
            t, size, normalizers.Sequence([normalizers.Precompiled(charsmap(t, rules)), normalizers.Strip(left=False),
                                           normalizers.Replace(Regex(" {2,}"), SPACE)]),
            pre_tokenizers.Metaspace(SPACE, prepend_scheme="always")),
        "xlnet": lambda t: unigram(
            t, size, normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.Replace("''", '"'),
                                           normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]),
            pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
            byte_fallback=True),
        "bert": lambda t: wordpiece(t, size),
        "odds": lambda t: odds(t, size),
    }


def training_texts():
    """Text that does not change: what is recorded follows from this script alone."""
    texts = (ROOT / "LICENSE").read_text(encoding="utf-8").splitlines(keepends=True)
    return texts + [text for text in tricky_texts() if len(text) < 200] * 4


def tricky_texts():
    blocks = [(0x20, 0x7f), (0xa0, 0x200), (0x2b0, 0x300), (0x370, 0x3d0), (0x400, 0x430), (0x600, 0x640), (0x900, 0x940),
              (0x1100, 0x1120), (0x1f00, 0x1f40), (0x2000, 0x2070), (0x2100, 0x2150), (0x2460, 0x2480), (0x3000, 0x3050),
              (0xac00, 0xac10), (0xf900, 0xf910), (0xfb00, 0xfb20), (0xfe20, 0xfe30), (0xff00, 0xff40), (0x1d400, 0x1d410),
              (0x1f130, 0x1f140), (0x1f600, 0x1f610), (0x20000, 0x20008)]
    texts = [
        "", " ", "  ", "\n", "a", " a", "a ", "Hello, world!", "I'm we'RE you'Ve he'LL she'd it'S \u2019s don't 'quoted'",
        "  two spaces,   three,\tone tab,\t\ttwo\n\nlines\r\nand\r\n\r\nmore \n \n  x\n", "1 12 123 1234 12345 3.14 1,000,000",
        "x=1;y=[2,3]; if(x!=y){return x->z++;} // comment\n\t\tprintf(\"%d\\n\", x);\n", "snake_case camelCase HTTPServer XMLHttp2",
        "caf\u00e9 cafe\u0301 CAF\u00c9 na\u00efve \u00c5ngstr\u00f6m \u212b \u1e9b\u0323", "\u0130stanbul \u1e9e \u017f \u0391\u03a3 \u039f\u0394\u039f\u03a3 \u01c5 \ufb03 \ufb01n",
        "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 \u4e2d\u6587\u6587\u672c\u3002 \ud55c\uad6d\uc5b4 \u1112\u1161\u11ab", "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22 \u0939\u093f\u0928\u094d\u0926\u0940 \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea",
        "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u270c\ufe0f\U0001f3fd #\ufe0f\u20e3", "a\u00a0b\u3000c\u2003d\u0085e\u2028f\u2029g\u180eh\u200bi\ufeffj\u2060k\u00adl",
        "\x00\x01\x02\x07\x0b\x0c\x1f\x7f\x8f\x9f \ufffd \ue000 \U000f0000 \u0378 \U0010ffff", "<s> </s><unk> <|endoftext|>x<|im_start|>user\nhi<|im_end|>\n<|eot_id|>",
        "a <mask> b<mask>c  <r>  d <r>\n\ne day today day. Day DAY caf\u00e9 Caf\u00e9 CAFE\u0301", "<0x41><0x0A> \u2581 \u2581\u2581 x\u2581y ##a [UNK] [CLS]",
        "\n\n\n\n \n\n\t\t\t<td></td>", "wait!!! what?? no?! | pipe|pipe||", "``quoted'' and ''this``", "\u2460\u2461 \uff21\uff22 \u00bd \u2160 \u00b2 \u0663\u0664 \u2155 \u2026",
        "a" * 100, " " * 200 + "x", "ab" * 70, "\u00e9" * 50, "\u4e00\u4e8c\u4e09" * 20, "x" + "\n" * 60 + "y", "=" * 90 + "\n" + "-" * 61,
        "averyverylongwordwithoutanyspacesinitthatnotokenizerhasseenbefore" * 3,
        "".join(chr(c) + " " for c in range(0x300, 0x340)),
    ]
    for begin, end in blocks:
        chars = [chr(c) for c in range(begin, end) if unicodedata.category(chr(c)) not in ("Cs", "Cn")]
        texts.append("".join(a + b + " " for a, b in zip(chars[::2], chars[1::2])))
    return texts


def record_sentencepiece(texts):
    """Models of SentencePiece with the options of Llama 2 and of T5. Control symbols in a text are not recorded: there they
    are text to SentencePiece, and tokens to everybody else."""
    train = [text for text in training_texts() if text.isascii() and text.strip()]
    rules = OUT / "rules.tsv"
    rules.write_text("".join(f"{' '.join(f'{ord(c):X}' for c in a)}\t{' '.join(f'{ord(c):X}' for c in b)}\n"
                             for a, b in RULES), encoding="utf-8")
    for name, options in {
            "spm_bpe": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                            remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True,
                            vocab_size=600),
            "spm_unigram": dict(model_type="unigram", normalization_rule_tsv=str(rules), vocab_size=300)}.items():
        file = OUT / f"{name}.model"
        if not file.exists():
            model = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(train), model_writer=model, minloglevel=2,
                                                     hard_vocab_limit=False, num_threads=1, **options)
            file.write_bytes(model.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_file=str(file))
        lines = ",\n".join(
            json.dumps({"ids": None} if any(mark in text for mark in ("<s>", "</s>", "<unk>")) else
                       {"ids": processor.encode(text)}, separators=(",", ":")) for text in texts)
        (OUT / f"{name}.ids").write_text(f'{{"texts":[\n{lines}\n]}}\n')
    rules.unlink()


def record_tiktoken(name, pattern_of, texts):
    """Ranks out of a trained tokenizer.json, and what tiktoken makes of them; its specials have the distances that they have."""
    model = json.loads((OUT / "gpt2.json").read_text())["model"]
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    letters = {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in plain)}
    ranks = {bytes(letters[c] for c in text): i
             for i, text in enumerate(sorted(model["vocab"], key=model["vocab"].get))}
    (OUT / "ranks.tiktoken").write_text("".join(f"{base64.b64encode(t).decode()} {i}\n" for t, i in ranks.items()))
    pattern = pattern_of(tiktoken_ext.openai_public)
    specials = {"<|endoftext|>": 1, "<|endofprompt|>": 20}
    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks,
                                 special_tokens={text: len(ranks) + behind for text, behind in specials.items()})
    ids = [encoding.encode(text, allowed_special="all") for text in texts]
    lines = ",\n".join(json.dumps({"ids": i, "text": encoding.decode(i)}, separators=(",", ":")) for i in ids)
    (OUT / f"{name}.ids").write_text(f'{{"texts":[\n{lines}\n]}}\n')


def tiny_bpe(letters, merges=(), normalizer=None, pre_tokenizer=None):
    """A BPE of these letters and of what their merges make, without an unknown token."""
    names = [*letters, *("".join(merge) for merge in merges)]
    tokenizer = Tokenizer(models.BPE(vocab={name: i for i, name in enumerate(names)}, merges=list(merges)))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    return tokenizer


def record_small():
    """Tokenizers of a line, each for a rule of the package that the larger ones do not meet."""
    strip, prepend = normalizers.Strip(left=True, right=False), normalizers.Prepend
    def replace(what, by):
        return normalizers.Replace(Regex(what), by)

    charsmap_of_t5 = json.loads((OUT / "t5.json").read_text())["normalizer"]["normalizers"][0]["precompiled_charsmap"]
    small = [
        ("an unknown letter vanishes before merges", tiny_bpe("ab", [("a", "b")]), ["aXb" * 12, "ab" * 13, "aXXb", "X" * 30]),
        ("an unknown byte vanishes before merges",
         tiny_bpe("ab", [("a", "b")], None, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)),
         ["aXb" * 12, "a\u00e9b" * 12]),
    ]
    starts = {"none": None, "Strip": strip, "Nmt": normalizers.Nmt(), "StripAccents": normalizers.StripAccents(),
              "BertNormalizer": normalizers.BertNormalizer(), "NFKD": normalizers.NFKD(), "Lowercase": normalizers.Lowercase(),
              "Replace of a letter": replace("a", "x"), "Replace of two": replace("aa", "x"), "Replace by none": replace("a", ""),
              "Replace of the start": replace("^", "x"),
              "Strip, Prepend": normalizers.Sequence([strip, prepend("x")]),
              "Strip, Replace of the start": normalizers.Sequence([strip, replace("^", "x")]),
              "Precompiled": normalizers.Precompiled(base64.b64decode(charsmap_of_t5))}
    texts = [" ab", "ab", "  ab", "aab", "\x01ab", "\u0301ab", "\u00e1b", "\u4e00ab", "\u00adab", "\u3000ab", "\ufb01b", ""]
    small += [(f"where texts start, behind {name}",
               tiny_bpe(SPACE + "abxfi^", (), normalizer, pre_tokenizers.Metaspace(SPACE, "first", split=False)), texts)
              for name, normalizer in starts.items()]
    small += [(f"the expression {pattern}",
               tiny_bpe("abcABC123xy{,}", [("a", "b"), ("B", "c"), ("1", "2"), ("2", "3"), ("x", "x"), ("a", "B"), ("a", "C")], None,
                        pre_tokenizers.Split(Regex(pattern), "isolated")),
               ["123123", "12", "a12b3", "aBc", "aC", "abc", "ABC", "aBC", "xxxxy", "x{,}", "bcBc"])
              for pattern in ("[0-9]{,2}", "x{,3}y", "x{,}", "a(?i)b|c", "(?i)ab|c", "(?:a(?i)b|c)B", "a(?i)b(?-i:c)|c")]
    lines = ",\n".join(json.dumps({
        "about": about, "tokenizer": tokenizer.to_str(),
        "cases": [{"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids} for text in texts]},
        separators=(",", ":")) for about, tokenizer, texts in small)
    (OUT / "small.json").write_text(f"[\n{lines}\n]\n")


def tiktoken_pattern(name):
    """The expression that tiktoken's own source has, without what it would download."""
    def of(module):
        kept = module.load_tiktoken_bpe, module.data_gym_to_mergeable_bpe_ranks
        module.load_tiktoken_bpe = module.data_gym_to_mergeable_bpe_ranks = lambda *a, **k: {}
        try:
            return module.ENCODING_CONSTRUCTORS[name]()["pat_str"]
        finally:
            module.load_tiktoken_bpe, module.data_gym_to_mergeable_bpe_ranks = kept
    return of


def main():
    assert tokenizers.__version__ == "0.23.3" and sentencepiece.__version__ == "0.2.3", "other versions, other numbers"
    OUT.mkdir(parents=True, exist_ok=True)
    texts = tricky_texts()
    train = training_texts()
    (OUT / "texts.json").write_text(json.dumps(texts, ensure_ascii=True, indent=0) + "\n")
    for name, build in pipelines(700).items():
        if not (OUT / f"{name}.json").exists():
            build(train).save(str(OUT / f"{name}.json"), pretty=False)
        tokenizer = Tokenizer.from_file(str(OUT / f"{name}.json"))  # as everybody else reads it
        plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
        special = tokenizer.encode("Hello", add_special_tokens=True).ids
        decoded = [tokenizer.decode(ids, skip_special_tokens=False) if ids else "" for ids in plain]
        lines = ",\n".join(json.dumps({"ids": ids, "text": text}, separators=(",", ":"))
                           for ids, text in zip(plain, decoded))
        (OUT / f"{name}.ids").write_text(f'{{"special":{json.dumps(special)},"texts":[\n{lines}\n]}}\n')
        print(name, tokenizer.get_vocab_size(), sum(map(len, plain)))
    record_small()
    record_sentencepiece(texts)
    for name in ("cl100k_base", "o200k_base"):
        record_tiktoken(name, tiktoken_pattern(name), texts)


if __name__ == "__main__":
    sys.exit(main())
