// SPDX-License-Identifier: Apache-2.0
// What --lora says: "r=16,alpha=32,targets=q_proj|v_proj,rslora". Part of the pass add_adapters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thunderc {

// The names and the defaults are those of PEFT's LoraConfig, but for targets, of which it has a list for each
// architecture.
struct LoraOptions {
    std::int64_t rank = 8;
    double alpha = 8;
    bool rank_stabilized = false;
    double dropout = 0;
    // ECMAScript: the whole path of a module, or its last parts ("q_proj", "self_attn\.q_proj"); or all_linear.
    std::string targets{all_linear};
    std::string modules_to_save;  // the same; "": none

    static constexpr std::string_view all_linear = "all-linear";

    double scale() const;
    bool operator==(const LoraOptions&) const = default;
};

// Throws UsageError where the text says something else.
LoraOptions parse_lora(const std::string& text);

}  // namespace thunderc
