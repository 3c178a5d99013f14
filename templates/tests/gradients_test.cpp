// Holds the program's gradients against two things that share none of its calls and kernels:
//
//   the naive twin    the same model from primitives alone, one plain loop each (reference/): every gradient, by
//                     relative L2
//   the loss itself   (loss(w + h g) - loss(w - h g)) / 2h is |g|^2, where g is the gradient: what backward says is
//                     what forward does
//
// Both at random parameters of which the loss depends enough to be measured.
//
//   gradients_test TRAIN REFERENCE_TRAIN FOLDER [LAUNCHER...]      FOLDER takes the files that the runs write
//
// A program of several ranks is started by the launcher, "mpirun -n", whose last word takes their number; the twin is
// one rank, which takes their micro-batches one after the other.
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
// What is stored in bf16 is rounded by up to 2^-8 of itself, 2^-8 / sqrt(3) in the root mean square, at random, and
// squares add up. A parameter stands for its product or norm and for one op behind that: two tensors on the way there
// and two on the way back, all of which a gradient may be made of. A loss is made of the way there alone.
const double rounding = 0x1p-8 / std::sqrt(3.0), tensors = static_cast<double>(PROGRAM.parameters.size());
const double gradient_tolerance = PROGRAM.bf16 ? rounding * std::sqrt(4 * tensors) : 1e-4,
             loss_tolerance = PROGRAM.bf16 ? rounding * std::sqrt(2 * tensors) : 1e-5;
// What is smaller than this part of all gradients together is rounding noise: in f32 the rounding of a sum of the
// largest of them, in bf16 a hundredth of what one rounding of these is.
const double noise = PROGRAM.bf16 ? 0.01 * rounding : 1e-6;
// Of two steps, of which one is a quarter of the other, the larger has sixteen times the error of curvature, and the
// smaller four times that of rounding: where the two agree, both are small.
constexpr double slope_tolerance = 0.05;
// By how much of itself the loss is to move, if it were linear: from what f32 shows well to ten times its rounding.
constexpr double largest_move = 1e-3, smallest_move = 1e-6;

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

// The micro-batches of all ranks: ids anywhere in their range, floats in [-1, 1).
void write_feed(const std::string& path) {
    std::vector<TensorToWrite> tensors;
    const auto ranks_of = [](const InputSpec& input) { return input.batched ? PROGRAM.mesh.world() : 1; };
    for (const InputSpec& input : PROGRAM.inputs) {
        tensors.push_back({std::string(input.name) + "_0", input.dtype, {input.shape.begin(), input.shape.end()}});
        if (input.batched) tensors.back().shape.front() *= ranks_of(input);
    }
    SafetensorsWriter writer(path, tensors);
    std::uint64_t state = 1;
    for (const InputSpec& input : PROGRAM.inputs) {
        const std::size_t n = input.bytes / size_of(input.dtype) * static_cast<std::size_t>(ranks_of(input));
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

double norm(const SafetensorsFile& file) {
    double squares = 0;
    for (const StoredTensor& t : file.tensors())
        for (float x : values(file, t)) squares += static_cast<double>(x) * x;
    return std::sqrt(squares);
}

class Check {
  public:
    // Commands of the shell, and a folder.
    Check(std::string train, std::string reference, std::string folder)
        : train_(std::move(train)), reference_(std::move(reference)), folder_(std::move(folder)) {
        write_feed(folder_ + "/feed.safetensors");
    }

    void run_all() {
        draw_parameters();
        against_the_twin();
        against_the_loss();
    }

  private:
    std::string file(const std::string& name) const { return folder_ + "/" + name; }

    // One step that changes no parameter; its loss.
    double step(const std::string& program, const std::string& name, const std::string& flags) const {
        const std::string log = file(name + ".jsonl");
        std::remove(log.c_str());
        run(program + " --feed '" + file("feed.safetensors") +
            "' --steps 1 --lr 0 --weight-decay 0 --grad-clip 0 --quiet --log '" + log + "' " + flags);
        return first_loss(log);
    }

    double first_step(const std::string& program, const std::string& name) const {
        return step(program, name,
                    "--init random --seed 7 --init-std " + deviation_ + " --dump-gradients '" +
                        file(name + ".gradients") + "' --save '" + file(name + ".parameters") + "'");
    }

    // Where each of many layers makes small numbers smaller, the gradients at small parameters are less than the loss's
    // rounding: parameters are drawn larger until the loss moves by a hundredth, if it is linear, when they are
    // doubled.
    void draw_parameters() {
        std::string chosen;
        double most = -1;
        for (const char* deviation : {"0.02", "0.1", "0.5"}) {
            deviation_ = deviation;
            loss_ = first_step(train_, "ours");
            const SafetensorsFile parameters(file("ours.parameters")), gradients(file("ours.gradients"));
            const double reach = norm(gradients) * norm(parameters) / std::abs(loss_);
            if (reach >= 1e-2 && std::isfinite(reach)) return;
            if (!std::isfinite(reach) || reach <= most) break;  // too large: something overflows, or is saturated
            most = reach;
            chosen = deviation;
        }
        if (chosen.empty() || chosen == deviation_) return;
        deviation_ = chosen;
        loss_ = first_step(train_, "ours");
    }

    void against_the_twin() const {
        const double twin_loss = first_step(reference_, "twin");
        expect(std::abs(loss_ - twin_loss) <= loss_tolerance * std::abs(twin_loss),
               "loss " + std::to_string(loss_) + ", the twin's " + std::to_string(twin_loss));
        const SafetensorsFile ours(file("ours.gradients")), twin(file("twin.gradients"));
        const double whole = norm(twin);
        double vector_differences = 0, vector_sizes = 0;
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
            // A bias's or a norm's is a sum over all rows of what may cancel, down to nothing as for the bias of keys,
            // and keeps the roundings of what is summed: in bf16 these are held together.
            if (PROGRAM.bf16 && t.shape.size() < 2) {
                vector_differences += difference;
                vector_sizes += size;
            } else {
                expect_near(t.name, difference, size, whole);
            }
        }
        if (vector_sizes > 0) expect_near("biases and norms together", vector_differences, vector_sizes, whole);
    }

    // Of squares. A gradient that is nothing beside the others is rounding noise.
    static void expect_near(const std::string& name, double difference, double size, double whole) {
        const double error = std::sqrt(difference) / std::max(std::sqrt(size), noise * whole);
        char text[64];
        std::snprintf(text, sizeof text, ": relative error %.1e", error);
        expect(error <= gradient_tolerance, name + text);
    }

    // The slope of the loss along the gradient, from a step of h to either side. A loss in bf16 has not the digits for
    // that: there the twin's tells.
    double slope(double h) const {
        const SafetensorsFile parameters(file("ours.parameters")), gradients(file("ours.gradients"));
        double moved[2];
        for (int side = 0; side < 2; ++side) {
            write_moved(file("moved.safetensors"), parameters, gradients, side == 0 ? -h : h);
            moved[side] =
                step(PROGRAM.bf16 ? reference_ : train_, "moved", "--init '" + file("moved.safetensors") + "'");
        }
        return (moved[1] - moved[0]) / (2 * h);
    }

    // The step is the one of all at which a smaller one changes the slope least: |g|^2 has no say in it.
    void against_the_loss() const {
        const double squares = std::pow(norm(SafetensorsFile(file("ours.gradients"))), 2);
        const double unit = std::max(std::abs(loss_), 1e-3) / squares;
        double measured = 0, change = HUGE_VAL, before = slope(largest_move * unit);
        for (double move = largest_move / 4; move >= smallest_move && !(change <= slope_tolerance / 5); move /= 4) {
            const double now = slope(move * unit), moved = std::abs(now - before) / std::abs(now);
            if (moved < change) {
                measured = now;
                change = moved;
            }
            before = now;
        }
        char text[96];
        std::snprintf(text, sizeof text, "slope of the loss along the gradient %.6g, its square %.6g", measured,
                      squares);
        expect(std::abs(measured - squares) <= slope_tolerance * squares, text);
    }

    std::string train_, reference_, folder_;
    std::string deviation_;  // of the random parameters
    double loss_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
    if (argc < 4) {
        std::fprintf(stderr, "usage: gradients_test TRAIN REFERENCE_TRAIN FOLDER [LAUNCHER...]\n");
        return 2;
    }
    const int ranks = PROGRAM.mesh.world();
    if (argc == 4 && ranks > 1)
        fail("there is no launcher for the " + std::to_string(ranks) + " ranks of this program",
             "its tests are built with -DCOMM=mpi");
    const auto quoted = [](const std::string& word) { return "'" + word + "'"; };
    std::string launched;
    for (int i = 4; i < argc; ++i) launched += quoted(argv[i]) + " ";
    if (argc > 4) launched += std::to_string(ranks) + " ";
    Check(launched + quoted(argv[1]) + " --grad-accum 1", quoted(argv[2]) + " --grad-accum " + std::to_string(ranks),
          argv[3])
        .run_all();
    std::printf("%s\n", failures == 0 ? "all gradients agree" : "some gradients differ");
    return failures == 0 ? 0 : 1;
} catch (...) {
    return report_error();
}
