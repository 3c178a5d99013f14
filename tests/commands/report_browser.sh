#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Pages of `thunderc report` in a headless browser: what is drawn, what keys and buttons do, that nothing is wider than
# a phone. report_browser.sh THUNDERC FIXTURES [PICTURES]: with a third argument screenshots are left there, to be
# looked at.
set -euo pipefail
thunderc=$1 fixtures=$2 pictures=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
browser=$(command -v chromium-headless-shell || command -v chromium || command -v google-chrome) ||
    { echo "there is no chromium: apt-get install chromium-headless-shell"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

lines() {  # STEPS LOSS-AT-THE-END STEP-WITHOUT-A-LOSS
    awk -v steps="$1" -v end="$2" -v none="$3" 'BEGIN {
        for (s = 0; s < steps; ++s) {
            loss = s == none ? "null" : sprintf("%.5f", end + 3.5 * exp(-10 * s / steps) + 0.05 * sin(s * 12.9898))
            printf "{\"step\":%d,\"loss\":%s,\"grad_norm\":%.4f,\"lr\":%.6f,\"tokens\":1024,", s, loss,
                1 + 4 * exp(-s / 50), 0.001 * (1 - s / steps)
            printf "\"step_ms\":20,\"tokens_per_second\":51200}\n"
            if (s % 250 == 249)
                printf "{\"step\":%d,\"eval_loss\":%.5f,\"eval_batches\":10,\"eval_ms\":100}\n", s + 1, end + 0.1
        }
    }'
}
lines 5000 2 1234 >a.jsonl
lines 200 2.2 -1 >'<i>b.jsonl'
: >empty.jsonl
"$thunderc" train "$fixtures/llama2/dynamo.logits.onnx" -o out --quiet
"$thunderc" plan "$fixtures/llama2/dynamo.logits.onnx" --machine h100 --fsdp 4 --timeline step.json >/dev/null
"$thunderc" report a.jsonl '<i>b.jsonl' empty.jsonl --program out --timeline step.json -o page.html 2>/dev/null

open() {  # ARGUMENTS... URL
    "$browser" --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=8000 "$@" 2>/dev/null
}
# The page with a script behind it that asks it, and writes what it found into the page.
sed '/<\/body>/d; /<\/html>/d' page.html >asked.html
{ echo "<script>"; cat "$here/report_browser.js"; echo "</script></body></html>"; } >>asked.html

failed=0
for width in 1280 390; do
    open --window-size=$width,900 --dump-dom "file://$work/asked.html" >dom.html
    verdict=$(sed -n 's/.*<pre id="verdict">\([^<]*\).*/\1/p' dom.html)
    echo "at $width: ${verdict:-the script did not come to its end}"
    [ "$verdict" = "all is as it should be" ] || failed=1
done
if [ -n "$pictures" ]; then
    mkdir -p "$pictures"
    page=file://$work/page.html
    open --window-size=1280,2400 --screenshot="$pictures/light.png" "$page" >/dev/null
    open --window-size=1280,2400 --blink-settings=preferredColorScheme=0 --screenshot="$pictures/dark.png" "$page" >/dev/null
    open --window-size=390,2600 --screenshot="$pictures/phone.png" "$page" >/dev/null
    open --print-to-pdf="$pictures/print.pdf" "$page" >/dev/null
fi
exit $failed
