# SPDX-License-Identifier: Apache-2.0
"""exchange_strategies.py -- the variants to train together that exchange.py measures, and the run that it measures them with."""
import dataclasses

# Blocks of 200 steps: as long as users of such methods make them at least.
BLOCK = 200


@dataclasses.dataclass
class Strategy:
    label: str
    method: str
    options: str            # the block of that name; {block} stands for the samples of `every` steps of a rank
    bits: float = 32        # of what travels, and
    every: int = 1          # how many steps lie between two exchanges: for guessing how long a run takes
    more: str = ''          # beside that block
    sgd: str = ''           # other settings of SGD; {warm} stands for the samples of a warm-up
    rate: float = 0.1       # of learning
    warm_steps: int = 0     # of a warm-up on the variant to the loss, which costs what '32bit' does
    several: bool = False   # several ranks on each host


NESTEROV = 'blockSizePerWorker={block};outerOptimizer=nesterov;resetSGDMomentum=false'
INSIDE = 'insideGroups=[parallelizationMethod=DataParallelSGD]'
STRATEGIES = {
    '32bit': Strategy('DataParallelSGD, 32 bits', 'DataParallelSGD', 'gradientBits=32'),
    '1bit': Strategy('DataParallelSGD, 1 bit', 'DataParallelSGD', 'gradientBits=1', 1),
    '1bit-async': Strategy('DataParallelSGD, 1 bit, one step behind', 'DataParallelSGD', 'gradientBits=1;useBufferedAsyncGradientAggregation=true', 1),
    'adam1': Strategy('1-bit Adam after its warm-up', 'DataParallelSGD', 'gradientBits=1', 1, sgd='gradUpdateType=oneBitAdam;warmupSamples={warm}', rate=0.0001, warm_steps=40),
    'library': Strategy('ASA by MPI_Allreduce, 32 bits', 'ASA', 'allReduce=library'),
    'asa32': Strategy('ASA, 32 bits', 'ASA', 'exchangeBits=32'),
    'asa16': Strategy('ASA, 16 bits', 'ASA', 'exchangeBits=16', 16),
    'asa-weights': Strategy('ASA, weights, 16 bits', 'ASA', 'exchange=weights;exchangeBits=16', 16),
    'averaging': Strategy('ModelAveragingSGD, 32 bits', 'ModelAveragingSGD', 'blockSizePerWorker={block}', 32, BLOCK),
    'block32': Strategy('BlockMomentumSGD, 32 bits', 'BlockMomentumSGD', 'blockSizePerWorker={block}', 32, BLOCK),
    'block1': Strategy('BlockMomentumSGD, 1 bit', 'BlockMomentumSGD', 'blockSizePerWorker={block};exchangeBits=1', 1, BLOCK),
    'diloco32': Strategy('DiLoCo (outer Nesterov), 32 bits', 'BlockMomentumSGD', NESTEROV, 32, BLOCK),
    'diloco1': Strategy('DiLoCo (outer Nesterov), 1 bit', 'BlockMomentumSGD', f'{NESTEROV};exchangeBits=1', 1, BLOCK),
    'streamed32': Strategy('DiLoCo, 32 bits, 4 fragments, hidden', 'BlockMomentumSGD', f'{NESTEROV};fragments=4;overlap=25', 32, BLOCK),
    'streamed1': Strategy('DiLoCo, 1 bit, 4 fragments, hidden', 'BlockMomentumSGD', f'{NESTEROV};exchangeBits=1;fragments=4;overlap=4', 1, BLOCK),
    'asgd32': Strategy('DataParallelASGD every 10 steps, 32 bits', 'DataParallelASGD', 'syncPeriod={block}', 32, 10),
    'asgd1': Strategy('DataParallelASGD every 10 steps, 1 bit', 'DataParallelASGD', 'syncPeriod={block};exchangeBits=1', 1, 10),
    'asgd-pipeline': Strategy('DataParallelASGD, usePipeline, 32 bits', 'DataParallelASGD', 'syncPeriod={block};usePipeline=true', 32, 10),
    'easgd32': Strategy('EASGD every 10 steps, 32 bits', 'EASGD', 'period=10', 32, 10),
    'easgd1': Strategy('EASGD every 10 steps, 1 bit', 'EASGD', 'period=10;exchangeBits=1', 1, 10),
    'easgd-async32': Strategy('EASGD, asynchronous, 32 bits', 'EASGD', 'period=10;policy=async', 32, 10),
    'easgd-async1': Strategy('EASGD, asynchronous, 1 bit', 'EASGD', 'period=10;policy=async;exchangeBits=1', 1, 10),
    'flat1': Strategy('DataParallelSGD, 1 bit, no groups', 'DataParallelSGD', 'gradientBits=1', 1, several=True),
    'groups1': Strategy('1 bit between nodes, sums within', 'DataParallelSGD', 'gradientBits=1', 1, more=f'groups=byNode;{INSIDE}', several=True),
    'mixed': Strategy('mixed mode: servers between nodes, sums within', 'DataParallelASGD', 'syncPeriod={block}', 32, 10, more=f'groups=byNode;{INSIDE}', several=True),
    'mixed1': Strategy('mixed mode, 1 bit between nodes', 'DataParallelASGD', 'syncPeriod={block};exchangeBits=1', 1, 10, more=f'groups=byNode;{INSIDE}', several=True),
}

CONFIG = '''
command = Train
modelPath = "models/model.dnn"
makeMode = false
traceLevel = 1
numCPUThreads = 1
Train = [
    action = "train"
    BrainScriptNetworkBuilder = [
        features = Input {{{inputs}}}
        labels   = Input {{{outputs}}}
        model = Sequential ({hidden}
            LinearLayer {{{outputs}, init = 'heUniform'}})
        z = model (features)
        ce   = CrossEntropyWithSoftmax (labels, z)
        errs = ClassificationError (labels, z)
        featureNodes = (features) ; labelNodes = (labels) ; criterionNodes = (ce) ; evaluationNodes = (errs) ; outputNodes = (z)
    ]
    SGD = [
        epochSize = {epoch}
        minibatchSize = {minibatch}
        learningRatesPerMB = {rate}
        momentumPerMB = 0.9
        maxEpochs = {epochs}
        numMBsToShowResult = {interval}
        {sgd}
        ParallelTrain = [
            parallelizationMethod = "{method}"
            {block}
            {more}
        ]
    ]
    reader = [
        readerType = "SyntheticReader"
        {data}
        samples = {epoch}
        input = [
            features = [ dim = {inputs} ]
            labels = [ labelDim = {outputs} ]
        ]
    ]
]
'''
RANDOM, DIGITS = 'kind = "random"', 'kind = "digits"'


def config(strategy, layers, per_rank, cluster, steps, interval, data, warm_steps, epochs):
    """Of a run of so many epochs of so many steps, with a warm-up (for strategies that have one) at its beginning."""
    minibatch = per_rank * cluster.ranks
    worker = cluster.ranks_per_host if strategy.more else 1
    fill = {'block': strategy.every * per_rank * worker, 'warm': warm_steps * minibatch}
    hidden = ''.join(f"\n            DenseLayer {{{n}, activation = ReLU, init = 'heUniform'}} :" for n in layers[1:-1])
    return CONFIG.format(inputs=layers[0], outputs=layers[-1], hidden=hidden, epoch=steps * minibatch, epochs=epochs, minibatch=minibatch, interval=interval,
                         rate=strategy.rate, sgd=strategy.sgd.format(**fill), method=strategy.method,
                         block=f'{strategy.method} = [ {strategy.options.format(**fill)} ]', more=strategy.more, data=data)
