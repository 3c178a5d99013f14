// SPDX-License-Identifier: Apache-2.0
#include "codegen/host/call_members.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "codegen/bundle/bundle.h"
#include "compiler/support/error.h"
#include "compiler/user_functions/call_struct.h"
#include "compiler/user_functions/user_functions.h"

namespace thunderc {
namespace {

std::string_view header_text(const std::string& header) {
    if (const UserFile* file = find_user_file(header)) return file->text;
    const std::string path = "runtime-lib/" + header;
    for (unsigned k = 0; k < bundled_file_count; ++k)
        if (bundled_files[k].path == path) return bundled_files[k].text;
    throw InternalError(fmt::format("the runtime has no {}", header));
}

}  // namespace

std::vector<std::string> call_members(const RuntimeCall& call) {
    const std::string_view header = header_text(call.header.empty() ? "device/api.h" : call.header);
    std::string type = struct_of_call(header, call.function);
    if (type.empty()) type = struct_of_call(header, "name");  // a macro declares several functions
    std::string_view body = struct_body(header, type);
    // A call of the same contract as one of the runtime API's takes its struct.
    if (body.empty()) body = struct_body(header_text("device/api.h"), type);
    check(!type.empty() && !body.empty(), fmt::format("the runtime declares no struct for {}", call.function));
    return struct_members(body);
}

std::string call_text(const RuntimeCall& call, std::vector<std::pair<std::string, std::string>> values) {
    const std::vector<std::string> members = call_members(call);
    auto place = [&](const std::string& name) {
        const auto at = std::find(members.begin(), members.end(), name);
        check(at != members.end(), fmt::format("{} has no member {}", call.function, name));
        return at - members.begin();
    };
    std::map<std::ptrdiff_t, std::string> fields, lists;
    for (const auto& [name, value] : values) {
        // "states[0]", "states[1]": elements of a list, in order.
        if (const std::size_t bracket = name.find('['); bracket != std::string::npos) {
            std::string& list = lists[place(name.substr(0, bracket))];
            list += (list.empty() ? "" : ", ") + value;
            continue;
        }
        check(fields.emplace(place(name), fmt::format(".{} = {}", name, value)).second,
              fmt::format("{} is given its {} twice", call.function, name));
    }
    for (const auto& [at, list] : lists)
        fields[at] = fmt::format(".{} = {{{}}}", members[static_cast<std::size_t>(at)], list);
    std::string text;
    for (const auto& [at, field] : fields) text += (text.empty() ? "" : ", ") + field;
    return fmt::format("{}({{{}}}, stream);", call.function, text);
}

}  // namespace thunderc
