# SPDX-License-Identifier: Apache-2.0
"""Many function libraries of `thunderc emit` in one CMake build. Each is a namespace of a file that holds some: headers of the runtime,
which take most of a small library's time, are read once for all of them."""
import json, os, re, shutil, subprocess

import numpy as np
from safetensors.numpy import load_file, save_file

TOGETHER = 32  # functions in a file
KINDS = {"f32": np.float32, "i64": np.int64, "i32": np.int32, "u8": np.uint8, "boolean": np.bool_}

BUILD = """cmake_minimum_required(VERSION 3.20)
project(functions CXX)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_BUILD_TYPE Release)
set(CMAKE_CXX_FLAGS_RELEASE -O1)
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
find_package(thunder_runtime REQUIRED CONFIG PATHS ${RUNTIME} NO_DEFAULT_PATH)
file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/functions_*.cpp)
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME_WE)
  add_executable(${name} ${file})
  target_compile_options(${name} PRIVATE -Wall -Wextra -Werror)
  target_link_libraries(${name} PRIVATE thunder_runtime)
endforeach()
"""

MAIN = """
int main(int argc, char** argv) try {
    thunder::check_cpu();
    const std::string_view name = argc > 1 ? argv[1] : "";
    const auto call = [&]<typename Model>(const thunder::FunctionSpec& function, const char* folder, Model*) {
        const auto options = thunder::parse_run_options(argc - 1, argv + 1, function, folder);
        if (!options) return 0;
        thunder::Runner runner(function, *options);
        Model(runner.arenas(), runner.stream()).call();
        runner.save();
        return 0;
    };
%s    return 2;
} catch (...) {
    return thunder::report_error();
}
"""
OWN = ["device/check_cpu.h", "run/options.h", "run/runner.h", "support/error.h"]


class Function:
    """What `emit` wrote for a model: `failure` says why nothing, `bound` which inputs are constants."""

    def __init__(self, name, folder):
        self.name, self.folder, self.failure, self.bound, self.program = name, folder, "", set(), ""

    def kinds(self):
        """The type of each input and cotangent, as files have it."""
        text = open(os.path.join(self.folder, "spec.cpp")).read()
        rows = re.search(r"INPUTS\[\] = \{(.*?)\n\};", text, re.S)
        return {n: KINDS[k] for n, k in re.findall(r'^    \{"([^"]+)", DType::(\w+)', rows.group(1) if rows else "", re.M)}

    def missing(self, names):
        """Inputs that the program has beside these: what is drawn is drawn by them."""
        return ", ".join(sorted(set(self.kinds()) - set(names)))

    def call(self, tensors, scratch):
        """The results for these inputs, or the reason why there are none."""
        paths = [os.path.join(scratch, name) for name in ("in.safetensors", "out.safetensors")]
        if os.path.exists(paths[1]):
            os.remove(paths[1])
        save_file({n: np.ascontiguousarray(tensors[n].astype(k)).reshape(tensors[n].shape) for n, k in self.kinds().items()}, paths[0])
        done = subprocess.run([self.program, self.name, "--in", paths[0], "--out", paths[1], "--threads", "1"], capture_output=True,
                              text=True, timeout=120)
        if done.returncode != 0:
            return first_error(done, scratch)
        return load_file(paths[1])


def keep(functions, folder):
    """Writes what is known of compiled functions, for `kept` of a later run."""
    with open(os.path.join(folder, "functions.json"), "w") as out:
        json.dump({f.name: {"failure": f.failure, "bound": sorted(f.bound), "program": f.program} for f in functions}, out, indent=1)


def kept(folder):
    """A function that an earlier run compiled, by name."""
    functions = {}
    for name, known in json.load(open(os.path.join(folder, "functions.json"))).items():
        functions[name] = f = Function(name, os.path.join(folder, name))
        f.failure, f.bound, f.program = known["failure"], set(known["bound"]), known["program"]
    return functions


def first_error(done, folder):
    lines = [l for l in done.stderr.splitlines() if "error" in l] or [f"exit {done.returncode}"]
    return ("INTERNAL " if done.returncode not in (1, 2) else "") + lines[0].replace(folder, "").removeprefix("error: ")


def emit(thunderc, path, function, options, folder):
    """Writes the function of a model's file; gives whether it was taken."""
    done = subprocess.run([thunderc, "emit", path, "--device", "cpu", "-o", function.folder] + options, capture_output=True, text=True, timeout=300)
    function.failure = first_error(done, folder) if done.returncode else ""
    if not function.failure:
        shutil.rmtree(os.path.join(function.folder, "runtime"))  # the build's is the same
    return not function.failure


def inlined(folder, name, seen, includes):
    """The text of a file with what it includes of its folder in place, once; other includes go to `includes`. (As includes they
    would be left out where another function's file has the same bytes: `#pragma once` takes it for the same file.)"""
    if name in seen:
        return ""
    seen.add(name)
    text = f'#line 1 "{folder}/{name}"\n'
    for number, line in enumerate(open(os.path.join(folder, name)), 1):
        found = re.match(r'#include (<[^>]+>|"([^"]+)")', line)
        if found and found.group(2) and os.path.exists(os.path.join(folder, found.group(2))):
            text += inlined(folder, found.group(2), seen, includes) + f'#line {number + 1} "{folder}/{name}"\n'
        elif found:
            includes.add(found.group(1))
            text += "\n"
        else:
            text += "\n" if line == "#pragma once\n" else line
    return text


def text_of(functions):
    """A program with these functions; the first argument says which."""
    includes, bodies, calls = {f'"{o}"' for o in OWN} | {"<string_view>"}, "", ""
    for f in functions:
        seen = {"run.cpp"}
        sources = [inlined(f.folder, n, seen, includes) for n in sorted(os.listdir(f.folder)) if n.endswith(".cpp")]
        bodies += f"namespace {f.name} {{\n" + "".join(sources) + "}\n"
        calls += f'    if (name == "{f.name}") return call({f.name}::FUNCTION, "{f.folder}", static_cast<{f.name}::Model*>(nullptr));\n'
    return "".join(f"#include {i}\n" for i in sorted(includes)) + bodies + MAIN % calls


def build(functions, folder, runtime, jobs, options):
    """Compiles them; a file with several that fails is cut in halves, until it is known whose text it is."""
    functions = [f for f in functions if not f.failure]
    for n in os.listdir(folder):
        if re.fullmatch(r"functions_\w+\.cpp", n):
            os.remove(os.path.join(folder, n))
    with open(os.path.join(folder, "CMakeLists.txt"), "w") as out:
        out.write(BUILD)
    files = {f"functions_{k // TOGETHER}": functions[k : k + TOGETHER] for k in range(0, len(functions), TOGETHER)}
    while files:
        for name, some in files.items():
            with open(os.path.join(folder, name + ".cpp"), "w") as out:
                out.write(text_of(some))
        built = os.path.join(folder, "build")
        for name in files:
            if os.path.exists(os.path.join(built, name)):
                os.remove(os.path.join(built, name))
        subprocess.run(["cmake", "-S", folder, "-B", built, "-G", "Ninja", f"-DRUNTIME={runtime}"] + options, check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", built, f"-j{jobs}", "--", "-k", "0"] + list(files), capture_output=True)
        left = {}
        for name, some in files.items():
            program = os.path.join(built, name)
            if os.path.exists(program):
                for f in some:
                    f.program = program
            elif len(some) == 1:
                done = subprocess.run(["cmake", "--build", built, "--target", name], capture_output=True, text=True)
                errors = re.findall(r"error: (.*)", done.stdout) or ["it does not link"]
                some[0].failure = f"INTERNAL its text does not compile: {errors[0]}"
            else:
                left |= {name + "_0": some[: len(some) // 2], name + "_1": some[len(some) // 2 :]}
        for name in files:
            if any(n.startswith(name + "_") for n in left):
                os.remove(os.path.join(folder, name + ".cpp"))
        files = left
