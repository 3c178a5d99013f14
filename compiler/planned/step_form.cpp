#include "compiler/planned/step_form.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

// The order and types of runtime-lib/optim/step_scalars.h; a test compares the two.
constexpr std::array<std::pair<std::string_view, std::int64_t>, 19> fields = {{{"learning_rate", 0},
                                                                               {"beta1", 8},
                                                                               {"beta2", 16},
                                                                               {"eps", 24},
                                                                               {"weight_decay", 32},
                                                                               {"momentum", 40},
                                                                               {"bias_correction1", 48},
                                                                               {"bias_correction2_sqrt", 56},
                                                                               {"max_grad_norm", 64},
                                                                               {"seed", 72},
                                                                               {"step", 80},
                                                                               {"loss_weight", 88},
                                                                               {"dloss", 92},
                                                                               {"loss_sum", 96},
                                                                               {"grad_norm", 100},
                                                                               {"clip_factor", 104},
                                                                               {"first_micro_step", 108},
                                                                               {"decay_all", 109},
                                                                               {"last_micro_step", 110}}};

constexpr std::string_view weights_prefix = "loss_weights[";
constexpr std::int64_t loss_weight_bytes = 4;

}  // namespace

ArgInfo state_info(const ArgInfo& parameter, std::string_view prefix) {
    ArgInfo info;
    info.kind = ArgInfo::Kind::state;
    for (const std::string& name : parameter.names) info.names.push_back(fmt::format("{}.{}", prefix, name));
    info.aliases.resize(info.names.size());
    info.sources.resize(info.names.size());
    return info;
}

std::string loss_weight_scalar(std::size_t k) {
    return fmt::format("{}{}]", weights_prefix, k);  // as C++ names it in TrainingArenas
}

std::int64_t step_scalars_bytes_with(const LossForm& form) {
    const bool behind = form.kind == LossForm::Kind::terms;
    return step_scalars_bytes + (behind ? loss_weight_bytes * static_cast<std::int64_t>(form.weights.size()) : 0);
}

LossForm loss_form(const Module& composed) {
    LossForm out;
    const Function* f = composed.find("loss_weight");
    if (f == nullptr) return out;
    for (const ArgInfo& info : f->argument_info)
        if (info.kind == ArgInfo::Kind::scalar) out.weights.push_back(info.names.front());
    out.kind = out.weights.front() == loss_weight_scalar(0) ? LossForm::Kind::terms : LossForm::Kind::mean;
    return out;
}

double loss_divisor(const LossForm& form, const std::vector<double>& weights, std::size_t micro_batches) {
    switch (form.kind) {
        case LossForm::Kind::average: return static_cast<double>(micro_batches);
        case LossForm::Kind::mean: return weights.at(0);
        case LossForm::Kind::terms: return 1;
    }
    throw InternalError("a loss of no form");
}

std::optional<std::int64_t> step_scalar_offset(std::string_view name) {
    for (const auto& [field, offset] : fields)
        if (field == name) return offset;
    std::size_t k = 0;
    if (!name.starts_with(weights_prefix)) return std::nullopt;
    const std::string_view number = name.substr(weights_prefix.size());
    std::from_chars(number.data(), number.data() + number.size(), k);
    if (loss_weight_scalar(k) != name) return std::nullopt;
    return step_scalars_bytes + loss_weight_bytes * static_cast<std::int64_t>(k);
}

std::optional<std::string> step_scalar_at(std::int64_t offset) {
    for (const auto& [field, at] : fields)
        if (at == offset) return std::string(field);
    const std::int64_t behind = offset - step_scalars_bytes;
    if (behind < 0 || behind % loss_weight_bytes != 0) return std::nullopt;
    return loss_weight_scalar(static_cast<std::size_t>(behind / loss_weight_bytes));
}

}  // namespace thunderc
