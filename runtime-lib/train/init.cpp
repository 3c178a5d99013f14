#include "train/init.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "checkpoint/safetensors.h"
#include "device/parallel.h"
#include "support/error.h"
#include "support/file.h"
#include "support/json.h"
#include "support/philox.h"
#include "support/text.h"
#include "train/transfer.h"

namespace thunder {

namespace {

// ---- normal numbers. Products and sums are joined by std::fma where they could be: a compiler has nothing left to
// contract, so the bits depend neither on its flags nor on the CPU.

// ln(x) of a normal x > 0: x = 2^e m with m in [sqrt(1/2), sqrt(2)), ln(m) = 2 atanh(s), s = (m - 1) / (m + 1), |s| <
// 0.172: the series to s^21 is off by less than 1e-17.
double natural_log(double x) {
    const auto bits = std::bit_cast<std::uint64_t>(x);
    const std::uint64_t shifted = bits + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd);  // sqrt(1/2) moves to 1
    const auto exponent = static_cast<std::int64_t>(shifted >> 52) - 1023;
    const auto m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(exponent) << 52));
    const double s = (m - 1) / (m + 1), z = s * s;
    double series = 1.0 / 21;
    for (int odd = 19; odd >= 1; odd -= 2) series = std::fma(series, z, 1.0 / odd);
    return std::fma(static_cast<double>(exponent), 0.6931471805599453, 2 * s * series);
}

// sin and cos of 2 pi turn / 2^32. The angle within a quadrant is below pi/2, where the Taylor series to t^23 are off
// by less than 1e-17 of 1.
std::array<double, 2> sine_cosine(std::uint32_t turn) {
    const double t = (turn & 0x3fffffff) * (1.5707963267948966 / 0x40000000), z = -(t * t);
    double sine = 1, cosine = 1;
    for (int i = 22; i >= 2; i -= 2) {
        sine = std::fma(sine, z * (1.0 / (i * (i + 1))), 1.0);
        cosine = std::fma(cosine, z * (1.0 / (i * (i - 1))), 1.0);
    }
    sine *= t;
    switch (turn >> 30) {
        case 0: return {sine, cosine};
        case 1: return {cosine, -sine};
        case 2: return {-sine, -cosine};
        default: return {-cosine, sine};
    }
}

// Two independent normal numbers from two uniform ones (Box and Muller, 1958).
std::array<float, 2> normal_pair(std::uint32_t a, std::uint32_t b) {
    const double u = (static_cast<double>(a) + 1) * 0x1p-32;  // in (0, 1]
    const double radius = std::sqrt(-2 * natural_log(u));
    const auto [sine, cosine] = sine_cosine(b);
    return {static_cast<float>(radius * cosine), static_cast<float>(radius * sine)};
}

// ---- files ---------------------------------------------------------------------------------------------------------

// The tensors of --init: one file, or those that a folder's index names.
class Weights {
  public:
    explicit Weights(const std::string& path) : path_(path) {
        if (!is_folder(path)) {
            open(path, nullptr);
            return;
        }
        const std::string index = join_path(path, "model.safetensors.index.json");
        const std::string whole = join_path(path, "model.safetensors");
        if (is_file(index)) {
            open_shards(index);
        } else if (is_file(whole)) {
            open(whole, nullptr);
        } else {
            std::vector<std::string> names = names_in(path);
            const bool torch = std::any_of(names.begin(), names.end(),
                                           [](const std::string& n) { return n.starts_with("pytorch_model"); });
            fail(cat("--init ", path, ": the folder has neither model.safetensors nor model.safetensors.index.json"),
                 torch ? "its weights are in PyTorch's pickle format: save them with save_pretrained(..., "
                         "safe_serialization=True)"
                       : cat("it holds ", names.empty() ? "nothing" : list_text(names)));
        }
    }

    const std::string& path() const { return path_; }

    struct Found {
        const SafetensorsFile* file;
        const StoredTensor* tensor;
    };
    const Found* find(const std::string& name) const {
        const auto at = tensors_.find(name);
        return at == tensors_.end() ? nullptr : &at->second;
    }
    const std::map<std::string, Found>& all() const { return tensors_; }

  private:
    void open(const std::string& path, const std::set<std::string>* wanted) {
        files_.push_back(std::make_unique<SafetensorsFile>(path));
        for (const StoredTensor& tensor : files_.back()->tensors()) {
            if (wanted == nullptr || wanted->contains(tensor.name))
                tensors_[tensor.name] = {files_.back().get(), &tensor};
        }
    }

    void open_shards(const std::string& index) {
        const MappedFile file(index);
        const Json json = parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, index);
        const Json* map = json.find("weight_map");
        if (map == nullptr || !map->is(Json::Kind::object)) fail(cat(index, " has no weight_map"));
        std::map<std::string, std::set<std::string>> shards;
        for (const auto& [tensor, shard] : map->object) {
            if (!shard.is(Json::Kind::string) || shard.string.find('/') != std::string::npos)
                fail(cat(index, ": the entry of ", tensor, " is not a file's name"));
            shards[shard.string].insert(tensor);
        }
        for (const auto& [shard, wanted] : shards) {
            open(join_path(path_, shard), &wanted);
            for (const std::string& name : wanted) {
                if (find(name) == nullptr) fail(cat(index, " says that ", name, " is in ", shard, ", and it is not"));
            }
        }
    }

    std::string path_;
    std::vector<std::unique_ptr<SafetensorsFile>> files_;
    std::map<std::string, Found> tensors_;
};

// What to do with a program's name to get the file's: one wrapper's prefix is removed or put before.
struct Renaming {
    std::string remove, add;

    std::string operator()(std::string_view name) const {
        if (!remove.empty() && name.starts_with(remove)) return std::string(name.substr(remove.size()));
        return add + std::string(name);
    }
};

std::string first_component(std::string_view name) {
    const std::size_t dot = name.find('.');
    return dot == std::string_view::npos ? "" : std::string(name.substr(0, dot + 1));
}

std::vector<std::string> names_of(const ParameterSpec& parameter) {
    std::vector<std::string> names{std::string(parameter.name)};
    for (const std::string_view alias : parameter.aliases) names.emplace_back(alias);
    return names;
}

// The renaming under which most parameters are found; names as they are, where no other does better.
Renaming choose_renaming(const ProgramSpec& program, const Weights& weights) {
    std::vector<Renaming> candidates{{}};
    std::set<std::string> ours, theirs;
    for (const ParameterSpec& parameter : program.parameters) {
        for (const std::string& name : names_of(parameter)) ours.insert(first_component(name));
    }
    for (const auto& [name, found] : weights.all()) theirs.insert(first_component(name));
    for (const std::string& prefix : ours) {
        if (!prefix.empty()) candidates.push_back({prefix, ""});
    }
    for (const std::string& prefix : theirs) {
        if (!prefix.empty()) candidates.push_back({"", prefix});
    }
    std::size_t best = 0, best_count = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        std::size_t count = 0;
        for (const ParameterSpec& parameter : program.parameters) {
            const std::vector<std::string> names = names_of(parameter);
            count += std::any_of(names.begin(), names.end(),
                                 [&](const std::string& n) { return weights.find(candidates[i](n)) != nullptr; });
        }
        if (count > best_count) {
            best = i;
            best_count = count;
        }
    }
    return candidates[best];
}

std::string describe(DType dtype, std::span<const std::int64_t> shape) {
    return cat(stored_name(dtype), " ", shape_text(shape));
}

void check_fits(const std::string& path, const StoredTensor& tensor, DType dtype, std::span<const std::int64_t> shape,
                std::string_view what) {
    if (std::equal(tensor.shape.begin(), tensor.shape.end(), shape.begin(), shape.end()) &&
        readable_as(tensor.dtype, dtype))
        return;
    const bool transposed =
        shape.size() == 2 && tensor.shape.size() == 2 && tensor.shape[0] == shape[1] && tensor.shape[1] == shape[0];
    fail(cat(path, ": ", tensor.name, " is ", tensor.describe(), ", and the program's ", what, " is ",
             describe(dtype, shape)),
         transposed && tensor.shape[0] != tensor.shape[1]
             ? "the two are transposed: the file is of another model, or was written by another framework"
             : "the file belongs to a model of other sizes");
}

bool same_bytes(const StoredTensor& a, const StoredTensor& b) {
    return a.dtype == b.dtype && a.shape == b.shape &&
           std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end());
}

void draw(const ParameterSpec& parameter, const Options& options, std::byte* arena, Stream& stream) {
    const std::size_t count = parameter.bytes / size_of(parameter.dtype);
    fill_on_device(arena + parameter.offset, parameter.dtype, count, stream,
                   [&](std::size_t first, std::size_t n, std::byte* out) {
                       std::vector<float> values(n, parameter.init == ParameterSpec::Init::ones ? 1.0F : 0.0F);
                       if (parameter.init == ParameterSpec::Init::normal) {
                           random_normal(values.data(), first, n, options.seed, parameter.name);
                           const auto std_dev = static_cast<float>(options.init_std);
                           for (float& value : values) value *= std_dev;
                       }
                       if (parameter.dtype == DType::bf16) {
                           for (std::size_t i = 0; i < n; ++i) {
                               const std::uint16_t bits = bf16_from_f32(values[i]);
                               std::memcpy(out + 2 * i, &bits, sizeof bits);
                           }
                       } else {
                           std::memcpy(out, values.data(), n * sizeof(float));
                       }
                   });
}

std::string drawn_text(std::size_t count, const Options& options) {
    return cat(count_text(count, "parameter"), " drawn: norm scales 1, biases 0, all else N(0, ", options.init_std,
               ") with seed ", options.seed);
}

[[noreturn]] void fail_missing(const std::string& path, const std::vector<const ParameterSpec*>& missing,
                               const Weights& weights) {
    std::vector<std::string> names;
    std::string notes;
    for (const ParameterSpec* parameter : missing) {
        names.emplace_back(parameter->name);
        if (!parameter->note.empty() && notes.empty())
            notes = cat("; ", parameter->name, " is no tensor of the checkpoint: ", parameter->note);
    }
    std::vector<std::string> held;
    for (const auto& [name, found] : weights.all()) held.push_back(name);
    fail(cat(path, " lacks ", count_text(names.size(), "parameter"), " of the program: ", list_text(names), notes),
         cat("it holds ", held.empty() ? "no tensors" : list_text(held, 4),
             "; --init-missing random draws what is missing"));
}

}  // namespace

void random_normal(float* out, std::uint64_t first, std::size_t count, std::uint64_t seed, std::string_view name) {
    const PhiloxKey key = philox_key(seed, name);
    parallel_for(static_cast<std::int64_t>(count), 4096, [&](std::int64_t begin, std::int64_t end) {
        std::array<float, 4> numbers{};
        std::uint64_t made = ~std::uint64_t{0};
        for (std::int64_t i = begin; i < end; ++i) {
            const std::uint64_t element = first + static_cast<std::uint64_t>(i), block = element / 4;
            if (block != made) {
                const PhiloxCounter random =
                    philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key);
                const auto [a, b] = normal_pair(random[0], random[1]);
                const auto [c, d] = normal_pair(random[2], random[3]);
                numbers = {a, b, c, d};
                made = block;
            }
            out[i] = numbers[element % 4];
        }
    });
}

std::vector<std::string> initialise_parameters(const ProgramSpec& program, const Options& options, std::byte* arena,
                                               Stream& stream) {
    std::string path = options.init == "random" ? "" : options.init;
    if (options.init.empty()) {
        const std::string exported = join_path(options.program_folder, "weights.safetensors");
        if (!options.program_folder.empty() && is_file(exported)) path = exported;
    }
    if (path.empty()) {
        for (const ParameterSpec& parameter : program.parameters) draw(parameter, options, arena, stream);
        return {drawn_text(program.parameters.size(), options)};
    }
    const Weights weights(path);
    const Renaming renamed = choose_renaming(program, weights);
    std::vector<const ParameterSpec*> missing;
    std::set<std::string> used;
    for (const ParameterSpec& parameter : program.parameters) {
        const Weights::Found* first = nullptr;
        for (const std::string& name : names_of(parameter)) {
            const Weights::Found* found = weights.find(renamed(name));
            if (found == nullptr) continue;
            used.insert(found->tensor->name);
            check_fits(path, *found->tensor, parameter.dtype, parameter.shape, cat("parameter ", parameter.name));
            if (first == nullptr) {
                first = found;
            } else if (!same_bytes(*first->tensor, *found->tensor)) {
                fail(cat(path, ": ", first->tensor->name, " and ", found->tensor->name,
                         " differ, and in the program they are one parameter"),
                     "the file's model does not tie them; export that model, or remove one of the two from the file");
            }
        }
        if (first == nullptr) {
            missing.push_back(&parameter);
        } else {
            load_tensor(*first->file, *first->tensor, parameter.dtype, arena + parameter.offset, stream);
        }
    }
    if (!missing.empty() && !options.init_missing_random) fail_missing(path, missing, weights);
    for (const ParameterSpec* parameter : missing) draw(*parameter, options, arena, stream);

    std::vector<std::string> lines{cat("parameters from ", path)};
    if (!missing.empty()) lines.push_back(drawn_text(missing.size(), options));
    std::vector<std::string> unused;
    for (const auto& [name, found] : weights.all()) {
        if (!used.contains(name)) unused.push_back(name);
    }
    if (!unused.empty()) lines.push_back(cat("not used from there: ", list_text(unused)));
    return lines;
}

void read_constants(const ProgramSpec& program, const std::string& folder, std::byte* arena, Stream& stream) {
    if (program.constants.empty()) return;
    const std::string path = join_path(folder, "constants.safetensors");
    const SafetensorsFile file(path);
    for (const ConstantSpec& constant : program.constants) {
        const StoredTensor* tensor = file.find(constant.name);
        if (tensor == nullptr)
            fail(cat(path, " lacks the table ", constant.name),
                 "it is not the file that was written with this program: write the program again");
        check_fits(path, *tensor, constant.dtype, constant.shape, "table");
        load_tensor(file, *tensor, constant.dtype, arena + constant.offset, stream);
    }
}

}  // namespace thunder
