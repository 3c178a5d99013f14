// SPDX-License-Identifier: Apache-2.0
// Where packed tokens go: one file, or a folder of shards that a pack can go on with.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "data/corpus.h"
#include "data/token_file.h"
#include "packing/packer.h"
#include "support/file.h"

namespace thunderc {

// How far a pack came: what is behind these is not in a whole shard yet.
struct PackedSoFar {
    std::uint64_t records = 0;  // documents, or parts of them, as the sources give them
    std::uint64_t skip = 0;     // ids of the next one
};

class ShardWriter {
  public:
    // `inputs` tells one pack from another: a folder with an unfinished pack of something else is refused.
    ShardWriter(const PackOptions& options, const std::string& inputs);

    // Where to go on; all 0 at the beginning.
    const PackedSoFar& found() const { return found_; }
    std::uint64_t shards_found() const { return shards_found_; }

    // The ids of the next record, of which the first found().skip were written before.
    void add(const EncodedDocument& encoded, bool ends);
    // Ends the last file and, of a folder, its list. Fails where there is no token.
    void finish();

    std::uint64_t tokens() const;
    std::uint64_t shards() const { return corpus_.shards.size(); }
    const thunder::Corpus& corpus() const { return corpus_; }

  private:
    bool in_folder() const { return options_.shard_tokens > 0; }
    void open_folder(const std::string& inputs);
    void begin_shard();
    void end_shard();
    void write(std::span<const std::uint32_t> ids, std::span<const std::uint8_t> trained);
    void write_unfinished() const;
    void write_list(std::string_view name, const std::string& text) const;

    const PackOptions& options_;
    std::string inputs_;
    std::optional<thunder::FolderLock> lock_;
    thunder::Corpus corpus_;  // of whole shards
    std::unique_ptr<thunder::TokenFileWriter> writer_;
    std::string path_;           // of the file that is written
    std::uint64_t trained_ = 0;  // in it
    PackedSoFar found_, done_;
    std::uint64_t shards_found_ = 0;
};

}  // namespace thunderc
