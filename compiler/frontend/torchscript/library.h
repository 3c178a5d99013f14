// SPDX-License-Identifier: Apache-2.0
// The code of an archive, by the names of its classes and functions. Files are parsed when they are asked for.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "compiler/frontend/shared/zip_archive.h"
#include "compiler/frontend/torchscript/syntax.h"

namespace thunderc::torchscript {

class Library {
  public:
    // `root`: the folder that the archive's entries stand in, with its slash.
    Library(const ZipArchive& archive, std::string root) : archive_(archive), root_(std::move(root)) {}

    // By a name with its packages: "__torch__.torch.nn.modules.linear.Linear". nullptr: there is none.
    const ClassCode* find_class(const std::string& name);
    const FunctionCode* find_function(const std::string& name);
    // Functions of torch that the files which were asked for call: "add", "add_".
    std::set<std::string> names_called() const;
    // The file of a class or a function of that name.
    static std::string file_of(const std::string& name);

  private:
    const FileCode* file(const std::string& name);

    const ZipArchive& archive_;
    std::string root_;
    std::map<std::string, std::unique_ptr<const FileCode>> files_;
};

// "torch.nn.modules.linear.Linear" of "__torch__.torch.nn.modules.linear.___torch_mangle_8.Linear": torch numbers
// classes of one name.
std::string class_name(const std::string& type);
std::string last_part(const std::string& dotted);  // "Linear" of it

}  // namespace thunderc::torchscript
