# SPDX-License-Identifier: Apache-2.0
"""The scripts beside the program: the layout check finds what it is for, the summary reads what the trainer logs,
the data scripts unpack what they are given."""
import argparse
import dataclasses
import importlib
import io
import os
import pathlib
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree
import zlib

import support

LOG = '''\
Finished Epoch[ 1 of 2]: [Training] ce = 0.60000000 * 10000; errs = 31.250% * 10000; totalSamplesSeen = 10000; learningRatePerSample = 0.0099999998; epochTime=2s
Exchange of Epoch[ 1 of 2]: 1.50 MB sent by this rank of 2, 1.000 bits per value, 1/32.0 of float32
Finished Epoch[ 2 of 2]: [Training] ce = 0.50000000 * 10000; errs = 21.250% * 10000; totalSamplesSeen = 20000; learningRatePerSample = 0.0099999998; epochTime=0.5s
Exchange of Epoch[ 2 of 2]: 500.00 kB sent by this rank of 2, 2.000 bits per value, 1/16.0 of float32
Final Results: Minibatch[1-3]: errs = 5.120% * 600; ce = 0.12345678 * 600; perplexity = 1.13140010
'''
SOUND = {
    'include/tutti/shape.h': '// SPDX-License-Identifier: Apache-2.0\n#pragma once\n#include <string>\nstd::string f();\n',
    'include/tutti/graph.h': '// SPDX-License-Identifier: Apache-2.0\n#pragma once\n#include "tutti/shape.h"\n',
    'src/graph/a.cpp': '// SPDX-License-Identifier: Apache-2.0\n#include "graph/a.h"\n#include "tutti/graph.h"\n',
    'src/graph/a.h': '// SPDX-License-Identifier: Apache-2.0\n#include <string>\n',
    'src/comm/mpi.cpp': '// SPDX-License-Identifier: Apache-2.0\n#include <mpi.h>\n',
}


class LayoutTest(support.TrainerTest):
    def check(self, **changed):
        """The verdict on the sound tree with some files replaced: (exit code, text)."""
        for name, text in {**SOUND, **changed.get('files', {})}.items():
            self.write(name, text)
        done = subprocess.run([sys.executable, support.SOURCE / 'scripts/check_layout.py', self.directory], capture_output=True,
                              text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_sound_tree(self):
        code, text = self.check()
        self.assertEqual(code, 0, text)

    def test_findings(self):
        spdx = '// SPDX-License-Identifier: Apache-2.0\n'
        for name, content, place in (
                ('src/parallel/bad.cpp', spdx + '#include "tutti/graph.h"\n', 'src/parallel/bad.cpp:2'),
                ('src/parallel/bad.cpp', spdx + '#include "graph/a.h"\n', 'src/parallel/bad.cpp:2'),
                ('src/base/bad.cpp', spdx + '\n#include "graph/a.h"\n', 'src/base/bad.cpp:3'),
                ('src/train/bad.cpp', spdx + '#include <mpi.h>\n', 'src/train/bad.cpp:2'),
                ('src/graph/bad.cpp', spdx + '#include <dnnl.hpp>\n', 'src/graph/bad.cpp:2'),
                ('src/graph/bad.cpp', spdx + '#include "nothing.h"\n', 'src/graph/bad.cpp:2'),
                ('src/graph/bad.cpp', '#include <string>\n', 'src/graph/bad.cpp:1'),
                ('include/tutti/shape.h', spdx + '#pragma once\nstd::string f();\n', 'include/tutti/shape.h: does not compile alone'),
                ('src/graph/bad.h', spdx + '#include <string>\nstd::int64_t f();\n', 'src/graph/bad.h'),
                ('src/fresh/bad.cpp', spdx, 'src/fresh/bad.cpp')):
            with self.subTest(file=name, content=content):
                code, text = self.check(files={name: content})
                self.assertEqual(code, 1)
                self.assertIn(place, text)
                (self.directory / name).unlink()


class PagesTest(support.TrainerTest):
    def check(self, pages, *flags):
        for name, text in {**SOUND, **pages}.items():
            self.write(name, text)
        done = subprocess.run([sys.executable, support.SOURCE / 'scripts/check_layout.py', *flags, self.directory],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_sound_pages(self):
        code, text = self.check({'docs/README.md': '# Pages\n\n[a](a.md#some-words-b)\n', 'docs/a.md': '# Some words: `b`\n[c](sub/c.md)\n',
                                 'docs/sub/c.md': '[up](../../src/graph/a.h) [web](https://example.org/x)\n```\n[x](no.md)\n```\n'}, '--docs')
        self.assertEqual(code, 0, text)

    def test_findings(self):
        for name, content, finding in (
                ('docs/a.md', 'x' * 121, 'docs/a.md:1: 121 characters'),
                ('docs/a.md', 'word ' * 20 + '\n' + ('word ' * 20 + '\n') * 125, 'docs/a.md: 2520 words'),
                ('docs/a.md', '[x](b.md)', 'docs/a.md: there is no b.md'),
                ('docs/a.md', '`src/graph/gone.cpp`', 'docs/a.md: there is no file src/graph/gone.cpp'),
                ('docs/a.md', '[x](README.md#nothing)', 'docs/a.md: docs/README.md has no heading #nothing'),
                ('docs/alone.md', 'x', 'docs/alone.md: no link from docs/README.md leads to this page')):
            with self.subTest(finding):
                pages = {'docs/README.md': '# Pages\n[a](a.md)\n', 'docs/a.md': '# A\n', name: content}
                code, text = self.check(pages, '--docs')
                self.assertEqual(code, 1)
                self.assertIn(finding, text)
        self.assertEqual(self.check(pages)[0], 0)  # without the flag

    def test_every_page_of_results_has_a_row_in_their_table(self):
        pages = {'docs/README.md': '[r](results/README.md)\n', 'docs/results/a.md': '# A\n',
                 'docs/results/README.md': '| page | |\n|---|---|\n| [b](b.md) | see [a](a.md) |\n', 'docs/results/b.md': '# B\n'}
        code, text = self.check(pages, '--docs')
        self.assertEqual((code, text.splitlines()[0]), (1, 'docs/results/a.md: add a row for this page to the table of docs/results/README.md'))
        pages['docs/results/README.md'] += '| [a](a.md) | |\n'
        code, text = self.check(pages, '--docs')
        self.assertEqual(code, 0, text)


class SummaryTest(support.TrainerTest):
    def test_summary(self):
        log = self.write('run.log', LOG)
        done = subprocess.run([sys.executable, support.SOURCE / 'scripts/summarize.py', log, '--model', 'm.dnn'], capture_output=True,
                              text=True, check=True)
        self.assertRegex(done.stdout, r'Test error +5\.12 % of 600 ')
        self.assertRegex(done.stdout, r'Training speed +20,000 samples/s on 2 ranks')  # the first epoch warms up
        self.assertRegex(done.stdout, r'Sent by each rank +2\.0 MB; as float32 it would be 56\.0 MB, 28\.0 times')
        self.assertRegex(done.stdout, r'Model +m\.dnn')

    def test_log_of_a_resumed_run(self):
        """The epoch that was interrupted behind its line, and trained again, counts once."""
        cut = LOG.index('Finished Epoch', LOG.index('Finished Epoch') + 1)
        end = LOG.index('\n', cut) + 1
        log = self.write('run.log', LOG[:end] + 'Log continued at 2026/01/01 00:00:00; the lines above are from earlier runs.\n' + LOG[cut:])
        once, twice = (subprocess.run([sys.executable, support.SOURCE / 'scripts/summarize.py', f], capture_output=True, text=True, check=True).stdout
                       for f in (self.write('once.log', LOG), log))
        self.assertEqual(once.replace('once.log', 'run.log'), twice)


class TimeToAccuracyTest(unittest.TestCase):
    def setUp(self):
        sys.path.insert(0, str(support.SOURCE / 'scripts'))
        self.addCleanup(sys.path.remove, str(support.SOURCE / 'scripts'))
        import time_to_accuracy
        import time_to_accuracy_page
        self.script, self.page = time_to_accuracy, time_to_accuracy_page

    def results(self, *seconds, limit=45):
        """Of one rank on MNIST: a run for each number, None for one that missed the target."""
        runs = [{'network': 'mnist', 'hosts': 1, 'link': 'none', 'method': 'one', 'seed': i, 'limit': limit, 'reached': s is not None,
                 'evaluations': [[1, 97], [s or limit, 99]]} for i, s in enumerate(seconds)]
        return self.page.Results(self.script.NETWORKS, self.script.METHODS, runs).cell(('mnist', 1, 'none', 'one'))

    def test_the_best_and_the_worst_do_not_count(self):
        self.assertEqual(self.results(10, 20, 90), '20.0 (2)')
        self.assertEqual(self.results(10, 20, 30, 40, 50), '30.0 (2)')
        self.assertEqual(self.results(10, 20), '15.0 (2, 2 seeds)')
        self.assertEqual(self.results(10, 20, None), '20.0 (2)')
        self.assertEqual(self.results(10, None, None), '> 45')
        self.assertEqual(self.results(10, None), '> 45')

    def test_networks_without_runs_keep_their_part_of_the_page(self):
        def write(folder, network, seconds):
            run = {'network': network, 'hosts': 1, 'link': 'none', 'method': 'one', 'seed': 1, 'limit': 45, 'reached': True,
                   'evaluations': [[seconds, 99]], 'date': '2026-12-01'}
            self.page.Results(self.script.NETWORKS, self.script.METHODS, [run]).write(folder, self.script.sgd_settings)
            return (folder / 'time-to-accuracy.md').read_text(encoding='utf-8')

        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.assertIn('Not run yet: `scripts/time_to_accuracy.py --networks mnist --write`.', write(folder, 'atis', 71))
            both = write(folder, 'mnist', 82)
            self.assertRegex(both, r'(?s)## MNIST.*\*\*82\.0 .*## ATIS.*\*\*71\.0 .*## CIFAR-10.*Not run yet.*## Settings')
            self.assertEqual(write(folder, 'mnist', 82), both)

    def test_settings_depend_on_method_and_ranks(self):
        network, methods = self.script.NETWORKS['mnist'], self.script.METHODS
        alone, averaged = (self.script.sgd_settings(network, methods['easgd'], ranks) for ranks in (1, 4))
        self.assertIn('minibatchSize=128;learningRatesPerMB=0.8*6', alone)
        self.assertNotIn('ParallelTrain', alone)
        self.assertIn('minibatchSize=128;learningRatesPerMB=3.2*6', averaged)
        self.assertIn('ParallelTrain=[parallelizationMethod=EASGD;EASGD=[period=10]]', averaged)
        summed, averaged = (self.script.sgd_settings(self.script.NETWORKS['atis'], methods[m], 4) for m in ('dp1', 'easgd'))
        self.assertIn('minibatchSize=70;learningRatesPerSample=0.01*2', summed)
        self.assertIn('minibatchSize=280;learningRatesPerSample=0.04*2', averaged)

    def test_other_seeds_of_a_case_that_is_too_slow_are_not_run(self):
        options = argparse.Namespace(limit=45)

        def too_slow(*runs):
            settings = self.script.sgd_settings(self.script.NETWORKS['mnist'], self.script.METHODS['dp32'], 2)
            finished = [{'network': 'mnist', 'method': 'dp32', 'hosts': 2, 'link': 'none', 'settings': settings, 'target': 98.2, 'limit': limit, 'reached': reached,
                         'evaluations': [[1, 97]] * epochs} for limit, reached, epochs in runs]
            return self.script.too_slow(finished, options, 'mnist', 'dp32', 2, 'none')
        self.assertFalse(too_slow())
        self.assertTrue(too_slow((45, False, 5)))
        self.assertFalse(too_slow((45, False, 6)))  # of 11
        self.assertFalse(too_slow((20, False, 3)))
        self.assertFalse(too_slow((45, True, 9), (45, False, 3)))


class ExchangeReportTest(unittest.TestCase):
    def test_rows(self):
        sys.path.insert(0, str(support.SOURCE / 'benchmarks'))
        self.addCleanup(sys.path.pop, 0)
        import exchange_report as report
        run = report.Run
        found = {('a', 'none'): [run(0.1, 1e6, 0), run(0.2, 1e6, 0), run(0.1, 1e6, 0)], ('a', '100mbit'): [run(0.2, 1e6, 0.04)], ('b', '100mbit'): [run(1, 0, 0)],
                 ('32bit', '100mbit'): [run(0.5, 4e6, 0.5)]}
        labels = {'a': 'A', 'b': 'B', '32bit': 'C', 'd': 'D'}
        rows = report.rows(found, labels, (2, 2), {'none': None, '100mbit': 10**8}, {'a': 30, 'b': None}, {'a': 10}, 256, {'d': 'first line\n[rank 0] a | b\nlast'})
        self.assertEqual([(r.label, r.link, r.rate) for r in rows],
                         [('A', 'no limit', 2560), ('A', '100mbit', 1280), ('B', '100mbit', 256), ('C', '100mbit', 512), ('D', 'all', None)])
        self.assertEqual(rows[0].others, ['100.0 %', '1', report.NONE, report.NONE])  # how long its warm-up takes there is not known
        self.assertEqual(rows[1].others, ['50.0 %', '1', '75.0 %', '9.0'])  # 0.04 s of 0.16 s on the wire; 20 steps behind 10 in 32 bits
        self.assertEqual(rows[2].others, [report.NONE] * 4)
        self.assertEqual(rows[4].step, 'failed: [rank 0] a / b')
        page = report.Report(None, '', 0.5, list(labels.values()))
        page.put([dataclasses.replace(rows[2], rate=1.0)])
        page.put(rows)  # the last one measured counts
        self.assertEqual(page.rows, rows)
        lines = page.table().splitlines()
        self.assertEqual(len({line.count('|') for line in lines}), 1)
        self.assertEqual(lines[3], '|  | 2 × 2 | 100mbit | 200.0 | 1280 | 50.0 % | 1 | 75.0 % | 9.0 |')
        self.assertEqual(report.read_rows('\n'.join(lines)), rows)
        drawn = xml.etree.ElementTree.fromstring(report.drawing(rows))
        self.assertEqual(sum(e.text in ('2560', '1280', '256') for e in drawn.iter() if e.get('font-size') == '10'), 3)


def script(name, *args):
    """(exit code, text) of one of the scripts."""
    done = subprocess.run([support.SOURCE / 'scripts' / name, *map(str, args)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


class CharacterTest(support.TrainerTest):
    def test_every_character_but_the_first_is_a_label_once(self):
        text = 'to be, or not\nto be\\'
        for length in (1, 4, 7, 100, 0):
            code, log = script('prepare_characters.py', self.write('a.txt', text), self.directory / 'out', '--length', length, '--valid', '0.25')
            self.assertEqual(code, 0, log)
            letters = (self.directory / 'out/vocabulary.txt').read_text(encoding='utf-8').splitlines()
            letters = [line.encode().decode('unicode_escape') for line in letters]
            self.assertEqual(letters, sorted(set(text)))
            for name, part in (('train', text[:15]), ('valid', text[15:])):
                lines = [line.split() for line in (self.directory / f'out/{name}.ctf').read_text(encoding='ascii').splitlines()]
                self.assertEqual(''.join(letters[int(line[2][:-2])] for line in lines), part[:-1])
                self.assertEqual(''.join(letters[int(line[4][:-2])] for line in lines), part[1:])
                self.assertEqual([int(line[0]) for line in lines], [i // (length or 1000) for i in range(len(part) - 1)])

    def test_errors(self):
        code, log = script('prepare_characters.py', self.write('a.txt', 'x'), self.directory)
        self.assertEqual(code, 1)
        self.assertIn('too short', log)
        code, log = script('get_tinyshakespeare.sh', '--from', self.write('a.txt', 'not Shakespeare'), self.directory / 'out')
        self.assertEqual(code, 1)
        self.assertIn('SHA-256', log)


class CifarTest(support.TrainerTest):
    RECORDS = [bytes([label]) + bytes((label * 7 + i * i) % 256 for i in range(3072)) for label in (3, 9, 0)]

    def archive(self, name, members):
        path = self.directory / name
        with tarfile.open(path, 'w:gz') as tar:
            for member, content in members.items():
                info = tarfile.TarInfo(member)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        return path

    def binary(self):
        r = self.RECORDS
        return self.archive('b.tar.gz', {'c/data_batch_1.bin': r[0] + r[1], 'c/test_batch.bin': r[2], 'c/readme.html': b'x'})

    def test_binary_archive_becomes_png_files_and_idx_files(self):
        out = self.directory / 'out'
        code, log = script('prepare_cifar10.py', self.binary(), out, '--form', 'both')
        self.assertEqual(code, 0, log)
        self.assertEqual((out / 'train_map.txt').read_text(), '.../train/cat/00000.png\t3\n.../train/truck/00001.png\t9\n')
        self.assertEqual((out / 'test_map.txt').read_text(), '.../test/airplane/00000.png\t0\n')
        png = (out / 'train/cat/00000.png').read_bytes()
        self.assertEqual(png[:16] + png[16:29], b'\x89PNG\r\n\x1a\n\0\0\0\rIHDR' + struct.pack('>IIBBBBB', 32, 32, 8, 2, 0, 0, 0))
        length, = struct.unpack('>I', png[33:37])
        rows = zlib.decompress(png[41:41 + length])
        for at in (0, 33, 1023):
            y, x = divmod(at, 32)
            self.assertEqual(list(rows[y * 97 + 1 + 3 * x:][:3]), [self.RECORDS[0][1 + c * 1024 + at] for c in range(3)])
        self.assertEqual((out / 'train-images.idx').read_bytes()[20:], self.RECORDS[0][1:] + self.RECORDS[1][1:])
        self.assertEqual((out / 'train-labels.idx').read_bytes(), b'\0\0\x08\1\0\0\0\2\x03\x09')
        mean = (out / 'mean.xml').read_text().split('<data>')[1].split('</data>')[0].split()
        self.assertEqual(len(mean), 3072)
        for i in (0, 1, 2, 3071):
            value = sum(r[1 + (2 - i % 3) * 1024 + i // 3] for r in self.RECORDS[:2]) / 2
            self.assertEqual(float(mean[i]), value)

    def test_folders_of_images_stay_as_they_are(self):
        images = {'d/train/frog/a.jpg': b'1', 'd/test/ship/b.JPG': b'22', 'd/train/frog/c.png': b'3'}
        out = self.directory / 'out'
        code, log = script('get_cifar10.sh', '--from', self.archive('i.tar.gz', images), out)
        self.assertEqual(code, 0, log)
        self.assertEqual((out / 'train_map.txt').read_text(), '.../train/frog/a.jpg\t6\n.../train/frog/c.png\t6\n')
        self.assertEqual((out / 'test/ship/b.JPG').read_bytes(), b'22')

    def test_errors(self):
        whole = self.binary().read_bytes()
        record = self.RECORDS[0]
        for path, expected in (
                (self.archive('1.tar.gz', {'x.txt': b''}), 'neither'),
                (self.archive('2.tar.gz', {'data_batch_1.bin': record[:-1]}), 'not whole images'),
                (self.archive('3.tar.gz', {'test_batch.bin': b'\x0a' + record[1:]}), 'has class 10'),
                (self.archive('4.tar.gz', {'train/plane/a.jpg': b''}), "'plane' is none of the classes"),
                (self.write('5.tar.gz', 'no archive'), 'error: unpacking'),
                (self.directory / 'gone', 'error: unpacking')):
            code, log = script('prepare_cifar10.py', path, self.directory / 'out')
            self.assertEqual(code, 1, log)
            self.assertIn(expected, log)
        cut = self.directory / 'cut.tar.gz'
        cut.write_bytes(whole[:len(whole) // 2])
        code, log = script('prepare_cifar10.py', cut, self.directory / 'out')
        self.assertEqual(code, 1, log)
        self.assertIn('error: unpacking', log)
        self.assertNotIn('Traceback', log)
        cut = self.directory / 'cifar-10-binary.tar.gz'
        cut.write_bytes(whole)
        code, log = script('get_cifar10.sh', '--from', cut, self.directory / 'out')
        self.assertEqual(code, 1)
        self.assertIn('SHA-256', log)


class SanitizerTest(support.TrainerTest):
    def test_a_report_fails_a_test_that_expects_an_error(self):
        self.write('trainer', 'echo "$1" >&2\nexit 1\n')
        for report in ('error.cpp:3:5: runtime error: signed integer overflow: 2 + 2147483647 cannot be represented in type \'int\'',
                       '==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602000000014'):
            with self.subTest(report), unittest.mock.patch.object(support, 'command_line', lambda arguments, ranks: ['sh', 'trainer', *arguments]):
                self.run_trainer(['error: of no sanitizer'], expect=1)
                with self.assertRaisesRegex(AssertionError, 'a sanitizer reports'):
                    self.start_trainer([report]).wait()
                with self.assertRaisesRegex(AssertionError, 'a sanitizer reports'):
                    self.run_trainer([report], expect=None)


class CompareTest(support.TrainerTest):
    def test_without_pytorch_it_says_so_and_is_no_failure(self):
        for program in ('trainer', 'benchmarks/gemm_rate'):
            self.write(f'build/{program}', '')
        self.write('file', '')  # nothing can be made below a file
        done = subprocess.run([sys.executable, support.SOURCE / 'scripts/compare_pytorch.py', '--build', self.directory / 'build',
                               '--venv', self.directory / 'file' / 'environment'], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn('skipped: there is no PyTorch to compare with', done.stdout)

    def test_unknown_networks_are_named(self):
        for program in ('trainer', 'benchmarks/gemm_rate'):
            self.write(f'build/{program}', '')
        done = subprocess.run([sys.executable, support.SOURCE / 'scripts/compare_pytorch.py', '--build', self.directory / 'build',
                               '--compiled', '--models', 'lenet,lenot'], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no network 'lenot'", done.stderr)


    def test_compiled_pytorch_has_a_table_of_its_own_with_commit_and_date(self):
        with unittest.mock.patch.object(sys, 'path', [str(support.SOURCE / 'scripts'), *sys.path]):
            compare = importlib.import_module('compare_pytorch')
        arguments = argparse.Namespace(device='cpu', dtype='bfloat16', seconds=2, rounds=1, isa='avx2', threads=1, compiled=True, cpu='0', python='python3')
        called = []

        def run(command, _):
            called.append(command)
            return 'a remark\n{"seconds": [0.5], "parameters": 431080, "multiply_adds": 1, "version": "2.15.0"}\n', 800
        with unittest.mock.patch.object(compare, 'run', run):
            theirs = compare.measure_pytorch(arguments, 'lenet', compare.MODELS['lenet'], False)
        self.assertIn('--compiled', called[0])
        self.assertEqual(theirs.rate, 2 * compare.MODELS['lenet'].batch)
        comparison = compare.Comparison('lenet')
        comparison.ours, comparison.products = [compare.Measurement(256, 60, 431080)], [100.0]
        comparison.tried = {False: [theirs]}
        with unittest.mock.patch.object(compare, 'commit_text', lambda: 'commit 1234abcd'):
            lines = compare.section_text(arguments, [comparison]).splitlines()
        self.assertEqual(lines[:2], ['<!-- bfloat16, AVX2, torch.compile -->', '## bfloat16, AVX2, torch.compile'])
        self.assertEqual(lines[-3], '`scripts/compare_pytorch.py --device cpu --dtype bfloat16 --seconds 2 --rounds 1 --isa avx2 --compiled`')
        self.assertRegex(lines[-2], r'^on one core of an .*, PyTorch 2\.15\.0, commit 1234abcd, \d{4}-\d\d-\d\d\.$')
        self.assertEqual(lines[-1], '<!-- end of bfloat16, AVX2, torch.compile -->')


class StepLatencyTest(unittest.TestCase):
    def test_medians_above_their_limits_are_named(self):
        with unittest.mock.patch.object(sys, 'path', [str(support.SOURCE / 'benchmarks'), *sys.path]):
            latency = importlib.import_module('step_latency')
        quiet = {('t', 1): [25.0, 20.0, 90.0], ('t', 2): [35.5], ('t', 3): [99.0]}
        busy = {('t', 1): [50.0], ('t', 2): [60.0], ('t', 3): [198.5]}
        self.assertEqual(latency.above_limits(quiet, busy), ['above the limit: t on 2 rank(s): 35.5 us, limit 35',
                                                             'above the limit: t on 3 rank(s), one core busy: 198.5 us, limit 198.0'])


class QuickstartTest(support.TrainerTest):
    def quickstart(self, gpu, part):
        """The script with programs that only write down what they were asked: (what ninja was asked to build, the run, what was said)."""
        for name in ('quickstart.sh', 'common.sh', 'summarize.py'):
            self.write(f'scripts/{name}', (support.SOURCE / 'scripts' / name).read_text(encoding='utf-8')).chmod(0o755)
        self.write('log.txt', LOG)
        for name, text in (('scripts/install_dependencies.sh', ''), ('bin/meson', 'echo "$@" >>meson.txt\nmkdir -p build\n: >build/build.ninja'),
                           ('bin/ninja', f'case " $* " in *" -t "*) {"true" if part else "false"} ;; *) echo "$@" >ninja.txt ;; esac'),
                           ('bin/nvidia-smi', 'echo "NVIDIA X1"' if gpu else 'echo "no devices were found"\nexit 6'),
                           ('bin/mpiexec', 'echo "$@" >mpiexec.txt\ncat log.txt >output/digits/digits.log')):
            self.write(name, f'#!/bin/sh\n{text}\n').chmod(0o755)
        done = subprocess.run([self.directory / 'scripts/quickstart.sh'], capture_output=True, text=True, check=False,
                              env={**os.environ, 'PATH': f'{self.directory}/bin:{os.environ["PATH"]}'})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return (self.directory / 'ninja.txt').read_text(), (self.directory / 'mpiexec.txt').read_text(), done.stdout

    def test_with_a_gpu_it_trains_there(self):
        built, run, said = self.quickstart(gpu=True, part=True)
        self.assertEqual(built, '-C build trainer libtutti_cuda.so\n')
        self.assertIn(' deviceId=auto', run)
        self.assertIn('Training on the GPU (NVIDIA X1)', said)
        self.assertRegex(said, r'Device +NVIDIA X1\n$')

    def test_without_a_driver_no_time_goes_into_the_gpu_part(self):
        built, run, said = self.quickstart(gpu=False, part=True)
        self.assertEqual(built, '-C build trainer\n')
        self.assertIn(' deviceId=cpu', run)
        self.assertIn('Training on the CPU', said)
        self.assertRegex(said, r'Device +CPU; for GPUs run: ninja -C build libtutti_cuda\.so\n$')

    def test_without_the_toolkit_it_says_what_to_install(self):
        built, run, said = self.quickstart(gpu=True, part=False)
        self.assertEqual(built, '-C build trainer\n')
        self.assertEqual((self.directory / 'meson.txt').read_text().splitlines()[-1], 'setup --reconfigure build')
        self.assertIn(' deviceId=cpu', run)
        self.assertIn('cuda-toolkit', said)
        self.assertRegex(said, r'\n +meson setup --reconfigure build && ninja -C build libtutti_cuda\.so\n$')


class CheckGpuTest(support.TrainerTest):
    def test_what_was_not_run_on_a_gpu_is_not_published(self):
        for program, text in (('bin/mpiexec', ''), ('trainer', '#!/bin/sh\necho "Tutti 0: CUDA built in, no GPU (driver: none)"\n')):
            self.write(f'build/{program}', text).chmod(0o755)
        page = support.SOURCE / 'docs/results/gpu.md'
        published = page.read_bytes()
        done = subprocess.run([support.SOURCE / 'scripts/check_gpu.sh', 'build'], capture_output=True, text=True, check=False,
                              env={**os.environ, 'BUILD': str(self.directory / 'build'), 'TUTTI_CUDA_LIBRARY': ''})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(page.read_bytes(), published)
        self.assertIn('on no GPU (driver: none)', (self.directory / 'build/gpu/gpu.md').read_text(encoding='utf-8'))


class CoverageTableTest(support.TrainerTest):
    def write_page(self, rows):
        self.write('table.tsv', 'path\tclass\tcause\tsynthetic data\n' + ''.join('\t'.join(r) + '\n' for r in rows))
        subprocess.run([sys.executable, support.SOURCE / 'scripts/coverage_table.py', self.directory / 'table.tsv', self.directory / 'page.md'], check=True)
        return (self.directory / 'page.md').read_text(encoding='utf-8')

    def test_page_is_made_and_only_its_section_replaced(self):
        rows = [('Examples/Image/A/one.cntk', 'ok', '', 'CTF'), ('Examples/Image/A/two.cntk', 'excluded', 'no "trainer" a | b', ''),
                ('Tutorials/three.cntk', 'refused', 'three.cntk:1:1: error: cannot read /tmp/x1/y.ndl', '')]
        page = self.write_page(rows)
        self.assertIn('accepts 1 of 3 configs, 1 of the 2 ', page)
        self.assertIn('| Examples/Image/A | 2 | 1 | 0 | 1 |', page)
        self.assertIn('| Tutorials | 1 | 0 | 1 | 0 |', page)
        self.assertIn('- excluded: no "trainer" a | b\n  - Examples/Image/A/two.cntk\n', page)
        self.assertIn('cannot read y.ndl\n  - Tutorials/three.cntk\n', page)
        self.write('page.md', page + '\n## Trained\n\nfigures\n')
        again = self.write_page([(*rows[0][:1], 'ok', '', '')])
        self.assertIn('accepts 1 of 1 configs', again)
        self.assertNotIn('two.cntk', again)
        self.assertTrue(again.endswith('\n## Trained\n\nfigures\n'), again)


if __name__ == '__main__':
    support.main()
