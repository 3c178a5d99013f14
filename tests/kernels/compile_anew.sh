#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compile_anew.sh REPORT COMPILER ARGUMENT...: g++ adds to a report that is there, so that one of before would stay.
rm -f "$1"
shift
exec "$@"
