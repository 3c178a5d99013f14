// SPDX-License-Identifier: Apache-2.0
// Holds the program's gradients against two things that share none of its calls and kernels:
//
//   the reference     the same model from primitives alone, in plain loops (reference/): every gradient, by relative L2
//   differences       (loss(w + h d) - loss(w - h d)) / 2h is g d, where g is the gradient: what backward says is what
//                     forward does. d is the gradient, the gradient with weights drawn for it, and drawn altogether.
//                     Not where the model stops gradients (detach): there the loss moves by more. So it does along
//                     a row that pads (padding_idx), which d leaves as it is
//
// Both at random parameters of which the loss depends enough to be measured. A program that was edited to be another
// model disagrees with the reference, which is still the old one, and not with differences: what is said at the end
// follows from which of the two failed.
//
//   gradients_test [--differences] TRAIN [REFERENCE_TRAIN] FOLDER [LAUNCHER...]
//
// --differences leaves the reference out (cmake -DREFERENCE=OFF). FOLDER takes the files that the runs write. A program
// of several ranks is started by the launcher, "mpirun -n", whose last word takes their number; the reference is one
// rank, which takes their micro-batches one after the other.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "drawn_feed.h"
#include "model.h"  // PROGRAM: what the inputs and parameters are
#include "support/error.h"

namespace {

using namespace thunder;

const bool narrow = is_narrow(PROGRAM.compute);
// f32 sums of some thousand terms in two orders differ by some 1e-6 of their size; what is wrong is wrong by far more.
// What is stored in a narrow type is rounded by up to 2^-digits of itself (bf16: 2^-8, f16: 2^-11), that divided by
// sqrt(3) in the root mean square, at random, and
// squares add up. A parameter stands for its product or norm and for one op behind that: two tensors in the forward
// pass and two in the backward pass, all of which a gradient may be made of. A loss is made of the forward pass alone.
// Where products are of eight bits, what counts is how far gradients are rounded: in e5m2 by up to an eighth, in
// blocks, which are e4m3, by up to a sixteenth.
const std::string_view recipe = PROGRAM.scaling.recipe;
const bool eight_bits = !recipe.empty(), in_blocks = recipe == "blockwise" || recipe == "mxfp8";
const double unit_rounding = std::ldexp(1.0, in_blocks    ? -4
                                             : eight_bits ? -3
                                                          : -dtype_digits[static_cast<std::size_t>(PROGRAM.compute)]),
             rounding = unit_rounding / std::sqrt(3.0), tensors = static_cast<double>(PROGRAM.parameters.size());
const double gradient_tolerance = narrow ? rounding * std::sqrt(4 * tensors) : 1e-4,
             loss_tolerance = narrow ? rounding * std::sqrt(2 * tensors) : 1e-5;
// That counts what is added up, and not what cancels, as in the gradients of queries and keys: where attention is even,
// they are a small part of their terms, which are rounded all the same. So the reference is asked too: it computes its
// gradients again at parameters that are each rounded as bf16 rounds, and a gradient in bf16 may be off by three times
// as much as that moves it. As much is what to expect; both are samples of a few roundings, which a sum that cancels
// hangs on, and what is wrong is off by the gradient's own size.
constexpr double moves_allowed = 3;
constexpr int drawn_roundings = 2;
// A gradient that is off by more than this many times what it may be is another one, and not one that was rounded
// badly.
constexpr double far_off = 4;
// What is smaller than this part of all gradients together is rounding noise: in f32 the rounding of a sum of the
// largest of them, in bf16 a hundredth of what one rounding of these is.
const double noise = narrow ? 0.01 * rounding : 1e-6;
// A slope that is known to no better than this part of itself judges nothing.
constexpr double slope_tolerance = 0.05;
// The largest step moves the loss by this part of itself, if it were linear, and parameters by no more than this part.
constexpr double largest_move = 0.1, largest_step = 0.25;

bool expect(bool good, const std::string& what) {
    std::printf("%s  %s\n", good ? "pass" : "FAIL", what.c_str());
    std::fflush(stdout);
    return good;
}

void run(const std::string& command) {
    if (std::system(command.c_str()) != 0) fail("this failed: " + command, "run it by hand to see why");
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

// The numbers of a file, tensor by tensor in the order of the parameters.
using Numbers = std::vector<std::vector<double>>;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;  // of one that is empty nothing
    for (std::size_t k = 0; k < std::min(a.size(), b.size()); ++k) sum += a[k] * b[k];
    return sum;
}
double dot(const Numbers& a, const Numbers& b) {
    double sum = 0;
    for (std::size_t t = 0; t < a.size(); ++t) sum += dot(a[t], b[t]);
    return sum;
}
double norm(const std::vector<double>& a) {
    return std::sqrt(dot(a, a));
}
double norm(const Numbers& a) {
    return std::sqrt(dot(a, a));
}

// Of a parameter that the file does not have: none.
Numbers read_numbers(const SafetensorsFile& file, const SafetensorsFile& parameters) {
    Numbers out;
    for (const StoredTensor& parameter : parameters.tensors()) {
        const StoredTensor* stored = file.find(parameter.name);
        const std::vector<float> floats = stored == nullptr ? std::vector<float>() : values(file, *stored);
        out.emplace_back(floats.begin(), floats.end());
    }
    return out;
}

double norm(const SafetensorsFile& file) {
    double squares = 0;
    for (const StoredTensor& t : file.tensors())
        for (float x : values(file, t)) squares += static_cast<double>(x) * static_cast<double>(x);
    return std::sqrt(squares);
}

class Check {
  public:
    // Commands of the shell, and a folder. `reference` may be empty.
    Check(std::string train, std::string reference, std::string folder)
        : train_(std::move(train)), reference_(std::move(reference)), folder_(std::move(folder)) {
        write_feed(folder_ + "/feed.safetensors");
    }

    // Whether all is well; else it is said what is wrong, and what to do.
    bool run_all() {
        draw_parameters();
        if (!reference_.empty()) against_the_reference();
        if (eight_bits)
            std::printf("left out: differences of the loss, which eight bits round too far for them\n");
        else if (PROGRAM.stops_gradients)
            std::printf(
                "left out: differences of the loss, since the model stops gradients that they would show (detach)\n");
        else
            against_differences();
        return verdict();
    }

  private:
    std::string file(const std::string& name) const { return folder_ + "/" + name; }

    // A step that changes no parameter, as those before it; its loss. Of one seed, so that each draws the same
    // (dropout).
    double step(const std::string& program, const std::string& name, const std::string& flags, int steps = 1) const {
        const std::string log = file(name + ".jsonl");
        std::remove(log.c_str());
        run(program + " --feed '" + file("feed.safetensors") + "' --steps " + std::to_string(steps) +
            " --seed 7 --lr 0 --weight-decay 0 --grad-clip 0 --quiet --log '" + log + "' " + flags);
        return first_loss(log);
    }

    double first_step(const std::string& program, const std::string& name) const {
        const std::string drawn = "--init random --init-std " + deviation_,
                          kept = " --dump-gradients '" + file(name + ".gradients") + "' --save '" +
                                 file(name + ".parameters") + "'",
                          flags = drawn + kept;
        if (program == train_ && eight_bits) {
            // Scales are 1 in a run's first step; the second one's follow from what there is.
            const std::string checkpoint = " --checkpoint '" + file("scales") + "'";
            std::filesystem::remove_all(file("scales"));
            step(program, name, drawn + checkpoint);
            return step(program, name, "--resume" + checkpoint + kept, 2);
        }
        if (program != train_ || !has_less_range(PROGRAM.compute)) return step(program, name, flags);
        // The largest scale of the loss with which nothing overflows: a run finds it by skipping steps.
        double loss = 0;
        for (const char* scale : {"65536", "4096", "256", "16", "1"}) {
            loss = step(program, name, flags + " --loss-scale dynamic --loss-scale-start " + scale);
            if (std::isfinite(norm(SafetensorsFile(file(name + ".gradients"))))) break;
        }
        return loss;
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

    // ---- the reference ----

    void against_the_reference() {
        const double reference_loss = first_step(reference_, "theirs");
        reference_loss_agrees_ =
            expect(std::abs(loss_ - reference_loss) <= loss_tolerance * std::abs(reference_loss),
                   "loss " + std::to_string(loss_) + ", the reference's " + std::to_string(reference_loss));
        const SafetensorsFile ours(file("ours.gradients")), theirs(file("theirs.gradients"));
        for (const StoredTensor& t : ours.tensors())
            if (theirs.find(t.name) == nullptr) missing(t.name + ": the reference has no such gradient");
        const double whole = norm(theirs);
        measure_moves(theirs);
        double vector_differences = 0, vector_sizes = 0, vector_moves = 0;
        for (const StoredTensor& t : theirs.tensors()) {
            const StoredTensor* mine = ours.find(t.name);
            if (mine == nullptr || mine->shape != t.shape) {
                missing(t.name + ": the program has no such gradient, or one of another shape");
                continue;
            }
            const std::vector<float> a = values(ours, *mine), b = values(theirs, t);
            double difference = 0, size = 0;
            for (std::size_t k = 0; k < b.size(); ++k) {
                const double wanted = static_cast<double>(b[k]), off = static_cast<double>(a[k]) - wanted;
                difference += off * off;
                size += wanted * wanted;
            }
            // A bias's or a norm's is a sum over all rows of what may cancel, down to nothing as for the bias of keys,
            // and keeps the roundings of what is summed: in bf16 these are held together.
            if (narrow && t.shape.size() < 2) {
                vector_differences += difference;
                vector_sizes += size;
                vector_moves += moves_[t.name];
            } else {
                expect_near(t.name, difference, size, moves_[t.name], whole);
            }
        }
        if (vector_sizes > 0)
            expect_near("biases and norms together", vector_differences, vector_sizes, vector_moves, whole);
    }

    // How far each gradient of the reference moves where the parameters are rounded as bf16 rounds: squares, the mean
    // of several draws.
    void measure_moves(const SafetensorsFile& theirs) {
        if (!narrow) return;
        const SafetensorsFile parameters(file("ours.parameters"));
        Numbers rounded = read_numbers(parameters, parameters);
        const Numbers there = rounded;
        std::uint64_t state = 3;
        for (int k = 0; k < drawn_roundings; ++k) {
            for (std::size_t t = 0; t < there.size(); ++t)
                for (std::size_t i = 0; i < there[t].size(); ++i)
                    rounded[t][i] = there[t][i] * (1 + unit_rounding * (2 * unit(state) - 1));
            write_parameters(parameters, rounded);
            step(reference_, "moved",
                 "--init '" + file("moved.safetensors") + "' --dump-gradients '" + file("moved.gradients") + "'");
            const SafetensorsFile moved(file("moved.gradients"));
            for (const StoredTensor& t : theirs.tensors()) {
                const StoredTensor* other = moved.find(t.name);
                if (other == nullptr) continue;
                const std::vector<float> a = values(moved, *other), b = values(theirs, t);
                double squares = 0;
                for (std::size_t i = 0; i < b.size(); ++i) {
                    const double off = static_cast<double>(a[i]) - static_cast<double>(b[i]);
                    squares += off * off;
                }
                moves_[t.name] += squares / drawn_roundings;
            }
        }
    }

    void missing(const std::string& what) {
        reference_gradients_agree_ = expect(false, what);
        another_model_ = true;
    }

    // Of squares. A gradient that is nothing beside the others is rounding noise.
    void expect_near(const std::string& name, double difference, double size, double moves, double whole) {
        const double length = std::max(std::sqrt(size), noise * whole), error = std::sqrt(difference) / length,
                     allowed = std::max(gradient_tolerance, moves_allowed * std::sqrt(moves) / length);
        char text[96];
        if (allowed > gradient_tolerance)
            std::snprintf(text, sizeof text, ": relative error %.1e, roundings may make %.1e", error, allowed);
        else
            std::snprintf(text, sizeof text, ": relative error %.1e", error);
        if (expect(error <= allowed, name + text)) return;
        if (!(error <= far_off * allowed)) another_model_ = true;
        reference_gradients_agree_ = false;
        not_the_references_.push_back(name);
    }

    bool agrees_with_reference() const { return reference_loss_agrees_ && reference_gradients_agree_; }

    // ---- differences ----

    void write_parameters(const SafetensorsFile& like, const Numbers& numbers) const {
        std::vector<TensorToWrite> tensors;
        for (const StoredTensor& t : like.tensors()) tensors.push_back({t.name, DType::f32, t.shape});
        SafetensorsWriter writer(file("moved.safetensors"), tensors);
        for (const std::vector<double>& tensor : numbers) {
            const std::vector<float> w(tensor.begin(), tensor.end());
            writer.append(w.data(), w.size() * sizeof(float));
        }
        writer.commit();
    }

    // The loss at the parameters plus h d, which is empty for a parameter that does not train. A loss in bf16 has few
    // digits: where the reference computes the same model, its loss tells. It does where the losses agree and no
    // gradient is another one altogether; one that misses by little is judged by a loss that has the digits.
    double loss_at(const Numbers& direction, double h) const {
        Numbers moved = parameters_;
        for (std::size_t t = 0; t < direction.size(); ++t)
            for (std::size_t k = 0; k < direction[t].size(); ++k) moved[t][k] += h * direction[t][k];
        write_parameters(*parameter_file_, moved);
        const bool by_reference = narrow && !reference_.empty() && reference_loss_agrees_ && !another_model_;
        return step(by_reference ? reference_ : train_, "moved", "--init '" + file("moved.safetensors") + "'");
    }

    // How far losses of parameters lie apart that differ by their last digit.
    void measure_noise() {
        std::uint64_t state = 5;
        Numbers last = parameters_;
        const double here = loss_at(Numbers(last.size()), 0);
        loss_noise_ = 0x1p-24 * std::abs(here);
        for (int k = 0; k < 3; ++k) {
            for (std::size_t t = 0; t < last.size(); ++t)
                for (std::size_t i = 0; i < last[t].size(); ++i)
                    last[t][i] = (next(state) % 2 == 0 ? 0x1p-23 : -0x1p-23) * parameters_[t][i];
            loss_noise_ = std::max(loss_noise_, std::abs(loss_at(last, 1) - here));
        }
    }

    struct Slope {
        double value = 0, error = HUGE_VAL;  // at most off by that
    };

    // Central differences of steps that become smaller by four. Of each the error is bounded: what curvature and kinks
    // do to it is less than what they did to the step before, by which the two differ; the rounding of the two losses
    // is that of parameters' last digits, over their distance. The step of the least bound is taken.
    Slope slope_along(const Numbers& direction) const {
        const double predicted = std::abs(dot(gradients_, direction));
        const double length = norm(direction), here = std::max(std::abs(loss_), 1e-3);
        double h = largest_step * std::max(norm(parameters_), 1e-3) / length;
        if (predicted > 0) h = std::min(h, largest_move * here / predicted);
        Slope best;
        double before = 0, change = HUGE_VAL;
        for (int k = 0; k < 12; ++k, h /= 4) {
            const double rounding = 2 * loss_noise_ / h;
            if (rounding > best.error) break;
            const double value = (loss_at(direction, h) - loss_at(direction, -h)) / (2 * h);
            const double changed = k == 0 || !std::isfinite(value) ? HUGE_VAL : std::abs(value - before);
            const double error = std::max(changed, change / 4) + rounding;
            if (std::isfinite(change) && error < best.error) best = {value, error};
            before = value;
            change = changed;
        }
        return best;
    }

    // `must_tell`: whether it is a failure that the loss is too coarse for this direction.
    bool expect_slope(const std::string& name, const Numbers& direction, bool must_tell) {
        const Slope measured = slope_along(direction);
        const double ours = dot(gradients_, direction);
        // What a gradient is itself off by, tensor by tensor, as the comparison with the reference allows.
        double allowed = measured.error;
        for (std::size_t t = 0; t < direction.size(); ++t) {
            const auto moves = moves_.find(parameter_file_->tensors()[t].name);
            const double rounded = moves == moves_.end() ? 0 : moves_allowed * std::sqrt(moves->second);
            allowed += std::max(gradient_tolerance * norm(gradients_[t]), rounded) * norm(direction[t]);
        }
        char text[160];
        std::snprintf(text, sizeof text, ": slope of the loss %.6g +- %.1g, by the gradients %.6g", measured.value,
                      measured.error, ours);
        if (measured.error > slope_tolerance * std::abs(measured.value) && std::abs(measured.value - ours) <= allowed) {
            if (must_tell) {
                too_coarse_ = true;
                return expect(false, name + text + ": the loss is too coarse to tell");
            }
            std::printf("      %s%s: too coarse to tell more\n", name.c_str(), text);
            return true;
        }
        return expect(std::abs(measured.value - ours) <= allowed, name + text);
    }

    // Each tensor's gradient with weights in [0, 1), as long as a part of the tensor: so a small gradient counts as
    // much as a large one. One that is zero goes anywhere.
    Numbers weighted_gradient(std::uint64_t& state) const {
        Numbers direction = gradients_;
        for (std::size_t t = 0; t < direction.size(); ++t) {
            const bool zero = norm(gradients_[t]) == 0;
            for (double& x : direction[t]) x = zero ? unit(state) - 0.5 : x * unit(state);
            scale(direction[t], (0.5 + unit(state)) * norm(parameters_[t]));
        }
        hold_padding(direction);
        return direction;
    }

    Numbers random_direction(std::uint64_t& state) const {
        Numbers direction = gradients_;
        for (std::size_t t = 0; t < direction.size(); ++t) {
            for (double& x : direction[t]) x = unit(state) - 0.5;
            scale(direction[t], norm(parameters_[t]));
        }
        hold_padding(direction);
        return direction;
    }

    // Rows that pad have no gradient where they are looked up, though the loss depends on them there: no direction
    // leads along them, nor is anything said of what else they have.
    void hold_padding(Numbers& direction) const {
        for (const PaddedRow& padded : PROGRAM.padded_rows)
            for (std::size_t t = 0; t < direction.size(); ++t) {
                const StoredTensor& table = parameter_file_->tensors()[t];
                if (table.name != padded.parameter || direction[t].empty()) continue;
                const std::size_t width = direction[t].size() / static_cast<std::size_t>(table.shape.at(0));
                const auto begin = direction[t].begin() + padded.row * static_cast<std::ptrdiff_t>(width);
                std::fill(begin, begin + static_cast<std::ptrdiff_t>(width), 0.0);
            }
    }

    static double unit(std::uint64_t& state) { return static_cast<double>(next(state) >> 11) * 0x1p-53; }
    static void scale(std::vector<double>& tensor, double length) {
        const double now = norm(tensor);
        if (now == 0) return;
        for (double& x : tensor) x *= length / now;
    }

    void against_differences() {
        parameter_file_.emplace(file("ours.parameters"));
        parameters_ = read_numbers(*parameter_file_, *parameter_file_);
        gradients_ = read_numbers(SafetensorsFile(file("ours.gradients")), *parameter_file_);
        hold_padding(gradients_);
        measure_noise();
        std::uint64_t state = 11;
        differences_agree_ = expect_slope("along the gradient", gradients_, true);
        // starting ranks takes its time
        const int drawn = PROGRAM.mesh.world() > 1 ? 1 : 2;
        for (int k = 0; k < drawn; ++k)
            if (!expect_slope("along a weighted gradient", weighted_gradient(state), false)) differences_agree_ = false;
        for (int k = 0; k < drawn; ++k)
            if (!expect_slope("along a random direction", random_direction(state), false)) differences_agree_ = false;
        // What is wrong in small gradients alone is lost beside large ones: those that are not the reference's are
        // tried one by one.
        if (!differences_agree_ && !too_coarse_)
            try_tensors(state, nullptr);
        else if (!not_the_references_.empty())
            try_tensors(state, &not_the_references_);
    }

    // Whether these parameters' gradients are wrong: one direction in each. Null: all.
    void try_tensors(std::uint64_t& state, const std::vector<std::string>* names) {
        constexpr int most = 100;
        int tried = 0;
        const Numbers all = weighted_gradient(state);
        for (std::size_t t = 0; t < all.size() && tried < most; ++t) {
            const std::string& name = parameter_file_->tensors()[t].name;
            if (norm(all[t]) == 0) continue;
            if (names != nullptr && std::find(names->begin(), names->end(), name) == names->end()) continue;
            Numbers direction(all.size());
            direction[t] = all[t];
            ++tried;
            if (!expect_slope(name, direction, false)) differences_agree_ = false;
        }
    }

    // ---- what follows ----

    bool verdict() const {
        if (agrees_with_reference() && differences_agree_) {
            std::printf("all gradients agree\n");
            return true;
        }
        std::printf("\n");
        if (PROGRAM.stops_gradients) {
            std::printf(
                "The program computes something else than tests/reference.\n"
                "help: if an edit was to change the model, nothing is left to judge it by, since the model stops "
                "gradients:\n"
                "export the changed model and run thunderc train again\n");
        } else if (differences_agree_) {
            std::printf(
                "The gradients are those of the program's own loss, and not those of tests/reference: the program "
                "computes\n"
                "another model than the one that it was generated from.\n"
                "help: if an edit was to change the model, build the tests with -DREFERENCE=OFF, which leaves the "
                "reference\n"
                "out, since that is still the old model; or export the changed model and run thunderc train again. If "
                "nothing\n"
                "was to change, the first line above that failed says what did.\n");
        } else if (too_coarse_) {
            std::printf(
                "The loss of this program has too few digits for differences to judge its gradients by.\n"
                "help: of a program in bf16 or f16, write the one in f32 (thunderc train --dtype f32), edit it in the "
                "same "
                "way and\n"
                "test that\n");
        } else if (reference_.empty()) {
            std::printf(
                "The gradients are not those of the program's loss: what backward computes is not the derivative of "
                "what\n"
                "forward computes.\n"
                "help: the parameters above that failed come last in the backward pass; the edit is to be made in the "
                "forward and\n"
                "in the backward functions and kernels alike.\n");
        } else if (agrees_with_reference()) {
            std::printf(
                "Loss and gradients are those of tests/reference, and the gradients are not those of the loss: unless "
                "the\n"
                "model has kinks where these parameters lie, thunderc has derived it wrongly.\n"
                "help: thunderc verify MODEL holds the graph itself against differences in double\n");
        } else if (reference_loss_agrees_) {
            std::printf(
                "The loss is that of tests/reference; the gradients are neither the reference's nor those of the loss: "
                "the\n"
                "model is the old one, and what backward computes is wrong.\n"
                "help: undo what was edited in the backward functions and kernels; the parameters above that failed "
                "say how\n"
                "far the fault reaches\n");
        } else {
            std::printf(
                "Neither the loss nor the gradients are those of tests/reference, and the gradients are not those of "
                "the\n"
                "loss: forward was changed, and backward is not the derivative of what it computes now.\n"
                "help: make the same change in the backward functions and kernels; differences pass then, and "
                "-DREFERENCE=OFF\n"
                "leaves the reference out, which is still the old model\n");
        }
        return false;
    }

    std::string train_, reference_, folder_;
    std::string deviation_;  // of the random parameters
    double loss_ = 0, loss_noise_ = 0;
    std::optional<SafetensorsFile> parameter_file_;
    Numbers parameters_, gradients_;
    std::vector<std::string> not_the_references_;
    std::map<std::string, double> moves_;  // of the reference's gradients, by their names
    bool reference_loss_agrees_ = true, reference_gradients_agree_ = true, differences_agree_ = true;
    bool too_coarse_ = false, another_model_ = false;
};

}  // namespace

int main(int argc, char** argv) try {
    std::vector<std::string> words(argv + 1, argv + argc);
    const bool alone = !words.empty() && words.front() == "--differences";
    if (alone) words.erase(words.begin());
    if (alone && PROGRAM.stops_gradients)
        fail("the model stops gradients, which differences of its loss would show",
             "such a program is held against its reference alone: -DREFERENCE=ON");
    const std::size_t own = alone ? 2 : 3;
    if (words.size() < own) {
        std::fprintf(stderr, "usage: gradients_test [--differences] TRAIN [REFERENCE_TRAIN] FOLDER [LAUNCHER...]\n");
        return 2;
    }
    const int ranks = PROGRAM.mesh.world();
    if (words.size() == own && ranks > 1)
        fail("there is no launcher for the " + std::to_string(ranks) + " ranks of this program",
             "its tests are built with -DCOMM=mpi");
    const auto quoted = [](const std::string& word) { return "'" + word + "'"; };
    std::string launched;
    for (std::size_t i = own; i < words.size(); ++i) launched += quoted(words[i]) + " ";
    if (!launched.empty()) launched += std::to_string(ranks) + " ";
    const std::string reference =
        alone ? "" : quoted(words[1]) + " --grad-accum " + std::to_string(micro_batches * ranks);
    const std::string train = launched + quoted(words[0]) + " --grad-accum " + std::to_string(micro_batches);
    return Check(train, reference, words[own - 1]).run_all() ? 0 : 1;
} catch (...) {
    return report_error();
}
