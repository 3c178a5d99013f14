// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_file.h"

#include <algorithm>
#include <functional>

namespace thunder {

const StoredTensor* TensorFile::find(std::string_view name) const {
    const auto at =
        std::lower_bound(tensors_.begin(), tensors_.end(), name,
                         [](const StoredTensor& tensor, std::string_view key) { return tensor.name < key; });
    return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

std::vector<std::string> TensorFile::names() const {
    std::vector<std::string> names;
    for (const StoredTensor& tensor : tensors_) names.push_back(tensor.name);
    return names;
}

void TensorFile::release(const StoredTensor& tensor) const {
    // What was copied out of the file is no part of it.
    const std::byte *begin = file_.bytes().data(), *end = begin + file_.bytes().size();
    const std::byte* at = tensor.bytes.data();
    if (std::greater_equal<>()(at, begin) && std::less<>()(at, end)) file_.release(tensor.bytes);
}

void TensorFile::sort_by_name() {
    std::sort(tensors_.begin(), tensors_.end(),
              [](const StoredTensor& a, const StoredTensor& b) { return a.name < b.name; });
}

}  // namespace thunder
