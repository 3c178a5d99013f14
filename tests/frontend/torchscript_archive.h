// SPDX-License-Identifier: Apache-2.0
// TorchScript archives made by hand: code as text, and pickles as torch writes them.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/frontend/pt2_archive.h"

namespace thunderc {

// Opcodes of a pickle, one behind the other.
class PickleText {
  public:
    PickleText& op(char c) { return add(std::string(1, c)); }
    PickleText& global(const std::string& module, const std::string& name) {
        return add("c" + module + "\n" + name + "\n");
    }
    PickleText& text(const std::string& s) { return add("X" + bytes(s.size(), 4) + s); }
    PickleText& integer(std::int64_t v) { return add("\x8a\x08" + bytes(static_cast<std::uint64_t>(v), 8)); }
    PickleText& boolean(bool v) { return op(v ? '\x88' : '\x89'); }
    PickleText& none() { return op('N'); }
    PickleText& integers(const std::vector<std::int64_t>& list) {
        op('(');
        for (const std::int64_t v : list) integer(v);
        return op('t');
    }
    // A dense tensor of a storage.
    PickleText& tensor(const std::string& storage, const std::string& key, const Dims& dims, bool grad,
                       std::int64_t offset = 0) {
        return tensor(storage, key, dims, dense_strides(dims), grad, offset, element_count(dims));
    }
    PickleText& tensor(const std::string& storage, const std::string& key, const Dims& dims, const Dims& strides,
                       bool grad, std::int64_t offset, std::int64_t count) {
        global("torch._utils", "_rebuild_tensor_v2").op('(').op('(').text("storage").global("torch", storage).text(key);
        text("cpu").integer(count).op('t').op('Q').integer(offset).integers(dims).integers(strides).boolean(grad);
        return global("collections", "OrderedDict").op(')').op('R').op('t').op('R');
    }
    PickleText& begin_object(const std::string& module, const std::string& name) {
        return global(module, name).add(")\x81}(");
    }
    PickleText& end_object() { return add("ub"); }
    std::string end() const { return "\x80\x02" + out_ + "."; }
    PickleText& add(const std::string& more) {
        out_ += more;
        return *this;
    }

  private:
    static std::string bytes(std::uint64_t v, std::size_t count) {
        std::string out;
        for (std::size_t k = 0; k < count; ++k) out += static_cast<char>(v >> 8 * k & 0xff);
        return out;
    }
    std::string out_;
};

inline std::string floats(const std::vector<float>& values) {
    std::string out(4 * values.size(), '\0');
    std::memcpy(out.data(), values.data(), out.size());
    return out;
}

// An archive of one module, __torch__.M, with a weight of 2 by 3, a bias of 3, and these methods; `more` are functions
// and classes beside it.
inline Entries script_of(const std::string& methods, const std::string& more = "") {
    std::string code =
        "class M(Module):\n"
        "  __parameters__ = [\"weight\", \"bias\", ]\n"
        "  __buffers__ = []\n"
        "  weight : Tensor\n"
        "  bias : Tensor\n"
        "  training : bool\n";
    code += methods + more;
    PickleText data;
    data.begin_object("__torch__", "M").text("weight").tensor("FloatStorage", "0", {2, 3}, true);
    data.text("bias").tensor("FloatStorage", "1", {3}, true);
    data.text("training").boolean(true).text("n").integer(3).end_object();
    return {{"m/code/__torch__.py", code},
            {"m/data.pkl", data.end()},
            {"m/constants.pkl", PickleText().op(')').end()},
            {"m/data/0", floats({1, 2, 3, 4, 5, 6})},
            {"m/data/1", floats({1, 1, 1})},
            {"m/version", "3\n"}};
}

inline CompileOptions with_input(const std::string& name, const std::string& type, const Dims& dims) {
    CompileOptions options;
    CompileOptions::InputShape& input = options.inputs[name];
    input.type = type;
    for (const std::int64_t extent : dims) input.shape.push_back({extent, ""});
    return options;
}

}  // namespace thunderc
