# SPDX-License-Identifier: Apache-2.0
"""Every network of samples/ has the number of parameters that it is known by and makes a few steps on made-up data."""
import concurrent.futures
import math
import re
import shutil
import unittest

import support

# config: parameters, options, minibatch and samples of the sweep (sequences, where it has them); 0: larger than another
# with the same layers, and only checked
SAMPLES = {
    'mnist/mnist': (318_010, [], 8, 16),
    'mnist/lenet': (431_080, [], 8, 16),
    'cifar10/resnet20': (272_474, [], 4, 8),
    'cifar10/resnet110': (1_730_714, [], 2, 4),
    'imagenet/alexnet': (60_965_224, [], 1, 2),
    'imagenet/googlenet': (13_378_280, [], 1, 2),
    'imagenet/vgg16': (138_357_544, [], 1, 1),
    'imagenet/vgg19': (143_667_240, [], 0, 0),
    'imagenet/resnet50': (25_966_832, ['Classes=1200'], 2, 4),
    'hybrid/alexnet': (60_965_224, [], 0, 0),
    'hybrid/vgg-e': (116_404_264, ['Pooling=3'], 1, 1),
    'events/events': (3_263, [], 1000, 40),
    'atis/atis': (721_479, [], 70, 20),
    'atis/bidirectional': (901_479, [], 70, 20),
    'characters/characters': (2_165_825, [], 300, 6),
}
# With dense layers of up to half a gigabyte of weights, whose gradients, momentum and files take longer than all else: they train with narrow
# ones (test_parameters counts the weights), and not at all under a sanitizer.
LARGE = {'imagenet/vgg16', 'imagenet/vgg19', 'imagenet/alexnet', 'hybrid/alexnet', 'hybrid/vgg-e'}


class SamplesTest(support.TrainerTest):
    def test_every_config_is_tried(self):
        folder = support.SOURCE / 'samples'
        configs = {str(p.relative_to(folder).with_suffix('')) for p in folder.glob('*/*.cntk') if p.stem != 'data' and p.parent.name != 'methods'} - {'hybrid/words'}
        self.assertEqual(configs - {'digits/digits', 'simple2d/simple2d'}, set(SAMPLES))

    def test_methods_learn_digits(self):
        """samples/methods as they stand but for fewer digits: each learns, and some preset of configs/ is behind each."""
        folder = support.SOURCE / 'samples' / 'methods'
        names = sorted(p.stem for p in folder.glob('*.cntk') if p.stem not in ('common', 'mnist'))
        self.assertGreaterEqual(len(names), 10)
        for name in names:
            with self.subTest(name):
                self.run_trainer([f'configFile={folder / name}.cntk', 'OutputDir=out', 'makeMode=false', 'numCPUThreads=1', 'Train=[SGD=[maxEpochs=4]]',
                                  'trainData="readerType=SyntheticReader; kind=digits; samples=4000"', 'Test=[epochSize=2000]'], 2)
                log = (self.directory / 'out' / f'{name}.log').read_text(encoding='utf-8')
                shutil.rmtree(self.directory / 'out')
                self.assertLess(support.final_results(log)['errs'][0], 0.3, log)

    def log_of(self, name):
        """What a run on one core prints; without the model that it leaves behind."""
        _, options, minibatch, samples = SAMPLES[name]
        out = self.directory / name.replace('/', '_')
        configs = (self.directory if name in LARGE else support.SOURCE) / 'samples'
        self.run_trainer([f'configFile={configs / name}.cntk', 'command=Synthetic', f'OutputDir={out}', 'makeMode=false', 'numCPUThreads=1',
                          f'stderr={out}/log', f'Synthetic=[SGD=[minibatchSize={minibatch}];reader=[samples={samples}]]', *options])
        log = (out / 'log').read_text(encoding='utf-8')
        shutil.rmtree(out)
        return log

    def test_parameters(self):
        for name, (parameters, options, _, _) in SAMPLES.items():
            result = self.run_trainer(['--check', f'configFile={support.SOURCE / "samples" / name}.cntk', 'command=Synthetic', 'OutputDir=out', *options])
            self.assertIn(f'; {parameters} parameters in ', result.text)

    def write_narrow_copies(self):
        for folder in ('samples', 'configs'):
            shutil.copytree(support.SOURCE / folder, self.directory / folder)
        for name in ('alexnet', 'vgg16'):  # which the others include
            path = self.directory / f'samples/imagenet/{name}.cntk'
            text = path.read_text(encoding='utf-8')
            self.assertEqual(text.count('Dense {4096}'), 2)
            path.write_text(text.replace('Dense {4096}', 'Dense {64}'), encoding='utf-8')

    def test_trains_on_synthetic_data(self):
        self.write_narrow_copies()
        names = [name for name, (_, _, minibatch, _) in SAMPLES.items() if minibatch > 0 and not (support.SANITIZED and name in LARGE)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            logs = {name: pool.submit(self.log_of, name) for name in names}
        for name in names:
            with self.subTest(name):
                log = logs[name].result()
                trained = int(re.search(r'Training (\d+) parameters in', log).group(1))
                (self.assertLess if name in LARGE else self.assertEqual)(trained, SAMPLES[name][0])
                steps = re.findall(r'Minibatch\[.*?: (\w+) = (\S+) \* \d+', log)
                self.assertGreaterEqual(len(steps), 1, log)
                for criterion, value in steps:
                    self.assertTrue(math.isfinite(float(value)), f'{criterion} = {value}\n{log}')


if __name__ == '__main__':
    unittest.main()
