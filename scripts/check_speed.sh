#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_speed.sh -- times the training of small networks with two builds of the trainer in turn, on one rank and on two
# with 1-bit gradients, and fails when the newer one is slower. For a quiet machine: nothing else may run.
#   scripts/check_speed.sh OLD NEW                two programs; exit code 1 when any network loses more than 3 %
#   scripts/check_speed.sh OLD NEW PATTERN        only lines of the table below that match, a regular expression
# ROUNDS (5) is the number of pairs of runs, LIMIT (3) the loss in percent. The figure of a build is the median of the
# epochs behind the first of all its runs.
set -euo pipefail
old=$(realpath "${1:?the older trainer is missing}")
new=$(realpath "${2:?the newer trainer is missing}")
pattern=${3-}
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
rounds=${ROUNDS:-5} limit=${LIMIT:-3}
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT

# name | ranks | config | its command with synthetic data | samples of an epoch
networks='
mlp|1 2|samples/mnist/mnist.cntk|Synthetic|32000
lenet|1 2|samples/mnist/lenet.cntk|Synthetic|3200
resnet20|1 2|samples/cifar10/resnet20.cntk|Synthetic|640
lstm|1 2|$folder/lstm.cntk|Train|200
'
cat >"$folder/lstm.cntk" <<'END'
command = Train
Train = [
  action = "train"
  BrainScriptNetworkBuilder = {
    features = Input {1000, sparse = true}; labels = Input {128, sparse = true}
    z = Sequential (EmbeddingLayer {128} : RecurrentLSTMLayer {256} : LinearLayer {128}) (features)
    ce = CrossEntropyWithSoftmax (labels, z); errs = ClassificationError (labels, z)
    featureNodes = (features); labelNodes = (labels); criterionNodes = (ce); evaluationNodes = (errs); outputNodes = (z)
  }
  SGD = [ minibatchSize = 500; learningRatesPerMB = 0.1; momentumPerMB = 0.9 ]
  reader = [ readerType = "SyntheticReader"; kind = "random"; sequenceLength = 25
             input = [ features = [ labelDim = 1000; format = "sparse" ]; labels = [ labelDim = 128; format = "sparse" ] ] ]
]
END

# seconds PROGRAM RANKS CONFIG COMMAND SAMPLES: of each epoch behind the first, a line each.
seconds() {
  local out=$folder/run
  rm -rf "$out" && mkdir "$out"
  local sgd='maxEpochs=4;numMBsToShowResult=0;ParallelTrain=[parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1]]'
  on_ranks "$2" "$1" "configFile=${3/\$folder/$folder}" "command=$4" "$4=[SGD=[$sgd];reader=[samples=$5]]" parallelTrain=true \
    numCPUThreads=1 "OutputDir=$out" "stderr=$out/log" "modelPath=$out/model" </dev/null >"$out/terminal" 2>&1 ||
    { cat "$out/terminal" "$out"/log* >&2; die "$1 fails on $3"; }
  grep -hoE 'epochTime=[0-9.e+-]+' "$out"/log* | tail -n +2 | cut -d= -f2
}

median() { sort -g "$1" | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }

slower=0 lines=0
while IFS='|' read -r name all config command samples; do
  [ -n "$name" ] || continue
  for ranks in $all; do
    [[ "$name, $ranks rank(s)" =~ $pattern ]] || continue
    [ "$ranks" -le "$(nproc)" ] || continue
    lines=$((lines + 1))
    : >"$folder/old" >"$folder/new"
    for ((i = 0; i < rounds; ++i)); do
      seconds "$old" "$ranks" "$config" "$command" "$samples" >>"$folder/old"
      seconds "$new" "$ranks" "$config" "$command" "$samples" >>"$folder/new"
    done
    awk -v name="$name, $ranks rank(s)" -v a="$(median "$folder/old")" -v b="$(median "$folder/new")" -v limit="$limit" 'BEGIN {
      lost = b > a * (1 + limit / 100)
      printf "%-22s %9.4f s before %9.4f s now   %.3f%s\n", name, a, b, b / a, lost ? "   SLOWER" : ""
      exit lost }' || slower=$((slower + 1))
  done
done <<<"$networks"
[ $lines -gt 0 ] || die "no network matches '$pattern'"
echo "$lines comparisons: $slower slower by more than $limit %"
[ $slower -eq 0 ]
