// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include <cstring>
#include <thread>

#include "folder.h"
#include "packing/byte_stream.h"

namespace thunderc {
namespace {

using DocumentsTest = InFolderOfItsOwn;

std::vector<std::string> texts_of(const InputFile& file, const ReadOptions& options) {
    std::vector<std::string> texts;
    const auto source = open_documents(file, options);
    bool ended = true;
    for (Document document; source->next(document);) {
        std::string text = text_of(document.ids);
        for (const ChatPart& part : document.parts) text += part.text;
        if (ended) {
            texts.push_back(text);
        } else {
            texts.back() += text;
        }
        ended = document.ends;
    }
    return texts;
}

std::string gzipped(const std::string& text) {
    z_stream state{};
    deflateInit2(&state, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    std::string out(deflateBound(&state, text.size()), '\0');
    state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    state.avail_in = static_cast<uInt>(text.size());
    state.next_out = reinterpret_cast<Bytef*>(out.data());
    state.avail_out = static_cast<uInt>(out.size());
    deflate(&state, Z_FINISH);
    out.resize(state.total_out);
    deflateEnd(&state);
    return out;
}

std::string zstd(const std::string& text) {
    std::string out(ZSTD_compressBound(text.size()), '\0');
    out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
    return out;
}

TEST_F(DocumentsTest, AreReadFromCompressedFilesOfSeveralMembers) {
    std::string lines, long_text(3 << 19, 'x');
    for (int i = 0; i < 1000; ++i) lines += "{\"text\": \"" + std::to_string(i) + "\"}\n";
    lines += "{\"text\": \"" + long_text + "\"}\n";
    const std::vector<std::string> expected = texts_of(write("a.jsonl", lines), {});
    ASSERT_EQ(expected.size(), 1001U);
    EXPECT_EQ(expected[17], "17");
    EXPECT_EQ(expected.back(), long_text);
    const std::size_t half = lines.find("{\"text\": \"500\"}");
    for (const auto& [name, compress] : {std::pair("a.jsonl.gz", &gzipped), std::pair("b.jsonl.zst", &zstd)}) {
        const std::string whole = compress(lines);
        EXPECT_EQ(texts_of(write(name, whole), {}), expected) << name;
        EXPECT_EQ(texts_of(write(name, compress(lines.substr(0, half)) + compress(lines.substr(half))), {}), expected);
        const std::string file = write(name, whole.substr(0, whole.size() / 2));
        EXPECT_EQ(error_of([&] { texts_of(file, {}); }),
                  "error: " + file + " is damaged: its compressed data end too early\nhelp: copy or write it again");
    }
    // gzip has a sum of what it holds.
    std::string changed = gzipped(lines);
    changed[changed.size() - 6] = static_cast<char>(changed[changed.size() - 6] ^ 1);
    EXPECT_NE(error_of([&] { texts_of(write("a.jsonl.gz", changed), {}); }), "");
}

// A few kilobytes that are gigabytes of text: what is held has a bound.
TEST_F(DocumentsTest, RefuseWhatGrowsWithoutEnd) {
    const std::string bomb = zstd(std::string(1 << 20, '\n')) + zstd(std::string(64 << 20, 'x'));
    EXPECT_LT(bomb.size(), 100000U);
    ReadOptions options;
    options.longest = 1 << 20;
    const std::string lines = write("a.jsonl.zst", bomb), text = write("a.txt.zst", bomb);
    EXPECT_EQ(
        error_of([&] { texts_of(lines, options); }),
        "error: " + lines + ":1048577 is a document of more than 1.0 MB\nhelp: --longest BYTES takes longer ones");
    EXPECT_EQ(error_of([&] { texts_of(text, options); }),
              "error: " + text +
                  " is a document of more than 1.0 MB\nhelp: --split-on TEXT cuts files into documents; "
                  "--longest BYTES takes longer ones");
}

TEST_F(DocumentsTest, AreCutAtATextWhereverReadsEnd) {
    ReadOptions options;
    options.split_on = "<|end|>";
    std::string text;
    std::vector<std::string> expected;
    for (int i = 0; i < 1500; ++i) {
        expected.push_back(std::string(static_cast<std::size_t>(i * 37 % 1500), 'a') + "<|en");
        text += expected.back() + "<|end|>";
    }
    EXPECT_EQ(texts_of(write("a.txt", text), options), expected);
    expected.push_back("rest");
    EXPECT_EQ(texts_of(write("a.txt", text + "rest"), options), expected);
}

TEST_F(DocumentsTest, ThatAreNoUtf8AreRefusedReplacedOrDropped) {
    // Cut short, overlong, a surrogate, beyond the last character, a byte on its own.
    const std::string bad[] = {"ab\xe2\x82", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "x\x80y"};
    const char* const replaced[] = {"ab\xef\xbf\xbd", "\xef\xbf\xbd\xef\xbf\xbd",
                                    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
                                    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "x\xef\xbf\xbdy"};
    for (std::size_t i = 0; i < std::size(bad); ++i) {
        const std::string file = write("a.txt", bad[i]);
        EXPECT_NE(error_of([&] { texts_of(file, {}); }), "");
        ReadOptions options;
        options.invalid = InvalidText::replace;
        EXPECT_EQ(texts_of(file, options), std::vector<std::string>{replaced[i]});
        options.invalid = InvalidText::drop;
        EXPECT_EQ(texts_of(file, options), std::vector<std::string>{});
        options.bytes = true;  // nobody reads them as text
        options.invalid = InvalidText::refuse;
        EXPECT_EQ(texts_of(file, options), std::vector<std::string>{bad[i]});
        options.whole = true;
        EXPECT_EQ(texts_of(file, options), std::vector<std::string>{bad[i]});
        options.longest = 1;
        EXPECT_NE(error_of([&] { texts_of(file, options); }).find(" is a document of more than 1 byte"),
                  std::string::npos);
    }
    const std::string file = write("a.txt", "one\ntwo\nthree\xff");
    EXPECT_EQ(error_of([&] { texts_of(file, {}); }), "error: " + file +
                                                         " is no UTF-8 at byte 13, in line 3 of its text\nhelp: "
                                                         "--invalid replace puts U+FFFD there, --invalid drop leaves "
                                                         "the document out; iconv makes UTF-8 of other encodings");
}

TEST_F(DocumentsTest, OfBrokenLinesAreRefusedWithTheirNumber) {
    const std::string good = "{\"text\": \"good\"}\n";
    std::string deep = "{\"text\": \"x\", \"more\": ";
    for (int i = 0; i < 100000; ++i) deep += '[';
    for (const std::string& bad :
         {std::string("{\"text\": \"half"), std::string("nothing"), std::string("{\"text\": 5}"), std::string("{}"),
          deep, std::string("{\"text\": \"a\", \"text\": \"b\"}"), std::string("{\"text\": \"\\ud83d\"}"),
          std::string("{\"text\": \"\\ude00\"}"), std::string("{\"text\": \"\xff\"}"), std::string("[1, 2]")}) {
        const std::string file = write("a.jsonl", good + "\n" + good + bad + "\n" + good);
        EXPECT_TRUE(error_of([&] { texts_of(file, {}); }).starts_with("error: " + file + ":4 ")) << bad.substr(0, 40);
        ReadOptions options;
        options.invalid = InvalidText::drop;
        EXPECT_EQ(texts_of(file, options), (std::vector<std::string>{"good", "good", "good"}));
    }
    const std::string file = write("a.jsonl", "{\"txt\": \"a\", \"id\": 3}\n");
    EXPECT_EQ(error_of([&] { texts_of(file, {}); }),
              "error: " + file +
                  ":1 has no text \"text\"\nhelp: did you mean --text-field txt? it has txt, id; --text-field NAME "
                  "says where texts are");
    ReadOptions options;
    options.text_field = "txt";
    EXPECT_EQ(texts_of(file, options), std::vector<std::string>{"a"});
}

TEST_F(DocumentsTest, HaveHalvesOfPairsReplacedWhereAsked) {
    ReadOptions options;
    options.invalid = InvalidText::replace;
    const std::string file = write("a.jsonl", R"({"text": "a\ud83db\ude00c\ud83d\ude00d\\ud83d\ud83d\ud83d\ude00"})");
    EXPECT_EQ(texts_of(file, options), std::vector<std::string>{"a\xef\xbf\xbd"
                                                                "b\xef\xbf\xbd"
                                                                "c\xf0\x9f\x98\x80"
                                                                "d\\ud83d\xef\xbf\xbd\xf0\x9f\x98\x80"});
}

TEST_F(DocumentsTest, OfTablesAreRefusedWithTheLineThatConvertsThem) {
    const std::string file = write("a.parquet", "PAR1....");
    EXPECT_EQ(error_of([&] { texts_of(file, {}); }),
              "error: " + file +
                  " is a table of Parquet, which is not read here\nhelp: python -c \"import pandas; "
                  "pandas.read_parquet('" +
                  file + "').to_json('corpus.jsonl', orient='records', lines=True)\" writes it as lines of JSON");
    EXPECT_NE(error_of([&] { texts_of(write("a.arrow", "ARROW1\0\0"), {}); }).find("datasets"), std::string::npos);
}

template <typename T>
std::string bytes_of(std::initializer_list<T> values) {
    std::string bytes;
    for (const T value : values) {
        char raw[sizeof(T)];
        std::memcpy(raw, &value, sizeof value);
        bytes.append(raw, sizeof value);
    }
    return bytes;
}

std::vector<std::vector<std::uint32_t>> ids_of(const std::string& path, InputFormat format = InputFormat::automatic) {
    ReadOptions options;
    options.format = format;
    std::vector<std::vector<std::uint32_t>> documents;
    const auto source = open_documents(path, options);
    for (Document document; source->next(document);) documents.push_back(document.ids);
    return documents;
}

using Documents = std::vector<std::vector<std::uint32_t>>;

// A process that writes a pipe, for as long as this lives.
class PipeOf {
  public:
    PipeOf(const std::string& path, std::string bytes) {
        EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
        writer_ = std::thread([path, bytes = std::move(bytes)] { std::ofstream(path, std::ios::binary) << bytes; });
    }
    PipeOf(const PipeOf&) = delete;
    PipeOf& operator=(const PipeOf&) = delete;
    ~PipeOf() { writer_.join(); }

  private:
    std::thread writer_;
};

// What a file is told by is read once, as a pipe gives it.
TEST_F(DocumentsTest, OfAPipeHaveTheirBeginning) {
    std::string lines;
    for (int i = 0; i < 3000; ++i) lines += "{\"text\": \"line " + std::to_string(i) + "\"}\n";
    const std::vector<std::string> expected = texts_of(write("a.jsonl", lines), {});
    int number = 0;
    for (const std::string& bytes : {lines, gzipped(lines), zstd(lines)}) {
        const std::string name = path("pipe" + std::to_string(number++) + ".jsonl");
        const PipeOf pipe(name, bytes);
        const InputFile file(name);
        EXPECT_EQ(format_of(file, {}), InputFormat::jsonl);
        EXPECT_EQ(texts_of(file, {}), expected);
        EXPECT_EQ(error_of([&] { texts_of(file, {}); }),
                  "error: " + name + " is a pipe, which is read once\nhelp: name it once, or write it to a file");
    }
    const PipeOf text(path("text"), "one text");
    EXPECT_EQ(texts_of(path("text"), {}), std::vector<std::string>{"one text"});
    const PipeOf npy(path("npy"), "\x93NUMPY and so on");
    EXPECT_EQ(error_of([&] { texts_of(path("npy"), {}); }),
              "error: " + path("npy") +
                  " is a pipe, and tokens are read from files\nhelp: write them to a file, and name that");
}

TEST_F(DocumentsTest, OfBytesEndWhereTheirFileEnds) {
    ReadOptions options;
    options.bytes = true;
    for (const std::size_t size : {1U, (1U << 20) - 1, 1U << 20, (1U << 20) + 1, 1U << 21, (1U << 21) + 1}) {
        const auto source = open_documents(write("a", std::string(size, 'a')), options);
        std::size_t begins = 0, ends = 0, bytes = 0;
        for (Document document; source->next(document);) {
            begins += document.begins ? 1 : 0;
            ends += document.ends ? 1 : 0;
            bytes += document.parts[0].text.size();
        }
        EXPECT_EQ(bytes, size);
        EXPECT_EQ(begins, 1U) << size;
        EXPECT_EQ(ends, 1U) << size;
    }
    const auto none = open_documents(write("a", ""), options);
    Document document;
    EXPECT_FALSE(none->next(document));
}

TEST_F(DocumentsTest, OfTokensAreThoseThatOtherProgramsWrote) {
    const std::string ids = bytes_of<std::uint16_t>({1, 2, 65535, 4, 5});
    EXPECT_EQ(ids_of(write("n.bin", ids), InputFormat::nanogpt), (Documents{{1, 2, 65535, 4, 5}}));
    EXPECT_NE(error_of([&] { ids_of(write("n.bin", ids + "x"), InputFormat::nanogpt); }), "");

    std::string header = bytes_of<std::int32_t>({20240520, 1, 5});
    header.resize(1024);
    EXPECT_EQ(ids_of(write("l.bin", header + ids)), (Documents{{1, 2, 65535, 4, 5}}));
    EXPECT_NE(error_of([&] { ids_of(write("l.bin", header + ids.substr(2))); }), "");
    header = bytes_of<std::int32_t>({20240801, 7, 2});
    header.resize(1024);
    EXPECT_EQ(ids_of(write("l.bin", header + bytes_of<std::uint32_t>({70000, 3}))), (Documents{{70000, 3}}));

    // Three sequences, the first two of which are a document.
    std::string index = std::string("MMIDIDX\0\0", 9) + bytes_of<std::uint64_t>({1}) + '\x08' +
                        bytes_of<std::uint64_t>({3, 3}) + bytes_of<std::int32_t>({1, 2, 2}) +
                        bytes_of<std::int64_t>({0, 2, 6}) + bytes_of<std::int64_t>({0, 2, 3});
    write("m.idx", index);
    EXPECT_EQ(ids_of(write("m.bin", ids), InputFormat::megatron), (Documents{{1, 2, 65535}, {4, 5}}));
    std::string short_index = index;
    short_index.replace(short_index.size() - 8, 8, bytes_of<std::int64_t>({2}));
    write("m.idx", short_index);
    EXPECT_EQ(
        error_of([&] { ids_of(path("m.bin"), InputFormat::megatron); }),
        "error: " + path("m.idx") +
            " is damaged, or no such file of tokens: 1 sequence at its end is in no document\nhelp: copy it again, "
            "or name its kind with --format");
    for (std::size_t length = 0; length < index.size(); ++length) {
        write("m.idx", index.substr(0, length));
        EXPECT_NE(error_of([&] { ids_of(path("m.bin"), InputFormat::megatron); }), "") << length;
    }

    const auto npy = [](const std::string& type, const std::string& shape, const std::string& data) {
        std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
        return std::string("\x93NUMPY\x01\0", 8) +
               bytes_of<std::uint16_t>({static_cast<std::uint16_t>(header.size())}) + header + data;
    };
    EXPECT_EQ(ids_of(write("a.npy", npy("<u2", "(5,)", ids))), (Documents{{1, 2, 65535, 4, 5}}));
    EXPECT_EQ(ids_of(write("a.npy", npy("<i8", "(2, 2)", bytes_of<std::int64_t>({1, 2, 3, 4})))),
              (Documents{{1, 2}, {3, 4}}));
    EXPECT_EQ(error_of([&] { ids_of(write("a.npy", npy("<i8", "(1,)", bytes_of<std::int64_t>({-1})))); }),
              "error: " + path("a.npy") + ": token 0 is -1, which is no id\nhelp: check what the file holds");
    EXPECT_NE(error_of([&] { ids_of(write("a.npy", npy("<f4", "(1,)", "abcd"))); }).find("no array of integers"),
              std::string::npos);
    EXPECT_NE(error_of([&] { ids_of(write("a.npy", npy("<u2", "(9,)", ids))); }), "");
    EXPECT_NE(error_of([&] { ids_of(write("a.npy", npy("<u2", "(4294967296, 4294967296)", ids))); }), "");
}

}  // namespace
}  // namespace thunderc
