#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_gpu.sh -- runs the tests of the GPU part on this machine's GPU, then again under compute-sanitizer.
#   scripts/check_gpu.sh [BUILD]          BUILD is the build directory, build by default
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
  -h | --help) sed -n '3,4s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
esac
build=${1:-build}
test=$build/tests/backend/agreement_test
[ -x "$test" ] || die "there is no $test: build it first (scripts/test.sh)"
[ -e "$build/libtutti_cuda.so" ] || die "$build has no part for GPUs: configure it with -Dcuda=enabled"
export TUTTI_CUDA_LIBRARY=$root/$build/libtutti_cuda.so

say "Agreement with the CPU"
"$test" 2>&1 | tee "$build/gpu_agreement.log"
! grep -q 'SKIPPED' "$build/gpu_agreement.log" || die "there is no GPU that works here (see above)"

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
[ -x "$sanitizer" ] || die "compute-sanitizer of the CUDA toolkit is not there"
for tool in memcheck racecheck initcheck synccheck; do
  say "compute-sanitizer, $tool"
  "$sanitizer" --tool "$tool" --error-exitcode 1 "$test"
done
