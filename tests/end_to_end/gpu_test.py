# SPDX-License-Identifier: Apache-2.0
"""deviceId: networks of every kind trained by the GPU part over the emulator of the CUDA libraries, against the CPU; and errors of devices
that cannot be had. Meson names the emulator in TUTTI_CUDA_EMULATOR."""
import os
import random
import re
from unittest import mock

import support

CONFIG = '''
command = Train:Test
precision = "float"
modelPath = "$OutputDir$/models/net.dnn"
traceLevel = 1
Train = [
  action = "train"
  BrainScriptNetworkBuilder = { %s
    ce = CrossEntropyWithSoftmax (labels, z); errs = ClassificationError (labels, z)
    featureNodes = (x); labelNodes = (labels); criterionNodes = (ce); evaluationNodes = (errs); outputNodes = (z)
  }
  SGD = [ maxEpochs = 2; minibatchSize = 48; learningRatesPerSample = 0.01; momentumPerMB = 0.5; numMBsToShowResult = 0; %s ]
  reader = [ readerType = "CNTKTextFormatReader"; file = "$OutputDir$/data.ctf"; randomize = true
             input = [ x = [ alias = "x"; dim = 36; format = "%s" ]; labels = [ alias = "y"; dim = 4; format = "sparse" ] ] ]
]
Test = [ action = "test"; minibatchSize = 100
  reader = [ readerType = "CNTKTextFormatReader"; file = "$OutputDir$/data.ctf"
             input = [ x = [ alias = "x"; dim = 36; format = "%s" ]; labels = [ alias = "y"; dim = 4; format = "sparse" ] ] ] ]
'''
DENSE = '''x = Input {36}; labels = SparseInput {4}
    h = BatchNormalizationLayer {} (DenseLayer {24, activation = Tanh} (x))
    z = LinearLayer {4} (Dropout (Sigmoid (h)))'''
IMAGE = '''x = Input {6:6:1}; labels = SparseInput {4}
    c = ConvolutionalLayer {8, (3:3), pad = true, activation = ReLU} (x)
    z = LinearLayer {4} (MaxPoolingLayer {(2:2), stride = (2:2)} (c))'''
RECURRENT = '''x = Input {36}; labels = SparseInput {4}
    R = ParameterTensor {12:12, init='glorotUniform'}
    h = Tanh (DenseLayer {12} (x) + R * PastValue (0, h))
    z = LinearLayer {4} (Splice (h : RecurrentLSTMLayer {6, goBackwards=true} (x)))'''
LAYERS = '''x = Input {36}; labels = SparseInput {4}
    g = _Keras.Gru {6, (Repeat (18, 0)), Tanh, Sigmoid, 'glorotUniform', 1, 'glorotUniform', 1, false, true, true}
    z = LinearLayer {4} (g (RecurrentLSTMLayer {6, goBackwards=true} (x)))'''
WORDS = '''x = SparseInput {36}; labels = SparseInput {4}
    E = ParameterTensor {10:36, init='glorotUniform'}
    z = LinearLayer {4} (Tanh (E * x))'''
IN_GROUPS = '; groups = n:2; insideGroups = [ parallelizationMethod = DataParallelSGD ]'
NUMBER = r'[-+]?\d+\.\d+'


def make_data(path, sequences, steps, sparse):
    draw = random.Random(3)
    with open(path, 'w', encoding='utf-8') as out:
        for s in range(sequences):
            for _ in range(draw.randint(1, steps)):
                label = draw.randrange(4)
                if sparse:
                    values = ' '.join(f'{i}:1' for i in sorted(draw.sample(range(label * 9, label * 9 + 9), 3)))
                else:
                    values = ' '.join(f'{draw.gauss(1.0 if i % 4 == label else 0.0, 1):.3f}' for i in range(36))
                out.write(f'{s} |x {values} |y {label}:1\n')


class GpuTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.emulator = os.environ.get('TUTTI_CUDA_EMULATOR', '')
        if not self.emulator:
            self.skipTest('TUTTI_CUDA_EMULATOR does not name the emulator of the CUDA libraries')
        os.environ['TUTTI_CUDA_LIBRARY'] = self.emulator
        os.environ['TUTTI_CACHE'] = ''
        self.addCleanup(os.environ.pop, 'TUTTI_CUDA_LIBRARY', None)

    def criteria(self, network, device, ranks=None, sparse=False, steps=1, sgd='', extra=()):
        form = 'sparse' if sparse else 'dense'
        (self.directory / 'net.cntk').write_text(CONFIG % (network, sgd, form, form), encoding='utf-8')
        make_data(self.directory / 'data.ctf', 120, steps, sparse)
        out = f'{device}-{ranks}'
        result = self.run_trainer(['configFile=net.cntk', 'OutputDir=.', f'modelPath=models/{out}/net.dnn', 'makeMode=false', f'deviceId={device}', *extra], ranks)
        self.assertIn('backend: cpu' if device == '-1' else 'cuda:0', result.text)
        found = re.findall(rf'(?:Finished Epoch.*?|Final Results.*?)\bce = ({NUMBER})', result.text)
        self.assertEqual(len(found), 3, result)
        return [float(v) for v in found]

    def agree(self, network, **options):
        for cpu, gpu in zip(self.criteria(network, '-1', **options), self.criteria(network, '0', **options)):
            self.assertAlmostEqual(cpu, gpu, delta=2e-4)

    def test_dense(self):
        self.agree(DENSE, sgd='dropoutRate = 0.2')

    def test_images(self):
        self.agree(IMAGE)

    def test_recurrent(self):
        self.agree(RECURRENT, steps=6)

    def test_recurrent_layers_by_cudnn(self):
        cache = self.directory / 'cache'
        os.environ['TUTTI_CACHE'] = str(cache)
        self.agree(LAYERS, steps=30)
        # Otherwise nothing has been said about cuDNN: -1 is step by step.
        chosen = [line.split()[:2] for file in cache.iterdir() for line in file.read_text(encoding='utf-8').splitlines()]
        for kind in ('lstm', 'gru'):
            ways = {way for shape, way in chosen if shape.startswith(kind + ':0:training:')}
            self.assertTrue(ways and ways <= {'0', '1'}, chosen)

    def test_sparse(self):
        self.agree(WORDS, sparse=True)

    def test_commands_after_each_other(self):
        text = CONFIG % (DENSE, '', 'dense', 'dense')
        train = text[text.index('Train = ['):text.index('Test = [')]
        again = train.replace('Train = [', 'Again = [ modelPath = "$OutputDir$/models/again.dnn"')
        (self.directory / 'net.cntk').write_text(text.replace('Train:Test', 'Train:Test:Again') + again, encoding='utf-8')
        make_data(self.directory / 'data.ctf', 120, 1, False)
        cpu, gpu = (re.findall(rf'(?:Finished Epoch.*?|Final Results.*?)\bce = ({NUMBER})',
                               self.run_trainer(['configFile=net.cntk', 'OutputDir=.', 'makeMode=false', f'deviceId={device}']).text) for device in ('-1', '0'))
        self.assertEqual((len(cpu), len(gpu)), (5, 5))
        for a, b in zip(cpu, gpu):
            self.assertAlmostEqual(float(a), float(b), delta=2e-4)

    def test_optimizers(self):
        self.agree(DENSE, sgd='gradUpdateType = "adagrad"; L2RegWeight = 0.001; gradientClippingWithTruncation = true; clippingThresholdPerSample = 0.1')

    def test_compute_types(self):
        exact = self.criteria(DENSE, '0')
        for kind in ('tf32', 'bfloat16', 'float16'):
            with self.subTest(kind):
                rounded = self.criteria(DENSE, '0', extra=[f'computeType={kind}', *(['lossScale=256'] if kind == 'float16' else [])])
                self.assertNotEqual(rounded, exact)
                for a, b in zip(exact, rounded):
                    self.assertAlmostEqual(a, b, delta=2e-2)

    def test_recorded_steps_give_the_same_bits(self):
        for network, ranks, kind in ((DENSE, None, 'float32'), (IMAGE, None, 'float32'), (DENSE, 2, 'float32'), (DENSE, None, 'float16'), (IMAGE, None, 'bfloat16')):
            with self.subTest(network=network, ranks=ranks, kind=kind):
                recorded, told = ([self.criteria(network, '0', ranks=ranks, extra=[f'cudaGraphs={on}', f'computeType={kind}', 'Train=[SGD=[minibatchSize=8]]']),
                                   (self.directory / f'models/0-{ranks}/net.dnn').read_bytes()] for on in ('true', 'false'))
                self.assertEqual(recorded, told)

    def test_lines_of_results_that_come_late(self):
        """The host does not wait for a device's criteria, but lines hold those of their minibatches, and weights are saved behind their steps."""
        (self.directory / 'net.cntk').write_text(CONFIG % (DENSE, '', 'dense', 'dense'), encoding='utf-8')
        make_data(self.directory / 'data.ctf', 120, 2, False)

        def lines(device, every, ranks, method):
            result = self.run_trainer(['configFile=net.cntk', 'OutputDir=.', 'makeMode=false', f'deviceId={device}',
                                       f'Train=[SGD=[minibatchSize=10; numMBsToShowResult={every}; ParallelTrain=[parallelizationMethod={method}]]]'], ranks)
            return [(int(first), int(last), float(ce), int(count))
                    for first, last, ce, count in re.findall(rf'Minibatch\[ *(\d+)- *(\d+).*?ce = ({NUMBER}) \* (\d+)', result.text)]
        gradients, weights = 'DataParallelSGD; DataParallelSGD = [ gradientBits = 32 ]', 'BlockMomentumSGD; BlockMomentumSGD = [ blockSize = 40 ]'
        behind = 'DataParallelSGD; DataParallelSGD = [ gradientBits = 32; useBufferedAsyncGradientAggregation = true ]'
        for ranks, every, method in ((None, 1, gradients), (None, 3, gradients), (None, 7, 'none'), (2, 3, gradients), (2, 3, weights), (3, 3, behind + IN_GROUPS), (3, 3, weights + IN_GROUPS)):
            with self.subTest(ranks=ranks, every=every, method=method):
                cpu, gpu = (lines(device, every, ranks, method) for device in ('-1', '0'))
                self.assertGreater(len(cpu), 3)
                self.assertEqual([line[:2] + line[3:] for line in cpu], [line[:2] + line[3:] for line in gpu])
                for a, b in zip(cpu, gpu):
                    self.assertAlmostEqual(a[2], b[2], delta=2e-4)

    def test_a_criterion_that_is_no_number(self):
        network = DENSE.replace('(DenseLayer {24, activation = Tanh} (x))', '(DenseLayer {24} (Exp (x)))')
        (self.directory / 'net.cntk').write_text(CONFIG % (network, 'keepCheckPointFiles = true', 'dense', 'dense'), encoding='utf-8')
        make_data(self.directory / 'data.ctf', 120, 1, False)
        lines = (self.directory / 'data.ctf').read_text(encoding='utf-8').splitlines()
        weights = 'BlockMomentumSGD; BlockMomentumSGD = [ blockSize = 1000 ]'
        gradients = 'DataParallelSGD; DataParallelSGD = [ gradientBits = 1 ]'
        behind = gradients.replace(' ]', '; useBufferedAsyncGradientAggregation = true ]')
        # In the third minibatch; in the last but one, when there is nothing more to be told; on either of two ranks.
        for sample, ranks, method in ((25, None, 'none'), (115, None, 'none'), (25, 2, weights), (29, 2, weights), (115, 2, gradients), (29, 2, behind),
                                      (25, 3, gradients + IN_GROUPS), (29, 3, weights + IN_GROUPS)):
            with self.subTest(sample=sample, ranks=ranks, method=method):
                broken = list(lines)
                broken[sample] = re.sub(r'\|x \S+', '|x 1000', broken[sample])
                (self.directory / 'data.ctf').write_text('\n'.join(broken) + '\n', encoding='utf-8')
                errors = []
                for device in ('-1', '0'):
                    result = self.run_trainer(['configFile=net.cntk', 'command=Train', 'OutputDir=.', 'makeMode=false', f'modelPath=models/{device}/net.dnn', f'deviceId={device}',
                                               f'Train=[SGD=[minibatchSize=10; ParallelTrain=[parallelizationMethod={method}]]; reader=[randomize=false]]'],
                                              ranks, expect=None)
                    errors.append(re.findall(r'The training criterion.*(?:\n.*){2}', result.text))
                    self.assertFalse((self.directory / f'models/{device}/net.dnn.1').exists())
                self.assertEqual(len(errors[0]), 1, errors)
                self.assertIn(f'epoch 1, minibatch {sample // 10 + 1} of', errors[0][0])
                self.assertIn("is the first node", errors[0][0])
                # Results that come late name the node, but not the sample.
                self.assertEqual(*[[re.sub(r'; sample \d+ of .*?(?= in epoch)', '', e) for e in of_device] for of_device in errors])

    def losses_of_float16(self, directory, stop, ranks, scale, extra=()):
        """Criteria of the epochs, and the lines about updates that were left out."""
        sgd = f'maxEpochs = {stop}; keepCheckPointFiles = true; ParallelTrain = [ parallelizationMethod = DataParallelSGD; DataParallelSGD = [ gradientBits = 32 ] ]'
        network = DENSE.replace('z = Lin', 'large = Constant (30); z = large .* Lin')
        text = (CONFIG % (network, sgd, 'dense', 'dense')).replace('maxEpochs = 2; ', '')
        (self.directory / 'net.cntk').write_text(text, encoding='utf-8')
        make_data(self.directory / 'data.ctf', 120, 1, False)
        result = self.run_trainer(['configFile=net.cntk', 'command=Train', 'OutputDir=.', f'modelPath=models/{directory}/net.dnn', 'deviceId=0',
                                   'computeType=float16', f'lossScale={scale}', *extra], ranks)
        return re.findall(rf'Finished Epoch.*?\bce = ({NUMBER})', result.text), re.findall(r'Minibatch\[ *\d+\]: a gradient is not finite in float16 with lossScale \d+: .* (\d+) now', result.text)

    def test_the_loss_scale_is_sought(self):
        for ranks in (None, 2):
            with self.subTest(ranks=ranks):
                losses, scales = self.losses_of_float16(f'whole-{ranks}', 3, ranks, 'auto')
                self.assertEqual(len(losses), 3)
                self.assertTrue(scales)
                self.assertTrue(set(scales) <= {str(65536 // 2 ** i) for i in range(1, 16)}, scales)
                # With a small scale from the start, nothing is left out.
                again, none = self.losses_of_float16(f'fixed-{ranks}', 3, ranks, 4)
                self.assertEqual((len(again), none), (3, []))
                # A run that is taken up behind its first epoch goes on with the scale that it had.
                for path in (self.directory / f'models/whole-{ranks}').iterdir():
                    if not path.name.startswith('net.dnn.1'):
                        path.unlink()
                rest, more = self.losses_of_float16(f'whole-{ranks}', 3, ranks, 'auto')
                self.assertEqual(rest, losses[1:])
                self.assertEqual(more, scales[-len(more):] if more else [])
                self.assertLess(len(more), len(scales))

    def model_of_float16(self, name, certain, scale, sgd, epochs=1, start='makeMode=false'):
        """Bytes of the model that some minibatches of 8 samples leave, and which updates were left out. In the first minibatch the sample
        `certain` is taken for another class for sure, so its gradient behind the softmax is 65536 with that scale, where float16 has ended;
        with None this minibatch is missing."""
        network = """x = Input {36}; labels = SparseInput {4}
            W = ParameterTensor {4:36, init = 'fixedValue', value = 0}; z = W * x + Constant (40) .* Slice (0, 4, x)"""
        (self.directory / 'net.cntk').write_text(CONFIG % (network, sgd, 'dense', 'dense'), encoding='utf-8')
        draw = random.Random(5)
        with open(self.directory / 'data.ctf', 'w', encoding='utf-8') as out:
            for minibatch in range(6):
                for sample in range(8):
                    values = [draw.gauss(0, 0.01) for _ in range(36)]
                    if minibatch == 0 and sample == certain:
                        values[0] = 1.0
                    if certain is not None or minibatch > 0:
                        out.write(f'{8 * minibatch + sample} |x {" ".join(f"{v:.4f}" for v in values)} |y {1 + sample % 3}:1\n')
        result = self.run_trainer(['configFile=net.cntk', 'command=Train', 'OutputDir=.', f'modelPath=models/{name}/net.dnn', 'deviceId=0', 'computeType=float16',
                                   f'lossScale={scale}', start, f'Train=[SGD=[minibatchSize=8; maxEpochs={epochs}; keepCheckPointFiles=true]; reader=[randomize=false]]'], 2)
        scales = re.findall(r'Minibatch\[ *(\d+)\]: a gradient is not finite in float16 with lossScale 65536: .* 32768 now', result.text)
        self.assertEqual(result.text.count('a gradient is not finite'), len(scales))
        return (self.directory / f'models/{name}/net.dnn').read_bytes(), scales

    def test_a_step_that_overflows_on_one_rank_is_skipped_by_all(self):
        gradients = 'ParallelTrain = [ parallelizationMethod = %s; distributedMBReading = true ]'
        # The first half of a minibatch is the first rank's.
        for method, sample in (('DataParallelSGD; DataParallelSGD = [ gradientBits = 32 ]', 0), ('DataParallelSGD; DataParallelSGD = [ gradientBits = 1 ]', 7),
                               ('ASA', 7), ('ASA; ASA = [ allReduce = library ]', 0)):
            with self.subTest(method=method):
                without, none = self.model_of_float16('without', None, 32768, gradients % method)
                self.assertEqual(none, [])
                left_out, scales = self.model_of_float16('left-out', sample, 'auto', gradients % method)
                self.assertEqual(len(scales), 1)
                self.assertEqual(left_out, without)

    def test_ranks_that_step_alone_go_on_with_scales_of_their_own(self):
        elastic = 'ParallelTrain = [ parallelizationMethod = EASGD; distributedMBReading = true ]'
        whole, scales = self.model_of_float16('elastic', 7, 'auto', elastic, epochs=2)
        self.assertEqual(scales, [])  # the update that is left out is the second rank's, and the first one tells nothing of it
        for path in (self.directory / 'models/elastic').iterdir():
            if not path.name.startswith('net.dnn.1'):
                path.unlink()
        rest, _ = self.model_of_float16('elastic', 7, 'auto', elastic, epochs=2, start='makeMode=true')
        self.assertEqual(rest, whole)

    def test_loss_scales_that_are_none(self):
        (self.directory / 'net.cntk').write_text(CONFIG % (DENSE, '', 'dense', 'dense'), encoding='utf-8')
        make_data(self.directory / 'data.ctf', 10, 1, False)
        for scale in ('1000', '0.5', 'much'):
            result = self.run_trainer(['configFile=net.cntk', 'OutputDir=.', 'deviceId=0', 'computeType=float16', f'lossScale={scale}'], expect=None)
            self.assertIn(f"lossScale cannot be '{scale}'", result.text)
            self.assertIn('write auto, or a power of two', result.text)
        result = self.run_trainer(['configFile=net.cntk', 'OutputDir=.', 'deviceId=0', 'lossScale=64'])
        self.assertIn('lossScale has no effect', result.text)

    def test_two_ranks_share_a_gpu(self):
        cpu = self.criteria(DENSE, '-1', ranks=2)
        gpu = self.criteria(DENSE, '0', ranks=2)
        for a, b in zip(cpu, gpu):
            self.assertAlmostEqual(a, b, delta=2e-4)
        methods = ('DataParallelSGD; DataParallelSGD = [ gradientBits = 1 ]', 'ASA', 'ASA; ASA = [ allReduce = library ]',
                   'BlockMomentumSGD; BlockMomentumSGD = [ blockSize = 96 ]',
                   'ASGD; DataParallelASGD = [ policy = sync; syncPeriod = 24; exchangeBits = 8 ]')
        settings = [f'SGD=[ParallelTrain=[parallelizationMethod={method}]]' for method in methods]
        said = [self.train_each(CONFIG % (DENSE, '', 'dense', 'dense'), settings, 2, 'OutputDir=.', f'deviceId={device}') for device in ('-1', '0')]
        self.assertIn('cuda:0', said[1][1])
        for method, of_cpu, of_gpu in zip(methods, *(parts for parts, _ in said)):
            with self.subTest(method):
                cpu, gpu = ([e['ce'][0] for e in support.epochs(part)] for part in (of_cpu, of_gpu))
                self.assertEqual((len(cpu), len(gpu)), (2, 2))
                for a, b in zip(cpu, gpu):
                    self.assertAlmostEqual(a, b, delta=5e-3)

    def test_ranks_on_a_gpu_and_on_the_cpu(self):
        script = self.write('some.sh', f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 1 ] && unset TUTTI_CUDA_LIBRARY\nexec "{support.TRAINER}" "$@"\n')
        script.chmod(0o755)
        for ranks, method in ((4, 'DataParallelSGD; DataParallelSGD = [ gradientBits = 1 ]' + IN_GROUPS), (2, 'ASA; ASA = [ allReduce = library ]'),
                              (2, 'DataParallelSGD; DataParallelSGD = [ gradientBits = 32 ]')):
            with self.subTest(method):
                sgd, extra = f'ParallelTrain = [ parallelizationMethod = {method} ]', ['Train=[SGD=[minibatchSize=12; numMBsToShowResult=3]]']
                cpu = self.criteria(DENSE, '-1', ranks=ranks, sgd=sgd, extra=extra)
                with mock.patch.object(support, 'TRAINER', str(script)):
                    mixed = self.criteria(DENSE, 'auto', ranks=ranks, sgd=sgd, extra=extra)
                for a, b in zip(cpu, mixed, strict=True):
                    self.assertAlmostEqual(a, b, delta=5e-3)
        with mock.patch.object(support, 'TRAINER', str(script)):
            checked = self.run_trainer(['configFile=net.cntk', 'OutputDir=.', 'deviceId=auto', '--check'], 2)
            result = self.run_trainer(['configFile=net.cntk', 'OutputDir=.', 'deviceId=auto', 'Train=[SGD=[ParallelTrain=[transport=nccl]]]'], 2, expect=None)
        self.assertRegex(checked.text, r'1 of 2 ranks compute on the CPU and the others on GPUs.* is rank 1 on .*: (cpu|built without CUDA)')
        self.assertIn('transport = nccl needs all ranks on the same kind of device, but some compute on GPUs and others on the CPU', result.text)

    def test_a_gpu_that_is_not_there(self):
        (self.directory / 'net.cntk').write_text(CONFIG % (DENSE, '', 'dense', 'dense'), encoding='utf-8')
        make_data(self.directory / 'data.ctf', 10, 1, False)
        result = self.run_trainer(['configFile=net.cntk', 'OutputDir=.', 'deviceId=7'], ranks=2, expect=None)
        self.assertIn('starting GPU 7: device: there is 1, numbered from 0', result.text)
        self.assertFalse((self.directory / 'models').exists())
        checked = self.run_trainer(['configFile=net.cntk', 'OutputDir=.', 'deviceId=7', '--check'])
        self.assertRegex(checked.text, 'deviceId = 7 is not available on this host: starting GPU 7.*; checked on the CPU instead, but a run would stop here')
        os.environ['TUTTI_CUDA_EMULATOR_WITHOUT_KERNELS'] = '1'
        self.addCleanup(os.environ.pop, 'TUTTI_CUDA_EMULATOR_WITHOUT_KERNELS')
        result = self.run_trainer(['configFile=net.cntk', 'OutputDir=.', 'deviceId=0'], expect=None)
        self.assertIn('starting GPU 0: kernels: ', result.text)
        self.assertIn('no kernel image is available', result.text)
        self.assertIn('gpu_architectures', result.text)
        self.assertFalse((self.directory / 'models').exists())
        os.environ['TUTTI_CUDA_LIBRARY'] = '/nowhere/libtutti_cuda.so'
        result = self.run_trainer(['configFile=net.cntk', 'OutputDir=.', 'deviceId=0'], expect=None)
        self.assertIn('loading the GPU part: /nowhere/libtutti_cuda.so', result.text)

    def test_one_bit_adam_is_refused(self):
        (self.directory / 'net.cntk').write_text(CONFIG % (DENSE, 'gradUpdateType = oneBitAdam; warmupSamples = 48', 'dense', 'dense'), encoding='utf-8')
        make_data(self.directory / 'data.ctf', 10, 1, False)
        result = self.run_trainer(['configFile=net.cntk', 'OutputDir=.', 'deviceId=0'], expect=None)
        self.assertIn('oneBitAdam does not run on a GPU', result.text)
        self.assertFalse((self.directory / 'models').exists())

    def test_compute_types_that_the_cpu_has_not(self):
        (self.directory / 'net.cntk').write_text(CONFIG % (DENSE, '', 'dense', 'dense'), encoding='utf-8')
        make_data(self.directory / 'data.ctf', 10, 1, False)
        result = self.run_trainer(['configFile=net.cntk', 'OutputDir=.', 'deviceId=-1', 'computeType=tf32'], expect=None)
        self.assertIn('tf32 and float16 need a GPU', result.text)


if __name__ == '__main__':
    support.main()
