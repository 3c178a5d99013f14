#include "compiler/analysis/run_planned.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <utility>

#include "compiler/analysis/constant_value.h"
#include "compiler/analysis/evaluate.h"
#include "compiler/analysis/expand_plan.h"
#include "compiler/ops/dense.h"
#include "compiler/ops/op.h"
#include "compiler/support/error.h"
#include "compiler/support/half.h"
#include "compiler/transforms/plan.h"

namespace thunderc {
namespace {

using Arena = Placement::Arena;

constexpr std::size_t scalars_bytes = 112;  // of StepScalars

// What a field of StepScalars is stored as, whatever type the IR gives the scalar.
DType scalar_dtype(std::int64_t offset) {
    if (offset < 72) return DType::f64;
    if (offset < 88) return DType::i64;
    return offset < 108 ? DType::f32 : DType::boolean;
}

std::byte poison_of(DType dtype) {
    return is_float(dtype) ? std::byte{0xff} : std::byte{0x5a};  // all ones are a NaN in every float type
}

template <typename T>
void put(std::byte* at, T value) {
    std::memcpy(at, &value, sizeof value);
}

template <typename T>
T take(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

void store_element(std::byte* at, DType dtype, const Tensor& t, std::size_t k) {
    switch (dtype) {
        case DType::f64: return put(at, t.f[k]);
        case DType::f32: return put(at, static_cast<float>(t.f[k]));
        case DType::i64: return put(at, t.i[k]);
        case DType::i32: return put(at, static_cast<std::int32_t>(t.i[k]));
        case DType::boolean: return put(at, static_cast<std::uint8_t>(t.i[k] != 0));
        case DType::bf16: return put(at, bf16_bits(static_cast<float>(convert(t.f[k], DType::bf16))));
        case DType::f16: break;
    }
    throw InternalError(fmt::format("no planned program holds {}", name_of(dtype)));
}

void load_element(const std::byte* at, DType dtype, Tensor& t, std::size_t k) {
    switch (dtype) {
        case DType::f64: t.f[k] = take<double>(at); return;
        case DType::f32: t.f[k] = take<float>(at); return;
        case DType::i64: t.i[k] = take<std::int64_t>(at); return;
        case DType::i32: t.i[k] = take<std::int32_t>(at); return;
        case DType::boolean: t.i[k] = take<std::uint8_t>(at) == 1 ? 1 : 0; return;
        case DType::bf16: t.f[k] = static_cast<double>(bf16_value(take<std::uint16_t>(at))); return;
        case DType::f16: break;
    }
    throw InternalError(fmt::format("no planned program holds {}", name_of(dtype)));
}

// Calls `visit` with the byte offset of each element, in row-major order.
template <typename Visit>
void for_each_element(const Type& type, const Dims& given, Visit visit) {
    const Dims strides = given.empty() ? dense_strides(type.dims) : given;
    Dims index(type.dims.size(), 0);
    const auto size = static_cast<std::int64_t>(size_of(type.dtype));
    const std::int64_t n = type.elements();
    for (std::int64_t k = 0; k < n; ++k) {
        std::int64_t at = 0;
        for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
        visit(static_cast<std::size_t>(k), at * size);
        for (std::size_t d = index.size(); d-- > 0;) {
            if (++index[d] < type.dims[d]) break;
            index[d] = 0;
        }
    }
}

}  // namespace

class PlannedExecution {
  public:
    explicit PlannedExecution(PlannedProgram& program) : p_(program), module_(program.module_) {}

    // In the order of the list, or in one of the others that streams and events permit.
    void run(const Function& f, std::optional<std::uint64_t> seed) {
        const ExpandedPlan plan = expand_plan(module_, f);
        uses_.assign(plan.tensors.size(), 0);
        for (const PlannedAction& a : plan.actions)
            for (std::size_t t : touched(a)) ++uses_[t];
        for (std::size_t k : seed ? permuted(plan, *seed) : listed(plan)) step(plan, plan.actions[k]);
    }

    Tensor load(Arena arena, std::int64_t offset, const Type& type, const Dims& strides) {
        Tensor t(type.member());
        if (arena == Arena::scalars) {
            const DType stored = scalar_dtype(offset);
            Tensor field(Type::tensor(stored, {}));
            load_element(bytes(arena, offset, static_cast<std::int64_t>(size_of(stored))), stored, field, 0);
            t.set(0, field.at(0));
            return t;
        }
        const auto size = static_cast<std::int64_t>(size_of(type.dtype));
        for_each_element(type, strides, [&](std::size_t k, std::int64_t at) {
            load_element(bytes(arena, offset + at, size), type.dtype, t, k);
        });
        return t;
    }

    void store(Arena arena, std::int64_t offset, const Type& type, const Dims& strides, const Tensor& t) {
        if (arena == Arena::scalars) {
            const DType stored = scalar_dtype(offset);
            Tensor field(Type::tensor(stored, {}));
            field.set(0, t.at(0));
            store_element(bytes(arena, offset, static_cast<std::int64_t>(size_of(stored))), stored, field, 0);
            return;
        }
        const auto size = static_cast<std::int64_t>(size_of(type.dtype));
        for_each_element(type, strides, [&](std::size_t k, std::int64_t at) {
            store_element(bytes(arena, offset + at, size), type.dtype, t, k);
        });
    }

  private:
    std::byte* bytes(Arena arena, std::int64_t offset, std::int64_t count) {
        auto found = p_.arenas_.find(arena);
        check(found != p_.arenas_.end(), fmt::format("there is no arena {}", name_of(arena)));
        check(offset >= 0 && offset + count <= static_cast<std::int64_t>(found->second.size()),
              fmt::format("bytes {} to {} are outside the arena {}, which has {}", offset, offset + count,
                          name_of(arena), found->second.size()));
        return found->second.data() + offset;
    }

    static std::set<std::size_t> touched(const PlannedAction& a) {
        std::set<std::size_t> out;
        for (const auto& read : a.reads)
            if (read) out.insert(read->tensor);
        for (const PlannedAccess& write : a.writes) out.insert(write.tensor);
        return out;
    }

    static std::vector<std::size_t> listed(const ExpandedPlan& plan) {
        std::vector<std::size_t> order(plan.actions.size());
        for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
        return order;
    }

    // Each stream runs its actions in their order; which stream is next is drawn among those that need not wait.
    std::vector<std::size_t> permuted(const ExpandedPlan& plan, std::uint64_t seed) const {
        std::vector<std::vector<std::size_t>> queues(module_.streams.size() + 1);
        for (std::size_t k = 0; k < plan.actions.size(); ++k) queues[plan.actions[k].stream].push_back(k);
        std::vector<std::size_t> next(queues.size(), 0), order;
        std::vector<bool> done(plan.actions.size(), false);
        std::mt19937_64 random(seed);
        while (order.size() < plan.actions.size()) {
            std::vector<std::size_t> ready;
            for (std::size_t s = 0; s < queues.size(); ++s) {
                if (next[s] == queues[s].size()) continue;
                const auto& awaits = plan.actions[queues[s][next[s]]].awaits;
                if (!awaits || done[*awaits]) ready.push_back(s);
            }
            check(!ready.empty(), "streams wait for each other");
            const std::size_t s = ready[random() % ready.size()];
            order.push_back(queues[s][next[s]++]);
            done[order.back()] = true;
        }
        return order;
    }

    void step(const ExpandedPlan& plan, const PlannedAction& a) {
        const Op& op = *a.op;
        std::vector<Tensor> operands;
        for (const auto& read : a.reads)
            operands.push_back(read ? load(read->arena, read->offset, read->type, read->strides) : Tensor());
        std::vector<Type> types;
        for (const PlannedAccess& write : a.writes) types.push_back(write.type);
        std::vector<Tensor> results;
        if (op.name == "copy" || op.name == "family") {
            results = std::move(operands);
        } else if (op.name == "fused") {
            const Function* kernel = module_.find(op.attributes.string("kernel"));
            check(kernel != nullptr, "a kernel that is not there");
            results = evaluate(module_, *kernel, std::span<const Tensor>(operands));
        } else if (op.name != "record" && op.name != "wait") {
            const OpDef& def = op_def(op.name);
            check(static_cast<bool>(def.reference), op.name + " cannot be executed");
            results = def.reference(op, operands, types);
        }
        check(results.size() == types.size(),
              fmt::format("{} gives {} tensors, {} expected", op.name, results.size(), types.size()));
        // What was read for the last time is gone before the results are written; an op that writes over its operand
        // finds only its own result there.
        std::vector<std::size_t> unread;
        for (std::size_t t : touched(a)) {
            if (--uses_[t] > 0) continue;
            const bool result = std::any_of(a.writes.begin(), a.writes.end(),
                                            [t](const PlannedAccess& write) { return write.tensor == t; });
            result ? unread.push_back(t) : poison(plan.tensors[t]);
        }
        for (std::size_t r = 0; r < results.size(); ++r) {
            note_nan(*a.function, op, results[r]);
            const PlannedAccess& write = a.writes[r];
            store(write.arena, write.offset, write.type, write.strides, results[r]);
        }
        for (std::size_t t : unread) poison(plan.tensors[t]);
    }

    void poison(const PlannedTensor& tensor) {
        if (!tensor.temporary || !tensor.place->strides.empty()) return;  // strided: its bytes are another's
        const PlannedAccess& at = *tensor.place;
        std::memset(bytes(at.arena, at.offset, at.bytes()), static_cast<int>(poison_of(at.type.dtype)),
                    static_cast<std::size_t>(at.bytes()));
    }

    void note_nan(const Function& f, const Op& op, const Tensor& t) {
        if (!p_.first_nan_.empty()) return;
        for (double x : t.f)
            if (std::isnan(x)) {
                p_.first_nan_ = fmt::format("@{}, {}{}{}", f.name, op.name,
                                            op.name == "fused" ? " @" + op.attributes.string("kernel") : "",
                                            op.results.empty() ? "" : " %" + f.info(op.results[0]).name);
                return;
            }
    }

    PlannedProgram& p_;
    const Module& module_;
    std::vector<std::size_t> uses_;  // by tensor: actions that have yet to touch it
};

PlannedProgram::PlannedProgram(Module planned) : module_(std::move(planned)) {
    check(module_.phase == Module::Phase::planned, "the module is not planned");
    for (const auto& [name, bytes] : module_.arena_bytes)
        arenas_[parse_arena(name).value()].assign(static_cast<std::size_t>(bytes), std::byte{0xff});
    arenas_[Arena::scalars].assign(scalars_bytes, std::byte{0});
    PlannedExecution execution(*this);
    for (const Function& f : module_.functions) {
        if (!f.kind.empty()) continue;
        for (const Op& op : f.ops) {
            if (op.name != "constant") continue;
            const Value v = op.results[0];
            const Placement& p = f.info(v).placement;
            execution.store(p.arena, p.offset, f.type(v), {}, materialize(*op.attributes.constant("value")));
        }
        for (std::size_t k = 0; k < f.argument_info.size(); ++k) {
            const ArgInfo& info = f.argument_info[k];
            const Placement& p = f.info(f.arguments[k]).placement;
            if (p.arena == Arena::scalars) continue;
            for (std::size_t m = 0; m < info.names.size(); ++m) {
                const auto offset = p.offset + static_cast<std::int64_t>(m) * p.layer_stride;
                if (named_.try_emplace(info.names[m], Named{p.arena, offset, f.type(f.arguments[k]).member()}).second)
                    order_.push_back(info.names[m]);
                if (m < info.aliases.size())
                    for (const std::string& alias : info.aliases[m]) aliases_.try_emplace(alias, info.names[m]);
            }
        }
    }
}

std::vector<std::string> PlannedProgram::names() const {
    return order_;
}

const PlannedProgram::Named* PlannedProgram::find(const std::string& name) const {
    if (auto at = named_.find(name); at != named_.end()) return &at->second;
    for (const char* prefix : {"", "grad.", "first_moment.", "second_moment.", "momentum.", "shadow."}) {
        if (!name.starts_with(prefix)) continue;
        auto alias = aliases_.find(name.substr(std::strlen(prefix)));
        if (alias == aliases_.end()) continue;
        if (auto at = named_.find(prefix + alias->second); at != named_.end()) return &at->second;
    }
    return nullptr;
}

const PlannedProgram::Named& PlannedProgram::named(const std::string& name) const {
    const Named* at = find(name);
    check(at != nullptr, fmt::format("the program has no {}", name));
    return *at;
}

void PlannedProgram::set(const std::string& name, const Tensor& value) {
    const Named& to = named(name);
    check(value.type.dims == to.type.dims && value.floating() == is_float(to.type.dtype),
          fmt::format("{} is {}, {} given", name, to_string(to.type), to_string(value.type)));
    PlannedExecution(*this).store(to.arena, to.offset, to.type, {}, value);
}

Tensor PlannedProgram::get(const std::string& name) const {
    const Named& at = named(name);
    // Loading changes nothing; the execution is written for running, which does.
    return PlannedExecution(const_cast<PlannedProgram&>(*this)).load(at.arena, at.offset, at.type, {});
}

void PlannedProgram::set_scalar(const std::string& name, double value) {
    const std::optional<std::int64_t> offset = step_scalar_offset(name);
    check(offset.has_value(), fmt::format("there is no step scalar {}", name));
    PlannedExecution(*this).store(Arena::scalars, *offset, Type::tensor(DType::f64, {}), {},
                                  Tensor::scalar(DType::f64, value));
}

double PlannedProgram::scalar(const std::string& name) const {
    const std::optional<std::int64_t> offset = step_scalar_offset(name);
    check(offset.has_value(), fmt::format("there is no step scalar {}", name));
    return PlannedExecution(const_cast<PlannedProgram&>(*this))
        .load(Arena::scalars, *offset, Type::tensor(DType::f64, {}), {})
        .at(0);
}

void PlannedProgram::run(const std::string& function, std::optional<std::uint64_t> seed) {
    const Function* f = module_.find(function);
    check(f != nullptr && !f->argument_info.empty(), fmt::format("@{} is no function of the program", function));
    first_nan_.clear();
    for (Arena arena : {Arena::scratch, Arena::saved})
        if (auto found = arenas_.find(arena); found != arenas_.end())
            std::fill(found->second.begin(), found->second.end(), std::byte{0xff});
    PlannedExecution(*this).run(*f, seed);
}

// ---- steps
// ---------------------------------------------------------------------------------------------------------------

namespace {

void load_batch(PlannedProgram& program, const MicroBatch& batch) {
    for (const auto& [name, tensor] : batch)
        if (program.has(name)) program.set(name, tensor);
}

}  // namespace

PlannedStep planned_gradients(PlannedProgram& program, const std::vector<MicroBatch>& batches) {
    check(!batches.empty(), "a step has at least one micro-batch");
    PlannedStep out;
    program.set_scalar("loss_weight", 0);
    for (const MicroBatch& batch : batches) {
        load_batch(program, batch);
        program.run("loss_weight");
    }
    out.loss_weight = program.scalar("loss_weight");
    program.set_scalar("dloss", 1 / out.loss_weight);
    program.set_scalar("loss_sum", 0);
    for (std::size_t m = 0; m < batches.size(); ++m) {
        load_batch(program, batches[m]);
        program.set_scalar("first_micro_step", m == 0 ? 1 : 0);
        program.run("forward_backward");
        check(!std::isnan(program.scalar("loss_sum")), "the loss is a NaN, first from " + program.first_nan());
        for (const std::string& name : program.names())
            if (name.starts_with("grad."))
                for (double x : program.get(name).f)
                    check(!std::isnan(x), fmt::format("{} holds a NaN, first from {}", name, program.first_nan()));
    }
    out.loss = program.scalar("loss_sum") / out.loss_weight;
    return out;
}

PlannedStep planned_step(PlannedProgram& program, const std::vector<MicroBatch>& batches, const PlannedOptimizer& o,
                         std::int64_t step) {
    PlannedStep out = planned_gradients(program, batches);
    const auto t = static_cast<double>(step + 1);
    program.set_scalar("learning_rate", o.learning_rate);
    program.set_scalar("beta1", o.beta1);
    program.set_scalar("beta2", o.beta2);
    program.set_scalar("eps", o.eps);
    program.set_scalar("weight_decay", o.weight_decay);
    program.set_scalar("bias_correction1", 1 - std::pow(o.beta1, t));
    program.set_scalar("bias_correction2_sqrt", std::sqrt(1 - std::pow(o.beta2, t)));
    program.set_scalar("max_grad_norm", o.max_grad_norm);
    program.set_scalar("decay_all", o.decay_all ? 1 : 0);
    program.set_scalar("step", static_cast<double>(step));
    program.run("update");
    check(program.first_nan().empty(), "a NaN comes first from " + program.first_nan());
    out.grad_norm = program.scalar("grad_norm");
    return out;
}

void clear_states(PlannedProgram& program) {
    for (const std::string& name : program.names())
        for (const char* state : {"first_moment.", "second_moment.", "momentum."})
            if (name.starts_with(state)) program.set(name, Tensor(program.type(name)));
}

}  // namespace thunderc
