#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Generates the programs of tests/goldens again and compares their text with what is stored.
#
#   check.sh [--update] THUNDERC [NAME...]     --update replaces what is stored instead; no name: all of them
#
# Each folder holds a program's text and, in the file `command`, the command that wrote it, which runs from the repository's root.
# `messages` is what that said. Left out is what is the same in every program (LICENSE, runtime, train.cpp or run.cpp, CMakeLists.txt, tests) and
# tables of numbers; where there is a file `but_for`, which names another golden, whatever is the same there, too, and the files that it
# names behind that one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
update=0
[ "${1:-}" != --update ] || { update=1; shift; }
(($#)) || { echo "usage: check.sh [--update] THUNDERC [NAME...]" >&2; exit 2; }
thunderc=$(realpath "$1"); shift
(($#)) || set -- $(cd "$here" && for command in */command; do dirname "$command"; done)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$here/.." "$work/tests"
thunderc() { "$thunderc" "$@"; }

failed=0
for name in "$@"; do
    golden=$here/$name
    rm -rf "$work/out"
    (cd "$work" && . "$golden/command") 2>"$work/messages" || { cat "$work/messages" >&2; exit 1; }
    (cd "$work/out" && rm -rf .thunderc-manifest LICENSE runtime tests train.cpp run.cpp CMakeLists.txt ./*.safetensors)
    if [ -e "$golden/but_for" ]; then
        read -r other left_out <"$golden/but_for"
        for file in $(cd "$work/out" && echo *); do
            ! cmp -s "$work/out/$file" "$here/$other/$file" || rm "$work/out/$file"
        done
        for file in $left_out; do rm -f "$work/out/$file"; done
        cp "$golden/but_for" "$work/out/but_for"
    fi
    cp "$golden/command" "$work/out/command"
    [ ! -s "$work/messages" ] || cp "$work/messages" "$work/out/messages"
    if ((update)); then
        rm -rf "$golden"
        cp -r "$work/out" "$golden"
        continue
    fi
    if ! (cd "$work" && ln -sfn "$golden" golden && diff -ruN golden/ out/); then
        echo "the program of tests/goldens/$name is no longer what is stored (-) but (+). It is written by"
        echo "    $(cat "$golden/command")"
        echo "If that is intended, run tests/goldens/update.sh $name, and say in the commit why."
        failed=1
    fi
done
exit $failed
