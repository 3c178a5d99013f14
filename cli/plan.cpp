// thunderc plan: memory and work of a program.
#include <fmt/format.h>

#include <cstdio>

#include "cli/command.h"
#include "codegen/readme.h"

namespace thunderc {
namespace {

struct PlanOptions {
    ModelOptions model;
    bool layout = false;
};

int plan_command(PlanOptions o) {
    o.model.finish();
    Compiled compiled = compile(o.model);
    ProgramLayout layout(compiled.module);
    fmt::print("{}", memory_table(layout));
    if (!o.layout) return 0;
    fmt::print("\n{:<48} {:<20} {:<5} {:<11} {:>14} {:>12} {:>6} {:>12}  {:<40} shares bytes with\n", "tensor", "shape",
               "type", "arena", "offset", "bytes", "layers", "stride", "lifetime");
    for (const LayoutRow& row : layout.rows())
        fmt::print("{:<48} {:<20} {:<5} {:<11} {:>14} {:>12} {:>6} {:>12}  {:<40} {}\n", row.name, row.shape,
                   name_of(row.type.dtype), row.arena, row.offset, row.type.bytes(), row.count, row.stride,
                   row.lifetime, row.shares);
    return 0;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
    auto o = std::make_shared<PlanOptions>();
    CLI::App* sub = app.add_subcommand("plan", "show the memory that a program takes");
    o->model.add_to(*sub);
    o->model.add_transform_to(*sub, "of the function library that emit writes, instead of a training program");
    sub->add_flag("--layout", o->layout,
                  "every tensor: name, shape, type, offset, bytes, lifetime, what it shares with");
    sub->callback([o, &action] { action = [o] { return plan_command(*o); }; });
}

}  // namespace thunderc
