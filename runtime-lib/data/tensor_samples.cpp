// SPDX-License-Identifier: Apache-2.0
// Samples of tensors: images, features and labels in files that are mapped, by the names of the program's inputs. A
// source is a .safetensors file, or a folder of those, of .npy files (INPUT.npy), or of folders with such.
#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>

#include "checkpoint/safetensors.h"
#include "data/corpus.h"
#include "data/fingerprint.h"
#include "data/npy.h"
#include "data/samples.h"
#include "program/inputs.h"
#include "support/error.h"
#include "support/file.h"
#include "support/philox.h"
#include "support/text.h"

namespace thunder {

namespace {

// Tensors of one set of samples, from one .safetensors file or the .npy files of one folder.
struct Shard {
    std::string path;
    std::deque<MappedFile> mapped;
    std::optional<SafetensorsFile> file;
    std::vector<StoredTensor> tensors;

    const StoredTensor* find(std::string_view name) const {
        for (const StoredTensor& tensor : tensors)
            if (tensor.name == name) return &tensor;
        return nullptr;
    }
};

Shard open_shard(const std::string& path) {
    Shard shard{.path = path, .mapped = {}, .file = std::nullopt, .tensors = {}};
    // What is in a file and is no tensor is damage; one that cannot be opened or mapped now may be whole.
    const auto parse = [](auto&& body) {
        try {
            body();
        } catch (const Error& error) {
            throw DamagedFile(error);
        }
    };
    if (!is_folder(path)) {
        static_cast<void>(MappedFile(path));
        parse([&] { shard.file.emplace(path); });
        shard.tensors.assign(shard.file->tensors().begin(), shard.file->tensors().end());
        return shard;
    }
    for (const std::string& name : names_in(path)) {
        if (!name.ends_with(".npy")) continue;
        shard.mapped.emplace_back(join_path(path, name));
        parse([&] { shard.tensors.push_back(read_npy(shard.mapped.back().bytes(), join_path(path, name))); });
        shard.tensors.back().name = name.substr(0, name.size() - 4);
    }
    return shard;
}

bool has_npy(const std::string& folder) {
    const std::vector<std::string> names = names_in(folder);
    return std::any_of(names.begin(), names.end(), [](const std::string& name) { return name.ends_with(".npy"); });
}

// The shards that a path stands for, in the order of their names.
std::vector<std::string> shards_of(const std::string& path) {
    if (!is_folder(path) || has_npy(path)) return {path};
    std::vector<std::string> shards;
    for (const std::string& name : names_in(path)) {
        const std::string inner = join_path(path, name);
        if (is_folder(inner)) check_readable(inner);  // one that is empty has no samples
        if (name.ends_with(".safetensors") || (is_folder(inner) && has_npy(inner))) shards.push_back(inner);
    }
    return shards;
}

// Images lie as [channels, height, width] in programs.
struct Image {
    std::size_t channels = 0, height = 0, width = 0;
};

class TensorSamples : public Samples {
  public:
    TensorSamples(const ProgramSpec& program, const Options& options, const DataSource& source)
        : program_(program), options_(options), name_(source.name) {
        if (options.documents != Options::Documents::join)
            fail_usage(cat("--documents is about tokens, and ", name_, " has tensors"), "leave it away");
        if ((options.flip || !options.normalize.empty()) &&
            std::none_of(program.inputs.begin(), program.inputs.end(), is_image))
            fail_usage(cat(options.flip ? "--flip" : "--normalize", " is about images, and ", program.name,
                           " has no input of them (f32 [batch, channels, height, width])"),
                       "leave it away");
        check_flip();
        for (const std::string& path : source.paths)
            for (const std::string& shard : shards_of(path)) {
                try {
                    shards_.push_back(open_shard(shard));
                } catch (const DamagedFile& error) {
                    if (!options.skip_damaged) throw;
                    damaged_.push_back(error.message());
                    continue;
                }
                add_shard(shards_.back(), shown_name(source, shard));
            }
        if (samples() == 0) fail(cat(name_, " has no samples"), "its tensors are to have a sample in each row");
    }

    std::span<const SampleFile> files() const override { return shown_; }

    void fill(std::size_t file, std::uint64_t sample, std::uint64_t draw, std::int64_t row,
              std::span<std::byte> batch) override {
        constexpr PhiloxKey key = philox_key(0, "flip");
        const bool flipped =
            options_.flip &&
            (philox({static_cast<std::uint32_t>(draw), static_cast<std::uint32_t>(draw >> 32), 0, 0}, key)[0] & 1) != 0;
        for (const InputSpec& input : program_.inputs) {
            if (!input.batched) continue;
            const std::size_t count =
                input.bytes / size_of(input.dtype) / static_cast<std::size_t>(input.shape.front());
            std::byte* to = batch.data() + input.offset + static_cast<std::size_t>(row) * count * size_of(input.dtype);
            const StoredTensor& tensor = *shards_[file].find(input.name);
            if (is_image(input)) {
                read_image(tensor, input, static_cast<std::size_t>(sample) * count, flipped,
                           reinterpret_cast<float*>(to));
            } else {
                read(shards_[file], tensor, input, static_cast<std::size_t>(sample) * count, count, to);
                check_ids(shards_[file], input, sample, static_cast<std::size_t>(row) * count, count, to);
            }
        }
    }

    void fill_whole(std::span<std::byte> batch) override {
        for (const InputSpec& input : program_.inputs) {
            if (input.batched) continue;
            const Shard& shard = shards_.front();
            read_input(shard.path, *shard.find(input.name), input, 0, batch.data() + input.offset);
        }
    }

    std::string describe() const override {
        return cat(count_text(samples(), "sample"), " from ", name_,
                   shards_.size() > 1 ? cat(" (", shards_.size(), " shards)") : "",
                   options_.flip ? ", flipped at random" : "");
    }

    std::vector<std::string> notes() const override {
        std::vector<std::string> lines;
        for (const std::string& why : damaged_) lines.push_back(cat("warning: left out: ", why));
        std::vector<std::string> images;
        for (const InputSpec& input : program_.inputs)
            if (is_image(input)) images.emplace_back(input.name);
        if (images.size() > 1 && !options_.normalize.empty())
            lines.push_back(cat("warning: --normalize is of all that may be images: ", list_text(images)));
        return lines;
    }

  private:
    // What --normalize and --flip are about.
    static bool is_image(const InputSpec& input) {
        return input.batched && input.dtype == DType::f32 && input.shape.size() == 4;
    }

    // What lies on an image has to be mirrored with it, and nobody says what does.
    void check_flip() const {
        if (!options_.flip) return;
        std::vector<std::string> others;
        const InputSpec* image = nullptr;
        for (const InputSpec& input : program_.inputs) {
            if (image == nullptr && is_image(input)) {
                image = &input;
            } else if (input.batched && input.shape.size() > 2) {
                others.push_back(cat(input.name, " ", shape_text(input.shape)));
            }
        }
        if (!others.empty())
            fail_usage(cat("--flip mirrors ", image->name, ", and ", list_text(others), " may lie on it"),
                       "leave it away, and mirror samples of both kinds when they are written");
    }

    std::uint64_t samples() const {
        std::uint64_t count = 0;
        for (const SampleFile& shard : shown_) count += shard.samples;
        return count;
    }

    void add_shard(const Shard& shard, const std::string& shown) {
        const std::string& path = shard.path;
        std::int64_t rows = -1;
        std::uint64_t fingerprint = 0;
        for (const InputSpec& input : program_.inputs) {
            const StoredTensor* tensor = shard.find(input.name);
            if (tensor == nullptr) fail_absent(shard, input);
            check(shard, *tensor, input);
            fingerprint = hash_text(cat(input.name, tensor->describe()),
                                    sampled_hash(tensor->bytes, input.batched ? 16 : 64, fingerprint));
            if (!input.batched) {
                check_whole(shard, *tensor, input);
                continue;
            }
            if (rows >= 0 && tensor->shape.front() != rows)
                fail(cat(path, " has ", rows, " samples of ", program_.inputs.front().name, " and ",
                         tensor->shape.front(), " of ", input.name),
                     "each tensor has a row for each sample");
            rows = tensor->shape.front();
        }
        if (rows < 0) fail(cat("no input of ", program_.name, " has a row for each sample"), "--feed FILE");
        shown_.push_back({shown, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(rows), hex(fingerprint)});
    }

    // A batch has rows of several shards, and what has no rows once.
    void check_whole(const Shard& shard, const StoredTensor& tensor, const InputSpec& input) const {
        const StoredTensor& first = *shards_.front().find(input.name);
        if (first.dtype != tensor.dtype ||
            !std::equal(first.bytes.begin(), first.bytes.end(), tensor.bytes.begin(), tensor.bytes.end()))
            fail(cat(shards_.front().path, " and ", shard.path, " have different numbers in ", input.name,
                     ", which is the same for all samples"),
                 "give them the same ones");
    }

    [[noreturn]] void fail_absent(const Shard& shard, const InputSpec& input) const {
        std::vector<std::string> held, inputs;
        for (const StoredTensor& tensor : shard.tensors) held.push_back(tensor.name);
        for (const InputSpec& spec : program_.inputs) inputs.emplace_back(spec.name);
        fail(cat(shard.path, " has no tensor ", input.name),
             cat("it holds ", held.empty() ? "nothing" : list_text(held), "; the inputs are ", list_text(inputs)));
    }

    void check(const Shard& shard, const StoredTensor& tensor, const InputSpec& input) const {
        std::vector<std::int64_t> expected(input.shape.begin(), input.shape.end());
        if (input.batched && !tensor.shape.empty()) expected[0] = tensor.shape[0];
        const bool bytes_of_image = is_image(input) && tensor.dtype == "U8";
        if (bytes_of_image && options_.normalize.empty())
            fail(cat(shard.path, ": ", input.name, " has images of bytes, and nothing says what numbers they are"),
                 "--normalize MEAN,STD: x / 255, less MEAN, divided by STD; --normalize 0,1 for x / 255");
        if (!bytes_of_image && !readable_as(tensor.dtype, input.dtype))
            fail(cat(shard.path, ": ", input.name, " is ", tensor.describe(), ", and the input takes ",
                     stored_name(input.dtype)),
                 "write it with that type");
        if (is_image(input))
            for (const std::size_t count : {options_.normalize.size() / 2})
                if (count > 1 && count != static_cast<std::size_t>(input.shape[1]))
                    fail_usage(cat("--normalize has numbers for ", count, " channels, and ", input.name, " has ",
                                   input.shape[1]),
                               "one for all, or one for each");
        if (tensor.shape == expected || (is_image(input) && tensor.shape == channels_last(expected))) return;
        fail(cat(shard.path, ": ", input.name, " has shape ", shape_text(tensor.shape), ", expected ",
                 shape_text(expected), is_image(input) ? cat(" or ", shape_text(channels_last(expected))) : ""),
             input.batched ? "dimension 0 is the samples, all others are the program's" : "");
    }

    static std::vector<std::int64_t> channels_last(const std::vector<std::int64_t>& shape) {
        return {shape[0], shape[2], shape[3], shape[1]};
    }

    static void read(const Shard& shard, const StoredTensor& tensor, const InputSpec& input, std::size_t first,
                     std::size_t count, std::byte* to) {
        if (!read_elements(tensor, input.dtype, first, count, to))
            fail(cat(shard.path, ": ", input.name, " holds numbers that the input (", stored_name(input.dtype),
                     ") cannot"),
                 "write numbers from -2147483648 to 2147483647");
    }

    // `element`: the first one's place in the input.
    static void check_ids(const Shard& shard, const InputSpec& input, std::uint64_t sample, std::size_t element,
                          std::size_t count, const std::byte* values) {
        if ((input.entries < 0 && input.columns.empty()) || is_float(input.dtype)) return;
        for (std::size_t i = 0; i < count; ++i) {
            const std::int64_t id = input.dtype == DType::i64   ? reinterpret_cast<const std::int64_t*>(values)[i]
                                    : input.dtype == DType::i32 ? reinterpret_cast<const std::int32_t*>(values)[i]
                                                                : std::int64_t{0};
            const IdRange ids = ids_at(input, static_cast<std::int64_t>(element + i));
            if (!ids.holds(id))
                fail(cat(shard.path, ": sample ", sample, " has ", id, " in ", input.name, ", which takes 0 to ",
                         ids.entries - 1, ids.ignore_index != 0 ? cat(", or ", ids.ignore_index) : ""),
                     "the model can use no others: look at how the samples were made");
        }
    }

    // Bytes are of 255; then the mean is taken off, and what is left divided by the standard deviation.
    void read_image(const StoredTensor& tensor, const InputSpec& input, std::size_t first, bool flipped, float* to) {
        const Image image{static_cast<std::size_t>(input.shape[1]), static_cast<std::size_t>(input.shape[2]),
                          static_cast<std::size_t>(input.shape[3])};
        const std::size_t plane = image.height * image.width, count = image.channels * plane;
        pixels_.resize(count);
        float of_one = 1;
        if (tensor.dtype == "U8") {
            of_one = 1.0F / 255;
            const std::byte* from = tensor.bytes.data() + first;
            for (std::size_t i = 0; i < count; ++i) pixels_[i] = static_cast<float>(std::to_integer<int>(from[i]));
        } else {
            read_elements(tensor, DType::f32, first, count, pixels_.data());
        }
        const bool is_first = tensor.shape[1] == input.shape[1] && tensor.shape[2] == input.shape[2] &&
                              tensor.shape[3] == input.shape[3];  // channels
        const std::size_t of_channel = is_first ? plane : 1, of_pixel = is_first ? 1 : image.channels;
        for (std::size_t c = 0; c < image.channels; ++c) {
            const auto [scale, shift] = normal_of(c, of_one);
            const float* const from = pixels_.data() + c * of_channel;
            for (std::size_t y = 0; y < image.height; ++y)
                for (std::size_t x = 0; x < image.width; ++x) {
                    const std::size_t at = y * image.width + (flipped ? image.width - 1 - x : x);
                    to[c * plane + y * image.width + x] = from[at * of_pixel] * scale + shift;
                }
        }
    }

    // What the pixels of a channel are multiplied with, and what is added.
    std::pair<float, float> normal_of(std::size_t channel, float of_one) const {
        const std::size_t channels = options_.normalize.size() / 2;
        if (channels == 0) return {of_one, 0.0F};
        const std::size_t k = channels == 1 ? 0 : channel;
        const double mean = options_.normalize[k], deviation = options_.normalize[channels + k];
        return {static_cast<float>(static_cast<double>(of_one) / deviation), static_cast<float>(-mean / deviation)};
    }

    const ProgramSpec& program_;
    Options options_;
    std::string name_;
    std::vector<Shard> shards_;
    std::vector<SampleFile> shown_;     // of each
    std::vector<std::string> damaged_;  // shards, and in what way
    std::vector<float> pixels_;
};

}  // namespace

bool holds_tensors(const DataSource& source) {
    const std::string& path = source.paths.front();
    if (is_file(path) && path.ends_with(".npy"))
        fail_usage(cat("--data ", path, " is one tensor, and samples have one for each input"),
                   "name the folder with files of all of them, called INPUT.npy");
    if (!is_folder(path)) {
        if (!is_file(path)) static_cast<void>(MappedFile(path));  // fails, and says why
        return path.ends_with(".safetensors");
    }
    const std::vector<std::string> names = names_in(path);
    const auto is_of_tokens = [](const std::string& name) {
        return name.ends_with(".bin") || name == corpus_list || name == unfinished_corpus_list;
    };
    if (std::any_of(names.begin(), names.end(), is_of_tokens)) return false;
    if (shards_of(path).empty())
        fail(cat("the folder ", path, " has no .bin file of tokens, and no .npy or .safetensors file of samples"),
             "thunderc data pack FILE... -o corpus.bin makes one of tokens; of samples there is INPUT.npy for each "
             "input");
    return true;
}

std::unique_ptr<Samples> make_tensor_samples(const ProgramSpec& program, const Options& options,
                                             const DataSource& source) {
    return std::make_unique<TensorSamples>(program, options, source);
}

}  // namespace thunder
