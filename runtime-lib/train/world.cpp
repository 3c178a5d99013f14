#include "train/world.h"

#include <algorithm>
#include <cstring>

#include "checkpoint/checkpoint.h"
#include "program/transfer.h"
#include "support/file.h"
#include "support/philox.h"
#include "support/text.h"

namespace thunder {

// ---- what a rank holds ---------------------------------------------------------------------------------------------

Piece piece_of(const ProgramSpec& program, const ParameterSpec& parameter, int rank) {
    const auto width = size_of(parameter.dtype);
    const auto begin = static_cast<std::int64_t>(parameter.offset / width),
               count = static_cast<std::int64_t>(parameter.bytes / width);
    if (parameter.unit < 0) return {0, count, begin};
    const UnitSpec& unit = program.units[static_cast<std::size_t>(parameter.unit)];
    const std::int64_t shard_begin = program.mesh.shard_of(rank) * unit.elements;
    const std::int64_t from = std::clamp(shard_begin, begin, begin + count),
                       to = std::clamp(shard_begin + unit.elements, begin, begin + count);
    return {from - begin, to - from, static_cast<std::int64_t>(unit.offset / width) + from - shard_begin};
}

std::vector<ParameterSegment> segments_of(const ProgramSpec& program, Decay decay, int rank) {
    std::vector<ParameterSegment> segments;
    for (const ParameterSpec& parameter : program.parameters) {
        const Piece piece = piece_of(program, parameter, rank);
        if (parameter.trainable && piece.count > 0)
            segments.push_back({piece.at, piece.at + piece.count, decay == Decay::all || parameter.shape.size() >= 2});
    }
    std::sort(segments.begin(), segments.end(),
              [](const ParameterSegment& a, const ParameterSegment& b) { return a.begin < b.begin; });
    std::vector<ParameterSegment> joined;
    for (const ParameterSegment& segment : segments) {
        if (!joined.empty() && joined.back().end == segment.begin && joined.back().decay == segment.decay) {
            joined.back().end = segment.end;
        } else {
            joined.push_back(segment);
        }
    }
    return joined;
}

// ---- as one --------------------------------------------------------------------------------------------------------

void World::check_mesh() const {
    const int made_for = program_.mesh.world(), running = communicator_.world();
    if (made_for == running) return;
    fail_as_one(cat(program_.name, " was generated for ", count_text(static_cast<std::uint64_t>(made_for), "rank"),
                    ", and ", running, running == 1 ? " is" : " are", " running"),
                made_for == 1 ? "start it by itself, without mpirun or srun"
                              : cat("start it with mpirun -np ", made_for, " or srun -n ", made_for,
                                    "; thunderc train makes a program for another number"));
}

void World::fail_as_one(const std::string& message, const std::string& help) const {
    if (!is_first()) fail_quietly(1);
    fail(message, help);
}

void World::end_together(const std::optional<Error>& failure) const {
    const auto mine = static_cast<std::byte>(failure ? std::max(failure->exit_code(), 1) : 0);
    std::vector<std::byte> all(static_cast<std::size_t>(communicator_.world()));
    communicator_.all_gather({&mine, 1}, all, "errors");
    const auto first = std::find_if(all.begin(), all.end(), [](std::byte code) { return code != std::byte{0}; });
    if (first == all.end()) return;
    if (first - all.begin() == rank_) throw Error(*failure);
    fail_quietly(static_cast<int>(*first));
}

void World::agree_on(std::span<const std::pair<std::string, std::string>> facts) const {
    if (is_alone()) return;
    std::string text;
    for (const auto& [name, value] : facts) text += cat(name, "\n", value, "\n");
    const std::uint64_t hash[2] = {hash_text(text), text.size()};
    std::vector<std::uint64_t> hashes(2 * static_cast<std::size_t>(communicator_.world()));
    communicator_.all_gather(std::as_bytes(std::span(hash)), std::as_writable_bytes(std::span(hashes)),
                             "the fingerprint");
    for (int other = 1; other < communicator_.world(); ++other) {
        const auto at = 2 * static_cast<std::size_t>(other);
        if (hashes[at] == hashes[0] && hashes[at + 1] == hashes[1]) continue;
        // Of the first that differs, rank 0 gets it all, to say what.
        if (rank_ == other) communicator_.send(std::as_bytes(std::span(text)), 0, "the fingerprint");
        if (!is_first()) fail_quietly(1);
        std::string theirs(hashes[at + 1], '\0');
        communicator_.receive(std::as_writable_bytes(std::span(theirs)), other, "the fingerprint");
        for (const auto& [name, value] : facts) {
            const std::size_t end = theirs.find('\n'), next = theirs.find('\n', end + 1);
            if (end == std::string::npos || next == std::string::npos) break;
            const std::string their_name = theirs.substr(0, end), their_value = theirs.substr(end + 1, next - end - 1);
            theirs.erase(0, next + 1);
            if (their_name == name && their_value == value) continue;
            const auto shown = [](const std::string& v) { return v.empty() ? std::string("nothing") : v; };
            fail(cat("rank ", other, " differs from rank 0 in ", name, ": ", shown(their_value), ", and not ",
                     shown(value)),
                 "all ranks start the same program with the same options, and see the same files");
        }
        fail(cat("rank ", other, " runs another program than rank 0"), "let all ranks start the same file");
    }
}

// ---- files ---------------------------------------------------------------------------------------------------------

void World::read_part(const HeldTensor& tensor, std::int64_t first, std::span<std::byte> part, Stream& stream) const {
    const Piece piece = piece_of(program_, *tensor.parameter, rank_);
    const std::size_t width = size_of(tensor.as.dtype);
    from_device(part.data(), tensor.arena + static_cast<std::size_t>(piece.at + first - piece.first) * width,
                part.size(), stream);
}

void World::save(const std::string& path, std::span<const HeldTensor> tensors,
                 std::span<const std::pair<std::string, std::string>> metadata, Stream& stream) const {
    constexpr std::int64_t at_once = 1 << 20;  // elements
    std::optional<SafetensorsWriter> writer;
    if (is_first()) {
        std::vector<TensorToWrite> announced;
        for (const HeldTensor& tensor : tensors) announced.push_back(tensor.as);
        writer.emplace(path, announced, metadata);
    }
    std::vector<std::byte> host;
    for (const HeldTensor& tensor : tensors) {
        const std::size_t width = size_of(tensor.as.dtype);
        const ParameterSpec& parameter = *tensor.parameter;
        // The ranks of the first copy, in the order of their shards.
        const int holders = parameter.unit < 0 ? 1 : program_.mesh.shards;
        for (int holder = 0; holder < holders; ++holder) {
            const Piece piece = piece_of(program_, parameter, holder);
            if (!is_first() && rank_ != holder) continue;
            for (std::int64_t done = 0; done < piece.count; done += at_once) {
                host.resize(static_cast<std::size_t>(std::min(at_once, piece.count - done)) * width);
                if (rank_ == holder) read_part(tensor, piece.first + done, host, stream);
                if (rank_ == holder && !is_first()) communicator_.send(host, 0, tensor.as.name.c_str());
                if (is_first() && holder != 0) communicator_.receive(host, holder, tensor.as.name.c_str());
                if (is_first()) writer->append(host.data(), host.size());
            }
        }
    }
    if (is_first()) writer->commit();
}

void World::load(const SafetensorsFile& file, const StoredTensor& stored, const HeldTensor& tensor,
                 Stream& stream) const {
    const Piece piece = piece_of(program_, *tensor.parameter, rank_);
    const DType dtype = tensor.as.dtype;
    load_elements(file, stored, dtype, static_cast<std::size_t>(piece.first), static_cast<std::size_t>(piece.count),
                  tensor.arena + static_cast<std::size_t>(piece.at) * size_of(dtype), stream);
}

// ---- what ranks have in common -------------------------------------------------------------------------------------

namespace {

std::string hex(std::uint64_t number) {
    constexpr char figures[] = "0123456789abcdef";
    std::string text(16, '0');
    for (std::size_t i = text.size(); i-- > 0; number /= 16) text[i] = figures[number % 16];
    return text;
}

// The file's length, and a hash of it as far as 64 pages tell.
std::string sample_of(const std::string& path) {
    const MappedFile file(path);
    const std::span<const std::byte> bytes = file.bytes();
    constexpr std::size_t page = 4096, pages = 64;
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < pages; ++i) {
        const std::size_t begin = bytes.size() <= page ? 0 : (bytes.size() - page) / (pages - 1) * i;
        const auto part = bytes.subspan(begin, std::min(page, bytes.size() - begin));
        hash = 31 * hash + hash_text({reinterpret_cast<const char*>(part.data()), part.size()});
        if (bytes.size() <= page) break;
    }
    return cat(bytes.size(), " bytes, ", hex(hash));
}

std::string sample_of_all(const std::string& path) {
    if (path.empty()) return "";
    if (!is_folder(path)) return sample_of(path);
    std::string all;
    const std::vector<std::string> names = names_in(path);
    for (const std::string& name : names)
        if (const std::string inner = join_path(path, name); is_file(inner)) all += cat(name, sample_of(inner));
    return cat(names.size(), " files, ", hex(hash_text(all)));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> facts_of(const ProgramSpec& program, const Options& o) {
    std::string layout = cat(program.name, " ", hex(program_identity(program)), " ", program.schedule, " ",
                             program.mesh.replicas, "x", program.mesh.shards, " ", program.batch);
    for (const std::size_t bytes : program.arena_bytes) layout += cat(" ", bytes);
    for (const UnitSpec& unit : program.units) layout += cat(" ", unit.name, " ", unit.elements, " ", unit.offset);
    std::string map;
    for (const auto& [input, role] : o.map) map += cat(input, "=", role, " ");
    const char* const schedules[] = {"cosine", "linear", "constant", "wsd"};
    const auto yes = [](bool given) { return std::string(given ? "given" : ""); };
    return {{"its program", hex(hash_text(layout))},
            {"the data that it sees", cat(sample_of_all(o.data), sample_of_all(o.feed))},
            {"--map", map},
            {"--init", o.init},
            {"--init-missing", yes(o.init_missing_random)},
            {"--init-std", cat(o.init_std)},
            {"--seed", cat(o.seed)},
            {"--steps", cat(o.steps)},
            {"--lr", cat(o.lr)},
            {"--min-lr", cat(o.min_lr)},
            {"--warmup", cat(o.warmup)},
            {"--schedule", schedules[static_cast<std::size_t>(o.schedule)]},
            {"--weight-decay", cat(o.weight_decay)},
            {"--decay", o.decay == Decay::all ? "all" : "matrices"},
            {"--beta1", cat(o.beta1)},
            {"--beta2", cat(o.beta2)},
            {"--eps", cat(o.eps)},
            {"--momentum", cat(o.momentum)},
            {"--grad-clip", cat(o.grad_clip)},
            {"--grad-accum", cat(o.grad_accum)},
            {"--checkpoint", o.checkpoint},
            {"--checkpoint-every", cat(o.checkpoint_every)},
            {"--resume", yes(o.resume)},
            {"--dump-gradients", yes(!o.dump_gradients.empty())},
            {"--save", yes(!o.save.empty())},
            {"--timeline", yes(!o.timeline.empty())}};
}

}  // namespace thunder
