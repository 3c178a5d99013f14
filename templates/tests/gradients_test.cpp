// Holds the program's gradients against two things that share none of its calls and kernels:
//
//   the naive twin    the same model from primitives alone, one plain loop each (reference/): every gradient, by
//   relative L2 the loss itself   (loss(w + h g) - loss(w - h g)) / 2h is |g|^2, where g is the gradient: what backward
//   says is what forward does
//
//   gradients_test TRAIN REFERENCE_TRAIN FOLDER      FOLDER takes the files that the runs write
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "model.h"  // PROGRAM: what the inputs and parameters are
#include "support/error.h"

namespace {

using namespace thunder;

// f32 sums of some thousand terms in two orders differ by some 1e-6 of their size; what is wrong is wrong by far more.
constexpr double gradient_tolerance = 1e-4;
// The loss is printed with nine digits, and h is chosen so that it moves by a thousandth.
constexpr double slope_tolerance = 0.05;

int failures = 0;

void expect(bool good, const std::string& what) {
    std::printf("%s  %s\n", good ? "pass" : "FAIL", what.c_str());
    failures += good ? 0 : 1;
}

void run(const std::string& command) {
    if (std::system(command.c_str()) != 0) fail("this failed: " + command, "run it by hand to see why");
}

std::uint64_t next(std::uint64_t& state) {  // splitmix64
    std::uint64_t z = state += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

// One batch: ids anywhere in their range, floats in [-1, 1).
void write_feed(const std::string& path) {
    std::vector<TensorToWrite> tensors;
    for (const InputSpec& input : PROGRAM.inputs)
        tensors.push_back({std::string(input.name) + "_0", input.dtype, {input.shape.begin(), input.shape.end()}});
    SafetensorsWriter writer(path, tensors);
    std::uint64_t state = 1;
    for (const InputSpec& input : PROGRAM.inputs) {
        const std::size_t n = input.bytes / size_of(input.dtype);
        for (std::size_t k = 0; k < n; ++k) {
            const std::uint64_t bits = next(state);
            if (input.dtype == DType::f32) {
                const auto value = static_cast<float>(static_cast<double>(bits >> 11) * 0x1p-52 - 1);
                writer.append(&value, sizeof value);
            } else if (input.dtype == DType::i64) {
                const auto value =
                    static_cast<std::int64_t>(input.entries > 0 ? bits % static_cast<std::uint64_t>(input.entries) : 1);
                writer.append(&value, sizeof value);
            } else {
                const std::vector<std::byte> ones(size_of(input.dtype), std::byte{1});
                writer.append(ones.data(), ones.size());
            }
        }
    }
    writer.commit();
}

std::vector<float> values(const SafetensorsFile& file, const StoredTensor& tensor) {
    std::vector<float> out(tensor.elements());
    if (!read_elements(tensor, DType::f32, 0, out.size(), out.data()))
        fail(file.path() + ": cannot read " + tensor.name, "");
    return out;
}

double first_loss(const std::string& log) {
    std::ifstream in(log);
    std::string line;
    std::getline(in, line);
    const std::size_t at = line.find("\"loss\":");
    if (at == std::string::npos) fail(log + " has no loss", "");
    return std::strtod(line.c_str() + at + 7, nullptr);
}

// The parameters plus `step` times their gradients.
void write_moved(const std::string& path, const SafetensorsFile& parameters, const SafetensorsFile& gradients,
                 double step) {
    std::vector<TensorToWrite> tensors;
    for (const StoredTensor& t : parameters.tensors()) tensors.push_back({t.name, DType::f32, t.shape});
    SafetensorsWriter writer(path, tensors);
    for (const StoredTensor& t : parameters.tensors()) {
        std::vector<float> w = values(parameters, t);
        if (const StoredTensor* g = gradients.find(t.name)) {
            const std::vector<float> d = values(gradients, *g);
            for (std::size_t k = 0; k < w.size(); ++k) w[k] = static_cast<float>(w[k] + step * d[k]);
        }
        writer.append(w.data(), w.size() * sizeof(float));
    }
    writer.commit();
}

void check(const std::string& train, const std::string& reference, const std::string& folder) {
    const std::string feed = folder + "/feed.safetensors";
    write_feed(feed);
    const std::string common = " --feed '" + feed + "' --steps 1 --lr 0 --weight-decay 0 --grad-clip 0 --quiet";
    auto files = [&](const std::string& name) {
        return " --dump-gradients '" + folder + "/" + name + ".gradients' --save '" + folder + "/" + name +
               ".parameters' --log '" + folder + "/" + name + ".jsonl'";
    };
    for (const char* name : {"ours", "twin"}) std::remove((folder + "/" + name + ".jsonl").c_str());
    run("'" + train + "' --init random --seed 7" + common + files("ours"));
    run("'" + reference + "' --init random --seed 7" + common + files("twin"));

    const double loss = first_loss(folder + "/ours.jsonl"), twin_loss = first_loss(folder + "/twin.jsonl");
    expect(std::abs(loss - twin_loss) <= 1e-5 * std::abs(twin_loss),
           "loss " + std::to_string(loss) + ", the twin's " + std::to_string(twin_loss));

    const SafetensorsFile ours(folder + "/ours.gradients"), twin(folder + "/twin.gradients");
    double squares = 0;
    for (const StoredTensor& t : twin.tensors())
        for (float g : values(twin, t)) squares += static_cast<double>(g) * g;
    for (const StoredTensor& t : twin.tensors()) {
        const StoredTensor* mine = ours.find(t.name);
        if (mine == nullptr) {
            expect(false, t.name + ": the program has no such gradient");
            continue;
        }
        const std::vector<float> a = values(ours, *mine), b = values(twin, t);
        double difference = 0, size = 0;
        for (std::size_t k = 0; k < b.size(); ++k) {
            difference += (static_cast<double>(a[k]) - b[k]) * (static_cast<double>(a[k]) - b[k]);
            size += static_cast<double>(b[k]) * b[k];
        }
        // A gradient that is nothing beside the others is rounding noise.
        const double error = std::sqrt(difference) / std::max(std::sqrt(size), 1e-6 * std::sqrt(squares));
        char text[64];
        std::snprintf(text, sizeof text, ": relative error %.1e", error);
        expect(error <= gradient_tolerance, t.name + text);
    }

    const SafetensorsFile parameters(folder + "/ours.parameters");
    const double h = 1e-3 * std::max(std::abs(loss), 1e-3) / squares;
    double moved[2];
    for (int side = 0; side < 2; ++side) {
        const std::string path = folder + "/moved.safetensors", log = folder + "/moved.jsonl";
        write_moved(path, parameters, ours, side == 0 ? -h : h);
        std::remove(log.c_str());
        run("'" + train + "' --init '" + path + "'" + common + " --log '" + log + "'");
        moved[side] = first_loss(log);
    }
    const double slope = (moved[1] - moved[0]) / (2 * h);
    char text[96];
    std::snprintf(text, sizeof text, "slope of the loss along the gradient %.6g, its square %.6g", slope, squares);
    expect(std::abs(slope - squares) <= slope_tolerance * squares, text);
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 4) {
        std::fprintf(stderr, "usage: gradients_test TRAIN REFERENCE_TRAIN FOLDER\n");
        return 2;
    }
    check(argv[1], argv[2], argv[3]);
    std::printf("%s\n", failures == 0 ? "all gradients agree" : "some gradients differ");
    return failures == 0 ? 0 : 1;
} catch (...) {
    return report_error();
}
