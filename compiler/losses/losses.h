// SPDX-License-Identifier: Apache-2.0
// The losses that --loss adds to a graph that ends in none: one file for each, and list.def. Each says which inputs and
// options it takes, how it is computed, and once more in plain fp64 what it is by definition, which `thunderc verify`
// compares with.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/tensor.h"

namespace thunderc {

// An input that a loss adds to the graph.
struct LossInput {
    std::string name;                            // "labels"
    std::string shape;                           // in words: "as the result, without its last dimension"
    std::string holds;                           // "a class, or -100 where there is none"
    Type (*type)(const Type& result) = nullptr;  // as build takes it
    bool batched = true;                         // dimension 0 of it is that of the result
    // Of integers that no op of the loss bounds: what they may be.
    ArgInfo::Ids (*ids)(const Type& result) = nullptr;
};

// What --loss may say behind the name: "huber:delta=0.5".
struct LossOption {
    enum class Kind : std::uint8_t { number, flag, number_of_each_class };
    std::string name, what;  // "delta", "from where on it is the distance that counts"
    Kind kind = Kind::number;
    double standard = 0;  // where it is not given; of each class there are no numbers then
    double least = 0, most = std::numeric_limits<double>::infinity();
    bool above_least = false;  // `least` itself is out of range
};
std::string range_text(const LossOption& option);    // "a number above 0"
std::string default_text(const LossOption& option);  // "delta=1", "class_weights=W,W,..."

// The numbers of a loss's options, given or standard.
class LossNumbers {
  public:
    double number(std::string_view option) const { return numbers(option).front(); }
    bool flag(std::string_view option) const { return number(option) != 0; }
    const std::vector<double>& numbers(std::string_view option) const;
    void set(const std::string& option, std::vector<double> numbers) { values_[option] = std::move(numbers); }

  private:
    std::map<std::string, std::vector<double>, std::less<>> values_;
};

struct AddedLoss {
    std::string name;              // what --loss takes
    std::string what;              // "the mean over all elements of (result - label)^2"
    std::int64_t least_rank = 1;   // of the result: how many dimensions it has at least
    std::int64_t least_width = 1;  // and how long the last one is, for the loss to depend on the result
    std::vector<LossInput> inputs;
    std::vector<LossOption> options = {};
    // From the graph's result and the inputs: the loss f32[] of a micro-batch and, where it is a sum whose weight the
    // inputs decide, that weight. Without a weight it is averaged over micro-batches.
    std::vector<Value> (*build)(Builder& b, Value result, std::span<const Value> inputs,
                                const LossNumbers& numbers) = nullptr;
    // `against`: "against the new input labels".
    std::string (*said)(const Type& result, const std::string& against, const LossNumbers& numbers) = nullptr;
    // Of the whole batch, with its rows one behind the other.
    double (*definition)(const Tensor& result, std::span<const Tensor> inputs, const LossNumbers& numbers) = nullptr;
};

std::span<const AddedLoss> added_losses();
const AddedLoss* find_loss(std::string_view name);  // null where there is none
std::string loss_names();                           // "cross-entropy, mse or l1"
std::string losses_help();                          // of all: what they are, their inputs and options

// A loss of the table with its numbers: what --loss says.
struct GivenLoss {
    const AddedLoss* loss = nullptr;  // null: none of the table
    LossNumbers numbers = {};
};

// "huber:delta=0.5". UsageError where there is no such loss or option, or a number is none or out of range.
GivenLoss parse_loss(std::string_view text);

// One of several losses that are added: 0.5 times mse of the result `value`.
struct LossTerm {
    double factor = 1;
    GivenLoss loss;      // of no loss: the result is one itself, as the auxiliary loss of a router ("own")
    std::string result;  // "": the one that a loss without a name takes
};

// "cross-entropy@logits+0.5*mse@value+own@aux": terms [FACTOR*]NAME[@RESULT][:OPTION=X,...]. UsageError as above.
std::vector<LossTerm> parse_losses(std::string_view text);

}  // namespace thunderc
