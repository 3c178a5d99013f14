// SPDX-License-Identifier: Apache-2.0
// Fixed batches: for step s and input X the tensor X_s of a safetensors file. Steps wrap around.
#include <algorithm>
#include <vector>

#include "checkpoint/safetensors.h"
#include "data/batch_source.h"
#include "program/inputs.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

class Feed : public BatchSource {
  public:
    Feed(const ProgramSpec& program, const Options& options, const BatchCut& cut)
        : program_(program), file_(options.feed), cut_(cut), asked_(options.steps) {
        const std::string& path = options.feed;
        for (const InputSpec& input : program.inputs) {
            std::int64_t steps = 0;
            while (file_.find(name(input, steps)) != nullptr) ++steps;
            if (steps == 0) fail_absent(input);
            if (steps_ != 0 && steps != steps_) {
                fail(cat(path, " has ", program.inputs[0].name, " for ",
                         count_text(static_cast<std::uint64_t>(steps_), "step"), " and ", input.name, " for ", steps),
                     cat("each input needs the tensors NAME_0 ... NAME_", std::max(steps, steps_) - 1));
            }
            steps_ = steps;
            for (std::int64_t step = 0; step < steps; ++step) check(input, step);
        }
        if (program.inputs.empty()) steps_ = 1;
    }

    void load(std::int64_t step, std::int64_t /*position*/, std::int64_t micro_step,
              std::span<std::byte> batch) override {
        const std::int64_t fed = step % steps_;
        for (const InputSpec& input : program_.inputs) {
            const StoredTensor& tensor = *file_.find(name(input, fed));
            const std::size_t count = input.bytes / size_of(input.dtype);
            const std::size_t first = input.batched ? count / static_cast<std::size_t>(cut_.batch) *
                                                          static_cast<std::size_t>(cut_.first_row(micro_step))
                                                    : 0;
            read_input(file_.path(), tensor, input, first, batch.data() + input.offset);
        }
    }

    std::int64_t steps() const override { return steps_; }

    std::string describe() const override {
        return cat("batches from ", file_.path(), " (", count_text(static_cast<std::uint64_t>(steps_), "step"),
                   asked_ > steps_ && !program_.inputs.empty() ? ", repeated" : "", ")");
    }

  private:
    static std::string name(const InputSpec& input, std::int64_t step) { return cat(input.name, "_", step); }

    [[noreturn]] void fail_absent(const InputSpec& input) const {
        const std::vector<std::string> held = file_.names();
        std::vector<std::string> inputs;
        for (const InputSpec& spec : program_.inputs) inputs.emplace_back(spec.name);
        fail(cat(file_.path(), " has no tensor ", name(input, 0)),
             cat("it holds ", held.empty() ? "nothing" : list_text(held), "; the inputs are ", list_text(inputs),
                 ", and step s takes NAME_s"));
    }

    void check(const InputSpec& input, std::int64_t step) const {
        const StoredTensor& tensor = *file_.find(name(input, step));
        std::vector<std::int64_t> expected(input.shape.begin(), input.shape.end());
        if (input.batched) expected[0] = cut_.global_rows();
        if (!readable_as(tensor.dtype, input.dtype)) {
            fail(cat(file_.path(), ": ", tensor.name, " is ", tensor.describe(), ", and the input takes ",
                     stored_name(input.dtype)),
                 "write it with that type");
        }
        if (tensor.shape == expected) return;
        std::string help = "the feed was made for another model, batch or length";
        const bool same_rank = tensor.shape.size() == expected.size();
        std::string others;  // dimensions beside the rows
        for (std::size_t d = input.batched ? 1 : 0; same_rank && d < expected.size(); ++d)
            if (tensor.shape[d] != expected[d])
                others += cat(others.empty() ? "" : ", ", "dimension ", d, " is ", tensor.shape[d], " there and ",
                              expected[d], " in this program");
        if (!others.empty() && input.batched) {
            // No number of micro-steps mends that.
            help = cat(others,
                       ": cut the feed, or write a program of the other size with thunderc train --seq or "
                       "--dim, where the graph leaves it open");
        } else if (input.batched && same_rank) {
            help = cat("a step takes ", cut_.global_rows(), " rows: ", cut_.batch,
                       " of a micro-batch, times --grad-accum ", cut_.micro_steps,
                       cut_.world > 1 ? cat(", times ", cut_.world, " ranks") : "");
            const std::int64_t per_micro_step = cut_.batch * cut_.world, rows = tensor.shape[0];
            if (rows > 0 && rows != cut_.global_rows() && rows % per_micro_step == 0)
                help += cat("; for ", rows, " rows, --grad-accum ", rows / per_micro_step);
        }
        fail(cat(file_.path(), ": ", tensor.name, " has shape ", shape_text(tensor.shape), ", expected ",
                 shape_text(expected)),
             help);
    }

    const ProgramSpec& program_;
    SafetensorsFile file_;
    BatchCut cut_;
    std::int64_t asked_;      // steps of the whole run
    std::int64_t steps_ = 0;  // that the file holds batches for
};

}  // namespace

std::unique_ptr<BatchSource> make_feed(const ProgramSpec& program, const Options& options, const BatchCut& cut) {
    return std::make_unique<Feed>(program, options, cut);
}

}  // namespace thunder
