#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test.sh -- installs what is missing, builds and runs all tests, from any directory.
#   scripts/test.sh               release build in build/
#   scripts/test.sh --sanitize    build-sanitize/ with the address and undefined-behaviour sanitizers
#   scripts/test.sh --threads     build-threads/ with the thread sanitizer: only tests in which threads run beside each other
#   scripts/test.sh [...] NAME... only these tests (names as `meson test --list` prints them)
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() { sed -n '3,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
sanitizer=none
names=()
for argument in "$@"; do
  case $argument in
    --sanitize) sanitizer=address ;;
    --threads) sanitizer=thread ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; die "unknown option '$argument'" ;;
    *) names+=("$argument") ;;
  esac
done

scripts/install_dependencies.sh

# Without b_lundef=false the linker would ask every static library for the sanitizers' own symbols. Reports need no more
# than line numbers (-g1), which compile in two thirds of the time.
sanitized=(-Ddebug=false -Db_ndebug=false -Dcpp_args=-g1 -Doptimization=1 -Db_lundef=false -Dbenchmarks=false)
preload=
targets=()
suites='[a-z_]+'  # patterns: of tests that run when none are named, and of those among them that do not
without=
case $sanitizer in
  address)
    build="build-sanitize"
    configure $build "${sanitized[@]}" -Db_sanitize=address,undefined
    # Open MPI unloads its plugins before the end; leaks of a plugin that is gone could not be told from ours.
    echo 'int dlclose(void* handle) { (void)handle; return 0; }' | cc -shared -fPIC -x c - -o $build/keep_plugins.so
    preload=$root/$build/keep_plugins.so
    export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:verify_asan_link_order=0
    export LSAN_OPTIONS=suppressions=$root/scripts/leaks.supp:print_suppressions=0
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    slower=(--timeout-multiplier 15)
    # Stacks of emulated GPU threads take the sanitizer more than half an hour; a bundle lacks its libraries; Slurm does
    # not pass its settings on.
    without='^((gpu_)?(agreement_test|half_values_test)|cuda_images_test|end_to_end_(bundle|slurm))$'
    ;;
  thread)
    build="build-threads"
    configure $build "${sanitized[@]}" -Db_sanitize=thread -Dcuda=disabled
    # The sanitizer does not see how the OpenMP runtime orders its threads, so there is one per rank.
    export OMP_NUM_THREADS=1 TSAN_OPTIONS=halt_on_error=0:exitcode=66:suppressions=$root/scripts/threads.supp
    slower=(--timeout-multiplier 40)
    targets=(comm/threads_test comm/watch_test collective/all_reduce_test parallel/parallel_test reader/reader_test train/train_test
      actions/actions_test)
    targets=("${targets[@]/#/tests/}")
    # Those of these programs, without GPUs; real_data_test has a limit of memory.
    suites='comm|collective|parallel|reader|train|actions'
    without='mpi_test|abort|device|servers_on|allocation_test|real_data_test'
    ;;
  none)
    build="build"
    configure $build --buildtype=release
    # Twice as many tests as cores: ranks that start and end mostly wait. The machine may have other work.
    slower=(--timeout-multiplier 3 --num-processes $((2 * $(nproc))))
    ;;
esac

if [ ${#names[@]} -eq 0 ] && [ -n "$without" ]; then
  mapfile -t names < <(meson test -C $build --list 2>/dev/null | sed -En "s#^.*tutti:($suites) / ##p" | grep -Ev "$without")
  [ ${#names[@]} -gt 0 ] || die "meson lists no tests"
  say "Left out: $without"
fi

say "Building ($build)"
ninja -C $build ${targets[@]+"${targets[@]}"}
say "Testing"
status=0
LD_PRELOAD=$preload meson test -C $build --no-rebuild --print-errorlogs "${slower[@]}" ${names[@]+"${names[@]}"} || status=$?

# A skipped test is not a passed one: say what was not tested, and why. GoogleTest gives the reason on the line after
# "Skipped", unittest behind the name of the test.
skipped=$(awk '/: Skipped$/ { getline; print "  " $0; next } / \.\.\. skipped / { sub(/^.* \.\.\. skipped /, "  "); print }' \
  $build/meson-logs/testlog.txt 2>/dev/null | sort | uniq -c || true)
if [ -n "$skipped" ]; then
  say "Skipped (how many tests, why)"
  printf '%s\n' "$skipped"
fi
exit $status
