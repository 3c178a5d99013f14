// SPDX-License-Identifier: Apache-2.0
#include "cli/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <regex>
#include <sstream>
#include <string_view>

#include "compiler/support/error.h"

namespace thunderc {
namespace fs = std::filesystem;

// From nvrtc.h: 0 is success, 5 an option that is not taken; a program is a pointer to what only the library knows.
struct Nvrtc::Functions {
    int (*version)(int*, int*) = nullptr;
    int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
    int (*compile)(void*, int, const char* const*) = nullptr;
    int (*destroy)(void**) = nullptr;
    int (*log_size)(void*, std::size_t*) = nullptr;
    int (*log)(void*, char*) = nullptr;
    int (*ptx_size)(void*, std::size_t*) = nullptr;
    int (*ptx)(void*, char*) = nullptr;
    const char* (*error)(int) = nullptr;
};

namespace {

constexpr int invalid_option = 5;

// Libraries of this name in a folder, the newest first.
std::vector<fs::path> libraries_in(const fs::path& folder) {
    static const std::regex name(R"(libnvrtc\.so(\.[0-9.]+)?)");
    std::vector<std::pair<int, fs::path>> found;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
        std::smatch match;
        const std::string file = entry.path().filename().string();
        if (!std::regex_match(file, match, name)) continue;
        found.emplace_back(match[1].length() > 1 ? std::atoi(match[1].str().c_str() + 1) : 0, entry.path());
    }
    std::sort(found.rbegin(), found.rend());
    std::vector<fs::path> paths;
    for (auto& [version, path] : found) paths.push_back(std::move(path));
    return paths;
}

// Folders below `folder` whose names begin so, in the order that has the highest number first.
std::vector<fs::path> folders_in(const fs::path& folder, const std::string& prefix) {
    std::vector<fs::path> found;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
        if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
    std::sort(found.rbegin(), found.rend());
    return found;
}

// Where people have it: the toolkit's folder, an environment of conda or Python, the system's Python.
std::vector<fs::path> likely_folders() {
    std::vector<fs::path> folders, prefixes;
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"})
        if (const char* root = std::getenv(variable)) {
            folders.push_back(fs::path(root) / "lib64");
            folders.push_back(fs::path(root) / "lib");
        }
    for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
        if (const char* root = std::getenv(variable)) {
            folders.push_back(fs::path(root) / "lib");
            prefixes.emplace_back(root);
        }
    std::vector<fs::path> toolkits = {"/usr/local/cuda", "/opt/cuda"};
    for (const fs::path& folder : folders_in("/usr/local", "cuda-")) toolkits.push_back(folder);
    for (const fs::path& folder : toolkits) folders.push_back(folder / "lib64");
    if (const char* home = std::getenv("HOME")) prefixes.push_back(fs::path(home) / ".local");
    prefixes.insert(prefixes.end(), {"/usr/local", "/usr"});
    for (const fs::path& prefix : prefixes)
        for (const fs::path& python : folders_in(prefix / "lib", "python3"))
            for (const char* packages : {"site-packages", "dist-packages"})
                for (const fs::path& wheel : folders_in(python / packages / "nvidia", "cu"))  // cu13, cuda_nvrtc
                    folders.push_back(wheel / "lib");
    return folders;
}

void* open(const fs::path& path) {
    return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

// What was read into `buffer` with the zero that ends it.
std::string without_zero(std::string buffer) {
    buffer.resize(std::min(buffer.find('\0'), buffer.size()));
    return buffer;
}

}  // namespace

Nvrtc::Nvrtc(const fs::path& path) : functions_(std::make_unique<Functions>()) {
    if (path.empty()) {
        // The loader's own folders first: the user may have pointed it somewhere.
        for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
            if (library_ == nullptr && (library_ = open(name)) != nullptr) path_ = name;
        for (const fs::path& folder : likely_folders())
            for (const fs::path& file : libraries_in(folder))
                if (library_ == nullptr && (library_ = open(file)) != nullptr) path_ = file;
        if (library_ == nullptr)
            fail("NVRTC, the compiler for GPUs, was not found: libnvrtc.so",
                 "it comes with the CUDA toolkit, or pip install nvidia-cuda-nvrtc; --nvrtc PATH says where it is");
    } else {
        path_ = path;
        if (fs::is_directory(path)) {
            const std::vector<fs::path> files = libraries_in(path);
            if (files.empty())
                fail(fmt::format("the folder {} has no libnvrtc.so", path.string()),
                     "--nvrtc takes the library or the folder that holds it");
            path_ = files.front();
        } else if (!fs::exists(path)) {
            fail(fmt::format("there is no {}", path.string()), "--nvrtc takes the library or the folder that holds it");
        }
        library_ = open(fs::absolute(path_));
        if (library_ == nullptr)
            fail(fmt::format("cannot load {}: {}", path_.string(), dlerror()),
                 "--nvrtc takes the library or the folder that holds it");
    }
    load(functions_->version, "nvrtcVersion");
    load(functions_->create, "nvrtcCreateProgram");
    load(functions_->compile, "nvrtcCompileProgram");
    load(functions_->destroy, "nvrtcDestroyProgram");
    load(functions_->log_size, "nvrtcGetProgramLogSize");
    load(functions_->log, "nvrtcGetProgramLog");
    load(functions_->ptx_size, "nvrtcGetPTXSize");
    load(functions_->ptx, "nvrtcGetPTX");
    load(functions_->error, "nvrtcGetErrorString");
}

// The library stays loaded: it keeps threads and tables that do not like to be unloaded.
Nvrtc::~Nvrtc() = default;

template <typename F>
void Nvrtc::load(F*& function, const char* name) const {
    function = reinterpret_cast<F*>(dlsym(library_, name));
    if (function == nullptr)
        fail(fmt::format("{} is not NVRTC: it lacks {}", path_.string(), name),
             "--nvrtc takes the library or the folder that holds it");
}

std::string Nvrtc::version() const {
    int major = 0, minor = 0;
    functions_->version(&major, &minor);
    return fmt::format("{}.{}", major, minor);
}

Nvrtc::Compiled Nvrtc::compile(const Source& source, const std::string& target) const {
    std::vector<const char*> names, texts, options;
    for (const auto& [name, text] : source.headers) {
        names.push_back(name.c_str());
        texts.push_back(text.c_str());
    }
    std::vector<std::string> words = {"--gpu-architecture=" + target, "--std=c++20", "--ptxas-options=-v"};
    for (const fs::path& folder : source.folders) words.push_back("--include-path=" + folder.string());
    for (const std::string& word : words) options.push_back(word.c_str());

    const std::string file = source.file.string();
    void* program = nullptr;
    int status = functions_->create(&program, source.text.c_str(), file.c_str(), static_cast<int>(names.size()),
                                    texts.data(), names.data());
    if (status != 0) fail(fmt::format("NVRTC {}: {}", version(), functions_->error(status)), "");
    status = functions_->compile(program, static_cast<int>(options.size()), options.data());
    auto text = [&](auto size, auto get) {
        std::size_t bytes = 0;
        size(program, &bytes);
        std::string buffer(bytes, '\0');
        if (bytes > 0) get(program, buffer.data());
        return without_zero(std::move(buffer));
    };
    const std::string log = text(functions_->log_size, functions_->log);
    const std::string ptx = status == 0 ? text(functions_->ptx_size, functions_->ptx) : "";
    functions_->destroy(&program);
    if (status == invalid_option)
        fail(fmt::format("NVRTC {} does not compile for {}", version(), target),
             "another --arch, or a newer toolkit (--nvrtc PATH)");
    if (status != 0) {
        fmt::print(stderr, "{}", log);
        fail(fmt::format("{} does not compile for {}", file, target), "the compiler's messages stand above");
    }
    Compiled compiled;
    compiled.kernels = read_usage(log, ptx, compiled.warnings);
    return compiled;
}

namespace {

// Of a line of PTX: "    @%p1 ld.global.nc.f32 %f1, [%rd2];", but not cvta.to.global, which turns a pointer into
// another.
bool uses_device_memory(std::string_view line) {
    if (line.find(".global") == std::string_view::npos) return false;
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.starts_with('@')) line.remove_prefix(std::min(line.find(' ') + 1, line.size()));
    return line.starts_with("ld.") || line.starts_with("st.") || line.starts_with("atom.") || line.starts_with("red.");
}

}  // namespace

std::vector<KernelUsage> read_usage(const std::string& log, const std::string& ptx, std::string& rest) {
    std::vector<KernelUsage> kernels;
    std::map<std::string, std::size_t> numbers;
    static const std::regex entry(R"(\.entry\s+([A-Za-z_0-9$]+))"), bounds(R"(^\.maxntid\s+(\d+))"),
        blocks(R"(^\.minnctapersm\s+(\d+))");
    // Of the last kernel so far: it used device memory; it uses a table of constants that CUDA's sine and cosine have.
    bool touched = false, reads_table = false;
    std::istringstream lines(ptx);
    std::smatch match;
    for (std::string line; std::getline(lines, line);) {
        if (line.find(".entry") != std::string::npos && std::regex_search(line, match, entry)) {
            numbers[match[1]] = kernels.size();
            kernels.emplace_back();
            kernels.back().name = match[1];
            touched = reads_table = false;
        } else if (!kernels.empty() && line.starts_with(".maxntid") && std::regex_search(line, match, bounds)) {
            kernels.back().threads = std::stoi(match[1]);
        } else if (!kernels.empty() && line.starts_with(".minnctapersm") && std::regex_search(line, match, blocks)) {
            kernels.back().blocks = std::stoi(match[1]);
        } else if (!kernels.empty() && line.find("griddepcontrol.wait") != std::string::npos) {
            kernels.back().waits_first = !touched;
        } else if (!kernels.empty() && line.find("__cudart_") != std::string::npos) {
            reads_table = true;
        } else if (!kernels.empty() && uses_device_memory(line)) {
            touched = true;
            if (line.find(".global.nc") != std::string::npos && !reads_table) kernels.back().waits_first = false;
        }
    }
    static const std::regex compiling("Compiling entry function '([^']+)'"),
        stack(R"((\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads)"),
        registers(R"(Used (\d+) registers)"), shared(R"((\d+) bytes smem)"), note(R"(^ptxas (info)? +[:.])");
    KernelUsage* kernel = nullptr;
    std::vector<bool> told(kernels.size(), false);
    lines.clear();
    lines.str(log);
    for (std::string line; std::getline(lines, line);) {
        if (std::regex_search(line, match, compiling)) {
            const auto at = numbers.find(match[1]);
            kernel = at == numbers.end() ? nullptr : &kernels[at->second];
        } else if (kernel != nullptr && std::regex_search(line, match, stack)) {
            // functions that the kernel calls add theirs
            kernel->stack += std::stoi(match[1]);
            kernel->spill_stores += std::stoi(match[2]);
            kernel->spill_loads += std::stoi(match[3]);
        } else if (kernel != nullptr && std::regex_search(line, match, registers)) {
            kernel->registers = std::stoi(match[1]);
            if (std::regex_search(line, match, shared)) kernel->shared = std::stoi(match[1]);
            told[static_cast<std::size_t>(kernel - kernels.data())] = true;
        } else if (!std::regex_search(line, note) && !line.empty()) {
            rest += line + "\n";
        }
    }
    for (std::size_t k = 0; k < kernels.size(); ++k)
        if (!told[k])
            fail(fmt::format("NVRTC says nothing of the registers of {}", kernels[k].name),
                 "another version of the toolkit (--nvrtc PATH)");
    return kernels;
}

}  // namespace thunderc
