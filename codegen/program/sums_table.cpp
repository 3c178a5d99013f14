// SPDX-License-Identifier: Apache-2.0
#include "codegen/program/sums_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "codegen/host/parameters.h"
#include "compiler/ir/structure.h"
#include "compiler/planned/scaling_places.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Rows of one arena whose bytes add up to what the arena has.
class SumsTable {
  public:
    explicit SumsTable(const ProgramLayout& layout) : layout_(layout), rows_(layout.rows()) {}

    std::string text() {
        out_ = "| arena | of it | bytes |\n|---|---|---:|\n";
        tensors("parameters");
        if (bytes_of("gathered") > 0) units("gathered", "parameters");
        if (layout_.trains() || bytes_of("gradients") > 0) like_parameters("gradients", "gradient");
        if (bytes_of("narrow_copies") > 0)
            like_parameters("narrow_copies", std::string(name_of(layout_.compute_dtype())) + " copy");
        if (layout_.trains()) like_parameters("optimizer", "state");
        if (bytes_of("unit_gradients") > 0) units("unit_gradients", "gradients");
        tensors("saved");
        if (bytes_of("scaling") > 0) scaling();
        scratch();
        tensors("constants");
        tensors("batch");
        if (!layout_.trains()) tensors("results");
        return out_;
    }

  private:
    std::int64_t bytes_of(const std::string& arena) const {
        const auto at = layout_.module().arena_bytes.find(arena);
        return at == layout_.module().arena_bytes.end() ? 0 : at->second;
    }

    void line(const std::string& what, std::int64_t bytes) {
        parts_ += fmt::format("| | {} | {} |\n", what, bytes);
        sum_ += bytes;
    }

    // What belongs to parameters begins at the same multiples of elements in all its arenas: at whole cache lines in
    // that of the smallest type.
    std::int64_t alignment_in(const std::string& arena) const {
        constexpr std::int64_t cache_line = 64;
        std::size_t least = 4, own = 0;
        for (const Function& f : layout_.module().functions)
            for (std::size_t k = 0; k < f.argument_info.size(); ++k) {
                const ArgInfo::Kind kind = f.argument_info[k].kind;
                if (kind != ArgInfo::Kind::parameter && kind != ArgInfo::Kind::state) continue;
                if (is_state(f.argument_info[k], scaling_state)) continue;  // lies beside no parameter
                const ValueInfo& info = f.info(f.arguments[k]);
                least = std::min(least, size_of(info.type.dtype));
                if (name_of(info.placement.arena) != arena) continue;
                own = own == 0 ? size_of(info.type.dtype) : std::min(own, size_of(info.type.dtype));
            }
        return own == 0 ? cache_line : cache_line / static_cast<std::int64_t>(least) * static_cast<std::int64_t>(own);
    }

    // The arena, and below it its lines; what these leave are gaps.
    void finish(const std::string& arena) {
        const std::int64_t gaps = bytes_of(arena) - sum_;
        check(gaps >= 0, fmt::format("the tensors of the arena {} are larger than it is", arena));
        if (gaps > 0)
            line(fmt::format("gaps, since tensors begin at multiples of {} bytes", alignment_in(arena)), gaps);
        out_ += fmt::format("| **{}** | | **{}** |\n", arena, bytes_of(arena)) + parts_;
        parts_.clear();
        sum_ = 0;
    }

    void scaling() {
        const planning::ScalingPlaces places = planning::place_scaling(layout_.module());
        const auto tensors = static_cast<std::int64_t>(places.tensors.size());
        if (tensors > 0)
            line(fmt::format("{} amaxes, scales and histories", tensors), tensors * (2 + places.history) * 4);
        if (places.codes > 0)
            line("weights as codes, of which the first micro-step of a step makes new ones", places.codes);
        finish("scaling");
    }

    // The structs of the layers, the largest other tensors, and the rest of them in one line.
    void tensors(const std::string& arena) {
        constexpr std::size_t shown = 12;
        std::vector<const LayoutRow*> single;
        for (const LayerStruct& s : layout_.structs()) {
            // Those that lie in slots, and those of which each layer has its own.
            std::map<std::int64_t, std::pair<std::int64_t, std::size_t>> parts;  // by number: bytes, tensors
            for (const LayerField& f : s.fields) {
                if (name_of(f.arena) != arena) continue;
                auto& [bytes, count] = parts[f.slots > 0 ? f.slots : s.layers];
                bytes += static_cast<std::int64_t>(f.type.bytes());
                ++count;
            }
            for (const auto& [number, part] : parts)
                line(fmt::format("{}: {} {} of {} bytes in {} tensor{}", s.function, number,
                                 number == s.layers ? "layers" : "slots", part.first, part.second,
                                 part.second == 1 ? "" : "s"),
                     part.first * number);
        }
        for (const LayoutRow& row : rows_)
            if (row.arena == arena && row.name.find('.') == std::string::npos) single.push_back(&row);
        std::stable_sort(single.begin(), single.end(),
                         [](const LayoutRow* a, const LayoutRow* b) { return total(*a) > total(*b); });
        std::int64_t smaller = 0;
        for (std::size_t k = 0; k < single.size(); ++k) {
            const LayoutRow& row = *single[k];
            if (k >= shown)
                smaller += total(row);
            else
                line(fmt::format("{}{} {}", row.name, row.count == 1 ? "" : fmt::format(": {} layers of", row.count),
                                 row.shape),
                     total(row));
        }
        if (smaller > 0) line(fmt::format("{} smaller ones", single.size() - shown), smaller);
        finish(arena);
    }

    static std::int64_t total(const LayoutRow& row) { return static_cast<std::int64_t>(row.type.bytes()) * row.count; }

    void units(const std::string& arena, const std::string& what) {
        line(fmt::format("whole {} of one unit after the other; those of a loop's layers take turns in slots", what),
             bytes_of(arena));
        finish(arena);
    }

    // "first moments, second moments": what the pieces of an arena that is laid out like the parameters hold.
    std::string pieces_of(const std::string& arena) const {
        const auto one = static_cast<std::size_t>(layout_.parameter_arenas().trained_bytes());
        std::vector<std::string> pieces;
        std::multimap<std::size_t, const LayoutRow*> parameters;  // by offset
        for (const LayoutRow& row : rows_)
            if (row.arena == "parameters") parameters.emplace(static_cast<std::size_t>(row.offset), &row);
        for (const LayoutRow& row : rows_) {
            if (row.arena != arena) continue;
            const auto [begin, end] = parameters.equal_range(static_cast<std::size_t>(row.offset) % one);
            for (auto at = begin; at != end; ++at) {  // first_moment_x of w_x
                const LayoutRow& parameter = *at->second;
                const std::string own =
                    parameter.name.substr(std::min(parameter.name.find('_'), parameter.name.size()));
                if (!row.name.ends_with(own)) continue;
                std::string piece = row.name.substr(0, row.name.size() - own.size()) + "s";
                std::replace(piece.begin(), piece.end(), '_', ' ');
                if (std::find(pieces.begin(), pieces.end(), piece) == pieces.end()) pieces.push_back(piece);
            }
        }
        return fmt::format("{}", fmt::join(pieces, ", "));
    }

    // `what`: "gradient"
    void like_parameters(const std::string& arena, const std::string& what) {
        const ParameterArenas& arenas = layout_.parameter_arenas();
        const std::int64_t one = arenas.trained_bytes(), all = bytes_of(arena);
        const std::string like = arenas.any_frozen() ? "what trains (the first part of `parameters`)" : "`parameters`";
        if (arena == "optimizer" && !arenas.states_as_parameters())
            line("what there is of each state, parameter by parameter: LAYOUT of model.h has them", all);
        else if (layout_.mixed_precision() && all > 0)
            line(fmt::format("as many elements as {} for each {}: a parameter's begins at its element", like, what),
                 all);
        else if (all == one)
            line(fmt::format("as large as {}: a parameter's {} has the parameter's offset", like, what), all);
        else if (all > 0)
            line(fmt::format("{} pieces, each laid out like {}: {}", all / one, like, pieces_of(arena)), all);
        finish(arena);
    }

    // Its tensors take turns: what one function needs at once is the most that any needs.
    void scratch() {
        std::map<std::string, std::int64_t> ends;
        for (const LayoutRow& row : rows_)
            if (row.arena == "scratch") {
                std::int64_t& end = ends[row.name.substr(0, row.name.find('.'))];
                end = std::max(end,
                               row.offset + (row.count - 1) * row.stride + static_cast<std::int64_t>(row.type.bytes()));
            }
        auto most = std::max_element(ends.begin(), ends.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
        if (most != ends.end())
            line(fmt::format("{}, which needs the most: its tensors share bytes and reach as far as this", most->first),
                 most->second);
        finish("scratch");
    }

    const ProgramLayout& layout_;
    const std::vector<LayoutRow>& rows_;
    std::string out_, parts_;
    std::int64_t sum_ = 0;
};

}  // namespace

std::string sums_table(const ProgramLayout& layout) {
    return SumsTable(layout).text();
}

}  // namespace thunderc
