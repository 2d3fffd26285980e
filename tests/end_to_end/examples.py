# SPDX-License-Identifier: Apache-2.0
"""examples.py -- the small network and the small data that the tests of this folder train on."""
import random

CONFIG = '''
modelPath  = "models/model.dnn"
command    = Train
traceLevel = 1
numCPUThreads = 1

Train = [
    action = "train"
    SimpleNetworkBuilder = [
        layerSizes = 2:%(hidden)s:2
        layerTypes = "Sigmoid"
        trainingCriterion = "CrossEntropyWithSoftmax"
        evalCriterion = "ClassificationError"
    ]
    SGD = [
        minibatchSize = %(minibatch)d
        learningRatesPerMB = 0.5
        momentumPerMB = 0.9
        maxEpochs = %(epochs)d
        numMBsToShowResult = 1
        ParallelTrain = [
            parallelizationMethod = "DataParallelSGD"
            DataParallelSGD = [ gradientBits = %(bits)d ]
        ]
    ]
    reader = [
        readerType = "CNTKTextFormatReader"
        file = "train.ctf"
        input = [
            features = [ alias = "x" ; dim = 2 ; format = "dense" ]
            labels   = [ alias = "y" ; dim = 2 ; format = "dense" ]
        ]
    ]
]

Test = [
    action = "test"
    reader = [
        readerType = "CNTKTextFormatReader"
        file = "test.ctf"
        input = [
            features = [ alias = "x" ; dim = 2 ; format = "dense" ]
            labels   = [ alias = "y" ; dim = 2 ; format = "dense" ]
        ]
    ]
]
'''


NORMALIZED = '''BrainScriptNetworkBuilder = [
        hidden = Sequential (DenseLayer {64} : BatchNormalizationLayer {normalizationTimeConstant = 500} : ReLU : Dropout)
        features = Input {2}
        labels   = Input {2}
        z  = LinearLayer {2} (hidden (features))
        ce = CrossEntropyWithSoftmax (labels, z)
        criterionNodes = (ce)
        outputNodes    = (z)
    ]
'''

RECURRENT = NORMALIZED.replace('DenseLayer {64} : BatchNormalizationLayer {normalizationTimeConstant = 500} : ReLU : Dropout',
                               'RecurrentLSTMLayer {24} : Dropout')


def with_network(text, network):
    before, rest = text.split('SimpleNetworkBuilder', 1)
    return before + network + rest.split(']', 1)[1]


def normalized(text):
    """The same run with a network that has running statistics and dropout."""
    return with_network(text, NORMALIZED)


def recurrent(text):
    """The same run with a network that has recurrent state and dropout."""
    return with_network(text, RECURRENT)


def config(hidden='8', minibatch=16, epochs=2, bits=32):
    return CONFIG % {'hidden': hidden, 'minibatch': minibatch, 'epochs': epochs, 'bits': bits}


def points(count, seed=1, sequence_lengths=None):
    """Points in the plane with their class (inside or outside of a ring), one line each; in sequences if lengths are given."""
    draw = random.Random(seed)

    def line(prefix):
        x, y = draw.uniform(-1, 1), draw.uniform(-1, 1)
        inside = 0.2 < x * x + y * y < 0.7
        return f'{prefix}|x {x:.5f} {y:.5f} |y {int(inside)} {int(not inside)}\n'

    if sequence_lengths is None:
        return ''.join(line('') for _ in range(count))
    return ''.join(line(f'{i} ') for i, length in enumerate(sequence_lengths) for _ in range(length))
