// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/shared/grid_sample.h"

namespace thunderc::onnx_frontend {
namespace {

void grid_sample(Node& n) {
    n.take_floats_only();
    GridForm form;
    form.mode = n.one_of("mode", {"linear", "nearest", "cubic", "bilinear", "bicubic"});  // the last two before 20
    if (form.mode == "bilinear" || form.mode == "bicubic") form.mode.erase(0, 2);
    form.padding = n.one_of("padding_mode", {"zeros", "border", "reflection"});
    form.aligned = n.integer("align_corners", 0) != 0;
    n.output(0, grid_sampled(n.b(), n.input(0), n.input(1), form));
}

constexpr OpImporter sample_importers[] = {
    {"GridSample", 16, last_opset, grid_sample, own},
};

}  // namespace

std::span<const OpImporter> sample_ops() {
    return sample_importers;
}

}  // namespace thunderc::onnx_frontend
