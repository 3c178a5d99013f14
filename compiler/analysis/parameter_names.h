// SPDX-License-Identifier: Apache-2.0
// What the names of initializers say, and the module paths that they are made of.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace thunderc {

// "model.norm.weight": a name of the framework, which exporters keep or replace whole.
bool is_dotted(const std::string& name);

std::string parent(const std::string& name);                      // "model.norm" of "model.norm.weight"
std::string leaf(const std::string& name);                        // "weight"
bool within(const std::string& scope, const std::string& outer);  // outer itself, or a module inside it
bool mentions(std::string text, std::string_view word);           // whatever the case

// "model.layers.3" of "model.layers.3.mlp.up_proj": up to the first number; "" where there is none.
std::string layer_scope(const std::string& scope);

// Buffers that common models register ("rotary_emb.inv_freq"). They are saved with a model at most, never trained.
bool buffer_name(const std::string& name);
bool parameter_name(const std::string& name);  // that ends in weight, bias, …
// A parameter of one of torch's own modules: what parameter_name says, and those of recurrent and attention layers and
// of parametrizations ("lstm.weight_ih_l0", "attn.in_proj_bias", "fc.parametrizations.weight.original0").
bool torchs_parameter_name(const std::string& name);

// A name that exporters give to values of their own: "val_110", "onnx::MatMul_601", "unsqueeze_14", "601".
bool exporters_name(const std::string& name);

// A name that TorchScript's exporter has from the model, which its own values never have: without a slash or a colon,
// and no number alone. "ln1.weight", "scale", "w2".
bool given_name(const std::string& name);

// "add_4" -> "add": what the exporter's name says of the op that it evaluated; "" where it does not ("val_7", and
// "onnx::Mul_7", which is called after its consumer).
std::string folded_op(const std::string& name);

// A name with its numbers left out, to tell kinds of parameters apart.
std::string without_numbers(const std::string& name);

// One pattern for each kind of name, in the order of the first of each: names are of a kind that differ in their digits
// alone, as those of layers do.
std::vector<std::string> name_patterns(const std::vector<std::string>& names);
// "model.layers.{0..3}.mlp.up_proj.weight, lm_head.weight and 12 more": the patterns of `most` kinds, and how many
// names are of others.
std::string list_of_names(const std::vector<std::string>& names,
                          std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace thunderc
