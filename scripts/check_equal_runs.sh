#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_equal_runs.sh -- trains small networks with two builds of the trainer, under every method whose numbers depend
# on nothing but the config, and compares weights and criteria bit for bit. For changes that must not change numbers.
#   scripts/check_equal_runs.sh OLD NEW            two programs; exit code 1 when any run differs
#   scripts/check_equal_runs.sh OLD NEW PATTERN    only runs whose line matches, a regular expression
# A run that the old program refuses must be refused by the new one. Asynchronous methods run with one worker. Runs stay
# in $FOLDER when it is set, otherwise in a folder that is removed.
set -euo pipefail
old=$(realpath "${1:?the older trainer is missing}")
new=$(realpath "${2:?the newer trainer is missing}")
pattern=${3-}
folder=${FOLDER:+$(realpath -m "$FOLDER")}
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
if [ -z "$folder" ]; then folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT; fi
mkdir -p "$folder"
cd "$folder"
export OMP_WAIT_POLICY=passive OMPI_MCA_mpi_yield_when_idle=1

# 203 samples: the last minibatch is short, and not every rank has the same share.
awk 'BEGIN { srand(7)
  for (i = 0; i < 203; ++i) {
    x = rand() * 2 - 1; y = rand() * 2 - 1; in_ring = x * x + y * y < 0.5
    printf "|features %.4f %.4f %.4f |labels %d %d\n", x, y, x * y, in_ring, !in_ring >"points.ctf"
  }
  for (s = 0; s < 61; ++s) {
    length_of = 1 + int(rand() * 7)
    for (t = 0; t < length_of; ++t) {
      word = int(rand() * 30)
      printf "%d |features %d:1 |labels %d:1\n", s, word, word % 2 >"words.ctf"
    }
  }
}'

# config NAME INPUT FORMAT LABELS FILE LAYERS
config() {
  cat >"$1.cntk" <<END
command = Train
numCPUThreads = 1
modelPath = "model"
Train = [
  action = "train"
  BrainScriptNetworkBuilder = {
    features = $2; labels = $4
    z = Sequential ($6 : LinearLayer {2}) (features)
    ce = CrossEntropyWithSoftmax (labels, z); errs = ClassificationError (labels, z)
    featureNodes = (features); labelNodes = (labels); criterionNodes = (ce); evaluationNodes = (errs); outputNodes = (z)
  }
  SGD = [ epochSize = 0; minibatchSize = 16; maxEpochs = 3; learningRatesPerSample = 0.02; momentumPerMB = 0.9
          dropoutRate = 0.1 ]
  reader = [ file = "$5"; randomize = true
             input = [ features = [ dim = $7; format = "$3" ]; labels = [ dim = 2; format = "$8" ] ] ]
]
END
}
config dense 'Input {3}' dense 'Input {2}' ../../points.ctf 'DenseLayer {20, activation = ReLU} : Dropout' 3 dense
config words 'SparseInput {30}' sparse 'SparseInput {2}' ../../words.ctf \
  'EmbeddingLayer {8} : RecurrentLSTMLayer {7} : Dropout' 30 sparse

# Ranks | name | what stands in ParallelTrain | what else stands in SGD
methods='
1 2 3 4|none|parallelizationMethod=none|
1 2 3 4|32 bits|parallelizationMethod=DataParallelSGD|
2 3 4|1 bit|parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1]|
2 3|1 bit by the mean|parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1;useZeroThresholdFor1BitQuantization=false]|
2 3|2 bits|parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=2]|
2 3|4 bits as the original|parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=4;quantizer=original]|
2 3|16 bits|parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=16]|
2 3|bits by epoch|parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=32:1]|
2 3|buffered|parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1;useBufferedAsyncGradientAggregation=true]|
2 3|late start|parallelizationMethod=DataParallelSGD;parallelizationStartEpoch=2;DataParallelSGD=[gradientBits=1]|
2 3|no momentum|parallelizationMethod=DataParallelSGD|momentumPerMB=0
2 3|fsAdaGrad|parallelizationMethod=DataParallelSGD|gradUpdateType=fsAdaGrad
2 3|Adam|parallelizationMethod=DataParallelSGD|gradUpdateType=adam;learningRatesPerSample=0.001
2 3|1-bit Adam|parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1]|gradUpdateType=oneBitAdam;warmupSamples=200;learningRatesPerSample=0.001
2 3 4|ASA|parallelizationMethod=ASA|
2 3|ASA in 16 bits|parallelizationMethod=ASA;ASA=[exchangeBits=16]|
2 3|ASA of weights|parallelizationMethod=ASA;ASA=[exchange=weights]|
2 3 4|averaging|parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSizePerWorker=32]|
2 3|averaging in fragments|parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSizePerWorker=32;fragments=2;overlap=1]|
1 2 3 4|block momentum|parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSizePerWorker=32]|
2 3|block momentum in 1 bit|parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSizePerWorker=32;exchangeBits=1]|
2 3|outer Nesterov|parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSizePerWorker=32;outerOptimizer=nesterov]|
2 3|outer Adam|parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSizePerWorker=32;outerOptimizer=adam;outerLearningRate=0.01]|
2 3 4|EASGD|parallelizationMethod=EASGD;EASGD=[period=2]|
2 3|EASGD in 4 bits|parallelizationMethod=EASGD;EASGD=[period=2;exchangeBits=4]|
2|EASGD, one worker|parallelizationMethod=EASGD;EASGD=[period=2;policy=async;servers=1]|
1|ASGD, one worker|parallelizationMethod=DataParallelASGD;DataParallelASGD=[syncPeriod=32]|
2|ASGD, one worker and a server|parallelizationMethod=DataParallelASGD;DataParallelASGD=[syncPeriod=32;servers=1]|
2|ASGD of gradients|parallelizationMethod=DataParallelASGD;DataParallelASGD=[push=gradients;servers=1]|
2|ASGD in a pipeline|parallelizationMethod=DataParallelASGD;DataParallelASGD=[syncPeriod=32;usePipeline=true;servers=1]|
2 3 4|ASGD, all together|parallelizationMethod=DataParallelASGD;DataParallelASGD=[policy=sync;push=gradients]|
3 4|groups of gradients|parallelizationMethod=DataParallelSGD;groups=n:2;DataParallelSGD=[gradientBits=1]|
4|blocks of groups|parallelizationMethod=BlockMomentumSGD;groups=n:2;BlockMomentumSGD=[blockSizePerWorker=32]|
4|EASGD of groups|parallelizationMethod=EASGD;groups=n:2;EASGD=[period=2]|
4|gradients of blocks|parallelizationMethod=DataParallelSGD;groups=n:2;insideGroups=[parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSizePerWorker=32]]|
4|blocks of blocks|parallelizationMethod=BlockMomentumSGD;groups=n:2;BlockMomentumSGD=[blockSizePerWorker=64];insideGroups=[parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSizePerWorker=32]]|
'

# train PROGRAM DIRECTORY RANKS NETWORK PARALLEL SGD: leaves the model, the criteria and the exit code.
train() {
  mkdir -p "$2"
  local status=0
  (cd "$2" && on_ranks "$3" "$1" "configFile=../../$4.cntk" parallelTrain=true "Train=[SGD=[ParallelTrain=[$5];$6]]") \
    </dev/null >"$2/log" 2>&1 || status=$?
  echo $status >"$2/status"
  grep -oE 'Finished Epoch.*totalSamplesSeen = [0-9]+' "$2/log" >"$2/criteria" || true
}

runs=0 refused=0 different=0
while IFS='|' read -r ranks name parallel sgd; do
  [ -n "$name" ] || continue
  for network in dense words; do
    for n in $ranks; do
      line="$network, $n rank(s): $name"
      [[ $line =~ $pattern ]] || continue
      runs=$((runs + 1))
      rm -rf "$runs"
      train "$old" "$runs/old" "$n" $network "$parallel" "$sgd"
      train "$new" "$runs/new" "$n" $network "$parallel" "$sgd"
      result=equal
      if ! cmp -s "$runs/old/status" "$runs/new/status"; then
        result="DIFFERENT exit codes: $(cat "$runs/old/status") and $(cat "$runs/new/status")"
      elif [ "$(cat "$runs/new/status")" -ne 0 ]; then
        result="refused by both: $(grep -m1 -E 'error:' "$runs/new/log" || tail -n 1 "$runs/new/log")"
        refused=$((refused + 1))
      elif [ ! -s "$runs/new/criteria" ] || ! cmp -s "$runs/old/criteria" "$runs/new/criteria"; then
        result="DIFFERENT criteria"
      elif ! cmp -s "$runs/old/model" "$runs/new/model"; then
        result="DIFFERENT models"
      fi
      [[ $result != DIFFERENT* ]] || different=$((different + 1))
      printf '%-55s %s\n' "$line" "$result"
    done
  done
done <<<"$methods"

[ $runs -gt 0 ] || die "no run matches '$pattern'"
echo "$runs runs: $different different, $refused refused by both"
[ $different -eq 0 ]
