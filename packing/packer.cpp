// SPDX-License-Identifier: Apache-2.0
#include "packing/packer.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "data/fingerprint.h"
#include "packing/shards.h"
#include "support/error.h"
#include "support/text.h"

namespace thunderc {

namespace {

using thunder::cat;

// Some documents, which one thread encodes.
struct Batch {
    std::vector<Document> documents;
    std::vector<EncodedDocument> encoded;
    std::size_t bytes = 0;     // about, of the documents
    std::exception_ptr error;  // of reading or encoding: whoever comes to it in the order throws it
    bool done = false;
};

// A reader makes batches, workers encode them, and who owns this takes them in the order in which they were read.
class Pipeline {
  public:
    Pipeline(const PackOptions& options, std::uint64_t skipped) : options_(options), skipped_(skipped) {
        const int workers = std::max(1, options.threads);
        most_batches_ = 4 * static_cast<std::size_t>(workers) + 4;
        try {
            reader_ = std::thread([this] { read(); });
            for (int i = 0; i < workers; ++i) workers_.emplace_back([this] { encode(); });
        } catch (const std::system_error& error) {
            stop();
            thunder::fail(cat("cannot begin a thread: ", error.what()), "--threads N with a smaller number");
        }
    }
    Pipeline(const Pipeline&) = delete;
    Pipeline& operator=(const Pipeline&) = delete;
    ~Pipeline() { stop(); }

    // Null behind the last one.
    std::unique_ptr<Batch> next() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return in_order_.empty() ? all_read_ : in_order_.front()->done; });
        if (in_order_.empty()) return nullptr;
        std::unique_ptr<Batch> batch = std::move(in_order_.front());
        in_order_.pop_front();
        held_bytes_ -= batch->bytes;
        lock.unlock();
        changed_.notify_all();
        if (batch->error) std::rethrow_exception(batch->error);
        return batch;
    }

    std::uint64_t bytes_taken() const { return bytes_taken_; }
    // Behind the last batch: documents that were left out of all files.
    std::uint64_t dropped() const { return dropped_; }

  private:
    void stop() {
        {
            const std::lock_guard lock(mutex_);
            stopped_ = true;
        }
        changed_.notify_all();
        if (reader_.joinable()) reader_.join();
        for (std::thread& worker : workers_) worker.join();
    }

    // False where nobody wants it. What is held is bounded by its bytes: a document that is larger than that has
    // nothing beside it but the one that is read next.
    bool hand_over(std::unique_ptr<Batch> batch) {
        std::unique_lock lock(mutex_);
        const std::size_t most_bytes = most_batches_ * options_.batch_bytes;
        changed_.wait(lock, [&] {
            return stopped_ || in_order_.empty() ||
                   (in_order_.size() < most_batches_ && held_bytes_ + batch->bytes <= most_bytes);
        });
        if (stopped_) return false;
        held_bytes_ += batch->bytes;
        if (!batch->error) to_encode_.push_back(batch.get());
        batch->done = batch->error != nullptr;
        in_order_.push_back(std::move(batch));
        lock.unlock();
        changed_.notify_all();
        return true;
    }

    void read() {
        auto batch = std::make_unique<Batch>();
        try {
            read_files(batch);
        } catch (...) {
            if (batch != nullptr && !batch->documents.empty()) hand_over(std::move(batch));
            batch = std::make_unique<Batch>();
            batch->error = std::current_exception();
        }
        if (batch != nullptr && (!batch->documents.empty() || batch->error)) hand_over(std::move(batch));
        {
            const std::lock_guard lock(mutex_);
            all_read_ = true;
        }
        changed_.notify_all();
    }

    // `batch` is the last one, which nobody has yet; null where nobody wants more.
    void read_files(std::unique_ptr<Batch>& batch) {
        std::uint64_t records = 0, bytes_before = 0;
        for (const InputFile& file : options_.files) {
            const std::unique_ptr<DocumentSource> source = open_documents(file, options_.read);
            for (Document document; source->next(document);) {
                bytes_taken_ = bytes_before + source->bytes_taken();
                if (records++ < skipped_) continue;
                batch->bytes += 64 + document.ids.size() * 4;
                for (const ChatPart& part : document.parts) batch->bytes += part.text.size();
                batch->documents.push_back(std::move(document));
                if (batch->bytes < options_.batch_bytes) continue;
                if (!hand_over(std::move(batch))) return;
                batch = std::make_unique<Batch>();
            }
            dropped_ += source->dropped();
            bytes_before += source->bytes_taken();
            bytes_taken_ = bytes_before;
        }
    }

    void encode() {
        std::unique_ptr<Encoder> encoder;
        for (;;) {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return stopped_ || all_read_ || !to_encode_.empty(); });
            if (stopped_ || to_encode_.empty()) return;
            Batch& batch = *to_encode_.front();
            to_encode_.pop_front();
            lock.unlock();
            try {
                if (encoder == nullptr && options_.tokenizer != nullptr)
                    encoder = std::make_unique<Encoder>(*options_.tokenizer);
                for (Document& document : batch.documents) {
                    batch.encoded.push_back(encoded(document, encoder.get()));
                    document.parts.clear();
                    document.ids = {};
                }
            } catch (...) {
                batch.error = std::current_exception();
            }
            lock.lock();
            batch.done = true;
            lock.unlock();
            changed_.notify_all();
        }
    }

    EncodedDocument encoded(const Document& document, Encoder* encoder) const {
        try {
            return encode_document(document, options_, encoder);
        } catch (const thunder::Error& error) {
            thunder::fail(cat(document.where, ": ", error.message()), error.help());
        }
    }

    const PackOptions& options_;
    std::uint64_t skipped_;  // documents that are in shards already
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::unique_ptr<Batch>> in_order_;
    std::deque<Batch*> to_encode_;
    std::size_t most_batches_ = 0, held_bytes_ = 0;  // in_order_ has
    bool all_read_ = false, stopped_ = false;
    std::atomic<std::uint64_t> bytes_taken_ = 0, dropped_ = 0;
    std::thread reader_;
    std::vector<std::thread> workers_;
};

// All that the shards follow from: the files as they are now, the tokenizer and the options.
std::string inputs_of(const PackOptions& options) {
    std::string all = cat(options.tokenizer_name, " ", options.vocabulary, " ", options.end ? cat(*options.end) : "",
                          " ", options.add_special, options.keep_documents, " ", options.shard_tokens, " ",
                          static_cast<int>(options.read.format), " ", static_cast<int>(options.read.invalid),
                          options.read.bytes, " ", options.read.text_field, "\n", options.read.split_on, "\n");
    if (const auto& chat = options.read.chat) {
        all += cat(chat->name, chat->begin, chat->end, chat->user_with_system, chat->trim);
        for (const TurnTemplate* turn : {&chat->system, &chat->user, &chat->assistant})
            all += cat(turn->before, "\n", turn->content, "\n", turn->behind, "\n", turn->given);
    }
    for (const InputFile& file : options.files) {
        struct stat status {};
        stat(file.path().c_str(), &status);
        all += cat(file.path(), " ", status.st_size, " ", status.st_mtim.tv_sec, " ", status.st_mtim.tv_nsec, "\n");
    }
    return thunder::hex(hash_of_text(all));
}

// 0 where one does not say.
std::uint64_t bytes_of(const std::vector<InputFile>& files) {
    std::uint64_t bytes = 0;
    for (const InputFile& file : files) {
        if (file.is_pipe()) return 0;
        struct stat status {};
        if (stat(file.path().c_str(), &status) == 0) bytes += static_cast<std::uint64_t>(status.st_size);
    }
    return bytes;
}

}  // namespace

PackResult pack_documents(const PackOptions& options, const std::function<void(const PackProgress&)>& progress) {
    ShardWriter shards(options, inputs_of(options));
    PackProgress now;
    now.all_bytes = bytes_of(options.files);
    PackResult result;
    {
        Pipeline pipeline(options, shards.found().records);
        while (const std::unique_ptr<Batch> batch = pipeline.next()) {
            for (std::size_t i = 0; i < batch->documents.size(); ++i) {
                const Document& document = batch->documents[i];
                try {
                    shards.add(batch->encoded[i], document.ends);
                } catch (const thunder::Error& error) {
                    if (!document.has_ids) throw;
                    thunder::fail(cat(document.where, ": ", error.message()), error.help());
                }
                now.documents += document.ends ? 1 : 0;
            }
            now.bytes = pipeline.bytes_taken();
            now.tokens = shards.tokens();
            now.shards = shards.shards();
            if (progress) progress(now);
        }
        result.dropped = pipeline.dropped();
    }
    shards.finish();
    const thunder::Corpus& corpus = shards.corpus();
    result.tokens = corpus.tokens();
    result.documents = corpus.documents();
    result.shards = corpus.shards.size();
    result.shards_found = shards.shards_found();
    for (const thunder::CorpusShard& shard : corpus.shards) result.trained += shard.trained;
    return result;
}

}  // namespace thunderc
