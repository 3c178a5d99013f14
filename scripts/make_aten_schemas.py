#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes compiler/frontend/aten/schemas.def: PyTorch's schemas of the operators that thunderc imports.

TorchScript calls operators by position. Names of arguments, defaults and overloads are those of PyTorch's registry,
asked here for each name of the tables in compiler/frontend/aten/ops_*.cpp.

    scripts/make_aten_schemas.py        # needs PyTorch; run it when a table has a new name
"""
import glob
import os
import re

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(ROOT, "compiler/frontend/aten")
def imported_names():
    names = set()
    for path in sorted(glob.glob(os.path.join(FOLDER, "ops_*.cpp"))):
        for table in re.findall(r"constexpr OpImporter \w+\[\] = \{(.*?)\n\};", open(path).read(), re.S):
            names.update(re.findall(r'\{"([^"]+)",', table))
    return sorted(n for n in names if not re.match(r"(higher_order|_operator|torch|math|builtins|transformers)\.", n))


def type_text(t, scalar_type):
    text = str(t).replace("number", "Scalar").replace("SymInt", "int")
    text = re.sub(r"List\[Optional\[(\w+)\]\]", r"\1?[]", text)
    text = re.sub(r"Optional\[(.*)\]$", r"\1?", text)
    text = re.sub(r"List\[(\w+)\]", r"\1[]", text)
    return text.replace("int", "ScalarType") if scalar_type else text


def default_text(value):
    if isinstance(value, (list, tuple)):
        return "[" + " ".join(default_text(v) for v in value) + "]"
    return repr(value).replace("'", "")


# "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"; None where it is of no use to a program: results
# in given memory, named dimensions, numbers and lists without tensors.
def text_of(schema):
    if any(a.is_out for a in schema.arguments):
        return None
    parts, keyword = [], False
    written = re.findall(r"(\S+) (\w+)(?:=[^,)]*)?(?=[,)])", str(schema).split(" -> ")[0])
    for argument in schema.arguments:
        if argument.kwarg_only and not keyword:
            parts.append("*")
            keyword = True
        spelled = next((t for t, n in written if n == argument.name), "")
        text = type_text(argument.type, "ScalarType" in spelled or argument.name == "dtype")
        text = text.replace("[]", f"[{argument.N}]") if argument.N else text
        text += " " + argument.name
        parts.append(text + ("=" + default_text(argument.default_value) if argument.has_default_value() else ""))
    results = ", ".join(type_text(r.type, False) for r in schema.returns)
    text = f"{schema.name[len('aten::'):]}{'.' if schema.overload_name else ''}{schema.overload_name}({', '.join(parts)}) -> {results}"
    useless = re.search(r"Dimname|Dict|__torch__|(?<!^)\bcomplex\b|hacked_twin|list_Tensor", text)
    return None if useless or not ("Tensor " in text or "Tensor[" in text or text.endswith("-> Tensor")) else text


def main():
    wanted = {name.split(".")[0] for name in imported_names()}
    by_name = {}
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name[len("aten::"):]
        text = text_of(schema) if schema.name.startswith("aten::") and name in wanted else None
        if text is not None and text not in by_name.setdefault(name, []):
            by_name[name].append(text)
    with open(os.path.join(FOLDER, "schemas.def"), "w") as out:
        out.write("// SPDX-License-Identifier: Apache-2.0\n"
                  f"// Written by scripts/make_aten_schemas.py from the registry of PyTorch {torch.__version__.split('+')[0]}.\n"
                  "// clang-format off\n")
        for name in sorted(by_name):
            for text in by_name[name]:
                out.write(f'SCHEMA("{text}")\n')
    for name in sorted(wanted - set(by_name)):
        print(f"PyTorch has no operator {name}")


if __name__ == "__main__":
    main()
