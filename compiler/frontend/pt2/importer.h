// SPDX-License-Identifier: Apache-2.0
// The import of one program of torch.export: its signature, its tensors, its dimensions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/pt2/program.h"
#include "compiler/frontend/shared/dimensions.h"

namespace thunderc::pt2_frontend {

class Importer final : public aten::Importer {
  public:
    Importer(std::shared_ptr<const ZipArchive> archive, const CompileOptions& options, Report& report);
    Module run();

    const TensorMeta* meta(const std::string& name) const override;
    std::optional<std::int64_t> size(const Size& size) const override;

  private:
    void refuse_changes() const;
    void import_inputs();
    void import_tensors();
    std::string place_of(const std::string& symbol) const;
    void check_ranges(std::span<const ShapedInput> inputs) const;
    void import_outputs();

    std::shared_ptr<const ZipArchive> archive_;
    std::shared_ptr<const Program> program_;
    std::map<std::string, std::int64_t> symbols_;
    std::map<std::string, std::string> buffers_;  // names of the graph -> names of the model
};

}  // namespace thunderc::pt2_frontend
