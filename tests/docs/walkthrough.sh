#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Holds the text in docs/walkthrough.md against what thunderc prints.
#
#   walkthrough.sh [--update] THUNDERC     --update writes it into the page instead
#
# A line `<!-- ops PASS FUNCTION -->` is followed by the ops of a function behind a pass, without what stands behind
# their types; `<!-- text FILE "FROM" "TO" -->` by a generated file's lines, from one that begins so to one that does.
set -euo pipefail
cd "$(dirname "$0")/../.."
update=0
[ "${1:-}" != --update ] || { update=1; shift; }
(($# == 1)) || { echo "usage: walkthrough.sh [--update] THUNDERC" >&2; exit 2; }
thunderc=$(realpath "$1")
page=docs/walkthrough.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=(tests/fixtures/mlp/dynamo.logits.onnx --loss cross-entropy)

"$thunderc" train "${model[@]}" -o "$work/out" >"$work/messages" 2>&1 || { cat "$work/messages" >&2; exit 1; }

ops() {  # PASS FUNCTION
    "$thunderc" trace "${model[@]}" --after "$1" >"$work/trace" 2>"$work/messages" || { cat "$work/messages" >&2; exit 1; }
    # An op's line ends, behind its types, with the scope and the class of its module, or the nodes that it came from.
    awk -v head="func @$2(" 'index($0, head) == 1 { on = 1 } on && /^  %/ { print } on && /^}/ { exit }' "$work/trace" |
        sed -E 's/ (at "[^"]*"( "[^"]*")?|\[[A-Z][A-Za-z]* ".*\]).*$//; s/^  //'
}

text() {  # FILE FROM TO
    awk -v from="$2" -v to="$3" 'match($0, "^" from) && !on { on = 1 } on { print } on && match($0, to) { exit }' "$work/out/$1"
}

# The page as it should be: each marked block anew, everything else as it stands.
skip=0
while IFS= read -r line; do
    if ((skip == 1)); then  # behind a marker: an old block goes
        if [ "$line" = '```' ]; then skip=0; fi
        continue
    fi
    if ((skip == 2)); then
        case "$line" in
            '```'*) skip=1; continue ;;
            *) skip=0 ;;
        esac
    fi
    echo "$line"
    case "$line" in
        '<!-- ops '*' -->')
            call=${line#'<!-- '}; call=${call%' -->'}
            read -r _ pass function <<<"$call"
            block=$(ops "$pass" "$function") language=text ;;
        '<!-- text '*' -->')
            call=${line#'<!-- text '}; call=${call%' -->'}
            [[ $call =~ ^([^\ ]+)\ \"(.*)\"\ \"(.*)\"$ ]]
            block=$(text "${BASH_REMATCH[@]:1:3}") language=cpp ;;
        *) continue ;;
    esac
    [ -n "$block" ] || { echo "nothing stands for: $line" >&2; exit 1; }
    printf '```%s\n%s\n```\n' "$language" "$block"
    skip=2
done <"$page" >"$work/page"

if ((update)); then
    cp "$work/page" "$page"
elif ! diff -u "$page" "$work/page"; then
    echo "$page is no longer what thunderc prints (+). If that is intended: tests/docs/walkthrough.sh --update THUNDERC"
    exit 1
fi
