// SPDX-License-Identifier: Apache-2.0
#include "packing/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "support/error.h"
#include "support/file.h"
#include "support/text.h"

namespace thunderc {

namespace {

using thunder::cat;
using thunder::fail;

constexpr std::size_t buffer_bytes = 1 << 18;

class PlainStream : public ByteStream {
  public:
    explicit PlainStream(std::string path) : path_(std::move(path)) {
        if (thunder::is_folder(path_)) fail(cat("cannot read ", path_, ": it is a folder"), "name a file");
        descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
        if (descriptor_ < 0) fail(cat("cannot read ", path_, ": ", std::strerror(errno)), "check the name of the file");
    }
    ~PlainStream() override { close(descriptor_); }

    // Bytes that were read, to be read again.
    void put_back(std::string_view bytes) { back_.insert(0, bytes); }

    std::size_t read(char* to, std::size_t size) override {
        std::size_t got = back_.copy(to, size);
        back_.erase(0, got);
        while (got < size) {
            const ssize_t more = ::read(descriptor_, to + got, size - got);
            if (more < 0 && errno == EINTR) continue;
            if (more < 0)
                fail(cat("cannot read all of ", path_, ": ", std::strerror(errno)), "check the disk that it lies on");
            if (more == 0) break;
            got += static_cast<std::size_t>(more);
            taken_ += static_cast<std::uint64_t>(more);
        }
        return got;
    }
    std::uint64_t bytes_taken() const override { return taken_; }

  private:
    std::string path_;
    int descriptor_ = -1;
    std::string back_;
    std::uint64_t taken_ = 0;
};

[[noreturn]] void fail_compressed(const std::string& path, const std::string& why) {
    fail(cat(path, " is damaged: ", why), "copy or write it again");
}

// What both formats share: a file behind it, and a buffer of what is still compressed.
class CompressedStream : public ByteStream {
  public:
    CompressedStream(std::string path, std::unique_ptr<PlainStream> file)
        : path_(std::move(path)), file_(std::move(file)), buffer_(buffer_bytes) {}
    std::uint64_t bytes_taken() const override { return file_->bytes_taken(); }

  protected:
    // False at the end of the file.
    bool fill() {
        held_ = file_->read(buffer_.data(), buffer_.size());
        return held_ > 0;
    }

    std::string path_;
    std::unique_ptr<PlainStream> file_;
    std::vector<char> buffer_;
    std::size_t held_ = 0;  // in the buffer
};

class GzipStream : public CompressedStream {
  public:
    GzipStream(const std::string& path, std::unique_ptr<PlainStream> file) : CompressedStream(path, std::move(file)) {
        constexpr int gzip_alone = 15 + 16;
        if (inflateInit2(&state_, gzip_alone) != Z_OK) fail_compressed(path_, "zlib does not begin");
    }
    ~GzipStream() override { inflateEnd(&state_); }

    std::size_t read(char* to, std::size_t size) override {
        state_.next_out = reinterpret_cast<Bytef*>(to);
        state_.avail_out = static_cast<uInt>(std::min<std::size_t>(size, 1 << 30));
        const std::size_t wanted = state_.avail_out;
        while (state_.avail_out > 0) {
            if (state_.avail_in == 0) {
                if (!fill()) {
                    if (!at_member_end_) fail_compressed(path_, "its compressed data end too early");
                    break;
                }
                state_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
                state_.avail_in = static_cast<uInt>(held_);
            }
            if (at_member_end_) {  // members may follow each other, as `cat` makes of two files
                inflateReset(&state_);
                at_member_end_ = false;
            }
            const int result = inflate(&state_, Z_NO_FLUSH);
            if (result == Z_STREAM_END) {
                at_member_end_ = true;
            } else if (result != Z_OK && result != Z_BUF_ERROR) {
                fail_compressed(path_, state_.msg != nullptr ? state_.msg : "it is no gzip");
            }
        }
        return wanted - state_.avail_out;
    }

  private:
    z_stream state_{};
    bool at_member_end_ = false;
};

class ZstdStream : public CompressedStream {
  public:
    ZstdStream(const std::string& path, std::unique_ptr<PlainStream> file)
        : CompressedStream(path, std::move(file)), state_(ZSTD_createDStream()) {
        if (state_ == nullptr) fail_compressed(path_, "zstd does not begin");
    }
    ~ZstdStream() override { ZSTD_freeDStream(state_); }

    std::size_t read(char* to, std::size_t size) override {
        ZSTD_outBuffer out{to, size, 0};
        while (out.pos < out.size) {
            if (in_.pos == in_.size) {
                if (!fill()) {
                    if (within_frame_) fail_compressed(path_, "its compressed data end too early");
                    break;
                }
                in_ = {buffer_.data(), held_, 0};
            }
            const std::size_t result = ZSTD_decompressStream(state_, &out, &in_);
            if (ZSTD_isError(result) != 0) fail_compressed(path_, ZSTD_getErrorName(result));
            within_frame_ = result != 0;
        }
        return out.pos;
    }

  private:
    ZSTD_DStream* state_;
    ZSTD_inBuffer in_{nullptr, 0, 0};
    bool within_frame_ = false;
};

// One opening of the file: what it begins with is read once, as a pipe gives it.
std::unique_ptr<ByteStream> open_stream(const std::string& path) {
    auto file = std::make_unique<PlainStream>(path);
    char begin[4] = {};
    const std::size_t size = file->read(begin, sizeof begin);
    const std::string_view text(begin, size);
    file->put_back(text);
    if (text.starts_with("\x1f\x8b")) return std::make_unique<GzipStream>(path, std::move(file));
    if (text.starts_with("\x28\xb5\x2f\xfd")) return std::make_unique<ZstdStream>(path, std::move(file));
    return file;
}

// A stream of which the beginning was looked at.
class SeenStream : public ByteStream {
  public:
    SeenStream(std::string seen, std::unique_ptr<ByteStream> rest) : seen_(std::move(seen)), rest_(std::move(rest)) {}

    std::size_t read(char* to, std::size_t size) override {
        const std::size_t got = seen_.copy(to, size);
        seen_.erase(0, got);
        return got + (got < size ? rest_->read(to + got, size - got) : 0);
    }
    std::uint64_t bytes_taken() const override { return rest_->bytes_taken(); }

  private:
    std::string seen_;
    std::unique_ptr<ByteStream> rest_;
};

}  // namespace

struct InputFile::Opened {
    std::unique_ptr<ByteStream> stream;  // null once it was handed out
    std::string seen;                    // of it
};

bool InputFile::is_pipe() const {
    struct stat status {};
    return stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

std::string InputFile::beginning(std::size_t size) const {
    const bool pipe = is_pipe();
    if (pipe && pipe_ == nullptr) pipe_ = std::make_shared<Opened>(Opened{open_stream(path_), {}});
    Opened here = pipe ? Opened{} : Opened{open_stream(path_), {}};
    Opened& opened = pipe ? *pipe_ : here;
    if (opened.stream != nullptr && opened.seen.size() < size) {
        const std::size_t had = opened.seen.size();
        opened.seen.resize(size);
        opened.seen.resize(had + opened.stream->read(opened.seen.data() + had, size - had));
    }
    return opened.seen.substr(0, size);
}

std::unique_ptr<ByteStream> InputFile::open() const {
    if (!is_pipe()) return open_stream(path_);
    if (pipe_ == nullptr) pipe_ = std::make_shared<Opened>(Opened{open_stream(path_), {}});
    if (pipe_->stream == nullptr)
        fail(cat(path_, " is a pipe, which is read once"), "name it once, or write it to a file");
    return std::make_unique<SeenStream>(std::exchange(pipe_->seen, {}), std::move(pipe_->stream));
}

}  // namespace thunderc
