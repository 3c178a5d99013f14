#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts thunderc into a package: the program, its words for shells, and documentation. The same commit gives the same bytes.
#
#   scripts/package.sh deb [FOLDER]      thunderc_VERSION_ARCH.deb, for Debian 12: links the distribution's libraries
#   scripts/package.sh wheel [FOLDER]    thunderc-VERSION-py3-none-PLATFORM.whl: `pip install` puts thunderc beside python;
#                                        brings the libraries that are not on every Linux, and the
#                                        Python package of docs/python.md, which takes torch where it is and needs none to be installed
#
# FOLDER is where it goes; default: build/packages. A program that thunderc writes is built where it is used, with cmake, g++
# and RapidJSON, and with oneDNN where that is found; packages bring no built runtime, since that is for one kind of CPU.
set -euo pipefail
kind=${1:-}
case "$kind" in deb | wheel) ;; *) echo "usage: scripts/package.sh deb|wheel [FOLDER]   (default: build/packages)" >&2; exit 2 ;; esac
mkdir -p "${2:-$(dirname "$0")/../build/packages}"
out=$(cd "${2:-$(dirname "$0")/../build/packages}" && pwd)
cd "$(dirname "$0")/.."
scripts/install_dependencies.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

build=build-$kind rpath=  # beside other builds, of which ccache knows the objects
[ "$kind" = deb ] || rpath='$ORIGIN/../lib/thunderc'  # where the libraries are that come along
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTHUNDERC_TESTS=OFF -DTHUNDERC_PREBUILT_RUNTIME=OFF \
    -DCMAKE_INSTALL_RPATH="$rpath" >/dev/null
cmake --build "$build"
version=$(sed -n 's/^project(thunderc VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

package_deb() {
    local architecture root=$work/root
    architecture=$(dpkg --print-architecture)
    DESTDIR=$root cmake --install "$build" --prefix /usr --strip >/dev/null
    mv "$root/usr/share/doc/thunderc/LICENSE" "$root/usr/share/doc/thunderc/copyright"
    gzip -9n "$root/usr/share/doc/thunderc/CHANGELOG.md"
    mkdir -p "$root/DEBIAN" "$work/debian"
    # Which packages have the libraries that the program was linked with, and from which version on.
    printf 'Source: thunderc\n\nPackage: thunderc\nArchitecture: any\n' >"$work/debian/control"
    local depends
    depends=$(cd "$work" && dpkg-shlibdeps -O "$root/usr/bin/thunderc" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
    [ -n "$depends" ] || { echo "error: dpkg-shlibdeps names no libraries" >&2; exit 1; }
    cat >"$root/DEBIAN/control" <<CONTROL
Package: thunderc
Version: $version
Architecture: $architecture
Maintainer: The authors of thunderc <thunderc@localhost>
Section: devel
Priority: optional
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Depends: $depends
Recommends: cmake (>= 3.20), g++ (>= 12), rapidjson-dev
Suggests: ninja-build, libopenmpi-dev, openmpi-bin
Description: ahead-of-time compiler for training
 Reads a model graph that PyTorch exported (.pt2, ONNX), differentiates, fuses and
 plans it, and writes a standalone training program in C++ and CUDA that people can read.
CONTROL
    local package=$out/thunderc_${version}_$architecture.deb
    find "$root" -newermt "@$SOURCE_DATE_EPOCH" -print0 | xargs -0r touch -hd "@$SOURCE_DATE_EPOCH"
    dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
    echo "$package"
}

package_wheel() {
    local root=$work/root tree=$work/wheel platform
    platform=manylinux_$(ldd --version | sed -n '1s/.* \([0-9]*\)\.\([0-9]*\)$/\1_\2/p')_$(uname -m)
    DESTDIR=$root cmake --install "$build" --prefix /usr --strip >/dev/null
    local name=thunderc-$version info data
    info=$tree/$name.dist-info data=$tree/$name.data
    mkdir -p "$info/licenses" "$data/scripts" "$data/data/lib/thunderc" "$data/data/share"
    cp "$root/usr/bin/thunderc" "$data/scripts/"
    cp -r "$root/usr/share/bash-completion" "$root/usr/share/fish" "$data/data/share/"
    cp LICENSE "$info/licenses/thunderc"
    mkdir -p "$tree/thunderc"
    cp python/thunderc/*.py python/thunderc/py.typed "$tree/thunderc/"
    # What a Linux need not have; libc, libstdc++ and zlib are on each.
    local path library
    while read -r library path; do
        cp -L "$path" "$data/data/lib/thunderc/$library"
        cp "/usr/share/doc/$(dpkg-query -S "$(realpath "$path")" | cut -d: -f1)/copyright" "$info/licenses/$library"
    done < <(ldd "$root/usr/bin/thunderc" | awk '$1 ~ /^lib(protobuf|fmt|minizip|mimalloc|pcre2|utf8proc|zstd)/ { print $1, $3 }')
    cat >"$info/METADATA" <<METADATA
Metadata-Version: 2.1
Name: thunderc
Version: $version
Summary: ahead-of-time compiler for training: models that PyTorch exported become training programs in C++ and CUDA
License: Apache-2.0
Description-Content-Type: text/markdown

$(cat README.md)
METADATA
    printf 'Wheel-Version: 1.0\nGenerator: scripts/package.sh\nRoot-Is-Purelib: false\nTag: py3-none-%s\n' "$platform" >"$info/WHEEL"
    local package=$out/$name-py3-none-$platform.whl
    python3 - "$tree" "$info/RECORD" "$package" "$SOURCE_DATE_EPOCH" <<'PYTHON'
import base64, hashlib, os, sys, time, zipfile

tree, record, package, epoch = sys.argv[1:]
files = sorted(os.path.relpath(os.path.join(folder, name), tree) for folder, _, names in os.walk(tree) for name in names)
lines = []
for name in files:
    content = open(os.path.join(tree, name), "rb").read()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    lines.append(f"{name},sha256={digest},{len(content)}")
own = os.path.relpath(record, tree)
open(record, "w").write("\n".join(lines + [f"{own},,"]) + "\n")
date = max(time.gmtime(int(epoch))[:6], (1980, 1, 1, 0, 0, 0))
with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
    for name in files + [own]:
        entry = zipfile.ZipInfo(name, date)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100755 if ".data/scripts/" in name else 0o100644) << 16
        archive.writestr(entry, open(os.path.join(tree, name), "rb").read())
PYTHON
    echo "$package"
}

"package_$kind"
