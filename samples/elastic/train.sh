#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains on as many ranks as there are, and goes on with fewer where some are lost, with more where they come back:
#
#   WORLDS="4=out4/build/train 2=out2/build/train 1=out1/build/train" \
#       samples/elastic/train.sh --data corpus.bin --steps 100000
#
# A program is compiled for its number of ranks (`thunderc train MODEL --batch B --fsdp 4 -o out4`, and so on, of the
# same model): the largest that the slots allow is started. When it ends because a rank or its host died, the next one
# goes on from the last checkpoint that is whole, with as many rows a step as before. Each row is seen once.
#
#   WORLDS       ranks=program, by spaces
#   CHECKPOINTS  the folder of checkpoints, on a file system that all hosts share (checkpoints)
#   EVERY        steps between two of them (1000)
#   HOSTS        a file with lines "HOST slots=N"; without it this host has as many slots as the largest world
#   REACH        the command that tells whether a host is there (ssh -o BatchMode=yes -o ConnectTimeout=5 HOST true)
#   MPIRUN       mpirun, with options of its own
set -uo pipefail
worlds=${WORLDS:?"WORLDS=\"4=out4/build/train 2=out2/build/train\": which programs there are"}
checkpoints=${CHECKPOINTS:-checkpoints}
reach=${REACH:-ssh -o BatchMode=yes -o ConnectTimeout=5}
read -ra mpirun <<<"${MPIRUN:-mpirun}"

# The hosts that answer, into $checkpoints.hosts; how many ranks these may have.
slots() {
    if [ -z "${HOSTS:-}" ]; then
        local most=0 world
        for world in $worlds; do [ "${world%%=*}" -gt "$most" ] && most=${world%%=*}; done
        echo "$most"
        return
    fi
    local host rest sum=0
    : >"$checkpoints.hosts"
    while read -r host rest; do
        case $host in "" | \#*) continue ;; esac
        # shellcheck disable=SC2086 # a command with its options
        $reach "$host" true </dev/null >/dev/null 2>&1 || continue
        echo "$host $rest" >>"$checkpoints.hosts"
        case $rest in *slots=*) rest=${rest##*slots=} && sum=$((sum + ${rest%% *})) ;; *) sum=$((sum + 1)) ;; esac
    done <"$HOSTS"
    echo "$sum"
}

newest() { compgen -G "$checkpoints/step-*[0-9]" | sort | tail -n 1; }

ends=0
while :; do
    available=$(slots) ranks=0
    for world in $worlds; do
        n=${world%%=*}
        if [ "$n" -le "$available" ] && [ "$n" -gt "$ranks" ]; then ranks=$n program=${world#*=}; fi
    done
    if [ "$ranks" -eq 0 ]; then
        echo "error: $available slots are left, and no program of WORLDS has so few ranks" >&2
        exit 1
    fi
    before=$(newest)
    arguments=("$@" --checkpoint "$checkpoints" --checkpoint-every "${EVERY:-1000}")
    [ -n "$before" ] && arguments+=(--resume)
    hosts=()
    [ -n "${HOSTS:-}" ] && hosts=(--hostfile "$checkpoints.hosts")
    echo "elastic: $ranks ranks of $available slots, from ${before:-the beginning}"
    "${mpirun[@]}" -np "$ranks" ${hosts[@]+"${hosts[@]}"} "$program" "${arguments[@]}"
    status=$?
    # Done; asked to end, by SIGINT, SIGUSR1 or SIGTERM; or a command line that no number of ranks makes right.
    case $status in 0 | 2 | 130 | 138 | 143) exit "$status" ;; esac
    # An error that comes again and again before a checkpoint is written is none of a rank that was lost.
    if [ "$(newest)" != "$before" ]; then ends=0; fi
    ends=$((ends + 1))
    echo "elastic: the run ended with status $status"
    if [ "$ends" -ge 3 ]; then
        echo "error: three runs in a row ended without a new checkpoint" >&2
        exit "$status"
    fi
done
