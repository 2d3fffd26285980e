#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# quickstart.sh -- from a fresh Debian to a trained network, from any directory: installs what is missing, builds
# the release into build/, trains samples/digits on two ranks with 1-bit gradients, tests the model and says what came out.
# Where a GPU with its driver and the CUDA toolkit are there, the part for GPUs is built as well and the training runs on
# the GPU; elsewhere the last lines name the command that builds it.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# -eq 0 ] || die "quickstart.sh takes no arguments; runs of your own are described in README.md"

scripts/install_dependencies.sh

gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1) || gpu=
has_gpu_part() { ninja -C build -t query libtutti_cuda.so >/dev/null 2>&1; }

configure build --buildtype=release
# A toolkit that was installed after the build directory was set up.
if [ -n "$gpu" ] && ! has_gpu_part; then meson setup --reconfigure build; fi
targets=(trainer)
device=cpu
if [ -n "$gpu" ] && has_gpu_part; then
  targets+=(libtutti_cuda.so)
  device=auto
fi
say "Building ${targets[*]} in build/"
ninja -C build "${targets[@]}"

ranks=2
output=output/digits
log=$output/digits.log
mkdir -p "$output"
: >"$log"

# makeMode=false: always train anew, so that the summary is about a whole run.
run=(build/trainer configFile=samples/digits/digits.cntk makeMode=false deviceId=$device)
where="the CPU"
if [ $device = auto ]; then where="the GPU ($gpu)"; fi
say "Training on $where: $ranks ranks with 1-bit gradients, then testing"
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
if [ $device = auto ]; then
  echo "  Device             $gpu"
elif has_gpu_part; then
  echo "  Device             CPU; for GPUs run: ninja -C build libtutti_cuda.so"
else
  echo "  Device             CPU; for GPUs install cuda-toolkit and libcudnn9-dev-cuda-13 of NVIDIA, then run:"
  echo "                     meson setup --reconfigure build && ninja -C build libtutti_cuda.so"
fi
