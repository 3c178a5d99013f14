// SPDX-License-Identifier: Apache-2.0
#include "watch/numerics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "device/fp8_blocks.h"
#include "program/transfer.h"
#include "support/json.h"
#include "support/mix_bits.h"
#include "support/text.h"
#include "train/world.h"

namespace thunder {

namespace {

// Elements of a result that are computed again: some thousand say its noise to a tenth of a decibel, and a product of
// any size is done in the time of a few columns of it.
constexpr std::int64_t sampled = 4096;

std::string fields_of(const TensorStatistics& s) {
    const auto share = [&](std::int64_t count) {
        return json_number(s.elements > 0 ? static_cast<double>(count) / static_cast<double>(s.elements) : 0);
    };
    return cat(",\"amax\":", json_number(s.amax), ",\"least\":", s.least > 0 ? json_number(s.least) : "null",
               ",\"mean_square\":", json_number(s.mean_square()), ",\"zeros\":", share(s.zeros),
               ",\"underflow\":", share(s.underflow), ",\"overflow\":", share(s.overflow), ",\"nan\":", s.nans);
}

std::string shape_of(const ParameterSpec& parameter) {
    std::string text;
    for (const std::int64_t extent : parameter.shape) text += cat(text.empty() ? "" : ",", extent);
    return "[" + text + "]";
}

std::string tensor_name(std::string_view module, const ResultSpec& spec) {
    return cat(module, module.empty() ? "" : ".", spec.tensor);
}

bool is_number(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::string layer_of(std::string_view parameter) {
    for (std::size_t begin = 0; begin < parameter.size();) {
        const std::size_t end = std::min(parameter.find('.', begin), parameter.size());
        if (is_number(parameter.substr(begin, end - begin))) return std::string(parameter.substr(0, end));
        begin = end + 1;
    }
    const std::size_t last = parameter.rfind('.');
    return std::string(last == std::string_view::npos ? parameter : parameter.substr(0, last));
}

std::optional<double> signal_to_noise(std::span<const double> exact, std::span<const double> found) {
    double signal = 0, noise = 0;
    for (std::size_t k = 0; k < exact.size(); ++k) {
        signal += exact[k] * exact[k];
        noise += (found[k] - exact[k]) * (found[k] - exact[k]);
    }
    if (!(signal > 0)) return std::nullopt;
    return noise > 0 ? 10 * std::log10(signal / noise) : std::numeric_limits<double>::infinity();
}

std::vector<std::string> names_with_noise(const ProgramSpec& program) {
    constexpr std::string_view root[] = {""};
    std::vector<std::string> names;
    std::set<std::string> seen;
    for (const FunctionResults& function : program.results)
        for (const std::string_view module : function.modules.empty() ? std::span(root) : function.modules)
            for (const ResultSpec& spec : function.results) {
                // Of a call that writes codes twice, the copy as it lies is the one that is computed again.
                const ResultSpec* before = &spec == function.results.data() ? nullptr : &spec - 1;
                const bool is_second = before != nullptr && before->call == spec.call && spec.field == "q_transposed" &&
                                       before->field == "q";
                if (!is_second && has_recomputation(spec.name, spec.field))
                    if (const auto [name, fresh] = seen.insert(tensor_name(module, spec)); fresh)
                        names.push_back(*name);
            }
    return names;
}

Numerics::Numerics(const ProgramSpec& program, const Options& options, bool writes)
    : program_(program),
      path_(options.numerics),
      every_(options.numerics.empty()     ? 0
             : options.numerics_every > 0 ? options.numerics_every
                                          : 100),
      writes_(writes) {
    if (!options.numerics_tensors.empty()) tensors_.emplace(options.numerics_tensors);
}

Numerics::~Numerics() {
    if (range_observer == this) range_observer = nullptr;
}

void Numerics::open(std::int64_t first_step) {
    if (writes_ && every_ > 0) log_.emplace(path_, first_step);
}

void Numerics::begin_micro_step(std::int64_t step, std::int64_t micro_step, Stream& stream) {
    if (looks_) stop(stream);
    if (!log_ || !is_due(step) || micro_step > 0) return;
    step_ = step;
    looks_ = true;
    times_.clear();
    frames_.clear();
    range_observer = this;
    stream.device().observe(this);
}

void Numerics::stop(Stream& stream) {
    looks_ = false;
    range_observer = nullptr;
    stream.device().observe(nullptr);
}

// ---- what is under way ----------------------------------------------------------------------------------------------

void Numerics::begin_range(const char* name) {
    if (std::this_thread::get_id() != thread_) return;
    Frame frame;
    const auto function = std::find_if(program_.results.begin(), program_.results.end(),
                                       [&](const FunctionResults& f) { return f.function == name; });
    if (function != program_.results.end()) {
        frame.function = &*function;
        const auto time = static_cast<std::size_t>(times_[function->function]++);
        if (!function->modules.empty()) frame.module = function->modules[time % function->modules.size()];
    }
    frames_.push_back(std::move(frame));
}

void Numerics::end_range() {
    if (std::this_thread::get_id() == thread_ && !frames_.empty()) frames_.pop_back();
}

// The results of the next call of that name: from where the last one was found on, and from the start where it is
// issued again and again.
std::span<const ResultSpec> Numerics::results_of_call(std::string_view name) {
    if (frames_.empty() || frames_.back().function == nullptr) return {};
    Frame& frame = frames_.back();
    const std::span<const ResultSpec> all = frame.function->results;
    for (std::size_t k = 0; k < all.size(); ++k) {
        const std::size_t at = (frame.next + k) % all.size();
        if (all[at].name != name) continue;
        std::size_t end = at;
        while (end < all.size() && all[end].call == all[at].call) ++end;
        frame.next = end % all.size();
        return all.subspan(at, end - at);
    }
    return {};
}

std::string Numerics::name_of(const ResultSpec& spec) const {
    return tensor_name(frames_.back().module, spec);
}

// ---- calls ----------------------------------------------------------------------------------------------------------

bool Numerics::begin(const ObservedCall& call, Stream& stream) {
    if (std::this_thread::get_id() != thread_) return false;
    if (depth_++ > 0) return true;
    looked_ = {};
    looked_.named = results_of_call(call.name.substr(0, call.name.find(' ')));
    looked_.results.assign(call.results.begin(), call.results.end());
    if (call.recomputation == nullptr || looked_.named.empty()) return true;
    for (const ResultSpec& spec : looked_.named)
        if (spec.field == call.recomputation->field && std::regex_search(name_of(spec), *tensors_))
            compute_again(*call.recomputation, stream);
    return true;
}

void Numerics::end(Stream& stream) {
    if (depth_ == 1) {  // what is done here are calls within this one
        for (const ResultSpec& spec : looked_.named) {
            if (spec.field.empty()) {
                const auto number = static_cast<std::size_t>(spec.result);
                if (number < looked_.results.size()) write(spec, looked_.results[number], stream);
                continue;
            }
            for (const CallResult& result : looked_.results)
                if (spec.field == result.field) write(spec, result, stream);
        }
    }
    --depth_;
}

void Numerics::compute_again(const Recomputation& recomputation, Stream& stream) {
    std::vector<std::vector<std::byte>> memory(recomputation.operands.size());
    std::vector<const void*> operands;
    for (std::size_t k = 0; k < recomputation.operands.size(); ++k) {
        const auto& [tensor, elements] = recomputation.operands[k];
        const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(tensor.dtype);
        operands.push_back(tensor ? on_host(tensor.data, bytes, memory[k], stream) : nullptr);
    }
    const std::int64_t count = recomputation.rows * recomputation.columns;
    for (std::int64_t k = 0; k < std::min(count, sampled); ++k) {
        // All there are, or those of a sequence in which no rows and columns come again and again.
        const std::int64_t element = count <= sampled
                                         ? k
                                         : static_cast<std::int64_t>(mix_bits(static_cast<std::uint64_t>(k)) %
                                                                     static_cast<std::uint64_t>(count));
        const std::int64_t row = element / recomputation.columns, column = element % recomputation.columns;
        looked_.places.push_back(row * recomputation.ld + column);
        looked_.exact.push_back(recomputation.element(operands, row, column));
    }
    looked_.again = recomputation;
}

const std::byte* Numerics::on_host(const void* device, std::size_t bytes, std::vector<std::byte>& memory,
                                   Stream& stream) {
    const auto* data = static_cast<const std::byte*>(device);
    if (!stream.device().is_gpu()) return data;
    memory.resize(bytes);
    from_device(memory.data(), data, bytes, stream);
    return memory.data();
}

std::int64_t Numerics::clipped(Quantised from, DType codes, Stream& stream) {
    std::vector<std::byte> x, scale, block_scales;
    const auto fetch = [&](Input& input, std::int64_t elements, std::vector<std::byte>& memory) {
        if (input)
            input.data = on_host(input.data, static_cast<std::size_t>(elements) * size_of(input.dtype), memory, stream);
    };
    fetch(from.x, (from.rows - 1) * from.ld + from.width, x);
    fetch(from.scale, 1, scale);
    const std::int64_t rows = from.transposed ? from.width : from.rows,
                       width = from.transposed ? from.rows : from.width;
    fetch(from.block_scales, blocks_along(rows, from.block_rows) * blocks_along(width, from.block_columns),
          block_scales);
    return clipped_of(from, codes);
}

void Numerics::write(const ResultSpec& spec, const CallResult& result, Stream& stream) {
    const DType dtype = result.tensor.dtype;
    if (!has_statistics(dtype) || spec.rows * spec.width == 0) return;
    const bool again = looked_.again && spec.field == looked_.again->field;
    std::int64_t extent = (spec.rows - 1) * spec.ld + spec.width;
    // A product that makes gradients of several weights, which lie side by side, is one call: this is the first.
    if (again) extent = std::max(extent, (looked_.again->rows - 1) * looked_.again->ld + looked_.again->columns);
    std::vector<std::byte> memory;
    const std::byte* data =
        on_host(result.tensor.data, static_cast<std::size_t>(extent) * size_of(dtype), memory, stream);
    TensorStatistics statistics = statistics_of(data, dtype, spec.rows, spec.width, spec.ld);
    if (result.from.x) statistics.overflow = clipped(result.from, dtype, stream);
    float inverse = 1;
    if (result.inverse) {
        if (stream.device().is_gpu())
            from_device(&inverse, static_cast<const std::byte*>(result.inverse.data), sizeof inverse, stream);
        else
            inverse = *static_cast<const float*>(result.inverse.data);
    }
    std::string line =
        cat("{\"step\":", step_, ",\"function\":\"", frames_.back().function->function, "\",\"call\":\"", spec.name,
            "\",\"tensor\":", json_quote(name_of(spec)), ",\"of\":", json_quote(spec.scope), ",\"dtype\":\"",
            thunder::name_of(dtype), "\",\"shape\":", spec.shape, fields_of(statistics));
    if (result.inverse) line += cat(",\"scale\":", json_number(1 / static_cast<double>(inverse)));
    if (again) {
        std::vector<double> found;
        for (const std::int64_t place : looked_.places)
            found.push_back(number_at(data, dtype, place) * static_cast<double>(inverse));
        const std::optional<double> ratio = signal_to_noise(looked_.exact, found);
        line += cat(",\"snr_db\":", ratio ? json_number(*ratio) : "null");
    }
    log_->write(line + "}");
}

// ---- gradients ------------------------------------------------------------------------------------------------------

void Numerics::gradients(std::int64_t step, const std::byte* arena, double divided_by, Communicator& communicator,
                         Stream& stream) {
    if (looks_) stop(stream);
    if (!is_due(step)) return;
    // What this rank has of each: a part, or, of what all ranks have, all of it.
    const DType dtype = program_.gradient_dtype;
    std::vector<TensorStatistics> mine(program_.parameters.size());
    std::vector<std::byte> memory;
    for (std::size_t k = 0; k < mine.size(); ++k) {
        const ParameterSpec& parameter = program_.parameters[k];
        const Piece piece = piece_of(program_, parameter, communicator.rank());
        if (!parameter.trainable || piece.count == 0) continue;
        const auto width = size_of(dtype);
        const std::byte* data = on_host(arena + static_cast<std::size_t>(piece.at) * width,
                                        static_cast<std::size_t>(piece.count) * width, memory, stream);
        mine[k] = statistics_of(data, dtype, 1, piece.count, piece.count, divided_by);
    }
    std::vector<TensorStatistics> all(mine.size() * static_cast<std::size_t>(communicator.world()));
    communicator.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)),
                            "the statistics of gradients");
    if (!log_) return;
    std::vector<std::pair<std::string, double>> layers;  // their sums of squares, in the order of the parameters
    for (std::size_t k = 0; k < mine.size(); ++k) {
        const ParameterSpec& parameter = program_.parameters[k];
        if (!parameter.trainable) continue;
        TensorStatistics whole;
        std::vector<std::int64_t> firsts;  // of parts: several ranks may have the same one
        for (int rank = 0; rank < communicator.world(); ++rank) {
            const Piece piece = piece_of(program_, parameter, rank);
            if (piece.count == 0 || std::find(firsts.begin(), firsts.end(), piece.first) != firsts.end()) continue;
            firsts.push_back(piece.first);
            whole.add(all[static_cast<std::size_t>(rank) * mine.size() + k]);
        }
        log_->write(cat("{\"step\":", step, ",\"gradient\":", json_quote(parameter.name), ",\"dtype\":\"",
                        thunder::name_of(dtype), "\",\"shape\":", shape_of(parameter),
                        ",\"norm\":", json_number(std::sqrt(whole.sum_of_squares)), fields_of(whole), "}"));
        const std::string layer = layer_of(parameter.name);
        const auto known =
            std::find_if(layers.begin(), layers.end(), [&](const auto& other) { return other.first == layer; });
        if (known == layers.end())
            layers.emplace_back(layer, whole.sum_of_squares);
        else
            known->second += whole.sum_of_squares;
    }
    for (const auto& [layer, squares] : layers)
        log_->write(cat("{\"step\":", step, ",\"layer\":", json_quote(layer),
                        ",\"norm\":", json_number(std::sqrt(squares)), "}"));
}

}  // namespace thunder
