#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_gpu.sh -- everything that is to be checked on a GPU, in the order of its worth; the whole takes most of an hour.
#   scripts/check_gpu.sh [PART...]                 all parts, or those named
#   BUILD=DIR scripts/check_gpu.sh [PART...]       in another build directory than build/, or in what bundle.sh --gpu-checks packed
#   BASE=ORIGIN scripts/check_gpu.sh ...           data from ORIGIN/mnist and ORIGIN/cifar10 instead of data/
# Parts: build agreement codecs ranks mnist tf32 bfloat16 memcheck exchange resnet20 float16 float32 racecheck initcheck synccheck
# (tf32 and so on: speed against PyTorch). Every part has a limit of less than ten minutes and a log in BUILD/gpu/; one that
# fails does not keep the others from running. What they found is written to docs/results/gpu.md beside what parts found
# that were run before, or to BUILD/gpu/ where there is no GPU or TUTTI_CUDA_LIBRARY names the emulator.
set -uo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Every operation; networks with channels last and in true 16 bits; recorded steps; codecs, update rules and exchange bit for bit.
agreement_tests=('backend/backend_test --of=agreement_*test.cpp' 'graph/graph_test --of=layouts_test.cpp --gtest_filter=*OnADevice*' 'graph/graph_test --of=half_*_test.cpp'
  'graph/graph_test --of=repeated_steps_test.cpp' 'codec/codec_test --of=cuda_codec_test.cpp' 'optim/optim_test --of=cuda_*_test.cpp'
  'graph/graph_test --of=recurrence_test.cpp --gtest_filter=*OnADevice*' 'graph/graph_test --of=truncation_test.cpp --gtest_filter=*OnADevice*' 'graph/graph_test --of=sent_ahead_test.cpp' 'graph/graph_test --of=deferred_results_test.cpp'
  'parallel/parallel_on_device_test --of=data_parallel_test.cpp' 'parallel/parallel_on_device_test --of=row_sparse_all_reduce_test.cpp')
# Exchange of weights, groups and servers; whole runs. Ranks are threads.
exchange_tests=('parallel/parallel_on_device_test --of=block_exchange_test.cpp' 'parallel/parallel_on_device_test --of=groups_test.cpp' 'parallel/parallel_on_device_test --of=elastic_client_test.cpp'
  'parallel/parallel_on_device_test --of=parameter_server_test.cpp' 'parallel/parallel_on_device_test --of=servers_on_device_test.cpp'
  'actions/actions_test --of=adjust_test.cpp --gtest_filter=*BearsNumbers*' 'actions/actions_test --of=parallel_methods_test.cpp --gtest_filter=*WithoutStaleness*:*AreOneRank*'
  'actions/actions_test --of=train_action_test.cpp --gtest_filter=*AResumedRun*:*Buffered*:*Alone*')
mapfile -t programs < <(printf 'tests/%s\n' "${agreement_tests[@]%% *}" "${exchange_tests[@]%% *}" | sort -u)
programs+=(benchmarks/device_codec_benchmark)

case ${1:-} in
  -h | --help) sed -n '4,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
  --programs) printf '%s\n' "${programs[@]}"; exit 0 ;; # for scripts/bundle.sh
esac
build=${BUILD:-build}
data=${BASE:-data}
logs=$build/gpu
mkdir -p "$logs"
logs=$(cd "$logs" && pwd)
all=(build agreement codecs ranks mnist tf32 bfloat16 memcheck exchange resnet20 float16 float32 racecheck initcheck synccheck)
parts=("$@")
[ $# -gt 0 ] || parts=("${all[@]}")

if [ -x "$build/bin/mpiexec" ]; then
  PATH=$(cd "$build/bin" && pwd):$PATH
  # Where CUDA and cuDNN are there as packages of Python alone.
  packaged=$(python3 -c 'import site; print(*site.getsitepackages())' 2>/dev/null | xargs -r -n 1 -I{} find {}/nvidia -name 'libcublasLt.so.*' -o -name 'libcudnn.so.*' -o -name 'libnccl.so.*' 2>/dev/null |
    xargs -r -n 1 dirname | sort -u | paste -sd:)
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$packaged
fi

page=docs/results/gpu.md
: "${TUTTI_CUDA_LIBRARY:=$(cd "$build" && pwd)/libtutti_cuda.so}" # the tests do not lie beside it
export TUTTI_CUDA_LIBRARY
few=() # options of a rehearsal over the emulator, which is slow
case $TUTTI_CUDA_LIBRARY in
  *emulator*)
    page=$logs/gpu.md
    few=("Train=[reader=[samples=256];SGD=[maxEpochs=1]]" "Test=[reader=[samples=100;firstSample=256]]")
    ;;
esac

# row WHAT RESULT: a line of the page's table.
row() { printf '| %s | %s |\n' "$1" "$2" | tee -a "$logs/$part.rows"; }
# within SECONDS COMMAND...: with the log of the part that runs.
within() { timeout --kill-after=10 "$@" >>"$logs/$part.log" 2>&1; }
trainer() { within "$1" "$build/trainer" "${@:2}" numCPUThreads=0; }
# "1.730" from the last line of results of a run.
errors_of() { grep 'Final Results' "$1" | tail -n 1 | sed -n 's/.*errs = \([0-9.]*\)%.*/\1/p'; }
close() { awk -v a="$1" -v b="$2" -v most="$3" 'BEGIN { d = a - b; exit !(a != "" && b != "" && d <= most && -d <= most) }'; }

part_build() {
  [ ! -x "$build/bin/mpiexec" ] || return 0 # a bundle
  within 900 meson setup "$build" --buildtype=release -Dtogether=true -Dcuda=enabled || [ -f "$build/build.ninja" ] || return 1
  within 900 ninja -C "$build" trainer libtutti_cuda.so "${programs[@]}"
}

# tests WHAT TEST...
tests() {
  local what=$1 test words failed=0
  shift
  for test in "$@"; do
    read -ra words <<<"$test"
    within 300 env TUTTI_TEST_DEVICE=cuda:0 "$build/tests/${words[0]}" "${words[@]:1}" || failed=1
  done
  ! grep -m 1 'no GPU' "$logs/$part.log" || return 1
  row "$what" "$(grep -c '^\[       OK' "$logs/$part.log") tests pass, $(grep -c '^\[  FAILED  \].*ms)$' "$logs/$part.log") fail"
  return $failed
}

part_agreement() {
  tests 'agreement with the CPU: operations, networks, codecs, update rules, exchange of gradients' "${agreement_tests[@]}"
}

part_exchange() {
  tests 'agreement with the CPU: exchange of weights, groups, servers, whole runs' "${exchange_tests[@]}"
}

part_codecs() {
  within 240 "$build/benchmarks/device_codec_benchmark" || return 1
  local worst
  worst=$(sed -n 's/.*| \([0-9]*\) % |$/\1/p' "$logs/codecs.log" | sort -n | head -n 1)
  row 'codecs against a copy of device memory, the slowest (aim: 80 %)' "$worst %"
  [ "${worst:-0}" -ge 80 ]
}

# Two ranks on this GPU give the numbers of two ranks on the CPU.
part_ranks() {
  local device losses=()
  for device in cpu 0; do
    rm -rf "$logs/ranks-$device"
    mkdir "$logs/ranks-$device"
    within 120 mpiexec -n 2 --oversubscribe "$build/trainer" configFile=samples/digits/digits.cntk "OutputDir=$logs/ranks-$device" \
      "stderr=$logs/ranks-$device/run" deviceId=$device makeMode=false numCPUThreads=1 command=Train:Test "${few[@]}" || return 1
    losses+=("$(errors_of_run "$logs/ranks-$device")")
  done
  row 'two ranks sharing the GPU, two on the CPU: test errors of samples/digits' "${losses[1]} %, ${losses[0]} %"
  close "${losses[0]}" "${losses[1]}" 1
}

# The log of rank 0.
errors_of_run() { errors_of "$(grep -l 'Final Results' "$1"/run* | sort | head -n 1)"; }

# sample NAME CONFIG LIMIT DIFFERENCE OPTIONS...: on the CPU and on the GPU, with the test errors of both.
sample() {
  local name=$1 config=$2 limit=$3 most=$4 device errors=() seconds=() start
  shift 4
  for device in cpu 0; do
    rm -rf "${logs:?}/$name-$device"
    mkdir "$logs/$name-$device"
    start=$SECONDS
    trainer "$limit" "configFile=$config" "OutputDir=$logs/$name-$device" \
      "stderr=$logs/$name-$device/run" deviceId=$device makeMode=false "$@" || return 1
    seconds+=($((SECONDS - start)))
    errors+=("$(errors_of_run "$logs/$name-$device")")
  done
  row "$name: test errors on the GPU, on the CPU" "${errors[1]} % in ${seconds[1]} s, ${errors[0]} % in ${seconds[0]} s"
  close "${errors[0]}" "${errors[1]}" "$most"
}

# fetched NAME FILE: $folder is where the data of that name are; fetched, or unpacked from BASE, where FILE is not there yet.
fetched() {
  folder=$data/$1
  [ ! -e "$folder/$2" ] || return 0
  local archive from=()
  for archive in "$folder"/*.tar*; do
    [ ! -e "$archive" ] || from=(--from "$archive")
  done
  folder=data/$1
  [ -e "$folder/$2" ] || within 180 "scripts/get_$1.sh" "${from[@]}"
}

part_mnist() {
  fetched mnist train-images-idx3-ubyte.gz || return 1
  sample mnist samples/mnist/mnist.cntk 240 0.3 "DataDir=$folder"
}

part_resnet20() {
  fetched cifar10 train_map.txt || return 1
  sample resnet20 samples/cifar10/resnet20.cntk 240 4 "DataDir=$folder" "Train=[SGD=[maxEpochs=2;learningRatesPerMB=0.5:0.05]]"
}

# speed TYPE: a first run of each network measures algorithms; what is done when the time is over counts.
speed() {
  local type=$1 written=(--write) failed=0
  [ "$page" = docs/results/gpu.md ] || written=()
  within 560 scripts/compare_pytorch.py --build "$build" --device cuda --dtype "$type" --models alexnet,resnet50,vgg16,googlenet \
    --seconds 3 --rounds 1 "${written[@]}" || failed=1
  ! grep -q '^skipped' "$logs/$part.log" || { grep '^skipped' "$logs/$part.log"; return 1; }
  row "images/s against PyTorch in $type (aim: 1.00)" "$(grep -o 'Geometric mean.*' "$logs/$part.log" | tail -n 1)"
  return $failed
}
part_tf32() { speed tf32; }
part_bfloat16() { speed bfloat16; }
part_float16() { speed float16; }
part_float32() { speed float32; }

# sanitize TOOL OPTIONS... -- OPTIONS OF THE TEST...
sanitize() {
  local tool=$1 options=() sanitizer
  shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  [ -x "$sanitizer" ] || { echo 'compute-sanitizer of the CUDA toolkit is not there'; return 1; }
  if within 400 "$sanitizer" --tool "$tool" --error-exitcode 1 "${options[@]}" "$build/tests/backend/backend_test" '--of=agreement_*test.cpp' "$@"; then
    row "compute-sanitizer, $tool" 'no error'
  else
    row "compute-sanitizer, $tool" "errors, or no end in time (exit $?): see the log"
    return 1
  fi
}
# Kernels of the libraries take their time and are not what is looked for. Calls that fail are part of the tests.
part_memcheck() { sanitize memcheck --kernel-name kns=tutti --report-api-errors no --; }
part_racecheck() { sanitize racecheck --kernel-name kns=tutti --; }
part_synccheck() { sanitize synccheck --kernel-name kns=tutti --; }
# What is not looked at counts as not written, so all kernels are; cuDNN measures convolutions on memory that holds nothing.
part_initcheck() { sanitize initcheck -- --gtest_filter='-*Convolution*'; }

# Between two marks of the page, with what was run on what; the rest of the page stays.
write_page() {
  ! without_gpu >/dev/null || page=$logs/gpu.md # what is published comes from GPUs
  local part mark='<!-- checks -->' section=$logs/section
  {
    echo "$mark"
    echo "## Checks"
    echo
    echo "\`scripts/check_gpu.sh\` on $(device), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(date -u +%Y-%m-%d)."
    echo
    echo '| what | result |'
    echo '|---|---|'
    for part in "${all[@]}"; do [ ! -f "$logs/$part.rows" ] || cat "$logs/$part.rows"; done
    if [ -s "$logs/codecs.log" ]; then echo && sed -n '/^| matrix/,$p' "$logs/codecs.log"; fi
    echo "${mark/checks/end of checks}"
  } >"$section"
  [ -f "$page" ] || echo '# On a GPU' >"$page"
  sed -i '/^<!-- checks -->$/,/^<!-- end of checks -->$/d' "$page"
  sed -i -e :more -e '/^\n*$/{$d;N;b more' -e '}' "$page" # blank lines at the end
  { echo && cat "$section"; } >>"$page"
  say "written to $page"
}
device() {
  case $TUTTI_CUDA_LIBRARY in *emulator*) echo 'the emulator'; return ;; esac
  without_gpu ||
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1 | grep . || echo 'a GPU that nvidia-smi is not there to name'
}
# Says so if it is the case.
without_gpu() { "$build/trainer" --version 2>/dev/null | grep -o 'no GPU.*'; }

bad=()
for part in "${parts[@]}"; do
  declare -F "part_$part" >/dev/null || die "there is no part '$part': see scripts/check_gpu.sh --help"
done
for part in "${parts[@]}"; do
  say "$part"
  : >"$logs/$part.log"
  rm -f "$logs/$part.rows"
  begun=$SECONDS
  if "part_$part"; then
    echo "done in $((SECONDS - begun)) s"
  else
    tail -n 15 "$logs/$part.log"
    row "**$part**" "failed after $((SECONDS - begun)) s: see its log"
    bad+=("$part")
  fi
done
write_page
[ ${#bad[@]} -eq 0 ] || die "failed: ${bad[*]} (logs in $logs)"
