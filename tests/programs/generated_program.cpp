// SPDX-License-Identifier: Apache-2.0
#include "tests/programs/generated_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <stdexcept>

#include "checkpoint/safetensors.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace fs = std::filesystem;
namespace {

// The batches of a fixture under the names of the graph's inputs: a graph that has its own loss takes the labels of the
// framework, a graph that ends in logits takes the added loss's, already shifted.
// With `times` > 1 a step's rows are followed by those of the steps behind it, as many batches as that. A fixture may
// have fewer batches than steps: a run takes each in turn.
void write_feed(const fs::path& path, const fs::path& batch, const nlohmann::json& reference, bool own_loss,
                int times) {
    const thunder::SafetensorsFile file(batch.string());
    std::vector<std::pair<std::string, std::string>> names;  // of an input, of the fixture
    if (own_loss)
        for (const auto& [input, stored] : reference.at("loss_graph_inputs").items())
            names.emplace_back(input, stored.get<std::string>());
    else {
        for (const auto& input : reference.at("inputs")) names.emplace_back(input, input);
        names.emplace_back("labels", "labels");
    }
    std::vector<thunder::TensorToWrite> tensors;
    std::vector<const thunder::StoredTensor*> stored;
    const int steps = reference.value("batches", reference.at("steps").get<int>());
    for (int step = 0; step < steps; ++step)
        for (const auto& [input, name] : names) {
            for (int k = 0; k < times; ++k) {
                const std::string wanted = fmt::format("{}_{}", name, (step + k) % steps);
                stored.push_back(file.find(wanted));
                if (stored.back() == nullptr) throw std::runtime_error("the fixture lacks " + wanted);
            }
            const thunder::StoredTensor& first = *stored.back();
            const thunder::DType dtype = first.dtype == "I64" ? thunder::DType::i64 : thunder::DType::f32;
            tensors.push_back({fmt::format("{}_{}", input, step), dtype, first.shape});
            tensors.back().shape.at(0) *= times;
        }
    thunder::SafetensorsWriter writer(path.string(), tensors);
    for (const thunder::StoredTensor* tensor : stored) writer.append(tensor->bytes.data(), tensor->bytes.size());
    writer.commit();
}

// All fixtures that end in logits are classifiers, and those of numbers need to be told.
std::string with_loss(const std::string& graph, const std::string& command, const std::string& options) {
    const bool added = command == "train" && graph.ends_with(".logits") && options.find("--loss") == std::string::npos;
    return added ? "--loss cross-entropy " + options : options;
}

// Gives a build folder what CMake found out of the compiler when this build was configured, which it would ask again
// for each program, for as long as it takes to compile one.
void tell_of_compiler(const fs::path& build) {
    if (fs::exists(build / "CMakeCache.txt")) return;
    const fs::path found = fs::path("CMakeFiles") / CMAKE_VERSION;
    fs::create_directories(build / found);
    for (const char* file : {"CMakeCXXCompiler.cmake", "CMakeSystem.cmake"})
        fs::copy_file(fs::path(BUILD_FOLDER) / found / file, build / found / file,
                      fs::copy_options::overwrite_existing);
    std::istringstream cache(read_file(fs::path(BUILD_FOLDER) / "CMakeCache.txt"));
    std::string kept;
    for (std::string line; std::getline(cache, line);)
        if (line.starts_with("OpenMP_") || line.starts_with("CMAKE_HAVE_LIBC_PTHREAD")) kept += line + "\n";
    write_file(build / "CMakeCache.txt", kept);
}

}  // namespace

Cpu tried_on(Cpu cpu) {
#ifdef __x86_64__
    if (!full_form && !__builtin_cpu_supports("avx512f")) return Cpu::native;
#endif
    return cpu;
}

bool runs([[maybe_unused]] Cpu cpu) {
#ifdef __x86_64__
    return cpu == Cpu::native ||
           (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"));
#else
    return cpu == Cpu::native;
#endif
}

std::string name_of(Cpu cpu) {
    return cpu == Cpu::native ? "native" : "x86_64_v3";
}

// One that is built when the first test asks for it, and serves all programs of that kind.
std::string runtime_for(Cpu cpu, std::string& failure) {
    if (cpu == Cpu::native) return RUNTIME_FOLDER;
    const fs::path folder = fs::path(PROGRAMS_FOLDER) / ("runtime-" + name_of(cpu));
    fs::create_directories(folder);
    const int lock = ::open((folder / ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    ::flock(lock, LOCK_EX);
    const Outcome outcome =
        shell(folder, "launcher=$(command -v ccache || true); cmake -S '" REPOSITORY
                      "runtime-lib' -B build -DCOMM=none -DTHUNDERC_CPU=x86-64-v3 -DONEDNN_ROOT='" ONEDNN_FOLDER
                      "' -DCMAKE_CXX_COMPILER_LAUNCHER=$launcher -DCMAKE_CXX_FLAGS='" PROGRAM_FLAGS
                      "' && cmake --build build -j 2");
    ::close(lock);
    if (outcome.status != 0) failure = "the runtime for " + name_of(cpu) + ": " + outcome.out + outcome.err;
    return (folder / "build").string();
}

GeneratedProgram::GeneratedProgram(const std::string& name, const std::string& model, const std::string& graph,
                                   const std::string& options, const std::string& command, int ranks, Cpu cpu,
                                   Compiled compiled)
    : model_(model),
      graph_(graph),
      options_(with_loss(graph, command, options)),
      cpu_(cpu),
      compiled_(compiled),
      folder_(fs::path(PROGRAMS_FOLDER) / name),
      ranks_(ranks),
      // Of a program that is edited one file is compiled again.
      whole_(!name.ends_with("_edited") &&
             (compiled == Compiled::quickly || (!full_form && ranks == 1 && command == "train"))) {
    if (cpu != Cpu::native) {
        build_ = "build-" + name_of(cpu);
        variables_ = "ONEDNN_MAX_CPU_ISA=AVX2 ";
    }
    runtime_ = runtime_for(cpu, failure_);
    if (!failure_.empty()) return;
    fs::create_directories(folder_);
    lock_ = ::open((folder_ / ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    ::flock(lock_, LOCK_EX);
    // The build folder in it makes the next run quick; what is not a whole program is nobody's.
    if (!fs::exists(folder_ / "out/.thunderc-manifest")) fs::remove_all(folder_ / "out");
    reference_ = nlohmann::json::parse(read_file(fixture("reference.json")));
    if (!step(fmt::format("'{}' {} '{}' -o out {}", THUNDERC, command, graph_file(), options_))) return;
    tell_of_compiler(folder_ / "out" / build_);
    built_ = step(configure("-DTESTS=OFF")) && step("cmake --build out/" + build_);
    // A fixture of several graphs says of each what it takes, to whom it may concern.
    if (command == "train" && reference_.contains("inputs")) write_large_feed("feed.safetensors", 1);
}

std::string GeneratedProgram::graph_file() const {
    const bool script = graph_.starts_with("ts") || graph_.starts_with("script");
    return fixture(graph_ + (graph_.starts_with("ep") ? ".pt2" : script ? ".pt" : ".onnx")).string();
}

std::string GeneratedProgram::configure(const std::string& options) const {
    return fmt::format(
        "cmake -S out -B out/{} -DCOMM={} -DDEVICE=cpu -DTHUNDERC_RUNTIME='{}' -DCMAKE_CXX_FLAGS='{} -Werror' {}"
        "-DCMAKE_UNITY_BUILD={} {}",
        build_, ranks_ == 1 ? "none" : "mpi", runtime_, PROGRAM_FLAGS,
        // Not of what CMake compiles to see whether the compiler works.
        compiled_ == Compiled::quickly ? "-DCMAKE_CXX_FLAGS_RELEASE='" QUICK_FLAGS " -include " PROGRAM_HEADERS "' "
        : compiled_ == Compiled::lightly && !full_form ? "-DCMAKE_CXX_FLAGS_RELEASE='" QUICK_FLAGS "' "
                                                       : "",
        whole_ ? "ON" : "OFF", options);
}

Outcome GeneratedProgram::own_tests(const std::string& options, const std::string& variables) const {
    return shell(folder_, fmt::format("{1} && cmake --build out/{0} -j 2 && {2} {3} ctest --test-dir out/{0} "
                                      "--no-tests=error --output-on-failure",
                                      build_, configure("-DTESTS=ON " + options), variables_, variables));
}

void GeneratedProgram::write_large_feed(const std::string& name, int times) const {
    write_feed(file(name), fixture("batch.safetensors"), reference_, graph_.ends_with(".loss"), times);
}

GeneratedProgram::~GeneratedProgram() {
    ::close(lock_);
}

bool GeneratedProgram::step(const std::string& command) {
    const Outcome outcome = shell(folder_, command);
    if (outcome.status == 0) return true;
    failure_ = fmt::format("in {}: {}\nexit status {}\n{}", folder_.string(), command, outcome.status,
                           (outcome.out + outcome.err).substr(0, 3000));
    return false;
}

Outcome GeneratedProgram::train(const std::string& arguments, const std::string& variables) const {
    if (ranks_ > 1)
        return shell(folder_,
                     fmt::format("{} {} -np {} --oversubscribe --allow-run-as-root out/build/train --threads 1 "
                                 "--quiet {}",
                                 variables, MPIRUN, ranks_, arguments));
    return shell(folder_,
                 fmt::format("{} {} out/{}/train --threads 2 --quiet {}", variables_, variables, build_, arguments));
}

Outcome GeneratedProgram::compiler(const std::string& command, const std::string& more) const {
    return shell(folder_, fmt::format("'{}' {} '{}' {} {}", THUNDERC, command, graph_file(), options_, more));
}

Outcome GeneratedProgram::run(const std::string& arguments) const {
    return shell(folder_, "out/build/run --threads 2 " + arguments);
}

std::string GeneratedProgram::recipe() const {
    const nlohmann::json& o = reference_.at("optimizer");
    return fmt::format(
        "--feed feed.safetensors --steps {} --lr {} --schedule constant --warmup 0 --weight-decay {} --decay all "
        "--beta1 {} --beta2 {} --eps {} --grad-clip 0",
        reference_.at("steps").get<int>(), o.at("lr").get<double>(), o.at("weight_decay").get<double>(),
        o.at("betas").at(0).get<double>(), o.at("betas").at(1).get<double>(), o.at("eps").get<double>());
}

fs::path GeneratedProgram::fixture(const std::string& file) const {
    const fs::path folder = fs::path(FIXTURES) / model_;
    return fs::exists(folder / file) ? folder / file : folder.parent_path() / file;
}

std::vector<nlohmann::json> read_log(const fs::path& path) {
    std::vector<nlohmann::json> lines;
    std::istringstream text(read_file(path));
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
}

}  // namespace thunderc::tests
