// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/precision/block_quantiser.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/composite.h"
#include "compiler/ops/fp8.h"
#include "compiler/ops/fp8_once.h"
#include "compiler/ops/linear.h"
#include "compiler/passes/precision/exempt_layers.h"
#include "compiler/passes/precision/fp8_recipes.h"

namespace thunderc {
namespace {

// A function that one call or loop of an entry runs, written anew.
class BlockQuantiser {
  public:
    BlockQuantiser(const BlockCallOfStep& of, ScaledTensors& tensors, const Fp8Options& options, Report& report)
        : entry_(of.entry),
          call_(of.call),
          f_(*of.module.find(called_function(of.call))),
          tensors_(tensors),
          options_(options),
          of_recipe_(row_of(options.recipe)),
          report_(report),
          b_(f_) {}

    // Which layers the function reads, where it is of the forward pass: what a backward pass computes again is no other
    // reading.
    void note_reads() {
        for (const Op& op : f_.ops)
            if (op.name == "linear_backward_input")
                if (const ScaledLayer layer = layer_of(weights_of_backward(op)); !layer.empty())
                    tensors_.note_read_backward(layer);
        if (is_of_backward_pass(f_)) return;
        for (const Op& op : f_.ops)
            if (op.name == "linear")
                if (const ScaledLayer layer = layer_of(weights_of(op)); !layer.empty()) tensors_.note_read(layer);
    }

    // Whether the forward pass is of this step: it notes amaxes, and decides which layers are quantised.
    void run(bool of_step) {
        of_step_ = of_step;
        const Function before = f_;
        const Uses uses(before);
        std::vector<Op> ops = std::exchange(f_.ops, {});
        for (Op& op : ops) {
            b_.set_provenance(op.provenance);
            if (op.name == "linear")
                forward(op);
            else if (op.name == "linear_backward_input")
                backward_input(op, before, uses);
            else if (op.name == "linear_backward_weight")
                backward_weight(op, before, uses);
            else
                f_.ops.push_back(std::move(op));
        }
        for (const auto& [dy, scope] : left_)
            if (options_.weight_gradients && gradients_.contains(dy))
                report_.declined("quantise_products", scope,
                                 "the gradient of its weight is not added up as it is: that product stays in bf16");
        finish();
        drop_unread(uses);
    }

  private:
    // ---- which tensor an argument of the function stands for outside ----

    std::optional<std::size_t> argument(Value v) const {
        const auto at = std::find(f_.arguments.begin(), f_.arguments.end(), v);
        if (at == f_.arguments.end()) return std::nullopt;
        return static_cast<std::size_t>(at - f_.arguments.begin());
    }
    std::size_t end_of_layer() const {
        return is_loop(call_) ? loop_carried(call_) + loop_per_layer(call_) : call_.operands.size();
    }
    bool is_of_layer(std::size_t k) const {
        return !is_loop(call_) || (k >= loop_carried(call_) && k < end_of_layer());
    }
    // Of a parameter, of its copy or of its gradient: what the parameters are called, layer by layer.
    std::vector<std::string> parameters(Value v) const {
        const std::optional<std::size_t> k = argument(v);
        if (!k || !is_of_layer(*k)) return {};
        for (std::size_t a = 0; a < entry_.arguments.size(); ++a) {
            if (entry_.arguments[a] != call_.operands[*k]) continue;
            const ArgInfo& info = entry_.argument_info[a];
            std::vector<std::string> names = info.names;
            if (info.kind == ArgInfo::Kind::state)
                for (std::string& name : names) name = name.substr(name.find('.') + 1);
            else if (info.kind != ArgInfo::Kind::parameter)
                return {};
            return names;
        }
        return {};
    }
    // Whose weights these are; empty where one is none of its own.
    ScaledLayer layer_of(const std::vector<Value>& weights) const {
        std::vector<std::vector<std::string>> all;
        for (const Value w : weights) {
            all.push_back(parameters(w));
            if (all.back().empty()) return {};
        }
        return layer_of_weights(all);
    }

    void declined(const Op& op, const std::string& why) {
        report_.declined("quantise_products", scope_of(op), why);
        tensors_.note_declined(scope_of(op), why);
    }
    std::string scope_of(const Op& op) const {
        return op.provenance.scope.empty() ? "@" + f_.name : op.provenance.scope;
    }

    // ---- states ----

    Value state(ScaledTensor& tensor, ScaledTensor::Part part) {
        const auto key = std::make_pair(&tensor, part);
        if (const auto at = inside_.find(key); at != inside_.end()) return at->second;
        const Value outer = tensors_.argument(entry_, tensor, part);
        const Value inner = f_.add_value(entry_.type(outer).member(), unique_value_name(f_, tensor.short_name(part)));
        added_.emplace_back(inner, outer);
        return inside_[key] = inner;
    }

    // ---- quantising ----

    // A copy, and what its codes are to be multiplied by; `blocks`: it is one number where there are none.
    struct Codes {
        Value codes, scale;
        std::string blocks{};
    };
    struct Copies {
        Codes plain, transposed;
    };

    Attributes of_copies(const ScaledTensor& tensor, const std::vector<Value>& x, bool plain, bool transposed) const {
        const char* copies = plain && transposed ? "both" : plain ? "plain" : "transposed";
        Attributes attributes{{"copies", std::string(copies)}, {"dtype", tensor.dtype}};
        if (x.size() > 1) attributes.set("adjacent_weights", true);
        return attributes;
    }
    std::string name_of_codes(const ScaledTensor& tensor, const std::vector<Value>& x) const {
        return tensor.role == "weight" ? tensor.short_name() : f_.info(x[0]).name;
    }

    // `notes`: of the step's forward and backward pass; with delayed scaling its amax is what scales follow from.
    Copies quantise(ScaledTensor& tensor, const std::vector<Value>& x, bool plain, bool transposed, bool notes) {
        return of_recipe_.rows[0] != 0 ? quantise_blocks(tensor, x, plain, transposed)
                                       : quantise_whole(tensor, x, plain, transposed, notes);
    }

    Copies quantise_whole(ScaledTensor& tensor, const std::vector<Value>& x, bool plain, bool transposed, bool notes) {
        const bool delayed = options_.recipe == Fp8Recipe::delayed;
        std::vector<Value> operands;
        if (delayed) operands.push_back(state(tensor, ScaledTensor::Part::scale));
        if (delayed && notes) operands.push_back(state(tensor, ScaledTensor::Part::amax));
        operands.insert(operands.end(), x.begin(), x.end());
        const char* op = !delayed ? "fp8_quantise_current" : notes ? "fp8_quantise" : "fp8_requantise";
        const std::vector<Value> made = b_.emit(op, operands, of_copies(tensor, x, plain, transposed));
        const std::string name = name_of_codes(tensor, x);
        std::size_t r = 0;
        const auto take = [&](const std::string& as) {
            f_.info(made[r]).name = unique_value_name(f_, as);
            return made[r++];
        };
        if (!delayed)
            take(name + "_scale");
        else if (notes)
            noted_.emplace_back(&tensor, take(tensor.short_name(ScaledTensor::Part::amax) + "_after"));
        const Value inverse = take(name + "_inverse");
        const std::string of_type = fmt::format("{}_{}", name, thunderc::name_of(tensor.dtype));
        Copies copies;
        if (plain) copies.plain = {take(of_type), inverse};
        if (transposed) copies.transposed = {take(of_type + "_transposed"), inverse};
        return copies;
    }

    Copies quantise_blocks(const ScaledTensor& tensor, const std::vector<Value>& x, bool plain, bool transposed) {
        const std::string blocks = tensor.role == "weight" ? of_recipe_.weights : of_recipe_.rows;
        Attributes attributes = of_copies(tensor, x, plain, transposed);
        attributes.set("blocks", blocks);
        const std::vector<Value> made = b_.emit("fp8_quantise_blocks", x, attributes);
        const std::string name = name_of_codes(tensor, x);
        std::size_t r = 0;
        const auto take = [&](const std::string& end) {
            f_.info(made[r]).name = unique_value_name(f_, name + "_scales" + end);
            f_.info(made[r + 1]).name =
                unique_value_name(f_, fmt::format("{}_{}{}", name, thunderc::name_of(tensor.dtype), end));
            r += 2;
            return Codes{made[r - 1], made[r - 2], blocks};
        };
        Copies copies;
        if (plain) copies.plain = take("");
        if (transposed) copies.transposed = take("_transposed");
        return copies;
    }

    // ---- weights, once a step ----

    // Of what products of this step read: in its first micro-step both copies are made, and are there from then on. An
    // evaluation, which comes between steps, quantises for itself.
    Codes weight_codes(ScaledTensor& tensor, const std::vector<Value>& weights, bool transposed, bool notes) {
        if (!tensor.kept.empty() && of_step_) return kept(tensor, transposed);
        if (!notes || !of_step_ || !options_.keep_weights || !outer_first())
            return take(quantise(tensor, weights, !transposed, transposed, notes), transposed);
        const bool both = tensors_.is_read_backward(tensor.weights);
        const std::size_t noted = noted_.size();
        const Copies copies = quantise(tensor, weights, true, both, true);
        keep(tensor, copies, noted_.size() - noted);
        return take(copies, transposed);
    }
    static Codes take(const Copies& copies, bool transposed) { return transposed ? copies.transposed : copies.plain; }

    // The op that has just been emitted is one that quantises once a step.
    void keep(ScaledTensor& tensor, const Copies& copies, std::size_t amaxes) {
        Op op = std::move(f_.ops.back());
        f_.ops.pop_back();
        std::vector<Value> before;
        for (std::size_t r = amaxes; r < op.results.size(); ++r) {
            const Value after = op.results[r];
            const std::string what = what_is_kept(op, r, copies);
            const Value outer = tensors_.argument(entry_, tensor, what, f_.type(after));
            const std::string name = fmt::format("{}_{}_before", tensor.short_name(), what);
            before.push_back(f_.add_value(f_.type(after), unique_value_name(f_, name)));
            added_.emplace_back(before.back(), outer);
            kept_.push_back({&tensor, what, outer, after});
        }
        f_.ops.push_back(once_a_step(std::move(op), before, first()));
    }
    // The entry's, whether this is the first micro-step of a step; none where it does not know.
    Value outer_first() const {
        for (std::size_t k = 0; k < entry_.arguments.size(); ++k)
            if (const ArgInfo& info = entry_.argument_info[k];
                info.kind == ArgInfo::Kind::scalar && info.names.front() == "first_micro_step")
                return entry_.arguments[k];
        return {};
    }
    Value first() {
        const auto at = std::find(call_.operands.begin(), call_.operands.end(), outer_first());
        if (at != call_.operands.end()) return f_.arguments[static_cast<std::size_t>(at - call_.operands.begin())];
        if (!first_) first_ = f_.add_value(entry_.type(outer_first()), unique_value_name(f_, "first"));
        return first_;
    }
    std::string what_is_kept(const Op& op, std::size_t r, const Copies& copies) const {
        const Value v = op.results[r];
        const std::string type(thunderc::name_of(DType::e4m3));
        if (v == copies.plain.codes) return type;
        if (copies.transposed.codes && v == copies.transposed.codes) return type + "_transposed";
        if (copies.plain.blocks.empty()) return v == copies.plain.scale ? "inverse" : "scale";
        return v == copies.plain.scale ? "scales" : "scales_transposed";
    }

    // What the forward pass has left, as an argument.
    Codes kept(const ScaledTensor& tensor, bool transposed) {
        const std::string blocks = of_recipe_.weights, end = transposed ? "_transposed" : "";
        const std::string scale = blocks.empty() ? "inverse" : "scales" + end;
        const auto read = [&](const std::string& what) {
            const Value outer = tensor.kept.at(what);
            const auto [at, is_new] = read_.try_emplace(outer);
            if (is_new) {
                at->second =
                    f_.add_value(entry_.type(outer).member(), unique_value_name(f_, tensor.short_name() + "_" + what));
                added_.emplace_back(at->second, outer);
            }
            return at->second;
        };
        return {read(std::string(thunderc::name_of(DType::e4m3)) + end), read(scale), blocks};
    }

    // The product of a and b in the place of `op`, whose operands are a, b, their scales and `more`.
    static Op product(const char* name, const Op& op, DType dtype, const Codes& a, const Codes& b,
                      const std::vector<Value>& more) {
        Op made;
        made.name = name;
        made.operands = {a.codes, b.codes, a.scale, b.scale};
        made.operands.insert(made.operands.end(), more.begin(), more.end());
        made.attributes = {{"dtype", dtype}};
        if (!a.blocks.empty()) {
            made.attributes.set("blocks_a", a.blocks);
            made.attributes.set("blocks_b", b.blocks);
        }
        made.provenance = op.provenance;
        return made;
    }

    void linear_product(const Op& op, const Codes& a, const Codes& b, Value residual,
                        const std::vector<Value>& biases) {
        std::vector<Value> more;
        if (residual || !biases.empty()) more.push_back(residual);
        more.insert(more.end(), biases.begin(), biases.end());
        Op made = product("fp8_linear", op, f_.type(op.results[0]).dtype, a, b, more);
        if (biases.size() > 1) made.attributes.set("adjacent_weights", true);
        made.results = {op.results[0]};
        f_.ops.push_back(std::move(made));
    }

    // ---- y = x Wᵀ ----

    // Why a layer stays as it is; "": it does not.
    std::string unfit(const Op& op, const ScaledLayer& layer) const {
        if (layer.empty()) return "its weights are no parameters of the layer alone";
        if (is_exempt(op)) return "--fp8-skip names it";
        if (tensors_.is_read_twice(layer)) return "its weights are read twice";
        if (tensors_.is_called_as_another(layer)) return "another layer has its name";
        const Type& x = f_.type(op.operands[0]);
        if (x.dtype != DType::bf16 || f_.type(op.results[0]).dtype != DType::bf16)
            return fmt::format("it is of {}", name_of(x.dtype));
        if (op.attributes.string("activation", "none") != "none" || op.results.size() > 1)
            return "it applies an activation";
        const std::pair<const char*, std::int64_t> sizes[] = {{"rows", row_count(x.dims)},
                                                              {"inputs", last_dim(x.dims)},
                                                              {"outputs", last_dim(f_.type(op.results[0]).dims)}};
        for (const auto& [what, size] : sizes)
            if (size % of_recipe_.multiple != 0)
                return fmt::format("{} {} are no multiple of {}", size, what, of_recipe_.multiple);
        return of_step_ || tensors_.find(layer, "input") != nullptr ? "" : "the step has it so";
    }

    static std::vector<Value> weights_of(const Op& linear) {
        std::vector<Value> out;
        for (std::size_t k = 0; k < linear_products(linear.operands.size()); ++k)
            out.push_back(linear.operands[linear_weight(k)]);
        return out;
    }

    static std::vector<Value> weights_of_backward(const Op& backward_input) {
        std::vector<Value> out;
        for (std::size_t k = 0; k < backward_input_products(backward_input.operands.size()); ++k)
            out.push_back(backward_input.operands[backward_input_weight(k)]);
        return out;
    }

    void forward(Op& op) {
        const std::vector<Value> weights = weights_of(op);
        std::vector<Value> biases;
        for (std::size_t k = 0; k < weights.size(); ++k)
            if (has_operand(op, linear_bias(k))) biases.push_back(op.operands[linear_bias(k)]);
        const ScaledLayer layer = layer_of(weights);
        if (const std::string why = unfit(op, layer); !why.empty()) {
            declined(op, why);
            f_.ops.push_back(std::move(op));
            return;
        }
        // What is computed again in the backward pass, or evaluated, has the scales that it has, and its amax is known.
        const bool notes = tensors_.find(layer, "input") == nullptr;
        if (notes && !report_.may("quantise_products", scope_of(op),
                                  fmt::format("e4m3 times e4m3 for {}", f_.info(op.results[0]).name))) {
            f_.ops.push_back(std::move(op));
            return;
        }
        ScaledTensor& input = tensors_.get(layer, "input", DType::e4m3);
        ScaledTensor& weight = tensors_.get(layer, "weight", DType::e4m3);
        const Codes x = quantise(input, {op.operands[0]}, true, false, notes).plain;
        const Codes w = weight_codes(weight, weights, false, notes);
        linear_product(op, x, w, operand_or_none(op, linear_residual), biases);
        if (notes)
            report_.done("quantise_products", op.provenance.scope, fmt::format("e4m3 times e4m3, {}", of_recipe_.says));
    }

    // ---- dx = dy W, dW = dyᵀ x ----

    bool is_quantised_layer(const ScaledLayer& layer) const {
        return !layer.empty() && tensors_.find(layer, "input") != nullptr;
    }

    std::string of_gradients() const { return fmt::format("{} times e4m3", thunderc::name_of(of_recipe_.gradient)); }

    // dy is quantised once, for both products; of a layer that is frozen for the one that there is.
    Copies gradient(const ScaledLayer& layer, Value dy, const Function& before, const Uses& uses) {
        const auto known = gradients_.find(dy);
        if (known != gradients_.end()) return known->second;
        const auto is_read = [&](std::int32_t user) {
            const Op& op = before.ops[static_cast<std::size_t>(user)];
            return op.name == "linear_backward_weight" && op.operands[0] == dy && multiplies_codes(op, before, uses);
        };
        const std::vector<std::int32_t>& users = uses.users[dy.index];
        ScaledTensor& tensor = tensors_.get(layer, "gradient", of_recipe_.gradient);
        return gradients_[dy] = quantise(tensor, {dy}, true, std::any_of(users.begin(), users.end(), is_read), true);
    }

    void backward_input(Op& op, const Function& before, const Uses& uses) {
        const std::vector<Value> weights = weights_of_backward(op);
        const ScaledLayer layer = layer_of(weights);
        if (!is_quantised_layer(layer) ||
            !report_.may("quantise_products", scope_of(op),
                         fmt::format("{} for {}", of_gradients(), f_.info(op.results[0]).name))) {
            f_.ops.push_back(std::move(op));
            return;
        }
        const Codes dy = gradient(layer, op.operands[0], before, uses).plain;
        const Codes w = weight_codes(*tensors_.find(layer, "weight"), weights, true, false);
        linear_product(op, dy, w, operand_or_none(op, backward_input_residual), {});
        report_.done("quantise_products", op.provenance.scope, of_gradients());
    }

    // The gradient that each weight's is added to, where it is added in this function.
    static std::vector<Value> destinations(const Op& op, std::size_t weights, const Function& f, const Uses& uses) {
        std::vector<Value> out;
        for (std::size_t r = 0; r < weights; ++r)
            for (const std::int32_t user : uses.users[op.results[r].index])
                if (const Op& adds = f.ops[static_cast<std::size_t>(user)]; adds.name == "accumulate_gradient")
                    out.push_back(adds.operands[0]);
        return out;
    }

    static std::size_t products_of(const Op& backward_weight) {
        return backward_weight.results.size() / (backward_weight.attributes.boolean("bias", false) ? 2 : 1);
    }
    ScaledLayer layer_of_gradients(const Op& op, const Function& before, const Uses& uses) const {
        const std::vector<Value> destination = destinations(op, products_of(op), before, uses);
        return destination.size() == products_of(op) ? layer_of(destination) : ScaledLayer{};
    }
    bool multiplies_codes(const Op& op, const Function& before, const Uses& uses) const {
        return options_.weight_gradients && op.operands.size() <= backward_weight_before &&
               is_quantised_layer(layer_of_gradients(op, before, uses));
    }

    void backward_weight(Op& op, const Function& before, const Uses& uses) {
        if (!multiplies_codes(op, before, uses)) {
            if (layer_of_gradients(op, before, uses).empty()) left_.emplace_back(op.operands[0], scope_of(op));
            f_.ops.push_back(std::move(op));
            return;
        }
        if (!report_.may("quantise_products", scope_of(op),
                         fmt::format("{} for {}", of_gradients(), f_.info(op.results[0]).name))) {
            f_.ops.push_back(std::move(op));
            return;
        }
        const bool biases = op.attributes.boolean("bias", false);
        const std::size_t n = products_of(op);
        const ScaledLayer layer = layer_of_gradients(op, before, uses);
        const Codes dy = gradient(layer, op.operands[0], before, uses).transposed;
        const Codes x = quantise(*tensors_.find(layer, "input"), {op.operands[1]}, false, true, false).transposed;
        if (biases) bias_gradients(op, n);
        Op made = product("fp8_linear_backward_weight", op, f_.type(op.results[0]).dtype, dy, x, {});
        for (const char* kept : {"adjacent_weights", "outs"})
            if (const Attribute* attribute = op.attributes.find(kept)) made.attributes.set(kept, *attribute);
        made.results.assign(op.results.begin(), op.results.begin() + static_cast<std::ptrdiff_t>(n));
        f_.ops.push_back(std::move(made));
        report_.done("quantise_products", op.provenance.scope, of_gradients() + ", the gradient of its weights");
    }

    // Sums of dy as it was, which the product of it made on the way.
    void bias_gradients(const Op& op, std::size_t n) {
        const Value dy = op.operands[0];
        Dims leading;
        for (std::int64_t d = 0; d + 1 < f_.type(dy).rank(); ++d) leading.push_back(d);
        const Value sums = b_.reduce_sum(b_.cast(dy, DType::f32), leading);
        std::int64_t begin = 0;
        for (std::size_t k = 0; k < n; ++k) {
            const Type type = f_.type(op.results[n + k]);
            Value part = b_.slice(sums, 0, begin, begin + type.dims[0]);
            part = b_.reshape(b_.cast(part, type.dtype), type.dims);
            replaced_[op.results[n + k]] = part;
            begin += type.dims[0];
        }
    }

    // ---- the end: states come in and go out ----

    void finish() {
        substitute(f_, replaced_);
        if (added_.empty()) return;
        const auto at = static_cast<std::ptrdiff_t>(end_of_layer());
        std::vector<Value> inner, outer;
        for (const auto& [in, out] : added_) {
            inner.push_back(in);
            outer.push_back(out);
        }
        f_.arguments.insert(f_.arguments.begin() + at, inner.begin(), inner.end());
        call_.operands.insert(call_.operands.begin() + at, outer.begin(), outer.end());
        if (is_loop(call_))
            call_.attributes.set("per_layer",
                                 call_.attributes.integer("per_layer") + static_cast<std::int64_t>(added_.size()));
        if (first_) {
            f_.arguments.push_back(first_);
            call_.operands.push_back(outer_first());
        }
        for (const KeptPart& part : kept_) {
            f_.results.push_back(part.after);
            if (!f_.result_names.empty()) f_.result_names.push_back(f_.info(part.after).name);
            const std::string name = entry_.info(part.outer_before).name + "_after";
            const Value after = entry_.add_value(entry_.type(part.outer_before), unique_value_name(entry_, name));
            call_.results.push_back(after);
            part.tensor->kept[part.what] = after;
        }
        for (const auto& [tensor, amax] : noted_) {
            f_.results.push_back(amax);
            if (!f_.result_names.empty()) f_.result_names.push_back(f_.info(amax).name);
            const Value before = tensors_.argument(entry_, *tensor, ScaledTensor::Part::amax);
            tensor->amax_after =
                entry_.add_value(entry_.type(before), unique_value_name(entry_, entry_.info(before).name + "_after"));
            call_.results.push_back(tensor->amax_after);
        }
    }

    // What was read before and no longer is: weights of which codes are kept.
    void drop_unread(const Uses& before) {
        const Uses now(f_);
        for (std::size_t k = f_.arguments.size(); k-- > (is_loop(call_) ? loop_carried(call_) : 0);) {
            const Value v = f_.arguments[k];
            if (v.index >= before.users.size() || before.users[v.index].empty()) continue;  // new, or never read
            if (!now.users[v.index].empty() || now.is_result[v.index]) continue;
            if (is_loop(call_) && k < end_of_layer())
                call_.attributes.set("per_layer", call_.attributes.integer("per_layer") - 1);
            const auto at = static_cast<std::ptrdiff_t>(k);
            f_.arguments.erase(f_.arguments.begin() + at);
            call_.operands.erase(call_.operands.begin() + at);
        }
    }

    Function& entry_;
    Op& call_;
    Function& f_;
    ScaledTensors& tensors_;
    const Fp8Options& options_;
    const Fp8RecipeRow& of_recipe_;
    Report& report_;
    Builder b_;
    bool of_step_ = true;
    std::map<std::pair<ScaledTensor*, ScaledTensor::Part>, Value> inside_;
    std::map<Value, Value> read_;  // by the entry's value, of codes that are kept
    struct KeptPart {
        ScaledTensor* tensor;
        std::string what;
        Value outer_before, after;
    };
    std::vector<KeptPart> kept_;                          // that the function makes in a first micro-step
    Value first_;                                         // whether this is one, where that is a new argument
    std::vector<std::pair<Value, Value>> added_;          // arguments of the function, of the call
    std::vector<std::pair<ScaledTensor*, Value>> noted_;  // amaxes that the function gives
    std::map<Value, Copies> gradients_;                   // by dy
    std::vector<std::pair<Value, std::string>> left_;     // dy of gradients of weights that stay as they are, and where
    std::map<Value, Value> replaced_;
};

}  // namespace

bool is_of_backward_pass(const Function& f) {
    return std::any_of(f.ops.begin(), f.ops.end(), [](const Op& op) {
        return op.name == "linear_backward_input" || op.name == "linear_backward_weight";
    });
}

void note_reads(const BlockCallOfStep& of, ScaledTensors& tensors, const Fp8Options& options, Report& report) {
    BlockQuantiser(of, tensors, options, report).note_reads();
}

void quantise_block(const BlockCallOfStep& of, ScaledTensors& tensors, const Fp8Options& options, bool of_step,
                    Report& report) {
    BlockQuantiser(of, tensors, options, report).run(of_step);
}

}  // namespace thunderc
