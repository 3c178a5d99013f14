# SPDX-License-Identifier: Apache-2.0
"""`thunderc data pack` beside the `tokenizers` package: the same ids, and how long both take, on 10 MB of mixed text and
code and on every character of Unicode, with tokenizers of well-known models' pipelines that are trained here.

    python benchmarks/tokenizers/compare.py build/thunderc [--work DIR] [--only NAME] [--vocab 8000]

Needs tokenizers 0.23.3, sentencepiece 0.2.3 and tiktoken 0.14.0. What it trains stays in DIR. Exit status 1 where any id differs, 77
where a package is absent. With `--megabytes 1 --vocab 1000 --only-mixed` a test of seconds (tests/python).
"""
import argparse
import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import time
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
try:
    import make_tokenizer_fixtures as fixtures  # noqa: E402
    from tokenizers import Tokenizer  # noqa: E402
except ModuleNotFoundError as missing:
    print(f"skipped: {missing.name} is not installed for {sys.executable}; THUNDERC_PYTHON=PATH names a Python that has it")
    sys.exit(77)


def readable(path):
    try:
        return path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError):
        return None


def mixed_texts(most):
    """Licences, manuals and code of the system and of this repository, until there are so many bytes."""
    folders = [ROOT / "docs", ROOT / "runtime-lib", ROOT / "compiler", ROOT / "scripts",
               pathlib.Path("/usr/share/common-licenses"), pathlib.Path("/usr/share/perl"), pathlib.Path("/usr/share/doc"),
               pathlib.Path("/usr/share/i18n/locales"), pathlib.Path("/usr/lib/python3"), pathlib.Path("/usr/share/X11/locale")]
    size, texts = 0, []
    for folder in folders:
        taken = 0
        for path in sorted(folder.rglob("*")):
            if taken > most / 5 or size > most or not path.is_file() or path.is_symlink():
                continue
            if (text := readable(path)) and len(text) < 400_000:
                texts.append(text)
                size += len(text.encode())
                taken += len(text.encode())
    return texts


def every_character():
    """Each twice, in other company each time: alone, and with a mark and letters. Of planes for private use, and of what is
    not assigned beyond the first plane, the beginning."""
    known = [chr(c) for c in range(0x110000) if not 0xd800 <= c < 0xe000 and
             (c < 0x10000 or c % 0x10000 < 0x100 or unicodedata.category(chr(c)) not in ("Cn", "Co"))]
    texts = []
    for i in range(0, len(known), 256):
        row = known[i:i + 256]
        texts += [" ".join(row), "".join(f"a{c}\u0301B {c}7" for c in row)]
    return texts


def pack(thunderc, tokenizer, texts, work):
    """The ids of each text, and the seconds of processor time."""
    source, out = work / "texts.jsonl", work / "packed.bin"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([thunderc, "data", "pack", source, "--tokenizer", tokenizer, "--eos", "none", "--threads", "1", "-o", out],
                   check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    data = out.read_bytes()
    version, width, count = struct.unpack_from("<IIQ", data, 8)
    documents, = struct.unpack_from("<Q", data, 40)
    assert version == 2 and documents > 0
    kind = {1: "B", 2: "H", 4: "I"}[width]
    ids = struct.unpack_from(f"<{count}{kind}", data, 64)
    at = (64 + count * width + 7) // 8 * 8
    ends = struct.unpack_from(f"<{documents}Q", data, at)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [ids[a:b] for a, b in zip((0, *ends), ends)], seconds


def named(text, begin, end):
    part = text[begin:end]
    return f"{part!r} ({', '.join(f'U+{ord(c):04X} {unicodedata.name(c, chr(63))}' for c in part[:3])})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("thunderc")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/compare_tokenizers"))
    parser.add_argument("--only")
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--only-mixed", action="store_true", help="without every character of Unicode")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    mixed = mixed_texts(options.megabytes * 1e6)
    sets = [("mixed", mixed)] + ([] if options.only_mixed else [("characters", every_character())])
    bad = 0
    for name, build in fixtures.pipelines(options.vocab, "nmt_nfkc").items():
        if options.only and name != options.only:
            continue
        file = options.work / f"{name}-{options.vocab}.json"
        if not file.exists():
            lines = [line for text in mixed[::7] for line in text.splitlines(keepends=True)]
            build(lines).save(str(file))
        tokenizer = Tokenizer.from_file(str(file))
        for what, texts in sets:
            begin = time.process_time()
            expected = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
            theirs = time.process_time() - begin
            kept = [(text, encoding) for text, encoding in zip(texts, expected) if encoding.ids]
            got, ours = pack(options.thunderc, file, texts, options.work)
            size = sum(len(text.encode()) for text in texts) / 1e6
            different = [i for i, (ids, (_, e)) in enumerate(zip(got, kept)) if list(ids) != e.ids]
            wrong = len(different) + abs(len(got) - len(kept))
            bad += wrong
            print(f"{name:8} {what:10} {size:6.1f} MB {sum(len(e.ids) for _, e in kept):9} ids, {wrong} of {len(kept)} texts differ; "
                  f"{size / ours:5.1f} MB/s, tokenizers {size / theirs:5.1f} MB/s", flush=True)
            for i in different[:5]:
                text, encoding = kept[i]
                at = next((k for k, (a, b) in enumerate(zip(got[i], encoding.ids)) if a != b), len(got[i]) - 1)
                begin, end = encoding.offsets[min(at, len(encoding.ids) - 1)]
                print(f"  text {i}, id {at}: {got[i][at:at + 4]}, expected {encoding.ids[at:at + 4]} of {named(text, begin, end)} in {text[max(0, begin - 10):end + 10]!r}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
