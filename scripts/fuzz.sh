#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh -- builds the fuzz targets with clang, libFuzzer, ASan and UBSan, and runs each for some seconds. Findings are
# kept in BUILD/findings; each becomes a case in tests/fuzz/cases once its cause is gone.
set -euo pipefail

usage() {
  cat <<'TEXT'
fuzz.sh [--seconds S] [--jobs N] [--build FOLDER] [TARGET...]
  S seconds for each target (10), N at a time (1), all targets by default; FOLDER: build-fuzz
TEXT
}

source=$(cd "$(dirname "$0")/.." && pwd)
seconds=10 jobs=1 build=$source/build-fuzz targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=${2:?--seconds needs a number}; shift 2 ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift 2 ;;
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) targets+=("$1"); shift ;;
  esac
done
for number in "$seconds" "$jobs"; do
  [[ $number =~ ^[1-9][0-9]*$ ]] || { echo "fuzz.sh: '$number' is no number" >&2; exit 2; }
done
command -v clang++ >/dev/null || { echo "fuzz.sh: clang++ is missing: apt-get install clang libomp-dev" >&2; exit 2; }
[ -f "$build/build.ninja" ] || CC=clang CXX=clang++ meson setup "$build" "$source" -Dfuzz=true -Dcuda=disabled -Dbenchmarks=false \
  -Dtogether=true -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Ddebug=true -Db_ndebug=false
[ ${#targets[@]} -gt 0 ] || targets=(config brainscript ndl keras text_format idx table libsvm speech images hdf5 model_file graph_text cntk_model safetensors npz messages)
ninja -C "$build" tests/fuzz/fuzz_seeds_cntk "${targets[@]/#/tests/fuzz/fuzz_}"
mkdir -p "$build/findings" "$build/corpus/cntk_model"
"$build/tests/fuzz/fuzz_seeds_cntk" "$build/corpus/cntk_model"
row='%-12s %8s %9s %12s %s\n'
# run_target NAME: a row of the table. MPI is linked and never started: what it allocates when it is loaded is not ours.
run_target() {
  local corpus=$build/corpus/$1 log=$build/findings/$1.log rc=0 executions TIMEFORMAT='%U %S'
  mkdir -p "$corpus"
  { time ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:handle_abort=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    "$build/tests/fuzz/fuzz_$1" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -max_len=20000 -print_final_stats=1 \
    -artifact_prefix="$build/findings/$1-" "$corpus" "$source/tests/fuzz/cases/$1" >"$log" 2>&1; } 2>"$log.time" || rc=$?
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)
  # shellcheck disable=SC2059
  printf "$row" "$1" "$seconds" "$(awk 'END { printf "%.0f", $1 + $2 }' "$log.time")" "${executions:-?}" \
    "$([ $rc -eq 0 ] && echo none || echo "see $log")"
  rm "$log.time"
  return $rc
}
# shellcheck disable=SC2059
printf "$row" target seconds 'cpu s' executions findings
pids=()
for target in "${targets[@]}"; do
  while [ "$(jobs -pr | wc -l)" -ge "$jobs" ]; do wait -n || true; done
  run_target "$target" &
  pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
exit $failed
