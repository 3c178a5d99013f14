// SPDX-License-Identifier: Apache-2.0
// Convolutions by oneDNN's primitives. As products (linear_onednn.cpp), these run on one thread each: the images are
// cut into parts, which the threads of the team take as they get to them. The library has its own layouts: a part is
// brought into it, computed, brought back, and gets what follows the sums, within the caches of one core. The bias is
// the primitive's own on the way forward, as is its gradient beside that of the weight. Gradients of weight and bias
// are the sums of what the parts give, in their order; there are as many of them as threads.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "device/cpu/convolution/providers.h"
#include "device/cpu/onednn.h"
#include "device/parallel.h"
#include "device/stream.h"

namespace thunder::onednn {

namespace {

enum class Direction : std::uint8_t { forward, input, weight };

constexpr const char* describe = "describe a convolution";

// A tensor as the program has it, and as the primitive wants it.
struct Side {
    Layout plain{}, wanted{};
    Primitive reorder{};  // null: they are one
    int argument = 0;
    bool result = false;
    std::size_t bytes = 0;  // as the primitive wants it

    bool as_it_is() const { return reorder == nullptr; }
};

// Of some images at once.
struct Compiled {
    Primitive primitive{};  // null: not to be used
    Side x{}, y{};
    Layout weight{}, bias{};  // as the primitive wants it; null: it has no bias
    int weight_argument = 0, bias_argument = 0;
    const_dnnl_memory_desc_t scratchpad = nullptr;  // the primitive's own
    std::size_t scratchpad_bytes = 0;
};

// The weight, or its gradient, between the program's layout and the primitive's, some filters at a time.
struct WeightPiece {
    Primitive reorder{};
    Layout from{}, to{};
};

struct Plan {
    int threads = 0;
    std::int64_t parts = 0;              // 0: not to be used
    std::int64_t images = 0, large = 0;  // of a part; how many parts have that many, the others one less
    Compiled part{}, smaller{};
    bool weight_as_it_is = false;
    std::size_t weight_bytes = 0;
    std::vector<WeightPiece> weight{};
    std::size_t scratch = 0;  // bytes for each thread
};

struct Key {
    Direction direction;
    bool bias;  // added by the primitive, or its gradient is summed by it
    std::array<std::int64_t, 22> sizes;
    auto operator<=>(const Key&) const = default;
};

struct Cache : ProviderCache {
    Engine engine{};
    std::vector<Queue> queues{};  // one for each thread
    std::map<Key, Plan> plans{};

    Cache() { check(dnnl_engine_create(engine.out(), dnnl_cpu, 0), "start"); }
};

std::size_t aligned(std::size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

// Sizes without the dimensions in front that are 1 throughout.
struct Dimensions {
    std::size_t first;  // 0: three, 1: two
    std::array<std::int64_t, 3> strides{}, gaps{}, before{}, behind{};

    explicit Dimensions(const ConvolutionForm& f)
        : first(f.in[0] == 1 && f.out[0] == 1 && f.window[0] == 1 && f.before[0] == 0 ? 1 : 0) {
        for (std::size_t d = first; d < 3; ++d) {
            strides[d - first] = f.strides[d];
            gaps[d - first] = f.dilations[d] - 1;
            before[d - first] = f.before[d];
            behind[d - first] =
                (f.out[d] - 1) * f.strides[d] + (f.window[d] - 1) * f.dilations[d] + 1 - f.in[d] - f.before[d];
        }
    }
    std::vector<std::int64_t> joined(std::initializer_list<std::int64_t> front, const Sizes& sizes) const {
        std::vector<std::int64_t> all(front);
        all.insert(all.end(), sizes.begin() + static_cast<std::ptrdiff_t>(first), sizes.end());
        return all;
    }
};

Layout dense(const std::vector<std::int64_t>& sizes) {
    std::vector<std::int64_t> strides(sizes.size(), 1);
    for (std::size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
    Layout layout;
    check(dnnl_memory_desc_create_with_strides(layout.out(), static_cast<int>(sizes.size()), sizes.data(), dnnl_f32,
                                               strides.data()),
          describe);
    return layout;
}

Layout with_tag(const std::vector<std::int64_t>& sizes, dnnl_format_tag_t tag) {
    Layout layout;
    check(dnnl_memory_desc_create_with_tag(layout.out(), static_cast<int>(sizes.size()), sizes.data(), dnnl_f32, tag),
          describe);
    return layout;
}

Layout copy_of(const_dnnl_memory_desc_t layout) {
    Layout copy;
    check(dnnl_memory_desc_clone(copy.out(), layout), describe);
    return copy;
}

Attributes with_scratchpad() {
    Attributes attributes;
    check(dnnl_primitive_attr_create(attributes.out()), describe);
    check(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user), describe);
    return attributes;
}

// False where the library has none between the two.
bool make_reorder(Primitive& reorder, const_dnnl_memory_desc_t from, const_dnnl_memory_desc_t to, const Cache& cache) {
    Description description;
    if (dnnl_reorder_primitive_desc_create(description.out(), from, cache.engine, to, cache.engine, nullptr) !=
        dnnl_success)
        return false;
    check(dnnl_primitive_create(reorder.out(), description), "compile a change of layout");
    return true;
}

// What the library would use with the layouts of a tag for x and y; null where it has nothing but products.
Description described(Direction direction, bool with_bias, const ConvolutionForm& f, std::int64_t images,
                      dnnl_format_tag_t tag, const Cache& cache) {
    const Dimensions d(f);
    const auto x_sizes = d.joined({images, f.C}, f.in), y_sizes = d.joined({images, f.M}, f.out);
    const auto w_sizes =
        f.groups == 1 ? d.joined({f.M, f.C}, f.window) : d.joined({f.groups, f.M / f.groups, f.C / f.groups}, f.window);
    const Layout x = with_tag(x_sizes, tag), y = with_tag(y_sizes, tag), w = with_tag(w_sizes, dnnl_format_tag_any);
    const Layout bias = with_bias ? dense({f.M}) : Layout();
    const Attributes attributes = with_scratchpad();
    constexpr dnnl_alg_kind_t direct = dnnl_convolution_direct;
    const std::int64_t *strides = d.strides.data(), *gaps = d.gaps.data(), *before = d.before.data(),
                       *behind = d.behind.data();
    Description forward, backward;
    if (dnnl_convolution_forward_primitive_desc_create(forward.out(), cache.engine, dnnl_forward_training, direct, x, w,
                                                       bias, y, strides, gaps, before, behind,
                                                       attributes) != dnnl_success)
        return {};
    dnnl_status_t status = dnnl_success;
    if (direction == Direction::input)
        status = dnnl_convolution_backward_data_primitive_desc_create(
            backward.out(), cache.engine, direct, x, w, y, strides, gaps, before, behind, forward, attributes);
    if (direction == Direction::weight)
        status = dnnl_convolution_backward_weights_primitive_desc_create(
            backward.out(), cache.engine, direct, x, w, bias, y, strides, gaps, before, behind, forward, attributes);
    if (status != dnnl_success) return {};
    Description& made = direction == Direction::forward ? forward : backward;
    const char* implementation = nullptr;
    check(dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, static_cast<void*>(&implementation)), describe);
    const std::string_view name(implementation);
    // Its products of columns are made of one image at a time, and its plain loops are slow.
    if (name.find("gemm") != std::string_view::npos || name.find("ref") != std::string_view::npos) return {};
    return std::move(made);
}

bool prepare(Side& side, const std::vector<std::int64_t>& sizes, const_dnnl_memory_desc_t wanted, const Cache& cache) {
    side.plain = dense(sizes);
    side.wanted = copy_of(wanted);
    side.bytes = aligned(dnnl_memory_desc_get_size(side.wanted));
    if (dnnl_memory_desc_equal(side.plain, side.wanted) != 0) return true;
    return side.result ? make_reorder(side.reorder, side.wanted, side.plain, cache)
                       : make_reorder(side.reorder, side.plain, side.wanted, cache);
}

Compiled compile(Direction direction, bool with_bias, const ConvolutionForm& f, std::int64_t images,
                 const Cache& cache) {
    const Dimensions d(f);
    // Where channels lie side by side, small images are quick; gradients of weights are quicker in blocks.
    const dnnl_format_tag_t side_by_side = d.first == 1 ? dnnl_nhwc : dnnl_ndhwc;
    Description description;
    if (direction != Direction::weight) description = described(direction, with_bias, f, images, side_by_side, cache);
    if (description == nullptr) description = described(direction, with_bias, f, images, dnnl_format_tag_any, cache);
    Compiled compiled;
    if (description == nullptr) return compiled;
    Primitive primitive;
    check(dnnl_primitive_create(primitive.out(), description), "compile a convolution");
    const_dnnl_primitive_desc_t own = nullptr;  // lives as long as the primitive
    check(dnnl_primitive_get_primitive_desc(primitive, &own), describe);
    const bool forward = direction == Direction::forward, input = direction == Direction::input;
    const auto asked = [&](dnnl_query_t query) { return dnnl_primitive_desc_query_md(own, query, 0); };
    compiled.x.result = input;
    compiled.x.argument = input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    compiled.y.result = forward;
    compiled.y.argument = forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
    compiled.weight_argument = direction == Direction::weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
    compiled.bias_argument = direction == Direction::weight ? DNNL_ARG_DIFF_BIAS : DNNL_ARG_BIAS;
    if (with_bias) compiled.bias = dense({f.M});
    compiled.weight =
        copy_of(asked(direction == Direction::weight ? dnnl_query_diff_weights_md : dnnl_query_weights_md));
    if (!prepare(compiled.x, d.joined({images, f.C}, f.in), asked(input ? dnnl_query_diff_src_md : dnnl_query_src_md),
                 cache) ||
        !prepare(compiled.y, d.joined({images, f.M}, f.out),
                 asked(forward ? dnnl_query_dst_md : dnnl_query_diff_dst_md), cache))
        return compiled;
    compiled.scratchpad = asked(dnnl_query_scratchpad_md);
    compiled.scratchpad_bytes = aligned(dnnl_memory_desc_get_size(compiled.scratchpad));
    compiled.primitive = std::move(primitive);
    return compiled;
}

// Changes of the weight's layout, on several threads where it is large.
bool prepare_weight(Plan& plan, Direction direction, const ConvolutionForm& f, const Cache& cache) {
    const Dimensions d(f);
    const auto sizes =
        f.groups == 1 ? d.joined({f.M, f.C}, f.window) : d.joined({f.groups, f.M / f.groups, f.C / f.groups}, f.window);
    const Layout plain = dense(sizes);
    const Layout& wanted = plan.part.weight;
    plan.weight_as_it_is = dnnl_memory_desc_equal(plain, wanted) != 0;
    plan.weight_bytes = aligned(dnnl_memory_desc_get_size(wanted));
    if (plan.weight_as_it_is) return true;
    const bool out = direction == Direction::weight;
    constexpr std::int64_t filters = 64;  // a multiple of the library's blocks
    const std::int64_t step = f.groups == 1 && f.M % filters == 0 && f.M * f.depth() > 65536 ? filters : sizes[0];
    for (std::int64_t m = 0; m < sizes[0]; m += step) {
        std::vector<std::int64_t> part = sizes, offsets(sizes.size(), 0);
        part[0] = step;
        offsets[0] = m;
        WeightPiece piece;
        if (dnnl_memory_desc_create_submemory(piece.from.out(), out ? wanted : plain, part.data(), offsets.data()) !=
                dnnl_success ||
            dnnl_memory_desc_create_submemory(piece.to.out(), out ? plain : wanted, part.data(), offsets.data()) !=
                dnnl_success ||
            !make_reorder(piece.reorder, piece.from, piece.to, cache))
            return false;
        plan.weight.push_back(std::move(piece));
    }
    return true;
}

Plan plan_of(Direction direction, bool with_bias, const ConvolutionForm& f, int threads, const Cache& cache) {
    Plan plan;
    plan.threads = threads;
    // Threads share images; products of rows they share of one image, too.
    if (f.N < threads) return plan;
    // Of small images with many channels the weight is what takes time to read, and to bring into another layout.
    if (f.N * f.steps() <= (direction == Direction::weight ? 2 : 1) * f.M / f.groups) return plan;
    const double flops = 2.0 * static_cast<double>(f.N * f.steps() * f.M) * static_cast<double>(f.depth());
    // A gradient of a weight takes memory for each part.
    constexpr std::int64_t most_elements = std::int64_t{1} << 24;
    const auto wanted = direction == Direction::weight
                            ? std::clamp<std::int64_t>(most_elements / (f.M * f.depth()), 1, threads)
                            : std::max<std::int64_t>(threads, static_cast<std::int64_t>(flops / 4e7));
    const std::int64_t parts = std::min(wanted, f.N);
    plan.images = (f.N + parts - 1) / parts;
    plan.large = f.N - parts * (plan.images - 1);
    plan.part = compile(direction, with_bias, f, plan.images, cache);
    if (plan.part.primitive == nullptr) return plan;
    if (plan.large < parts) {
        plan.smaller = compile(direction, with_bias, f, plan.images - 1, cache);
        if (plan.smaller.primitive == nullptr || dnnl_memory_desc_equal(plan.part.weight, plan.smaller.weight) == 0)
            return plan;
    }
    if (!prepare_weight(plan, direction, f, cache)) return plan;
    for (const Compiled* compiled : {&plan.part, &plan.smaller})
        plan.scratch = std::max(plan.scratch, compiled->x.bytes + compiled->y.bytes + compiled->scratchpad_bytes);
    plan.parts = parts;
    return plan;
}

dnnl_status_t execute(
    dnnl_primitive_t primitive, dnnl_stream_t queue, const Cache& cache,
    std::initializer_list<std::pair<int, std::pair<const_dnnl_memory_desc_t, const void*>>> given) noexcept {
    std::array<Tensor, 5> tensors;
    std::array<dnnl_exec_arg_t, 5> arguments{};
    int count = 0;
    for (const auto& [name, tensor] : given) {
        if (tensor.first == nullptr) continue;
        const auto at = static_cast<std::size_t>(count++);
        const dnnl_status_t status =
            dnnl_memory_create(tensors[at].out(), tensor.first, cache.engine, const_cast<void*>(tensor.second));
        if (status != dnnl_success) return status;
        arguments[at] = {name, tensors[at]};
    }
    return dnnl_primitive_execute(primitive, queue, count, arguments.data());
}

// One call, on tensors as the program has them.
class Run {
  public:
    Run(Direction direction, bool with_bias, const ConvolutionForm& form, Stream& stream)
        : form_(form), stream_(stream) {
        if (stream.convolutions() == nullptr) stream.keep_convolutions(new Cache);
        cache_ = static_cast<Cache*>(stream.convolutions());
        const int threads = stream.threads();
        Key key{direction, with_bias, {form.N, form.C, form.M, form.groups}};
        std::size_t at = 4;
        for (const Sizes* sizes : {&form.in, &form.out, &form.window, &form.strides, &form.dilations, &form.before})
            for (const std::int64_t size : *sizes) key.sizes[at++] = size;
        plan_ = &cache_->plans[key];
        if (plan_->threads != threads) *plan_ = plan_of(direction, with_bias, form, threads, *cache_);
        while (cache_->queues.size() < static_cast<std::size_t>(threads))
            check(dnnl_stream_create(cache_->queues.emplace_back().out(), cache_->engine, dnnl_stream_default_flags),
                  "start");
    }

    bool refused() const { return plan_->parts == 0; }
    std::int64_t parts() const { return plan_->parts; }
    std::size_t weight_bytes() const { return plan_->weight_bytes; }
    bool weight_as_it_is() const { return plan_->weight_as_it_is; }

    // Bytes of the library's scratch: of the threads, and `more` behind them, whose place is given.
    std::byte* take(std::size_t more) {
        scratch_ = stream_.provider_scratch(plan_->scratch * static_cast<std::size_t>(plan_->threads) + more);
        return scratch_ + plan_->scratch * static_cast<std::size_t>(plan_->threads);
    }

    // `from` to `to`, as plan_of said which is which.
    void change_weight(const float* from, float* to) {
        share_pieces(static_cast<std::int64_t>(plan_->weight.size()), plan_->threads,
                     [&](std::int64_t piece, int thread) {
                         const WeightPiece& p = plan_->weight[static_cast<std::size_t>(piece)];
                         failure_.note(execute(p.reorder, cache_->queues[static_cast<std::size_t>(thread)], *cache_,
                                               {{DNNL_ARG_FROM, {p.from, from}}, {DNNL_ARG_TO, {p.to, to}}}));
                     });
        failure_.tell("compute a convolution");
    }

    // All parts; weight(part) is where a part's weight lies, or what it writes of its gradient, bias(part) the same of
    // the bias. finish(first image, images) does what follows the sums of a part.
    template <typename Weight, typename Bias, typename Finish>
    void compute(const float* x, const float* y, Weight&& weight, Bias&& bias, Finish&& finish) {
        share_pieces(plan_->parts, plan_->threads, [&](std::int64_t piece, int thread) {
            const bool whole = piece < plan_->large;
            const Compiled& compiled = whole ? plan_->part : plan_->smaller;
            const std::int64_t first = piece * plan_->images - std::max<std::int64_t>(0, piece - plan_->large);
            const auto me = static_cast<std::size_t>(thread);
            std::byte* const mine = scratch_ + me * plan_->scratch;
            const float* own_x = x + first * form_.C * count(form_.in);
            const float* own_y = y + first * form_.M * form_.steps();
            const void* used_x = compiled.x.as_it_is() ? static_cast<const void*>(own_x) : mine;
            const void* used_y = compiled.y.as_it_is() ? static_cast<const void*>(own_y) : mine + compiled.x.bytes;
            const auto queue = static_cast<dnnl_stream_t>(cache_->queues[me]);
            const auto change = [&](const Side& side, const void* plain, const void* wanted) {
                if (side.as_it_is()) return;
                if (side.result)
                    failure_.note(
                        execute(side.reorder, queue, *cache_,
                                {{DNNL_ARG_FROM, {side.wanted, wanted}}, {DNNL_ARG_TO, {side.plain, plain}}}));
                else
                    failure_.note(
                        execute(side.reorder, queue, *cache_,
                                {{DNNL_ARG_FROM, {side.plain, plain}}, {DNNL_ARG_TO, {side.wanted, wanted}}}));
            };
            if (!compiled.x.result) change(compiled.x, own_x, used_x);
            if (!compiled.y.result) change(compiled.y, own_y, used_y);
            failure_.note(
                execute(compiled.primitive, queue, *cache_,
                        {{compiled.x.argument, {compiled.x.wanted, used_x}},
                         {compiled.y.argument, {compiled.y.wanted, used_y}},
                         {compiled.weight_argument, {compiled.weight, weight(piece)}},
                         {compiled.bias_argument, {compiled.bias, bias(piece)}},
                         {DNNL_ARG_SCRATCHPAD, {compiled.scratchpad, mine + compiled.x.bytes + compiled.y.bytes}}}));
            if (compiled.x.result) change(compiled.x, own_x, used_x);
            if (compiled.y.result) change(compiled.y, own_y, used_y);
            finish(first, whole ? plan_->images : plan_->images - 1);
        });
        failure_.tell("compute a convolution");
    }

  private:
    const ConvolutionForm& form_;
    Stream& stream_;
    Cache* cache_ = nullptr;
    Plan* plan_ = nullptr;
    std::byte* scratch_ = nullptr;
    FirstFailure failure_;
};

const float* numbers(const void* data) {
    return static_cast<const float*>(data);
}

// The way forward, and the gradient of the input: images by the weight.
bool by_weight(Direction direction, const ConvolutionForm& form, const void* x, const void* y, const void* weight,
               ConvolutionEpilogue epilogue, Stream& stream) {
    const float* bias = direction == Direction::forward ? std::exchange(epilogue.bias, nullptr) : nullptr;
    Run run(direction, bias != nullptr, form, stream);
    if (run.refused()) return false;
    const float* used = numbers(weight);
    std::byte* own = run.take(run.weight_as_it_is() ? 0 : run.weight_bytes());
    if (!run.weight_as_it_is()) {
        run.change_weight(numbers(weight), reinterpret_cast<float*>(own));
        used = reinterpret_cast<const float*>(own);
    }
    auto* const result = const_cast<float*>(numbers(direction == Direction::forward ? y : x));
    run.compute(
        numbers(x), numbers(y), [&](std::int64_t) { return used; }, [&](std::int64_t) { return bias; },
        [&](std::int64_t first, std::int64_t images) {
            if (epilogue.any())
                finish_rows(result, epilogue, first * epilogue.channels, (first + images) * epilogue.channels);
        });
    return true;
}

}  // namespace

bool convolution(const ConvolutionForward& call, Stream& stream) {
    return by_weight(Direction::forward, call.form, call.x.data, call.y.data, call.weight.data, epilogue_of(call),
                     stream);
}

bool convolution(const ConvolutionBackwardInput& call, Stream& stream) {
    return by_weight(Direction::input, call.form, call.dx.data, call.dy.data, call.weight.data, epilogue_of(call),
                     stream);
}

bool convolution(const ConvolutionBackwardWeight& call, Stream& stream) {
    const ConvolutionForm& form = call.form;
    Run run(Direction::weight, static_cast<bool>(call.dbias), form, stream);
    if (run.refused()) return false;
    const bool add = call.mode == WriteMode::add;
    auto* dbias = static_cast<float*>(call.dbias.data);
    auto* dweight = static_cast<float*>(call.dweight.data);
    const auto parts = static_cast<std::size_t>(run.parts());
    // What each part gives, in the primitive's layout; their sum, which is the first of them, is brought into the
    // program's, beside what is there where it is added to.
    const std::size_t bytes = run.weight_bytes(), plain = aligned(static_cast<std::size_t>(form.M * form.depth()) * 4);
    const std::size_t bias_bytes = dbias == nullptr ? 0 : aligned(static_cast<std::size_t>(form.M) * sizeof(float));
    const std::size_t biases = parts * bytes + (add ? plain : 0);
    std::byte* const own = run.take(biases + parts * bias_bytes);
    const auto of_part = [&](std::size_t part) { return reinterpret_cast<float*>(own + part * bytes); };
    const auto bias_of_part = [&](std::int64_t part) {
        return reinterpret_cast<float*>(own + biases + static_cast<std::size_t>(part) * bias_bytes);
    };
    run.compute(
        numbers(call.x.data), numbers(call.dy.data),
        [&](std::int64_t part) { return of_part(static_cast<std::size_t>(part)); }, bias_of_part,
        [](std::int64_t, std::int64_t) {});
    for (std::int64_t m = 0; dbias != nullptr && m < form.M; ++m) {
        float total = add ? dbias[m] : 0.0F;
        for (std::int64_t part = 0; part < run.parts(); ++part) total += bias_of_part(part)[m];
        dbias[m] = total;
    }
    float* const sum = of_part(0);
    if (parts > 1)
        parallel_rows(static_cast<std::int64_t>(bytes / sizeof(float)), static_cast<std::int64_t>(parts),
                      [&](std::int64_t begin, std::int64_t end) {
                          for (std::size_t part = 1; part < parts; ++part) {
                              const float* more = of_part(part);
                              for (std::int64_t i = begin; i < end; ++i) sum[i] += more[i];
                          }
                      });
    const float* made = sum;
    if (!run.weight_as_it_is()) {
        auto* to = add ? reinterpret_cast<float*>(own + parts * bytes) : dweight;
        run.change_weight(sum, to);
        made = to;
    }
    if (made != dweight)
        parallel_rows(form.M * form.depth(), 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) dweight[i] = (add ? dweight[i] : 0.0F) + made[i];
        });
    return true;
}

}  // namespace thunder::onednn
