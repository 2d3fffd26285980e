#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# quickstart.sh -- from a fresh Debian to a trained network, from any directory: installs what is missing, builds
# the release into build/, trains samples/digits on two ranks with 1-bit gradients, tests the model and says what came out.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# -eq 0 ] || die "quickstart.sh takes no arguments; runs of your own are described in README.md"

scripts/install_dependencies.sh

say "Building build/trainer"
configure build --buildtype=release
ninja -C build trainer

ranks=2
output=output/digits
log=$output/digits.log
mkdir -p "$output"
: >"$log"

# makeMode=false: always train anew, so that the summary is about a whole run.
run=(build/trainer configFile=samples/digits/digits.cntk makeMode=false)
say "Training on $ranks ranks with 1-bit gradients, then testing"
echo "mpiexec -n $ranks ${run[*]}"
status=0
on_ranks $ranks "${run[@]}" >"$output/terminal.txt" 2>&1 &
trainer=$!
tail -n +1 --pid=$trainer -s 0.2 -f "$log" | grep --line-buffered -E '^(Finished Epoch|Final Results)' || true
wait $trainer || status=$?
if [ $status -ne 0 ]; then
  tail -n 30 "$output/terminal.txt" "$log" >&2
  die "training ended with exit code $status; the whole log is in $log"
fi

say "Done"
python3 scripts/summarize.py "$log" --model "$output/models/digits.dnn"
