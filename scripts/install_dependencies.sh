#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what thunderc, its tests and the programs that it writes are built with, on Debian 12 or a relative of it:
# packages of the distribution, the ONNX project's C++ library from its source distribution, and oneDNN.
#
#   scripts/install_dependencies.sh      installs what is missing; what is there is left alone
#   scripts/install_dependencies.sh --tests   and what only the tests need: clang-format
#   THUNDERC_DEPS=DIR                    where ONNX and oneDNN go; default: ~/.local/share/thunderc, where the build of thunderc and
#                                        the builds of its programs look for them
set -euo pipefail
deps=${THUNDERC_DEPS:-${HOME:?}/.local/share/thunderc}
mkdir -p "$deps"

packages=(g++ cmake ninja-build ccache pkg-config python3 python3-venv unzip time
          libprotobuf-dev protobuf-compiler nlohmann-json3-dev rapidjson-dev libcli11-dev libfmt-dev libminizip-dev libpcre2-dev libutf8proc-dev libzstd-dev libmimalloc-dev
          libgtest-dev libbenchmark-dev libopenmpi-dev openmpi-bin)
[ "${1:-}" != --tests ] || packages+=(clang-format)
missing=()
for p in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep 'install ok installed' >/dev/null || missing+=("$p")
done
if ((${#missing[@]})); then
    echo "installing packages: ${missing[*]}"
    sudo=(); [ "$(id -u)" = 0 ] || sudo=(sudo)
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

onnx=1.23.2
onnx_sha256=008cb0467b2bbee41448acc7da8b6f4e704624cb0d327a2d5adafc7ce19bc5b8
onednn=2023.2.0   # oneDNN 3.2, built for OpenMP
work=
cleanup() { [ -z "$work" ] || rm -rf "$work"; }
trap cleanup EXIT

# A Python environment of its own, for its package installer alone: neither the build nor a program runs Python.
pip() {
    [ -x "$deps/pip/bin/pip" ] || python3 -m venv "$deps/pip"
    "$deps/pip/bin/pip" --disable-pip-version-check -q "$@"
}

if [ ! -f "$deps/onnx/.version-$onnx" ]; then
    work=$(mktemp -d)
    echo "building ONNX $onnx, which takes some minutes (what it prints: $work/log)"
    pip download --no-deps --no-binary onnx -d "$work" "onnx==$onnx"
    echo "$onnx_sha256  $work/onnx-$onnx.tar.gz" | sha256sum -c --quiet
    tar -xzf "$work/onnx-$onnx.tar.gz" -C "$work"
    sed -i 's/cmake_minimum_required(VERSION 3.26)/cmake_minimum_required(VERSION 3.25)/' "$work/onnx-$onnx/CMakeLists.txt"
    cmake -S "$work/onnx-$onnx" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" \
        -DONNX_ML=ON -DONNX_BUILD_PYTHON=OFF -DONNX_BUILD_TESTS=OFF -DONNX_BUILD_CUSTOM_PROTOBUF=OFF \
        -DONNX_USE_PROTOBUF_SHARED_LIBS=ON -DONNX_USE_UNITY_BUILD=ON -DCMAKE_CXX_STANDARD=20 \
        -DFETCHCONTENT_FULLY_DISCONNECTED=ON -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
        -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_INSTALL_PREFIX="$deps/onnx" >"$work/log" 2>&1 || { tail -20 "$work/log"; exit 1; }
    cmake --build "$work/build" --target install >"$work/log" 2>&1 || { tail -20 "$work/log"; exit 1; }
    touch "$deps/onnx/.version-$onnx"
    cleanup
fi

if [ ! -f "$deps/onednn/.version-$onednn" ]; then
    echo "installing oneDNN"
    work=$(mktemp -d)
    pip download --no-deps -d "$work" "onednn-cpu-gomp==$onednn" "onednn-devel-cpu-gomp==$onednn"
    rm -rf "$deps/onednn"
    mkdir -p "$deps/onednn"
    for wheel in "$work"/*.whl; do unzip -qo "$wheel" -d "$work/unpacked"; done
    # the wheels keep their files below *.data/data: lib, include, share
    for part in "$work"/unpacked/*.data/data; do cp -a "$part/." "$deps/onednn/"; done
    touch "$deps/onednn/.version-$onednn"
    cleanup
fi
work=
echo "dependencies are in $deps"
