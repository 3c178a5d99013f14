#include "compiler/analysis/run_planned.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "compiler/analysis/constant_value.h"
#include "compiler/analysis/evaluate.h"
#include "compiler/analysis/views.h"
#include "compiler/ops/op.h"
#include "compiler/support/error.h"
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

std::byte poison(DType dtype) {
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
        case DType::bf16:
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
        case DType::bf16:
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

// Where one value of a frame lies.
struct Spot {
    Arena arena = Arena::unplaced;
    std::int64_t offset = 0, layer_stride = 0;
    Spot member(std::int64_t i) const { return {arena, offset + i * layer_stride, 0}; }
};

std::int64_t members_of(const Type& type) {
    return type.is_family() ? type.count : 1;
}

// The ops after which nobody reads a value's content any more. Views are their operand's content.
struct Lifetimes {
    std::vector<Value> root;
    std::vector<std::vector<Value>> dead_after;  // by op: contents that end with it

    Lifetimes(const Module& module, const Function& f) {
        root.resize(f.values.size());
        for (std::uint32_t v = 0; v < root.size(); ++v) root[v] = {v};
        std::vector<std::int64_t> last(f.values.size(), -1);
        for (std::size_t k = 0; k < f.ops.size(); ++k) {
            const Op& op = f.ops[k];
            const bool alias = is_view(op) || op.name == "member";
            for (Value v : op.operands)
                if (v) last[root[v.index].index] = static_cast<std::int64_t>(k);
            for (Value v : op.results) {
                if (alias) root[v.index] = root[op.operands[0].index];
                last[root[v.index].index] = static_cast<std::int64_t>(k);
            }
            if (op.name == "constant") last[op.results[0].index] = -1;
        }
        for (Value v : f.results) last[root[v.index].index] = -1;
        // A family of what goes into each layer is the chain of carried values itself, whose first is what goes in.
        for (const Op& op : f.ops) {
            if (op.name != "repeat") continue;
            const Function& body = *module.find(op.attributes.string("body"));
            const auto carried = static_cast<std::size_t>(op.attributes.integer("carried"));
            for (std::size_t c = 0; c < carried; ++c)
                for (std::size_t r = carried; r < op.results.size(); ++r) {
                    if (body.results[r] != body.arguments[c]) continue;
                    std::int64_t &in = last[root[op.operands[c].index].index], &family = last[op.results[r].index];
                    in = family = in < 0 || family < 0 ? -1 : std::max(in, family);
                }
        }
        dead_after.resize(f.ops.size());
        std::vector<bool> ends(f.values.size(), false);
        for (const Op& op : f.ops)
            for (Value v : op.results) ends[v.index] = root[v.index] == v && op.name != "constant";
        for (std::uint32_t v = 0; v < last.size(); ++v)
            if (ends[v] && last[v] >= 0) dead_after[static_cast<std::size_t>(last[v])].push_back({v});
    }
};

}  // namespace

class PlannedExecution {
  public:
    explicit PlannedExecution(PlannedProgram& program) : p_(program), module_(program.module_) {}

    struct Binding {
        std::map<Value, Spot> spots;
        std::int64_t scratch = 0;
    };

    void run(const Function& f, const Binding& binding) {
        auto [at, fresh] = lifetimes_.try_emplace(&f);
        if (fresh) at->second.emplace(module_, f);
        const Lifetimes& lifetimes = *at->second;
        std::vector<Spot> frame(f.values.size());
        auto place = [&](Value v) {
            if (f.type(v).kind != Type::Kind::token) frame[v.index] = spot(f, v, binding);
        };
        for (Value v : f.arguments) place(v);
        for (const Op& op : f.ops)
            for (Value v : op.results) place(v);
        for (std::size_t k = 0; k < f.ops.size(); ++k) {
            const Op& op = f.ops[k];
            if (!is_view(op) && op.name != "constant" && op.name != "member")
                step(f, op, frame, lifetimes.dead_after[k], binding);
            else
                kill(f, frame, lifetimes.dead_after[k], {});
        }
    }

    void poison_bytes(Arena arena, std::int64_t offset, std::int64_t count, std::byte with = std::byte{0xff}) {
        if (count > 0)
            std::memset(bytes(arena, offset, count), static_cast<int>(with), static_cast<std::size_t>(count));
    }

    Tensor load(const Spot& spot, const Type& type, const Dims& strides) {
        Tensor t(type.member());
        if (spot.arena == Arena::scalars) {
            const DType stored = scalar_dtype(spot.offset);
            Tensor field(Type::tensor(stored, {}));
            load_element(bytes(spot.arena, spot.offset, static_cast<std::int64_t>(size_of(stored))), stored, field, 0);
            t.set(0, field.at(0));
            return t;
        }
        const std::int64_t size = static_cast<std::int64_t>(size_of(type.dtype));
        for_each_element(type, strides, [&](std::size_t k, std::int64_t at) {
            load_element(bytes(spot.arena, spot.offset + at, size), type.dtype, t, k);
        });
        return t;
    }

    void store(const Spot& spot, const Type& type, const Dims& strides, const Tensor& t) {
        if (spot.arena == Arena::scalars) {
            const DType stored = scalar_dtype(spot.offset);
            Tensor field(Type::tensor(stored, {}));
            field.set(0, t.at(0));
            store_element(bytes(spot.arena, spot.offset, static_cast<std::int64_t>(size_of(stored))), stored, field, 0);
            return;
        }
        const std::int64_t size = static_cast<std::int64_t>(size_of(type.dtype));
        for_each_element(type, strides, [&](std::size_t k, std::int64_t at) {
            store_element(bytes(spot.arena, spot.offset + at, size), type.dtype, t, k);
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

    static Spot spot(const Function& f, Value v, const Binding& binding) {
        const Placement& p = f.info(v).placement;
        if (p.arena == Arena::scratch) return {p.arena, binding.scratch + p.offset, p.layer_stride};
        if (p.arena != Arena::caller) return {p.arena, p.offset, p.layer_stride};
        Value at = v;
        while (f.info(at).placement.view_of) at = f.info(at).placement.view_of;
        auto given = binding.spots.find(at);
        check(given != binding.spots.end(),
              fmt::format("@{}: %{} has no place at its caller's", f.name, f.info(v).name));
        return {given->second.arena, given->second.offset + p.offset, given->second.layer_stride};
    }

    const Function& callee(const Op& op, const char* attribute) const {
        const Function* g = module_.find(op.attributes.string(attribute));
        check(g != nullptr, fmt::format("{} names a function that is not there", op.name));
        return *g;
    }

    void step(const Function& f, const Op& op, const std::vector<Spot>& frame, const std::vector<Value>& dead,
              const Binding& binding) {
        if (op.name == "repeat" || op.name == "call") {
            op.name == "repeat" ? repeat(f, op, frame, binding) : call(op, frame, binding);
            kill(f, frame, dead, op.results);
            return;
        }
        std::vector<Tensor> operands;  // families as their members, in order
        for (Value v : op.operands) {
            if (!v) {
                operands.emplace_back();
                continue;
            }
            for (std::int64_t m = 0; m < members_of(f.type(v)); ++m)
                operands.push_back(load(frame[v.index].member(m), f.type(v), f.info(v).placement.strides));
        }
        std::vector<Type> types;
        for (Value v : op.results)
            types.insert(types.end(), static_cast<std::size_t>(members_of(f.type(v))), f.type(v).member());
        std::vector<Tensor> results;
        if (op.name == "copy" || op.name == "family") {
            results = std::move(operands);
        } else if (op.name == "fused") {
            results = evaluate(module_, callee(op, "kernel"), std::span<const Tensor>(operands));
        } else {
            const OpDef& def = op_def(op.name);
            check(static_cast<bool>(def.reference), op.name + " cannot be executed");
            results = def.reference(op, operands, types);
        }
        check(results.size() == types.size(),
              fmt::format("{} gives {} tensors, {} expected", op.name, results.size(), types.size()));
        // What was read for the last time is gone before the results are written; an op that writes over its operand
        // finds only its own result there.
        kill(f, frame, dead, {}, &op);
        std::size_t next = 0;
        for (Value v : op.results)
            for (std::int64_t m = 0; m < members_of(f.type(v)); ++m, ++next) {
                note_nan(f, op, results[next]);
                store(frame[v.index].member(m), f.type(v), f.info(v).placement.strides, results[next]);
            }
        for (Value v : op.results)  // results that nobody reads
            if (std::find(dead.begin(), dead.end(), v) != dead.end()) kill(f, frame, {v}, {});
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

    // Poisons the bytes of contents in memory that is reused, but not those of `kept`.
    void kill(const Function& f, const std::vector<Spot>& frame, const std::vector<Value>& dead,
              const std::vector<Value>& kept, const Op* before_results_of = nullptr) {
        for (Value v : dead) {
            const Spot& s = frame[v.index];
            if (s.arena != Arena::scratch && s.arena != Arena::saved) continue;
            if (before_results_of != nullptr &&
                std::find(before_results_of->results.begin(), before_results_of->results.end(), v) !=
                    before_results_of->results.end())
                continue;
            if (!f.info(v).placement.strides.empty()) continue;  // its bytes are another's
            const Type& type = f.type(v);
            for (std::int64_t m = 0; m < members_of(type); ++m) {
                const Spot member = s.member(m);
                const auto size = static_cast<std::int64_t>(type.bytes());
                bool free = true;
                for (Value k : kept)
                    for (std::int64_t n = 0; n < members_of(f.type(k)); ++n) {
                        const Spot other = frame[k.index].member(n);
                        free = free && (k == v || other.arena != member.arena || other.offset >= member.offset + size ||
                                        member.offset >= other.offset + static_cast<std::int64_t>(f.type(k).bytes()));
                    }
                if (free) poison_bytes(member.arena, member.offset, size, poison(type.dtype));
            }
        }
    }

    std::int64_t enter(const Op& op, const Function& body, const Binding& binding) {
        if (body.scratch_bytes == 0) return binding.scratch;
        const std::int64_t base = binding.scratch + op.attributes.integer("scratch");
        poison_bytes(Arena::scratch, base, body.scratch_bytes);
        return base;
    }

    void call(const Op& op, const std::vector<Spot>& frame, const Binding& binding) {
        const Function& body = callee(op, "callee");
        Binding inner;
        for (std::size_t k = 0; k < body.arguments.size(); ++k)
            inner.spots[body.arguments[k]] = frame[op.operands[k].index];
        for (std::size_t r = 0; r < body.results.size(); ++r)
            inner.spots.try_emplace(body.results[r], frame[op.results[r].index]);
        inner.scratch = enter(op, body, binding);
        run(body, inner);
    }

    void repeat(const Function& f, const Op& op, const std::vector<Spot>& frame, const Binding& binding) {
        const Function& body = callee(op, "body");
        const std::int64_t n = op.attributes.integer("n");
        const bool reverse = op.attributes.boolean("reverse", false);
        const auto carried = static_cast<std::size_t>(op.attributes.integer("carried"));
        const auto per_layer = static_cast<std::size_t>(op.attributes.integer("per_layer"));
        std::vector<CarrySlots> chain;
        for (std::size_t k = 0; k < carried; ++k) {
            chain.push_back(carry_slots(op, k));
            if (chain.back().arena == Arena::scratch) chain.back().base += binding.scratch;
        }
        for (std::int64_t step = 0; step < n; ++step) {
            const std::int64_t layer = reverse ? n - 1 - step : step;
            Binding inner;
            for (std::size_t k = 0; k < body.arguments.size(); ++k) {
                const Spot& s = frame[op.operands[k].index];
                inner.spots[body.arguments[k]] = k < carried               ? Spot{chain[k].arena, chain[k].at(step), 0}
                                                 : k < carried + per_layer ? s.member(layer)
                                                                           : s;
            }
            for (std::size_t r = 0; r < body.results.size(); ++r)
                inner.spots.try_emplace(body.results[r], r < carried ? Spot{chain[r].arena, chain[r].at(step + 1), 0}
                                                                     : frame[op.results[r].index].member(layer));
            inner.scratch = enter(op, body, binding);
            run(body, inner);
            poison_bytes(Arena::scratch, inner.scratch, body.scratch_bytes);
            for (std::size_t k = 0; k < carried; ++k) {  // slots that are used again: what went in is read
                const Type& type = f.type(op.operands[k]);
                if (chain[k].period > 0)
                    poison_bytes(chain[k].arena, chain[k].at(step), static_cast<std::int64_t>(type.bytes()),
                                 poison(type.dtype));
            }
        }
    }

    PlannedProgram& p_;
    const Module& module_;
    std::map<const Function*, std::optional<Lifetimes>> lifetimes_;
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
            execution.store({p.arena, p.offset, 0}, f.type(v), {}, materialize(*op.attributes.constant("value")));
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
    for (const char* prefix : {"", "grad.", "first_moment.", "second_moment.", "momentum."}) {
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
    PlannedExecution(*this).store({to.arena, to.offset, 0}, to.type, {}, value);
}

Tensor PlannedProgram::get(const std::string& name) const {
    const Named& at = named(name);
    // Loading changes nothing; the execution is written for running, which does.
    return PlannedExecution(const_cast<PlannedProgram&>(*this)).load({at.arena, at.offset, 0}, at.type, {});
}

void PlannedProgram::set_scalar(const std::string& name, double value) {
    const std::optional<std::int64_t> offset = step_scalar_offset(name);
    check(offset.has_value(), fmt::format("there is no step scalar {}", name));
    PlannedExecution(*this).store({Arena::scalars, *offset, 0}, Type::tensor(DType::f64, {}), {},
                                  Tensor::scalar(DType::f64, value));
}

double PlannedProgram::scalar(const std::string& name) const {
    const std::optional<std::int64_t> offset = step_scalar_offset(name);
    check(offset.has_value(), fmt::format("there is no step scalar {}", name));
    return PlannedExecution(const_cast<PlannedProgram&>(*this))
        .load({Arena::scalars, *offset, 0}, Type::tensor(DType::f64, {}), {})
        .at(0);
}

void PlannedProgram::run(const std::string& function) {
    const Function* f = module_.find(function);
    check(f != nullptr && !f->argument_info.empty(), fmt::format("@{} is no function of the program", function));
    first_nan_.clear();
    for (Arena arena : {Arena::scratch, Arena::saved})
        if (auto found = arenas_.find(arena); found != arenas_.end())
            std::fill(found->second.begin(), found->second.end(), std::byte{0xff});
    PlannedExecution(*this).run(*f, {});
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
