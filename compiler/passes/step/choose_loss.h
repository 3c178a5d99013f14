// SPDX-License-Identifier: Apache-2.0
// A part of add_loss: which results of a graph are trained on, with which losses, and what the inputs that these add
// are called.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/analysis/batch_share.h"
#include "compiler/ir/module.h"
#include "compiler/losses/losses.h"

namespace thunderc {

// A term of what is trained on: a result of main, and what is added to it.
struct ChosenTerm {
    std::size_t result = 0;
    std::string name;  // of the result
    GivenLoss added;   // of no loss: the result is one itself
    double factor = 1;
    std::vector<std::string> inputs;  // of `added`, in its order; terms of one result may share them
    bool named = false;               // --loss says which result
};

// `loss` is auto, none or what parse_losses takes.
struct ChosenLoss {
    std::vector<ChosenTerm> terms;
    // Of several micro-batches it is what it is of all of their rows as one batch: of the model's own, no term is
    // averaged for want of better, and no rows see one another.
    bool whole = true;

    bool has_own() const;  // some term is a loss of the model's own
    // "mse of y", "loss, as the model has it", "cross-entropy of logits + 0.5 * mse of value"
    std::string text() const;
};
// UserError where there is no loss to be had.
ChosenLoss choose_loss(const Module& module, const std::string& loss);

// The same of the entry of a module, and what is said of its results.
class LossChooser {
  public:
    LossChooser(const Function& main, const std::string& loss);

    ChosenLoss choose() const;
    bool guesses() const { return given_.empty(); }  // --loss says none
    std::string result_name(std::size_t k) const;
    std::string outputs() const;  // all of them, with their types
    // A scalar that is not taken may be the model's loss, under the name that an exporter gave it: how to take it, and
    // `if_not`. "" where there is none.
    std::string offer_scalars(const std::string& if_not) const;
    // The inputs of integers that a result [batch, positions, classes] may be scores of the next of: no mask, no
    // positions, and no labels.
    std::vector<std::size_t> ids_of(std::size_t result) const;
    const BatchShare& share(std::size_t result) const;
    bool is_input(const std::string& name) const;  // of the graph, as it is

  private:
    ChosenTerm choose_unnamed() const;
    ChosenTerm choose_term(const LossTerm& term) const;
    std::size_t named_result(const LossTerm& term) const;
    std::optional<std::size_t> own_loss() const;
    std::vector<std::string> scalars() const;
    std::string instead_of(std::size_t own, const AddedLoss& added) const;
    bool is_scalar(std::size_t k) const;
    std::size_t logits(const AddedLoss* added) const;
    GivenLoss guess(std::size_t result) const;
    std::set<std::string> taken_names() const;
    void name_inputs(std::vector<ChosenTerm>& terms) const;

    const Function& main_;
    std::string loss_;
    std::vector<LossTerm> given_;  // of --loss; none where it is auto or none
    std::vector<BatchShare> shares_;
};

}  // namespace thunderc
