// SPDX-License-Identifier: Apache-2.0
#include "program/inputs.h"

#include <span>
#include <vector>

#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

template <typename T>
std::int64_t find_bad(const InputSpec& input, const std::byte* values) {
    const auto* ids = reinterpret_cast<const T*>(values);
    const auto count = static_cast<std::int64_t>(input.bytes / sizeof(T));
    const IdRange all{input.entries, input.ignore_index};
    for (std::int64_t i = 0; i < count; ++i) {
        if (!(input.columns.empty() ? all : ids_at(input, i)).holds(ids[i])) return i;
    }
    return -1;
}

// The index of an element: "[1, 3]".
std::string position_text(std::span<const std::int64_t> shape, std::int64_t element) {
    std::vector<std::int64_t> index(shape.size());
    for (std::size_t i = shape.size(); i-- > 0;) {
        index[i] = element % shape[i];
        element /= shape[i];
    }
    return shape_text(index);
}

// Looked up in a table of words, or in the classes of a loss. Of any other integer only the range is known: it is
// looked up in a table too, or its type in the model is narrower than the program's.
bool holds_ids(const InputSpec& input) {
    return input.source == "tokens" || input.source == "next_tokens";
}

// "sparse[:, 1]"
std::string column_text(const InputSpec& input, std::int64_t position) {
    std::string before;
    for (std::size_t d = 0; d < input.column_axis; ++d) before += ":, ";
    return cat(input.name, "[", before, position, "]");
}

std::int64_t id_at(const InputSpec& input, const std::byte* values, std::int64_t element) {
    return input.dtype == DType::i64 ? reinterpret_cast<const std::int64_t*>(values)[element]
                                     : reinterpret_cast<const std::int32_t*>(values)[element];
}

std::string help_for(const InputSpec& input, const std::byte* values, std::int64_t element) {
    // torch's mark of what a loss ignores, in what is no label alone
    if (id_at(input, values, element) == -100 && ids_at(input, element).ignore_index != -100)
        return cat("-100 is for labels, and the model looks ", input.name,
                   " up in a table as well: was it exported with ",
                   "one tensor for its ids and its labels? Export it again with a tensor for each");
    return holds_ids(input) ? "the batches were made with another vocabulary than the model's"
                            : "the model can use no others: look at how the batches were made";
}

}  // namespace

IdRange ids_at(const InputSpec& input, std::int64_t element) {
    if (input.columns.empty()) return {input.entries, input.ignore_index};
    for (std::size_t d = input.shape.size(); d-- > input.column_axis + 1;) element /= input.shape[d];
    const std::int64_t position = element % input.shape[input.column_axis];
    const ColumnSpec* column = input.columns.data();
    while (column->end <= position) ++column;
    return {column->entries, column->ignore_index, column, position};
}

std::int64_t find_bad_id(const InputSpec& input, const std::byte* values) {
    if (input.entries < 0 && input.columns.empty()) return -1;
    if (input.dtype == DType::i64) return find_bad<std::int64_t>(input, values);
    if (input.dtype == DType::i32) return find_bad<std::int32_t>(input, values);
    return -1;
}

std::string bad_id_text(const InputSpec& input, const std::byte* values, std::int64_t element) {
    const std::int64_t id = id_at(input, values, element);
    if (const IdRange ids = ids_at(input, element); ids.column != nullptr)
        return cat("is ", id, ", and ", column_text(input, ids.position), " takes 0 to ", ids.entries - 1,
                   ids.ignore_index != 0 ? cat(", or ", ids.ignore_index, " where there is none") : "",
                   ids.column->table.empty() ? "" : cat(": these are the rows of ", ids.column->table));
    return cat("is ", id, ", and ", holds_ids(input) ? "ids go from" : cat(input.name, " takes"), " 0 to ",
               input.entries - 1,
               input.ignore_index != 0 ? cat(", or ", input.ignore_index, " where there is none") : "");
}

void read_input(const std::string& path, const StoredTensor& tensor, const InputSpec& input, std::size_t first,
                std::byte* values) {
    const std::size_t count = input.bytes / size_of(input.dtype);
    if (!read_elements(tensor, input.dtype, first, count, values)) {
        fail(cat(path, ": ", tensor.name, " holds numbers that ", input.name, " (", stored_name(input.dtype),
                 ") cannot"),
             "write numbers from -2147483648 to 2147483647");
    }
    const std::int64_t bad = find_bad_id(input, values);
    if (bad < 0) return;
    fail(cat(path, ": ", tensor.name, position_text(tensor.shape, static_cast<std::int64_t>(first) + bad), " ",
             bad_id_text(input, values, bad)),
         help_for(input, values, bad));
}

}  // namespace thunder
