// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutate_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace thunderc::tests {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Where something can be changed: a field that is set, in this message or in one inside of it.
struct Place {
    Message* message = nullptr;
    const FieldDescriptor* field = nullptr;
};

void collect(Message& message, std::vector<Place>& places, std::vector<std::string>& texts) {
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
        if (field->name() == "raw_data" || field->name() == "metadata_props") continue;  // numbers, and remarks
        places.push_back({&message, field});
        const bool text = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
        const bool inner = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
        if (!field->is_repeated()) {
            if (text) texts.push_back(reflection.GetString(message, field));
            if (inner) collect(*reflection.MutableMessage(&message, field), places, texts);
            continue;
        }
        for (int k = 0; k < reflection.FieldSize(message, field); ++k) {
            if (text) texts.push_back(reflection.GetRepeatedString(message, field, k));
            if (inner) collect(*reflection.MutableRepeatedMessage(&message, field, k), places, texts);
        }
    }
}

class Mutation {
  public:
    Mutation(Message& message, std::mt19937_64& random) : random_(random) { collect(message, places_, texts_); }

    std::string run() {
        if (places_.empty()) return "nothing is left to change";
        place_ = places_[below(places_.size())];
        const std::string where = fmt::format("{}.{}", place_.message->GetDescriptor()->name(), place_.field->name());
        return fmt::format("{}: {}", where, place_.field->is_repeated() ? change_list() : change_field());
    }

  private:
    // The standard's distributions differ from library to library; the generator does not.
    std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

    const Reflection& reflection() const { return *place_.message->GetReflection(); }

    std::int64_t integer() {
        static const std::int64_t odd[] = {0,         1,         -1,  2,         3,         7,
                                           16,        255,       256, 65536,     1 << 20,   std::int64_t{1} << 31,
                                           INT64_MAX, INT64_MIN, -2,  INT32_MAX, INT32_MIN, std::int64_t{1} << 40};
        return odd[below(std::size(odd))];
    }

    float real() {
        static const float odd[] = {0, -0.0F, 1, -1, 1e-30F, 1e30F, INFINITY, -INFINITY, NAN};
        return odd[below(std::size(odd))];
    }

    std::string text() {
        switch (below(6)) {
            case 0: return "";
            case 1: return std::string(300, 'x');
            case 2: return "../\n\"*/\\";
            default: return texts_.empty() ? "y" : texts_[below(texts_.size())];
        }
    }

    std::string change_field() {
        Message* m = place_.message;
        const FieldDescriptor* f = place_.field;
        if (below(4) == 0) {
            reflection().ClearField(m, f);
            return "cleared";
        }
        switch (f->cpp_type()) {
            case FieldDescriptor::CPPTYPE_INT32:
                reflection().SetInt32(m, f, static_cast<std::int32_t>(integer() % 32));
                return fmt::format("{}", reflection().GetInt32(*m, f));
            case FieldDescriptor::CPPTYPE_INT64:
                reflection().SetInt64(m, f, integer());
                return fmt::format("{}", reflection().GetInt64(*m, f));
            case FieldDescriptor::CPPTYPE_FLOAT:
                reflection().SetFloat(m, f, real());
                return fmt::format("{}", reflection().GetFloat(*m, f));
            case FieldDescriptor::CPPTYPE_STRING:
                reflection().SetString(m, f, text());
                return fmt::format("\"{}\"", reflection().GetString(*m, f));
            case FieldDescriptor::CPPTYPE_ENUM:
                reflection().SetEnumValue(m, f, static_cast<int>(below(16)));
                return fmt::format("enum {}", reflection().GetEnumValue(*m, f));
            default: reflection().ClearField(m, f); return "cleared";
        }
    }

    std::string change_list() {
        Message* m = place_.message;
        const FieldDescriptor* f = place_.field;
        const int size = reflection().FieldSize(*m, f);
        const int k = static_cast<int>(below(static_cast<std::size_t>(size)));
        switch (below(5)) {
            case 0:  // gone
                reflection().SwapElements(m, f, k, size - 1);
                reflection().RemoveLast(m, f);
                return fmt::format("without element {}", k);
            case 1: {  // elsewhere
                const int other = static_cast<int>(below(static_cast<std::size_t>(size)));
                reflection().SwapElements(m, f, k, other);
                return fmt::format("elements {} and {} swapped", k, other);
            }
            case 2: reflection().ClearField(m, f); return "cleared";
            default: break;
        }
        const bool twice = below(2) == 0;
        switch (f->cpp_type()) {
            case FieldDescriptor::CPPTYPE_INT64:
                twice ? reflection().AddInt64(m, f, integer()) : reflection().SetRepeatedInt64(m, f, k, integer());
                break;
            case FieldDescriptor::CPPTYPE_FLOAT:
                twice ? reflection().AddFloat(m, f, real()) : reflection().SetRepeatedFloat(m, f, k, real());
                break;
            case FieldDescriptor::CPPTYPE_STRING:
                twice ? reflection().AddString(m, f, text()) : reflection().SetRepeatedString(m, f, k, text());
                break;
            case FieldDescriptor::CPPTYPE_MESSAGE: {
                const Message& like = reflection().GetRepeatedMessage(*m, f, k);
                Message* copy = like.New();
                copy->CopyFrom(like);
                reflection().AddAllocatedMessage(m, f, copy);
                break;
            }
            default: reflection().RemoveLast(m, f); break;
        }
        return fmt::format("element {} {}", k, twice ? "added" : "changed");
    }

    std::mt19937_64& random_;
    std::vector<Place> places_;
    std::vector<std::string> texts_;
    Place place_;
};

}  // namespace

std::string mutate(Message& message, std::mt19937_64& random) {
    return Mutation(message, random).run();
}

}  // namespace thunderc::tests
