#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# abort() ends all ranks quickly, with its text once and a non-zero exit code. Arguments: the command to run.
output=$(timeout 60 "$@" abort 2>&1)
code=$?
[ "$code" -ne 0 ] && [ "$code" -ne 124 ] || { echo "exit code $code"; echo "$output"; exit 1; }
count=$(printf '%s\n' "$output" | grep -c 'the disk is full')
[ "$count" -eq 1 ] || { echo "text seen $count times:"; echo "$output"; exit 1; }
