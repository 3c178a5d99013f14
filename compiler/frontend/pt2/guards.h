// SPDX-License-Identifier: Apache-2.0
// Conditions on the sizes of inputs that torch.export found in the model beyond their ranges, as it writes them:
// "2*L['x'].size()[0] <= 40", "L['y'].size()[0] != 8".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace thunderc::pt2_frontend {

struct Guard {
    std::string text;           // "2*x.size(0) <= 40"
    std::optional<bool> holds;  // none: of another form, or of what no input is
};

// `size`: of an input's dimension, where there is one.
Guard read_guard(std::string_view code,
                 const std::function<std::optional<std::int64_t>(std::string_view input, std::size_t dimension)>& size);

}  // namespace thunderc::pt2_frontend
