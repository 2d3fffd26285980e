#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_pytorch.py -- training speed and memory of the networks of samples/ against PyTorch: the same network, batch and core.

Both sides do whole training steps (forward, loss, backward, SGD with momentum) on made-up data that lie ready in memory. They take turns,
pinned to one core, each run a process of its own; medians over the rounds count. PyTorch runs at its better setting, channels-last or not.
Rates are also shown as a share of the rate of a large matrix product on that core, measured between the runs.

  scripts/compare_pytorch.py                              all networks, float32; makes a virtual environment with PyTorch once
  scripts/compare_pytorch.py --models lenet,vgg16 --dtype bfloat16 --seconds 10 --rounds 5
  scripts/compare_pytorch.py --venv PATH --write          uses an environment that is there; writes docs/results/pytorch.md
  scripts/compare_pytorch.py --isa avx2 --threads 2       both sides without AVX-512, on two cores
  scripts/compare_pytorch.py --device cuda --dtype tf32   on the first GPU, with the batches of the field; --write: docs/results/gpu.md
  scripts/compare_pytorch.py --compiled                   PyTorch by torch.compile(mode="max-autotune"), in a table of its own

Compiling takes minutes for each network and layout; it is not measured. On a GPU no core is pinned and no product is measured, and peak memory is not shown.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = {'cpu': ROOT / 'docs' / 'results' / 'pytorch.md', 'cuda': ROOT / 'docs' / 'results' / 'gpu.md'}
WARM_UP = 3  # steps that do not count


class Model:
    """A config of samples/ and how it is run: rows per batch, samples that a row counts for, minibatches per measured interval."""

    def __init__(self, title, config, batch, steps=1, interval=1, image=False, options=()):
        self.title, self.config, self.batch, self.steps = title, ROOT / 'samples' / config, batch, steps
        self.interval, self.image, self.options = interval, image, list(options)


MODELS = {
    'mlp': Model('MLP 784-3x2048-10', 'mnist/mnist.cntk', 256, options=['Hidden=2048', 'Layers=3']),
    'lenet': Model('LeNet', 'mnist/lenet.cntk', 64, interval=5, image=True),
    'resnet20': Model('ResNet-20', 'cifar10/resnet20.cntk', 128, image=True),
    'alexnet': Model('AlexNet', 'imagenet/alexnet.cntk', 32, image=True),
    'googlenet': Model('GoogLeNet', 'imagenet/googlenet.cntk', 32, image=True),
    'vgg16': Model('VGG-16', 'imagenet/vgg16.cntk', 8, image=True),
    'resnet50': Model('ResNet-50', 'imagenet/resnet50.cntk', 8, image=True, options=['Classes=1200']),
    'lstm20': Model('LSTM-20', 'events/events.cntk', 100, 100, interval=10),
    'lstm512': Model('LSTM-512', 'characters/characters.cntk', 32, 32, options=['Steps=32']),
}


BATCHES_ON_GPU = {'lenet': 512, 'resnet20': 512, 'alexnet': 128, 'googlenet': 128, 'vgg16': 64, 'resnet50': 128}


class Measurement:
    """Samples per second of every interval or step, peak memory in MB, trained parameters, multiply-adds per row."""

    def __init__(self, rate, memory, parameters, work=0, version=''):
        self.rate, self.memory, self.parameters, self.work, self.version = rate, memory, parameters, work, version


# Limits of the libraries on both sides: oneDNN (which Tutti's own kernels follow), MKL, ATen, and OpenBLAS.
WITHOUT_AVX512 = {'ONEDNN_MAX_CPU_ISA': 'AVX2', 'DNNL_MAX_CPU_ISA': 'AVX2', 'MKL_ENABLE_INSTRUCTIONS': 'AVX2', 'ATEN_CPU_CAPABILITY': 'avx2',
                  'OPENBLAS_CORETYPE': 'Haswell'}


def run(command, arguments, **options):
    """Runs the command, on the cores of the arguments if any; returns its output and its peak memory in MB."""
    env = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads))
    if arguments.isa == 'avx2':
        env |= WITHOUT_AVX512
    pinned = [] if arguments.cpu is None else ['taskset', '-c', arguments.cpu]
    if os.geteuid() == 0:
        env['OMPI_ALLOW_RUN_AS_ROOT'] = env['OMPI_ALLOW_RUN_AS_ROOT_CONFIRM'] = '1'
    with tempfile.TemporaryFile('w+') as output:
        child = subprocess.Popen([*pinned, *map(str, command)], stdout=output, stderr=subprocess.STDOUT, env=env, **options)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if child.returncode != 0:
        raise RuntimeError(f'{" ".join(map(str, command))}\nended with exit code {child.returncode}:\n{text[-4000:]}')
    return text, usage.ru_maxrss / 1024


def measure_trainer(arguments, model, step_seconds):
    """Trains as long as asked; `step_seconds` is the last known time of a step, or None."""
    steps = max(WARM_UP + 3, math.ceil(arguments.seconds / step_seconds) if step_seconds else 0)
    intervals = max(3, math.ceil((steps - WARM_UP) / model.interval))
    steps = model.interval * (intervals + math.ceil(WARM_UP / model.interval))
    rows = model.batch * steps
    with tempfile.TemporaryDirectory(prefix='tutti-compare-') as folder:
        sgd = f'minibatchSize={model.batch * model.steps};epochSize={rows * model.steps};maxEpochs=1;numMBsToShowResult={model.interval}'
        options = [f'Synthetic=[SGD=[{sgd}];reader=[samples={rows}]]', f'numCPUThreads={arguments.threads}', 'traceLevel=1', 'makeMode=false',
                   f'OutputDir={folder}', f'stderr={folder}/run.log', 'command=Synthetic']
        if arguments.dtype != 'float32':
            options.append(f'computeType={arguments.dtype}')
        if arguments.device == 'cuda':
            options.append('deviceId=0')
        _, memory = run([arguments.trainer, f'configFile={model.config}', *model.options, *options], arguments)
        log = (pathlib.Path(folder) / 'run.log').read_text(encoding='utf-8')
    rates = [float(r) for r in re.findall(r'samplesPerSecond = ([\d.]+)', log)][math.ceil(WARM_UP / model.interval):]
    parameters = re.search(r'Training (\d+) parameters', log)
    if not rates or not parameters:
        raise RuntimeError(f'the trainer printed no speed:\n{log[-3000:]}')
    return Measurement(statistics.median(rates), memory, int(parameters.group(1)))


def measure_pytorch(arguments, name, model, channels_last):
    command = [arguments.python, ROOT / 'scripts' / 'pytorch_models.py', name, '--batch', model.batch, '--seconds', arguments.seconds]
    command += ['--channels-last'] if channels_last else []
    command += ['--compiled'] if arguments.compiled else []
    command += ['--dtype', arguments.dtype, '--device', arguments.device]
    text, memory = run(command, arguments)
    found = json.loads([line for line in text.splitlines() if line.startswith('{')][-1])  # compilers may say something as well
    rate = model.batch * model.steps / statistics.median(found['seconds'])
    if arguments.device == 'cuda':
        arguments.processor = found['device']
    return Measurement(rate, memory, found['parameters'], found['multiply_adds'], found['version'])


def product_rate(arguments):
    """GFLOP/s of oneDNN's matrix product of 2048 x 2048 x 2048 with packed weights."""
    text, _ = run([arguments.gemm, 2048, 2048, 2048, 0.5, arguments.dtype], arguments)
    return float(text.split()[0])


class Comparison:
    """All rounds of one network."""

    def __init__(self, name):
        self.name, self.model = name, MODELS[name]
        self.ours, self.products = [], []
        self.tried = {layout: [] for layout in ((False, True) if self.model.image else (False,))}  # by channels-last or not

    @property
    def channels_last(self):
        """Whether that is PyTorch's better setting."""
        return max(self.tried, key=lambda layout: statistics.median(m.rate for m in self.tried[layout]))

    @property
    def pytorch(self):
        return self.tried[self.channels_last]

    def round(self, arguments):
        model = self.model
        step = model.batch * model.steps / self.ours[-1].rate if self.ours else None
        ours = measure_trainer(arguments, model, step)
        if not self.ours:  # the first run only told how long a step takes
            ours = measure_trainer(arguments, model, model.batch * model.steps / ours.rate)
        if arguments.device == 'cpu':
            self.products.append(product_rate(arguments))
        for layout, found in self.tried.items():
            found.append(measure_pytorch(arguments, self.name, model, layout))
        pytorch = self.pytorch[-1]
        if ours.parameters != pytorch.parameters and not self.known_difference(ours, pytorch):
            raise RuntimeError(f'{self.name}: {ours.parameters} parameters here, {pytorch.parameters} in PyTorch')
        self.ours.append(ours)

    def known_difference(self, ours, pytorch):
        """PyTorch's LSTM has two bias vectors that are only ever added up."""
        hidden = {'lstm20': 20, 'lstm512': 512}.get(self.name, 0)
        return pytorch.parameters - ours.parameters == 4 * hidden

    def ratio(self):
        return statistics.median(a.rate / b.rate for a, b in zip(self.ours, self.pytorch))

    def share(self, side):
        flop = 2e-9 * self.pytorch[0].work / self.model.steps
        return statistics.median(m.rate * flop / g for m, g in zip(side, self.products))

    def cells(self):
        ours, pytorch = (statistics.median(m.rate for m in side) for side in (self.ours, self.pytorch))
        memory = [max(m.memory for m in side) for side in (self.ours, self.pytorch)]
        speed = ['', '', '', ''] if not self.products else [
            f'{self.share(self.ours):.0%}', f'{self.share(self.pytorch):.0%}', f'{memory[0]:,.0f}', f'{memory[1]:,.0f}']
        return [self.model.title, f'{self.model.batch}' + (f' x {self.model.steps}' if self.model.steps > 1 else ''),
                f'{self.ours[0].parameters:,}', f'{ours:,.1f}', f'{pytorch:,.1f}', 'channels last' if self.channels_last else 'plain',
                f'{self.ratio():.2f}', *speed]


HEADERS = ['network', 'batch', 'parameters', 'samples/s', 'PyTorch', 'layout', 'ratio', 'of product', "PyTorch's", 'peak MB', "PyTorch's"]


def table(comparisons):
    rows = [HEADERS, ['---', *['---:'] * 4, '---', *['---:'] * 5], *[c.cells() for c in comparisons]]
    return '\n'.join('| ' + ' | '.join(row) + ' |' for row in rows)


def summary(comparisons):
    ratios = [c.ratio() for c in comparisons]
    products = [p for c in comparisons for p in c.products]
    mean = math.exp(statistics.fmean(math.log(r) for r in ratios))
    text = f'Geometric mean of the ratios {mean:.2f}, smallest {min(ratios):.2f}.'
    if not products:
        return text
    return (f'{text} Matrix product on the core: {statistics.median(products):.1f} GFLOP/s ({min(products):.1f} to {max(products):.1f}).')


def processor():
    for line in pathlib.Path('/proc/cpuinfo').read_text(encoding='utf-8').splitlines():
        if line.startswith('model name'):
            return line.split(':', 1)[1].strip()
    return 'unknown processor'


def avx2(arguments):
    """Whether both sides compute without AVX-512, by the processor or by --isa."""
    flags = re.search(r'^flags\s*:(.*)$', pathlib.Path('/proc/cpuinfo').read_text(encoding='utf-8'), re.MULTILINE)
    return arguments.device == 'cpu' and (arguments.isa == 'avx2' or flags is None or ' avx512f ' not in flags.group(1))


def table_title(arguments):
    """Of the number type, instruction set, number of threads, and how PyTorch runs: each has a table of its own."""
    return (arguments.dtype + (', AVX2' if avx2(arguments) else '') + (f', {arguments.threads} threads' if arguments.threads > 1 else '')
            + (', torch.compile' if arguments.compiled else ''))


def command_line(arguments):
    command = f'scripts/compare_pytorch.py --device {arguments.device} --dtype {arguments.dtype} --seconds {arguments.seconds:g} --rounds {arguments.rounds}'
    command += ' --isa avx2' if arguments.isa == 'avx2' else ''
    command += f' --threads {arguments.threads}' if arguments.threads > 1 else ''
    return command + (' --compiled' if arguments.compiled else '')


def commit_text():
    """"commit 1234abcd"; empty outside of a clone."""
    try:
        done = subprocess.run(['git', '-C', ROOT, 'rev-parse', '--short', 'HEAD'], capture_output=True, text=True, check=False)
    except OSError:
        return ''
    return f'commit {done.stdout.strip()}' if done.returncode == 0 else ''


def section_text(arguments, comparisons):
    title = table_title(arguments)
    cores = 'one core' if arguments.threads == 1 else f'{arguments.threads} cores'
    where = f'{cores} of an {processor()}' if arguments.device == 'cpu' else f'an {arguments.processor}'
    facts = [f'PyTorch {comparisons[0].pytorch[0].version}', commit_text(), f'{datetime.date.today()}']
    return '\n'.join([f'<!-- {title} -->', f'## {title}', '', table(comparisons), '', summary(comparisons), '',
                      f'`{command_line(arguments)}`', f'on {where}, {", ".join(f for f in facts if f)}.', f'<!-- end of {title} -->'])


def write_results(arguments, comparisons):
    """Puts the table into the page; those with other titles stay."""
    title, results, section = table_title(arguments), RESULTS[arguments.device], section_text(arguments, comparisons)
    begin, end = f'<!-- {title} -->', f'<!-- end of {title} -->'
    text = results.read_text(encoding='utf-8') if results.exists() else '# Speed against PyTorch\n'
    old = re.search(re.escape(begin) + '.*?' + re.escape(end), text, re.DOTALL)
    text = text[:old.start()] + section + text[old.end():] if old else text.rstrip() + '\n\n' + section + '\n'
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(text, encoding='utf-8')
    print(f'written to {results}')


def has_pytorch(python):
    return subprocess.run([python, '-c', 'import torch'], capture_output=True, check=False).returncode == 0


def environment_with_pytorch(folder):
    """The interpreter of a virtual environment that has PyTorch; our own where that has it and there is no such environment, which else is
    made. None, and why, when that fails."""
    python = folder / 'bin' / 'python'
    try:
        if not python.exists() and has_pytorch(sys.executable):
            return pathlib.Path(sys.executable), ''
        if not python.exists():
            print(f'making a virtual environment in {folder}', file=sys.stderr)
            venv.create(folder, with_pip=True)
        if not has_pytorch(python):
            print('installing PyTorch (some hundred MB)', file=sys.stderr)
            done = subprocess.run([python, '-m', 'pip', 'install', '--quiet', 'torch', 'numpy'], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return None, f'pip could not install it: {(done.stderr.strip().splitlines() or ["no reason given"])[-1]}'
        return python, ''
    except (OSError, subprocess.SubprocessError) as error:
        return None, str(error)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--models', default=','.join(MODELS), help='names, separated by commas: ' + ', '.join(MODELS))
    parser.add_argument('--dtype', choices=('float32', 'tf32', 'bfloat16', 'float16'), default='float32')
    parser.add_argument('--device', choices=('cpu', 'cuda'), default='cpu')
    parser.add_argument('--seconds', type=float, default=5, help='of training in each run')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--isa', choices=('native', 'avx2'), default='native', help='avx2: both sides without AVX-512')
    parser.add_argument('--threads', type=int, default=1, help='of each side, on as many cores')
    parser.add_argument('--compiled', action='store_true', help='PyTorch by torch.compile(mode="max-autotune"), not eagerly')
    parser.add_argument('--cpu', help='the core, or a list of cores as of taskset; default: the last ones')
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build')
    parser.add_argument('--venv', type=pathlib.Path, default=ROOT / 'build' / 'pytorch', help='virtual environment; made if it is not there')
    parser.add_argument('--write', action='store_true', help='writes the table to docs/results')
    arguments = parser.parse_args()
    arguments.trainer = arguments.build.resolve() / 'trainer'
    arguments.gemm = arguments.build.resolve() / 'benchmarks' / 'gemm_rate'
    on_gpu = arguments.device == 'cuda'
    if not on_gpu and arguments.dtype in ('tf32', 'float16'):
        parser.error(f'the CPU does not compute in {arguments.dtype}: add --device cuda')
    allowed = sorted(os.sched_getaffinity(0))
    if not 1 <= arguments.threads <= len(allowed):
        parser.error(f'--threads must be from 1 to {len(allowed)}, the cores that are there')
    arguments.cpu = arguments.cpu or ','.join(map(str, allowed[-arguments.threads:]))
    if on_gpu:
        arguments.cpu = None
        for name, batch in BATCHES_ON_GPU.items():
            MODELS[name].batch = batch
    for program in [arguments.trainer] if on_gpu else [arguments.trainer, arguments.gemm]:
        if not program.exists():
            parser.error(f'{program} is not there: ninja -C {arguments.build} trainer benchmarks/gemm_rate, or name another --build')
    arguments.names = arguments.models.split(',')
    for name in arguments.names:
        if name not in MODELS:
            parser.error(f"there is no network '{name}'; choose from {', '.join(MODELS)}")
    return arguments


def main():
    arguments = parse_arguments()
    arguments.python, why = environment_with_pytorch(arguments.venv)
    if arguments.python is None:
        print(f'skipped: there is no PyTorch to compare with; {why}')
        return 0
    done, failed = [], []
    for name in arguments.names:
        comparison = Comparison(name)
        try:
            for turn in range(arguments.rounds):
                comparison.round(arguments)
                ours, pytorch = comparison.ours[-1], comparison.pytorch[-1]
                print(f'{name}: round {turn + 1} of {arguments.rounds}: {ours.rate:.1f} and {pytorch.rate:.1f} samples/s, ratio '
                      f'{ours.rate / pytorch.rate:.3f}; {ours.memory:.0f} and {pytorch.memory:.0f} MB', file=sys.stderr)
            done.append(comparison)
            if arguments.write:  # at once: whoever ends this run keeps what is there
                write_results(arguments, done)
            print(summary(done), flush=True)
        except RuntimeError as error:
            print(f'{name} failed: {error}', file=sys.stderr)
            failed.append(name)
    if done:
        print(table(done))
        print()
        print(summary(done))
    if failed:
        print(f'failed: {", ".join(failed)}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
