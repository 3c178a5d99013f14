// SPDX-License-Identifier: Apache-2.0
// State dicts of torch.save: a zip archive of a pickle, which says what the tensors are, and of their bytes.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tensor_file.h"
#include "checkpoint/torch_pickle.h"
#include "checkpoint/zip_entries.h"

namespace thunder {

class TorchFile : public TensorFile {
  public:
    // Maps the file and reads what it says of its tensors, and none of these. Of a checkpoint that holds more than a
    // state dict `key` says which one is meant, with dots between keys: "model", "ema.model"; where it is empty, the
    // one that checkpoints call state_dict, model_state_dict, model or module is, else the only one there is, beside
    // optimizers. Fails where there are several, and where the file is damaged or holds more than data.
    TorchFile(const std::string& path, const std::string& key);

    // "its \"model\"; it has ema as well", where that was chosen; "" where the file is one state dict.
    const std::string& chosen() const { return chosen_; }

  private:
    using Index = PickledValue::Index;
    void read();
    Index pick(const TorchPickle& pickle);
    void add_tensors(const TorchPickle& pickle, Index dictionary, const std::string& prefix, std::set<Index>& added);
    void add(const std::string& name, const PickledTensor& tensor);

    std::string key_, chosen_;
    std::unique_ptr<const ZipEntries> entries_;
    std::string folder_;                         // of the archive's entries, with its slash
    std::deque<std::vector<std::byte>> copies_;  // of tensors whose elements do not lie in order
    std::uint64_t copied_ = 0;                   // bytes of these
};

// Whether torch.save wrote the file: an archive, or a pickle or a tar file, as old versions did.
bool is_torch_file(const std::string& path);

// Opens a file of tensors by its first bytes. "FILE#KEY" names a part of one of torch.save.
std::unique_ptr<TensorFile> open_tensor_file(const std::string& path);
// The file that is meant, without a key.
std::string file_of(const std::string& path);

}  // namespace thunder
