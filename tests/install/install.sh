#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build below a folder of its own, as a user does below ~/.local, and has programs built there: they take the
# installed runtime where it fits, and say why where it does not.
#
#   install.sh BUILD FOLDER
set -euo pipefail
build=$(realpath "$1")
repository=$(cd "$(dirname "$0")/../.." && pwd)
[ -e "$build/prebuilt-runtime/installed/key" ] || { echo "the runtime was built without oneDNN: it is not installed"; exit 77; }
mkdir -p "$2"
cd "$2"
rm -rf prefix moved out programs
# as where one target alone was built
mkdir -p half
sed 's,/prebuilt-runtime/built",/nothing",' "$build/cmake_install.cmake" >half/cmake_install.cmake
if cmake --install half --prefix "$PWD/prefix" >install.log 2>&1 || [ -e prefix ] || ! grep -q "cmake --build" install.log; then
    echo "half a build was installed"; cat install.log; exit 1
fi
cmake --install "$build" --prefix "$PWD/prefix" >install.log
mv prefix moved  # a package is put together in one place and used in another
for file in bin/thunderc lib/thunderc/runtime/key lib/thunderc/runtime/libthunder_runtime.a lib/thunderc/runtime/include/device/stream.h \
        share/bash-completion/completions/thunderc share/doc/thunderc/LICENSE share/doc/thunderc/docs/usage.md; do
    [ -e "moved/$file" ] || { echo "$file is not installed"; exit 1; }
done
if grep -rl "$PWD/prefix" moved; then echo "the files above name the folder that they were installed into"; exit 1; fi

fixtures=$repository/tests/fixtures
moved/bin/thunderc train "$fixtures/mlp/dynamo.logits.onnx" --loss cross-entropy -o out/one >log 2>&1 || { cat log; exit 1; }
moved/bin/thunderc train "$fixtures/mlp/dynamo.logits.onnx" --loss cross-entropy --dp 2 -o out/ranks >log 2>&1 || { cat log; exit 1; }
moved/bin/thunderc emit "$fixtures/mlp/dynamo.logits.onnx" --transform forward -o out/function >log 2>&1 || { cat log; exit 1; }

# Configures a program as a shell does that has the installed thunderc in its PATH, and looks for what it says.
expect() {  # TEXT PROGRAM [OPTION...]
    local text=$1 program=$2
    shift 2
    PATH="$PWD/moved/bin:$PATH" HOME=/nowhere cmake -S "out/$program" -B "programs/$program" --fresh "$@" >log 2>&1 || { cat log; exit 1; }
    grep -qF "$text" log || { echo "expected: $text"; cat log; exit 1; }
}
here="The runtime is the installed one: $PWD/moved/lib/thunderc/runtime"
other="The installed one does not fit: $PWD/moved/lib/thunderc/runtime:"

for program in one function ranks; do
    expect "$here" $program
    cmake --build "programs/$program" >log 2>&1 || { cat log; exit 1; }
    # nothing of runtime/ was compiled
    if find "programs/$program" -name 'host.cpp.o' | grep .; then echo "the runtime was built"; exit 1; fi
done
programs/one/train --feed "$repository/tests/install/none" >log 2>&1 && { echo "a file that is not there was read"; exit 1; }
grep -q '^error: ' log || { cat log; exit 1; }

expect "$other it was built for another CPU" one -DTHUNDERC_CPU=x86-64
expect "$other \"flags: \" there, \"flags: -DX\" here" one -DCMAKE_CXX_FLAGS=-DX
expect "$other \"build type: Release\" there, \"build type: Debug\" here" one -DCMAKE_BUILD_TYPE=Debug
expect "$other \"its flags: -O3 -DNDEBUG\" there, \"its flags: -O1\" here" one -DCMAKE_CXX_FLAGS_RELEASE=-O1
expect "$other its products are oneDNN's" one -DTHUNDERC_PRODUCTS=reference
expect "Generating done" one -DBUNDLED_RUNTIME=ON
if grep -q "The runtime is" log; then cat log; exit 1; fi

# Who edits runtime/ later is told by the next build; of one that is named by hand it is an error, in the place of others when
# the program is linked.
for edit in "train/trainer.cpp // an edit" "CMakeLists.txt # an edit" "optim/rules/list.h // an edit"; do
    file=${edit%% *}
    expect "$here" one -G "Unix Makefiles"
    cp "out/one/runtime/$file" kept
    echo "${edit#* }" >>"out/one/runtime/$file"
    PATH="$PWD/moved/bin:$PATH" HOME=/nowhere cmake --build programs/one --target cmake_check_build_system >log 2>&1 || { cat log; exit 1; }
    grep -qF "$other runtime/$file is another file" log || { echo "expected: $file is another file"; cat log; exit 1; }
    if cmake -S out/one -B programs/one "-DTHUNDERC_RUNTIME=$build/prebuilt-runtime" >log 2>&1; then cat log; exit 1; fi
    grep -qF "runtime/$file is another file than" log || { echo "expected an error of $file"; cat log; exit 1; }
    mv kept "out/one/runtime/$file"
done
cmake -S out/one -B programs/one "-DTHUNDERC_RUNTIME=$build/prebuilt-runtime" >log 2>&1 || { cat log; exit 1; }
# It is taken where the installed one was before.
grep -qF "thunder_runtime_DIR:PATH=$build/prebuilt-runtime" programs/one/CMakeCache.txt || { echo "another runtime was taken"; exit 1; }
mv moved/lib/thunderc/runtime/key key
expect "The runtime is built from runtime/: none is installed" ranks
