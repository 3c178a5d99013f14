// SPDX-License-Identifier: Apache-2.0
#include "sample_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"

namespace thunderc::testing {
namespace {

std::vector<std::optional<Type>> operand_types(const Sample& sample) {
    std::vector<std::optional<Type>> types;
    for (const SampleOperand& operand : sample.operands)
        types.push_back(operand.absent ? std::nullopt : std::optional<Type>(operand.type));
    return types;
}

Op op_of(const OpDef& def, const Sample& sample) {
    Op op;
    op.name = def.name;
    op.attributes = sample.attributes;
    // References ask operands only whether they are there.
    for (std::size_t k = 0; k < sample.operands.size(); ++k)
        op.operands.push_back(sample.operands[k].absent ? Value{} : Value{static_cast<std::uint32_t>(k)});
    return op;
}

std::vector<Type> result_types(const OpDef& def, const Sample& sample) {
    std::vector<std::optional<Type>> types = operand_types(sample);
    return def.infer({types, sample.attributes});
}

std::vector<Tensor> run_reference(const OpDef& def, const Sample& sample, std::span<const Tensor> operands) {
    std::vector<Type> types = result_types(def, sample);
    return def.reference(op_of(def, sample), operands, types);
}

// The sample's op alone, in a function of its operands.
Module module_of(const OpDef& def, const Sample& sample) {
    Module module;
    module.name = def.name;
    Function& f = module.functions.emplace_back();
    f.name = "main";
    std::vector<Value> operands;
    for (std::size_t k = 0; k < sample.operands.size(); ++k)
        operands.push_back(sample.operands[k].absent ? Value{}
                                                     : f.add_argument(sample.operands[k].type, fmt::format("x{}", k)));
    if (!f.argument_info.empty()) f.argument_info.clear();
    Builder b(f);
    f.results = b.emit(def.name, operands, sample.attributes);
    return module;
}

// A copy of `function` with every op of the named kind replaced by its decomposition.
template <typename Predicate>
Function expand(const Function& function, const Predicate& wanted) {
    Function out;
    out.name = function.name;
    Builder b(out);
    std::vector<Value> map(function.values.size());
    for (Value v : function.arguments) map[v.index] = out.add_argument(function.type(v), function.info(v).name);
    out.argument_info.clear();
    for (const Op& op : function.ops) {
        Op copy = op;
        for (Value& v : copy.operands)
            if (v) v = map[v.index];
        const OpDef& def = op_def(op.name);
        std::vector<Value> results = wanted(def) ? def.decompose(b, copy) : b.clone(op, copy.operands, function);
        for (std::size_t k = 0; k < results.size(); ++k) map[op.results[k].index] = results[k];
    }
    for (Value v : function.results) out.results.push_back(map[v.index]);
    return out;
}

bool needs_decomposition(const OpDef& def) {
    return !def.vjp && def.not_differentiable.empty() && def.decompose;
}

// `own`: by so much of the numbers themselves, however small they are, but for f32's rounding of sums.
bool close(double a, double b, double tolerance, bool own = false) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    if (std::isinf(a) || std::isinf(b)) return a == b;
    if (own) return std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b)) + 1e-6;
    return std::abs(a - b) <= tolerance * std::max({1.0, std::abs(a), std::abs(b)});
}

std::string difference(const Tensor& actual, const Tensor& expected, double tolerance, bool own = false) {
    if (actual.type != expected.type)
        return fmt::format("{} instead of {}", to_string(actual.type), to_string(expected.type));
    for (std::int64_t k = 0; k < actual.size(); ++k) {
        bool same = actual.floating()
                        ? close(actual.at(k), expected.at(k), tolerance, own)
                        : actual.i[static_cast<std::size_t>(k)] == expected.i[static_cast<std::size_t>(k)];
        if (!same) return fmt::format("element {} is {} instead of {}", k, actual.at(k), expected.at(k));
    }
    return "";
}

std::vector<Tensor> without_absent(const Sample& sample, std::span<const Tensor> operands) {
    std::vector<Tensor> out;
    for (std::size_t k = 0; k < operands.size(); ++k)
        if (!sample.operands[k].absent) out.push_back(operands[k]);
    return out;
}

bool differentiable(const SampleOperand& operand) {
    return operand.differentiable && !operand.absent && is_float(operand.type.dtype);
}

// Reverse mode over a straight function: cotangents of the arguments, for cotangents of the results. `def` stands for
// the registered op of its name, so that a test can hand in a wrong one.
std::vector<Value> backward(const OpDef& def, Function& f, std::span<const Value> cotangents,
                            const std::vector<bool>& wanted) {
    Builder b(f);
    std::map<Value, Value> d;
    auto accumulate = [&](Value v, Value dv) {
        auto [at, fresh] = d.try_emplace(v, dv);
        if (!fresh) at->second = b.add(at->second, dv);
    };
    for (std::size_t k = 0; k < f.results.size(); ++k)
        if (cotangents[k]) accumulate(f.results[k], cotangents[k]);
    std::set<Value> reached;
    for (std::size_t k = 0; k < f.arguments.size() && k < wanted.size(); ++k)
        if (wanted[k]) reached.insert(f.arguments[k]);
    for (const Op& op : f.ops)
        if (std::any_of(op.operands.begin(), op.operands.end(), [&](Value v) { return reached.contains(v); }))
            for (Value v : op.results)
                if (is_float(f.type(v).dtype)) reached.insert(v);
    for (std::size_t k = f.ops.size(); k-- > 0;) {
        const Op op = f.ops[k];  // a copy: the rule appends to f.ops
        std::vector<Value> of_results;
        bool any = false;
        for (Value v : op.results) {
            of_results.push_back(d.contains(v) ? d[v] : Value{});
            any = any || of_results.back();
        }
        auto asked = std::make_unique<bool[]>(op.operands.size());
        bool asks = false;
        for (std::size_t o = 0; o < op.operands.size(); ++o) asks |= asked[o] = reached.contains(op.operands[o]);
        const OpDef& rule = op.name == def.name ? def : op_def(op.name);
        if (!any || !asks || !rule.vjp) continue;
        VjpResult result = rule.vjp({b, op, of_results, {asked.get(), op.operands.size()}});
        for (std::size_t o = 0; o < result.size(); ++o) {
            if (!result[o] || !asked[o]) continue;
            if (f.type(result[o]) != f.type(op.operands[o]))
                throw std::runtime_error(fmt::format("the cotangent of operand {} of {} is {}, the operand {}", o,
                                                     op.name, to_string(f.type(result[o])),
                                                     to_string(f.type(op.operands[o]))));
            accumulate(op.operands[o], result[o]);
        }
    }
    std::vector<Value> out;
    for (std::size_t k = 0; k < wanted.size(); ++k)
        out.push_back(wanted[k] && d.contains(f.arguments[k]) ? d[f.arguments[k]] : Value{});
    return out;
}

Tensor random_like(const Type& type, std::mt19937_64& engine, double low, double high) {
    std::uniform_real_distribution<double> uniform(low, high);
    Tensor out(type);
    for (std::int64_t k = 0; k < out.size(); ++k) out.set(k, uniform(engine));
    return out;
}

}  // namespace

std::vector<Tensor> make_operands(const std::string& op_name, const Sample& sample) {
    std::mt19937_64 engine(std::hash<std::string>{}(op_name + "." + sample.name));
    std::vector<Tensor> out;
    for (const SampleOperand& operand : sample.operands) {
        if (operand.absent) {
            out.emplace_back();
            continue;
        }
        out.push_back(random_like(operand.type, engine, operand.low, operand.high));
        for (std::size_t k = 0; k < operand.values.size() && k < static_cast<std::size_t>(out.back().size()); ++k)
            out.back().set(static_cast<std::int64_t>(k), operand.values[k]);
    }
    return out;
}

std::string empty_fields(const OpDef& def) {
    std::string out;
    auto need = [&](bool filled, const char* what) {
        if (!filled) out += fmt::format("{}{}", out.empty() ? "" : ", ", what);
    };
    need(!def.name.empty(), "name");
    need(!def.summary.empty() && def.summary.back() == '.', "summary (a sentence)");
    need(static_cast<bool>(def.infer), "infer");
    if (def.level == OpLevel::structural) return out;
    need(!def.formula.empty(), "formula");
    need(!def.source.empty(), "source");
    need(static_cast<bool>(def.reference), "reference");
    need(def.vjp || !def.not_differentiable.empty() || def.decompose,
         "vjp, not_differentiable or a decomposition to go through");
    need(!def.vjp || def.not_differentiable.empty(), "one of vjp and not_differentiable, not both");
    need(def.level == OpLevel::primitive || def.decompose, "decompose");
    if (def.elementwise) {
        need(def.elementwise->evaluate != nullptr, "elementwise.evaluate");
        need(!def.elementwise->code.empty(), "elementwise.code");
        need(!def.elementwise->formula.empty(), "elementwise.formula");
    }
    need(def.recompute != Recompute::expensive || def.flops || def.not_differentiable.size() > 0,
         "flops of an expensive op");
    need(!def.samples.empty(), "samples");
    need(!def.errors.empty(), "errors");
    std::set<std::string> names;
    for (const Sample& sample : def.samples) {
        need(!sample.name.empty() && names.insert(sample.name).second, "distinct names of samples");
        need(!sample.tolerance_reason.empty(), "tolerance_reason");
        for (const SampleOperand& operand : sample.operands)
            need(operand.values.empty() || static_cast<std::int64_t>(operand.values.size()) == operand.type.elements(),
                 "as many sample values as elements");
        if (def.infer) {
            std::size_t results = result_types(def, sample).size();
            // Attributes may add results; ops over many tensors have as many for each name.
            need(results == 1 || def.result_names.size() >= results ||
                     (!def.result_names.empty() &&
                      // of what steps parameters, the last one may be the call's scratch
                      (results % def.result_names.size() == 0 ||
                       (def.optimizer && (results - 1) % def.result_names.size() == 0))),
                 "result_names");
            need(def.statistics < results, "statistics below the number of results");
        }
    }
    bool gradient_tested = std::any_of(def.samples.begin(), def.samples.end(), [](const Sample& s) {
        return std::any_of(s.operands.begin(), s.operands.end(), differentiable);
    });
    need(!def.not_differentiable.empty() || gradient_tested, "a sample with a differentiable operand");
    need(!def.not_differentiable.empty() || def.kinks.empty() != def.smooth.empty(), "kinks, or why it is smooth");
    return out;
}

std::string shape_problem(const OpDef& def, const Sample& sample) {
    std::vector<Type> types = result_types(def, sample);
    std::vector<Tensor> results = run_reference(def, sample, make_operands(def.name, sample));
    if (results.size() != types.size())
        return fmt::format("{} results, the shape rule says {}", results.size(), types.size());
    for (std::size_t k = 0; k < types.size(); ++k) {
        if (results[k].type != types[k])
            return fmt::format("result {} is {}, the shape rule says {}", k, to_string(results[k].type),
                               to_string(types[k]));
        std::size_t held = results[k].floating() ? results[k].f.size() : results[k].i.size();
        if (held != static_cast<std::size_t>(types[k].elements()))
            return fmt::format("result {} holds {} elements, {} has {}", k, held, to_string(types[k]),
                               types[k].elements());
    }
    return "";
}

std::string text_problem(const OpDef& def, const Sample& sample) {
    Module module = module_of(def, sample);
    verify(module);
    std::string text = to_string(module);
    Module parsed = parse_module(text);
    verify(parsed);
    std::string again = to_string(parsed);
    return again == text ? "" : fmt::format("printed as\n{}\nparsed and printed as\n{}", text, again);
}

std::string gradient_problem(const OpDef& def, const Sample& sample) {
    if (!def.not_differentiable.empty()) return "";
    std::vector<Tensor> operands = make_operands(def.name, sample);
    std::vector<Type> results = result_types(def, sample);
    std::mt19937_64 engine(std::hash<std::string>{}("weights of " + def.name + "." + sample.name));
    std::vector<Tensor> weights;
    for (const Type& type : results)
        weights.push_back(random_like(Type::tensor(type.dtype, type.dims), engine, 0.5, 1.5));
    std::size_t judged = results.size() - def.statistics;
    // The scalar function whose gradient is judged: Σ weights · results.
    auto value = [&](std::span<const Tensor> x) {
        std::vector<Tensor> y = run_reference(def, sample, x);
        double sum = 0;
        for (std::size_t r = 0; r < judged; ++r)
            for (std::size_t k = 0; k < y[r].f.size(); ++k)
                if (std::isfinite(y[r].f[k])) sum += weights[r].f[k] * y[r].f[k];  // a mask's -inf has no slope
        return sum;
    };

    std::vector<std::size_t> present;
    for (std::size_t k = 0; k < sample.operands.size(); ++k)
        if (!sample.operands[k].absent) present.push_back(k);
    std::vector<std::vector<bool>> masks(1, std::vector<bool>(present.size()));
    for (std::size_t a = 0; a < present.size(); ++a) masks[0][a] = differentiable(sample.operands[present[a]]);
    if (std::count(masks[0].begin(), masks[0].end(), true) == 0) return "";
    for (std::size_t a = 0; a < present.size() && present.size() > 1; ++a)  // each operand asked for alone
        if (masks[0][a]) {
            masks.emplace_back(present.size(), false);
            masks.back()[a] = true;
        }

    std::map<std::pair<std::size_t, std::int64_t>, double> slopes;
    for (const std::vector<bool>& wanted : masks) {
        Module module = module_of(def, sample);
        while (std::any_of(module.main().ops.begin(), module.main().ops.end(),
                           [](const Op& op) { return needs_decomposition(op_def(op.name)); }))
            module.main() = expand(module.main(), needs_decomposition);
        Function& f = module.main();
        std::vector<Value> cotangents;
        std::vector<Tensor> arguments = without_absent(sample, operands);
        for (std::size_t r = 0; r < results.size(); ++r) {
            cotangents.push_back({});
            if (r >= judged || !is_float(results[r].dtype)) continue;
            cotangents.back() = f.add_argument(results[r], fmt::format("dy{}", r));
            arguments.push_back(weights[r]);
        }
        f.argument_info.clear();
        std::vector<Value> d;
        try {
            d = backward(def, f, cotangents, wanted);
        } catch (const std::runtime_error& error) {
            return error.what();
        }
        f.results.clear();
        for (std::size_t a = 0; a < d.size(); ++a)
            if (d[a]) f.results.push_back(d[a]);
        verify(module);
        std::vector<Tensor> gradients = evaluate(module, f, std::span<const Tensor>(arguments));
        std::size_t next = 0;
        for (std::size_t a = 0; a < present.size(); ++a) {
            if (!wanted[a]) continue;
            std::size_t operand = present[a];
            Tensor gradient = d[a] ? gradients[next++] : Tensor(sample.operands[operand].type);
            // Of large operands every so-manieth element, so that no sample costs more than 128 evaluations.
            std::int64_t stride = std::max<std::int64_t>(1, gradient.size() / 64);
            for (std::int64_t k = 0; k < gradient.size(); k += stride) {
                auto [slope, fresh] = slopes.try_emplace({operand, k}, 0);
                if (fresh) {
                    constexpr double h = 1e-5;
                    std::vector<Tensor> moved = operands;
                    double& x = moved[operand].f[static_cast<std::size_t>(k)];
                    const double at = x;
                    x = at + h;
                    double above = value(moved);
                    x = at - h;
                    slope->second = (above - value(moved)) / (2 * h);
                }
                if (!close(gradient.at(k), slope->second, sample.tolerance))
                    return fmt::format("the gradient of operand {} at element {} is {}, central differences say {}",
                                       operand, k, gradient.at(k), slope->second);
            }
        }
    }
    return "";
}

std::string decomposition_problem(const OpDef& def, const Sample& sample) {
    if (!def.decompose) return "";
    Module module = module_of(def, sample);
    module.main() = expand(module.main(), [&](const OpDef& other) { return other.name == def.name; });
    for (const Op& op : module.main().ops) {
        const OpDef& part = op_def(op.name);
        bool lower = part.level == OpLevel::primitive || part.level == OpLevel::structural ||
                     (def.level == OpLevel::imported && part.level == OpLevel::composite);
        if (!lower) return fmt::format("the decomposition has {}, which is of no lower level", op.name);
    }
    verify(module);
    std::vector<Tensor> operands = make_operands(def.name, sample);
    const bool bf16 =
        std::any_of(operands.begin(), operands.end(), [](const Tensor& t) { return t.type.dtype == DType::bf16; });
    if (bf16)
        for (Tensor& operand : operands) round_to_dtype(operand);
    std::vector<Tensor> expected = run_reference(def, sample, operands);
    std::vector<Tensor> actual =
        evaluate(module, module.main(), std::span<const Tensor>(without_absent(sample, operands)),
                 {.round_to_dtype = bf16, .observe = {}});
    for (std::size_t k = 0; k < expected.size(); ++k) {
        // Both are fp64: what differs is the order of a few operations. Of bf16, inner values are f32, and a result is
        // rounded once: by 2^-8 of it if it is stored in bf16, and else by no more than f32's sums are.
        const double tolerance = !bf16 ? 1e-12 : expected[k].type.dtype == DType::bf16 ? 0x1p-8 : 1e-6;
        if (std::string problem = difference(actual[k], expected[k], tolerance, bf16); !problem.empty())
            return fmt::format("result {} of the decomposition: {}", k, problem);
    }
    return "";
}

std::string in_place_problem(const OpDef& def, const Sample& sample) {
    if (def.in_place_as_whole) return "";
    std::vector<Tensor> operands = make_operands(def.name, sample);
    std::vector<Tensor> before = run_reference(def, sample, operands);
    auto pairs = def.in_place;
    for (std::size_t r = 0; def.in_place_from && r < before.size(); ++r) pairs.emplace_back(r, *def.in_place_from + r);
    for (auto [result, operand] : pairs) {
        if (operand >= operands.size() || sample.operands[operand].absent) continue;
        if (result >= before.size()) continue;  // attributes may add results
        if (operands[operand].size() != before.at(result).size()) continue;
        for (std::int64_t k = 0; k < std::min<std::int64_t>(operands[operand].size(), 16); ++k) {
            std::vector<Tensor> changed = operands;
            double old = changed[operand].at(k);
            changed[operand].set(k, changed[operand].type.dtype == DType::boolean ? 1 - old : old + 1);
            Tensor after = run_reference(def, sample, changed)[result];
            for (std::int64_t e = 0; e < after.size(); ++e)
                if (e != k && !close(after.at(e), before[result].at(e), 0))
                    return fmt::format("element {} of result {} depends on element {} of operand {}", e, result, k,
                                       operand);
        }
    }
    return "";
}

std::string commutative_problem(const OpDef& def, const Sample& sample) {
    if (!def.commutative) return "";
    Sample turned = sample;
    std::reverse(turned.operands.begin(), turned.operands.end());
    std::vector<Tensor> operands = make_operands(def.name, sample), reversed(operands.rbegin(), operands.rend());
    return difference(run_reference(def, turned, reversed)[0], run_reference(def, sample, operands)[0], 0);
}

// At 0, at 1 and where operands are equal, which is where kinks lie: slopes in a random direction, to both sides.
std::string smoothness_problem(const OpDef& def) {
    if (def.smooth.empty()) return "";
    for (const Sample& sample : def.samples)
        for (double at : {0.0, 1.0}) {
            std::vector<Tensor> operands = make_operands(def.name, sample);
            std::mt19937_64 engine(std::hash<std::string>{}("direction of " + def.name + "." + sample.name));
            std::vector<Tensor> direction = operands;
            for (std::size_t k = 0; k < operands.size(); ++k)
                if (differentiable(sample.operands[k])) {
                    for (double& v : operands[k].f) v = at;
                    direction[k] = random_like(operands[k].type, engine, -1, 1);
                }
            auto value = [&](double h) {
                std::vector<Tensor> moved = operands;
                for (std::size_t k = 0; k < operands.size(); ++k)
                    if (differentiable(sample.operands[k]))
                        for (std::size_t e = 0; e < moved[k].f.size(); ++e) moved[k].f[e] += h * direction[k].f[e];
                std::vector<Tensor> y = run_reference(def, sample, moved);
                double sum = 0, weight = 0.5;
                for (std::size_t r = 0; r < y.size() - def.statistics; ++r)
                    for (double v : y[r].f)
                        if (std::isfinite(v)) sum += (weight = 1.25 - weight * 0.7) * v;  // a mask's -inf has no slope
                return sum;
            };
            constexpr double h = 1e-9;
            const double here = value(0), above = (value(h) - here) / h, below = (here - value(-h)) / h;
            // A kink's slopes differ by about 1. The greatest curvature is that of a norm's 1 / √(x² + 1e-5), 3e7: over
            // 1e-9 it makes 0.03 to each side, and cancellation of numbers up to 316 less than 1e-4.
            if (!(std::abs(above - below) <= 0.1 * std::max(1.0, std::abs(above))))
                return fmt::format("{} has slopes {} and {} at {}: no smooth function", sample.name, below, above, at);
        }
    return "";
}

}  // namespace thunderc::testing
