#include "data/batch_source.h"

#include "support/text.h"

namespace thunder {

namespace {

template <typename T>
std::int64_t find_bad(const InputSpec& input, const std::byte* values) {
    const auto* ids = reinterpret_cast<const T*>(values);
    const auto count = static_cast<std::int64_t>(input.bytes / sizeof(T));
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t id = ids[i];
        if ((id < 0 || id >= input.entries) && id != input.ignore_index) return i;
    }
    return -1;
}

}  // namespace

std::int64_t find_bad_id(const InputSpec& input, const std::byte* values) {
    if (input.entries < 0) return -1;
    if (input.dtype == DType::i64) return find_bad<std::int64_t>(input, values);
    if (input.dtype == DType::i32) return find_bad<std::int32_t>(input, values);
    return -1;
}

std::string bad_id_text(const InputSpec& input, const std::byte* values, std::int64_t element) {
    const std::int64_t id = input.dtype == DType::i64 ? reinterpret_cast<const std::int64_t*>(values)[element]
                                                      : reinterpret_cast<const std::int32_t*>(values)[element];
    const std::string ignored = input.ignore_index != 0 ? cat(", or ", input.ignore_index, " where there is none") : "";
    return cat("is ", id, ", and ids go from 0 to ", input.entries - 1, ignored);
}

std::unique_ptr<BatchSource> make_batch_source(const ProgramSpec& program, const Options& options,
                                               const BatchCut& cut) {
    return options.feed.empty() ? make_token_windows(program, options, cut) : make_feed(program, options.feed, cut);
}

}  // namespace thunder
