// SPDX-License-Identifier: Apache-2.0
// Samples of packed tokens: windows that stand side by side, across documents or with their boundaries, a document
// each, or as many whole ones as fit.
#include <algorithm>
#include <cstring>
#include <limits>

#include "data/corpus.h"
#include "data/document_fit.h"
#include "data/fingerprint.h"
#include "data/samples.h"
#include "data/token_file.h"
#include "data/token_roles.h"
#include "program/inputs.h"
#include "support/error.h"
#include "support/file.h"
#include "support/text.h"

namespace thunder {

namespace {

template <typename T>
void store_as(std::byte* to, std::span<const std::int64_t> values) {
    auto* out = reinterpret_cast<T*>(to);
    for (std::size_t i = 0; i < values.size(); ++i) out[i] = static_cast<T>(values[i]);
}

// What whole numbers become in an input's type.
void store(std::byte* to, DType dtype, std::span<const std::int64_t> values) {
    switch (dtype) {
        case DType::i64: std::memcpy(to, values.data(), values.size_bytes()); break;
        case DType::i32: store_as<std::int32_t>(to, values); break;
        case DType::f32: store_as<float>(to, values); break;
        case DType::boolean: store_as<std::uint8_t>(to, values); break;
        default: break;  // refused at start
    }
}

// A mask that is added to scores: 0 where a position may look, else the lowest number, as PyTorch's masks have it.
void store_added(std::byte* to, std::span<const std::int64_t> may_look) {
    auto* out = reinterpret_cast<float*>(to);
    for (std::size_t i = 0; i < may_look.size(); ++i)
        out[i] = may_look[i] != 0 ? 0 : std::numeric_limits<float>::lowest();
}

class TokenSamples : public Samples {
  public:
    TokenSamples(const ProgramSpec& program, const Options& options, const DataSource& source)
        : program_(program),
          name_(source.name),
          kept_(options.documents),
          skips_long_(options.skip_long_documents),
          roles_(choose_token_roles(program, options)) {
        if (options.flip || !options.normalize.empty())
            fail_usage(cat(options.flip ? "--flip" : "--normalize", " is about images, and ", name_, " has tokens"),
                       "leave it away");
        const std::uint64_t length = roles_.length;
        row_.ids.resize(length + 1);
        row_.trained.resize(length + 1);
        row_.document.resize(length + 1);
        row_.position.resize(length + 1);
        for (const std::string& path : source.paths)
            for (const ListedFile& file : listed_files_of(path)) add_file(file, shown_name(source, file.path), options);
        std::uint64_t samples = 0;
        for (const SampleFile& file : shown_) samples += file.samples;
        if (samples == 0 && (kept_ == Documents::one || kept_ == Documents::fit))
            fail(cat(name_, " has no document of ", skips_long_ ? cat("at most ", length + 1) : "two or more",
                     " tokens"),
                 cat("pack more text, or leave --documents ", name_of(kept_), " away"));
        if (samples == 0)
            fail(cat(name_, " holds ", count_text(tokens(), "token"), ", and one window takes ", length + 1),
                 "pack more text, or write the program with a smaller --seq");
        check_labels();
    }

    std::span<const SampleFile> files() const override { return shown_; }

    void fill(std::size_t file, std::uint64_t sample, std::uint64_t /*draw*/, std::int64_t row,
              std::span<std::byte> batch) override {
        read_row(file, sample);
        for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
            const InputSpec& input = program_.inputs[i];
            if (!input.batched) continue;
            const std::size_t count =
                input.bytes / size_of(input.dtype) / static_cast<std::size_t>(input.shape.front());
            values_.resize(count);
            give(input, roles_.of[i], static_cast<std::size_t>(row) * count, files_[file]);
            std::byte* const to =
                batch.data() + input.offset + static_cast<std::size_t>(row) * count * size_of(input.dtype);
            if (roles_.of[i] == TokenRole::documents && input.dtype == DType::f32)
                store_added(to, values_);
            else
                store(to, input.dtype, values_);
        }
    }

    void fill_whole(std::span<std::byte> batch) override {
        for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
            const InputSpec& input = program_.inputs[i];
            if (input.batched) continue;
            values_.assign(input.bytes / size_of(input.dtype), 1);
            if (roles_.of[i] == TokenRole::positions)
                for (std::size_t e = 0; e < values_.size(); ++e)
                    values_[e] = static_cast<std::int64_t>(e % roles_.length);
            store(batch.data() + input.offset, input.dtype, values_);
        }
    }

    std::string describe() const override {
        std::uint64_t samples = 0;
        for (const SampleFile& file : shown_) samples += file.samples;
        return cat(count_text(tokens(), "token"), " from ", name_,
                   files_.size() > 1 ? cat(" (", files_.size(), " files)") : "", ", ",
                   kept_ == Documents::one   ? cat(count_text(samples, "document"), " of up to ")
                   : kept_ == Documents::fit ? cat(count_text(samples, "row"), " of whole documents of up to ")
                                             : cat(count_text(samples, "window"), " of "),
                   roles_.length, kept_ == Documents::separate ? ", documents apart" : "",
                   kept_ == Documents::fit ? cat(", ", digits("%.1f", 100 * filled(samples)), "% filled") : "");
    }

    std::vector<std::string> notes() const override {
        std::vector<std::string> lines;
        for (const std::string& why : damaged_) lines.push_back(cat("warning: left out: ", why));
        if (cut_ > 0)
            lines.push_back(cat("note: ", count_text(cut_, "document"), " of ", name_,
                                " are longer than a row, which has their first ", roles_.length + 1, " tokens"));
        if (skipped_ > 0)
            lines.push_back(
                cat("note: ", count_text(skipped_, "document"), " of ", name_, " are longer than a row, and left out"));
        const bool windows = kept_ == Documents::join || kept_ == Documents::separate;
        if (!without_rows_.empty())
            lines.push_back(cat("note: ", name_, ": no row is of ", list_text(without_rows_), ": ",
                                windows ? cat("a window takes ", roles_.length + 1, " tokens")
                                        : "a row takes a document of two tokens or more"));
        if (windows && 10 * left_over_ > tokens())
            lines.push_back(cat(
                "note: ", digits("%.0f", 100 * static_cast<double>(left_over_) / static_cast<double>(tokens())),
                "% of the tokens of ", name_, " stand behind the last whole window of their file, and are in no row"));
        const std::uint64_t split = cut_documents();
        if (split > 0)
            lines.push_back(cat("note: ", count_text(split, "document"), " of ", name_, split == 1 ? " is" : " are",
                                " longer than a row, and cut into several"));
        const bool apart = kept_ == Documents::separate || kept_ == Documents::fit;
        if (apart && !has_role(TokenRole::positions, true))
            lines.emplace_back(
                "note: positions go on from document to document: the program has no input of positions for each "
                "row (position_ids [batch, positions])");
        if (apart && !has_role(TokenRole::documents, true))
            lines.emplace_back(
                "note: attention looks back into the documents before: the program has no input that keeps them "
                "apart (--map INPUT=documents, of booleans or f32 [batch, 1, positions, positions], or of numbers of "
                "documents [batch, positions])");
        return lines;
    }

  private:
    using Documents = Options::Documents;

    // Rows read the ends of some twenty documents, and the mask, which are small beside what the system does for a
    // call.
    static constexpr std::uint64_t rows_between_releases = 64;

    // One row of a micro-batch, and the token behind it, as the file has them.
    struct Row {
        std::vector<DocumentFit::Part> parts;  // of the file
        std::size_t count = 0;                 // tokens; what is behind them is padding
        std::vector<std::int64_t> ids, document, position;
        std::vector<std::uint8_t> trained;  // as labels
    };

    bool has_role(TokenRole role, bool of_rows) const {
        for (std::size_t i = 0; i < roles_.of.size(); ++i)
            if (roles_.of[i] == role && (!of_rows || program_.inputs[i].batched)) return true;
        return false;
    }

    std::uint64_t cut_documents() const {
        std::uint64_t count = 0;
        for (const DocumentFit& fit : fits_) count += fit.cut();
        return count;
    }

    // The part of all rows that is no padding.
    double filled(std::uint64_t rows) const {
        std::uint64_t padding = 0;
        for (const DocumentFit& fit : fits_) padding += fit.padding();
        const auto places = static_cast<double>(rows * (roles_.length + 1));
        return rows == 0 ? 0 : 1 - static_cast<double>(padding) / places;
    }

    std::uint64_t tokens() const {
        std::uint64_t count = 0;
        for (const TokenFile& file : files_) count += file.count();
        return count;
    }

    void add_file(const ListedFile& given, const std::string& name, const Options& options) {
        const std::string& path = given.path;
        if (const auto found = options.damaged_files.find(path); found != options.damaged_files.end()) {
            damaged_.push_back(found->second);
            return;
        }
        // One that cannot be opened or mapped now may be whole: it is never left out.
        if (options.skip_damaged) static_cast<void>(MappedFile(path));
        try {
            TokenFile file(path);
            if (given.listed) check_listed(file, *given.listed);
            // What is behind the ids is little; ids are looked at as they are read.
            if (kept_ != Documents::join || file.has_mask()) file.verify_sections();
            files_.push_back(std::move(file));
        } catch (const Error& error) {
            if (!options.skip_damaged) throw;
            damaged_.push_back(error.message());
            return;
        }
        const TokenFile& file = files_.back();
        for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
            const InputSpec& input = program_.inputs[i];
            if (roles_.of[i] != TokenRole::tokens && roles_.of[i] != TokenRole::next_tokens) continue;
            if (input.entries >= 0 && file.vocabulary() > static_cast<std::uint64_t>(input.entries)) {
                fail(cat(path, " has a vocabulary of ", file.vocabulary(), ", and ids of ", input.name,
                         " go from 0 to ", input.entries - 1),
                     "the tokens were packed for another model");
            }
        }
        if (kept_ != Documents::join && file.documents() == 0 && file.count() > 0)
            fail(cat(path, " does not say where its documents end"),
                 "thunderc data pack keeps that: pack it again, or leave --documents away");
        SampleFile shown{.name = name, .size = file.count(), .samples = 0, .fingerprint = hex(file.fingerprint())};
        if (kept_ == Documents::one) {
            shown.samples = choose_documents(file);
        } else if (kept_ == Documents::fit) {
            shown.samples = fits_.emplace_back(file, roles_.length).rows();
        } else if (file.count() > 0) {
            // Windows stand side by side; each needs the token behind its last one, which the last position predicts.
            shown.samples = (file.count() - 1) / roles_.length;
            if (shown.samples > 0) left_over_ += file.count() - 1 - shown.samples * roles_.length;
        }
        if (shown.samples == 0 && file.count() > 0) without_rows_.push_back(name);
        shown_.push_back(std::move(shown));
        // From here on; what was read so far lies side by side.
        file.release_sections();
        file.read_at_random();
    }

    // Documents that are rows: those that have something to predict and, where long ones are left out, are no longer
    // than a row and the token behind it. Four bytes each are kept where some are left out.
    std::uint64_t choose_documents(const TokenFile& file) {
        if (file.documents() > std::numeric_limits<std::uint32_t>::max())
            fail(cat(file.path(), " has more than 2^32 documents"), "pack it into several files");
        chosen_.emplace_back();
        std::vector<std::uint32_t>& chosen = chosen_.back();
        std::uint64_t begin = 0;
        for (std::uint64_t d = 0; d < file.documents(); ++d) {
            const std::uint64_t end = file.document_end(d), count = end - begin;
            begin = end;
            const bool is_long = count > roles_.length + 1;
            if (is_long) ++(skips_long_ ? skipped_ : cut_);
            if (count < 2 || (is_long && skips_long_)) continue;
            chosen.push_back(static_cast<std::uint32_t>(d));
        }
        const std::uint64_t count = chosen.size();
        if (count == file.documents()) chosen = {};
        return count;
    }

    // Where labels have to be left out, they can be: else the model would be trained on what it should not be.
    void check_labels() const {
        const auto masked =
            std::find_if(files_.begin(), files_.end(), [](const TokenFile& file) { return file.has_mask(); });
        if (masked == files_.end() && kept_ == Documents::join) return;
        bool some = false;
        for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
            const InputSpec& input = program_.inputs[i];
            const bool ids = roles_.of[i] == TokenRole::tokens || roles_.of[i] == TokenRole::next_tokens;
            some = some || (ids && takes_no_label(input));
            if (roles_.of[i] == TokenRole::next_tokens && !takes_no_label(input)) {
                some = false;
                break;
            }
        }
        if (some) return;
        fail(cat(masked != files_.end() ? cat(masked->path(), " says of some tokens that they are not trained on")
                                        : std::string("--documents leaves out labels"),
                 ", and none of the inputs of ", program_.name, " takes a label that is ignored"),
             "train a program whose labels may be -100, as those that thunderc train adds");
    }

    // Which tokens the row holds, as parts of the file.
    void find_parts(std::size_t index, std::uint64_t sample) {
        const TokenFile& file = files_[index];
        const std::uint64_t length = roles_.length;
        row_.parts.resize(1);
        DocumentFit::Part& whole = row_.parts.front();
        switch (kept_) {
            case Documents::one: {
                const std::vector<std::uint32_t>& chosen = chosen_[index];
                const std::uint64_t document = chosen.empty() ? sample : chosen[sample];
                whole.first = document > 0 ? file.document_end(document - 1) : 0;
                whole.count = std::min(file.document_end(document) - whole.first, length + 1);
                break;
            }
            case Documents::fit: fits_[index].read(file, sample, row_.parts); break;
            default: whole = {sample * length, length + 1};
        }
    }

    void read_row(std::size_t index, std::uint64_t sample) {
        const TokenFile& file = files_[index];
        find_parts(index, sample);
        row_.count = 0;
        // Where positions begin anew, and what is there is nobody's label.
        std::int64_t number = 0;
        std::fill(row_.trained.begin(), row_.trained.end(), 1);
        for (const DocumentFit::Part& part : row_.parts) {
            file.read(part.first, std::span(row_.ids).subspan(row_.count, part.count));
            file.release(part.first, part.count);
            std::uint64_t document = 0, end = ~std::uint64_t{0};
            if (kept_ == Documents::separate) {
                document = file.document_of(part.first);
                end = file.document_end(document);
            }
            std::int64_t position = 0;
            for (std::size_t i = 0; i < part.count; ++i, ++position) {
                const std::size_t at = row_.count + i;
                if (file.has_mask()) row_.trained[at] = file.trained(part.first + i) ? 1 : 0;
                if (part.first + i == end) {
                    row_.trained[at] = 0;  // the document before does not tell how this one begins
                    ++number;
                    position = 0;
                    if (++document < file.documents()) end = file.document_end(document);
                }
                row_.document[at] = number;
                row_.position[at] = position;
            }
            if (row_.count > 0) row_.trained[row_.count] = 0;
            row_.count += part.count;
            if (&part != &row_.parts.back()) ++number;
        }
        if (++rows_read_ % rows_between_releases == 0) file.release_sections();
        pad_row(number);
    }

    // Nobody predicts what is not there. Of rows of documents what is behind them is a document of its own.
    void pad_row(std::int64_t number) {
        for (std::size_t i = row_.count; i < row_.ids.size(); ++i) {
            row_.ids[i] = row_.trained[i] = 0;
            row_.document[i] = kept_ == Documents::fit ? number + 1 : number;
            row_.position[i] =
                kept_ == Documents::fit ? static_cast<std::int64_t>(i - row_.count) : row_.position[i - 1] + 1;
        }
    }

    // Where the file has what stands at a place of the row.
    std::uint64_t index_of(std::size_t place) const {
        for (const DocumentFit::Part& part : row_.parts) {
            if (place < part.count) return part.first + place;
            place -= part.count;
        }
        return 0;  // padding, whose 0 is a token of each model
    }

    // What an input is fed of the row: values_, of which the first is element `element` of the input.
    void give(const InputSpec& input, TokenRole role, std::size_t element, const TokenFile& file) {
        const std::size_t length = roles_.length;
        switch (role) {
            case TokenRole::tokens: give_ids(input, 0, element, file); break;
            case TokenRole::next_tokens: give_ids(input, 1, element, file); break;
            case TokenRole::positions:
                for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = row_.position[i % length];
                break;
            case TokenRole::ones:
                // Of padding zeros, as attention masks have them, where the last dimension is of positions.
                for (std::size_t i = 0; i < values_.size(); ++i)
                    values_[i] = static_cast<std::size_t>(input.shape.back()) != length || i % length < row_.count;
                break;
            case TokenRole::documents:
                for (std::size_t i = 0; i < values_.size(); ++i) {
                    const std::size_t key = i % length, query = i / length % length;
                    const bool is_mask = input.dtype == DType::boolean || input.dtype == DType::f32;
                    values_[i] =
                        !is_mask ? row_.document[key] : key <= query && row_.document[key] == row_.document[query];
                }
                break;
        }
    }

    void give_ids(const InputSpec& input, std::size_t shift, std::size_t element, const TokenFile& file) {
        const bool labels = takes_no_label(input);
        const IdRange all{input.entries, input.ignore_index};
        for (std::size_t i = 0; i < values_.size(); ++i) {
            const std::int64_t value = row_.ids[i + shift];
            const IdRange ids = input.columns.empty() ? all : ids_at(input, static_cast<std::int64_t>(element + i));
            if (!ids.holds(value))
                fail(cat(file.path(), ": token ", index_of(i + shift), " is ", value, ", and ids of ", input.name,
                         " go from 0 to ", ids.entries - 1),
                     "the file is damaged: thunderc data inspect checks it");
            values_[i] = labels && row_.trained[i + shift] == 0 ? input.ignore_index : value;
        }
    }

    const ProgramSpec& program_;
    std::string name_;
    Documents kept_;
    bool skips_long_;
    TokenRoles roles_;
    std::vector<TokenFile> files_;
    std::vector<SampleFile> shown_;                   // of each
    std::vector<std::vector<std::uint32_t>> chosen_;  // of each, where a row is a document; empty: all are
    std::vector<DocumentFit> fits_;                   // of each, where rows are of whole documents
    std::vector<std::string> damaged_;                // files, and in what way
    std::uint64_t cut_ = 0, skipped_ = 0;             // documents
    std::vector<std::string> without_rows_;           // files
    std::uint64_t left_over_ = 0;                     // tokens behind the windows of a file that has some
    std::uint64_t rows_read_ = 0;
    Row row_;
    std::vector<std::int64_t> values_;
};

}  // namespace

std::unique_ptr<Samples> make_token_samples(const ProgramSpec& program, const Options& options,
                                            const DataSource& source) {
    return std::make_unique<TokenSamples>(program, options, source);
}

}  // namespace thunder
