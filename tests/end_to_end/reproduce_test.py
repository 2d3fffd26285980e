# SPDX-License-Identifier: Apache-2.0
"""scripts/reproduce.sh: what it reads from runs, its tables, plots and pages, its errors, a tiny run; each source with made-up runs."""
import argparse
import importlib.util
import io
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import unittest
import unittest.mock
import xml.etree.ElementTree

import support

sys.path.insert(0, str(support.SOURCE / 'scripts' / 'reproduce'))
import common  # noqa: E402
import page  # noqa: E402
import svg  # noqa: E402


def options(directory, **changed):
    values = {'quick': True, 'resume': False, 'minutes': None, 'parts': [], 'no_hosts': True, 'name': '', 'trainer': pathlib.Path(support.TRAINER), 'data': support.DATA, 'data_from': None,
              'work': directory / 'work', 'pages': directory / 'pages'}
    return argparse.Namespace(**{**values, **changed})


def record(event, samples, seconds, error, **ranks):
    return json.dumps({'event': event, 'samples': samples, 'measures': {'seconds': seconds}, 'results': {'errs': {'mean': error, 'count': 1, 'error_rate': True}},
                       'ranks': ranks})


class QuietTest(support.TrainerTest):
    """Progress lines go nowhere."""

    def setUp(self):
        super().setUp()
        quiet = unittest.mock.patch('sys.stderr', io.StringIO())
        quiet.start()
        self.addCleanup(quiet.stop)


class ReadingTest(unittest.TestCase):
    LINES = [record('epoch', 100, 2, .5, wait_seconds=[1, 1], bytes_sent=[10, 10]), record('validation', 100, 0, .4),
             record('epoch', 200, 1, .3, wait_seconds=[.2, .4], encode_seconds=[.1, .1], bytes_sent=[10, 30]), record('validation', 200, 0, .25)]

    def run_of(self, lines, test=None):
        return common.Run('a', 2, 3, pathlib.Path('run.log'), common.read_epochs(lines), test or {})

    def test_figures_leave_the_first_epoch_out(self):
        run = self.run_of(self.LINES)
        self.assertEqual((run.seconds, run.rate, run.per(50)), (3, 100, .5))
        self.assertEqual((self.run_of([*self.LINES, record('epoch', 300, 4, .2)]).fastest().rate, run.fastest().rate), (100, 100))
        self.assertAlmostEqual(run.communication(), .4)
        self.assertAlmostEqual(run.communication(1000), 4)
        self.assertEqual((run.sent(), run.sent(50)), (20, 10))
        self.assertEqual(run.curve(), [(2, 40), (3, 25)])
        self.assertEqual(run.error(), 25)
        self.assertEqual(self.run_of(self.LINES[::2]).error(), 30)  # training only
        self.assertEqual(self.run_of(self.LINES, {'errs': .11}).error(), 11)
        self.assertIsNone(run.error('other'))
        self.assertEqual(self.run_of(self.LINES[:1]).rate, 50)  # the only epoch counts

    def test_intervals(self):
        lines = [record('interval', 10, 2, 1), record('interval', 20, .5, 1), record('epoch', 20, 2.5, 1)]
        self.assertEqual([(e.samples, e.seconds) for e in common.read_epochs(lines, intervals=True)], [(10, 2), (10, .5)])

    def test_result_of_the_test(self):
        log = ('Final Results: Minibatch[1-3]: errs = 9.000% * 600; ce = 1.5 * 600\n'
               'Final Results: Minibatch[1-3]: errs = 5.120% * 600; ce = 0.12345678 * 600; perplexity = 1.13140010\n')
        self.assertEqual(common.read_test(log), {'errs': .0512, 'ce': .12345678})
        self.assertEqual(common.read_test('nothing'), {})

    def test_speed_up(self):
        fast, slow = self.run_of(self.LINES), self.run_of(self.LINES[:1])
        self.assertEqual(common.speed_up(fast, slow), 2)
        self.assertIsNone(common.speed_up(None, slow))
        self.assertEqual((common.text(1234.567), common.text(None), common.text(3.14, 1, ' %')), ('1,234.57', None, '3.1 %'))


class DrawingTest(unittest.TestCase):
    def texts(self, drawing):
        return [e.text for e in xml.etree.ElementTree.fromstring(drawing).iter() if e.tag.endswith('text')]

    def test_lines(self):
        drawing = svg.lines('A & b', 'workers', 'images/s', {'here': [(1, 10), (2, 19), (4, None)], 'gone': []})
        found = self.texts(drawing)
        for word in ('A & b', 'workers', 'images/s', 'here', 'gone', '1', '2', '5', '15'):
            self.assertIn(word, found)
        self.assertEqual(drawing.count('<circle'), 2)

    def test_logarithmic_lines(self):
        root = xml.etree.ElementTree.fromstring(svg.lines('a', 'x', 'y', {'s': [(1, 1), (10, 10), (100, 100)]}, log_x=True, log_y=True))
        places = [(float(e.get('cx')), float(e.get('cy'))) for e in root.iter() if e.tag.endswith('circle')]
        self.assertAlmostEqual(places[1][0] - places[0][0], places[2][0] - places[1][0], delta=.2)
        self.assertAlmostEqual(places[1][1] - places[0][1], places[2][1] - places[1][1], delta=.2)

    def test_bars(self):
        root = xml.etree.ElementTree.fromstring(svg.bars('t', 'seconds', ['1 rank', '2 ranks'], {'a': [4, 2], 'b': [None, 1]}))
        heights = [float(e.get('height')) for e in root.iter() if e.tag.endswith('rect') and e.get('width') == '24']
        self.assertEqual(len(heights), 3)
        self.assertAlmostEqual(heights[0], 2 * heights[1], delta=.2)
        self.assertAlmostEqual(heights[1], 2 * heights[2], delta=.2)

    def test_without_values(self):
        for drawing in (svg.bars('t', 'y', ['g'], {'a': [None]}), svg.lines('t', 'x', 'y', {}), svg.lines('t', 'x', 'y', {'one': [(1, 1)]})):
            self.texts(drawing)

    def test_ticks(self):
        self.assertEqual(svg.ticks(0, 10), [0, 2, 4, 6, 8, 10])
        self.assertEqual(svg.ticks(1, 100, log=True), [1, 2, 5, 10, 20, 50, 100])


class PageTest(support.TrainerTest):
    def test_table(self):
        self.assertEqual(page.table(['a', 'b', 'c'], [['x', '1.5', None], ['y', '20', 'word']]).splitlines(),
                         ['| a | b | c |', '| --- | --: | --- |', '| x | 1.5 | – |', '| y | 20 | word |'])

    def test_page(self):
        with common.Bench('toy', options(self.directory), ('t1', 't2')) as bench:
            shown = page.Page(bench, 'Toy', 'words ' * 60)
            shown.difference('Hosts are ' + 'many ' * 40)
            shown.section('Table 1')
            with unittest.mock.patch('builtins.print'):
                shown.table(['a', 'b'], [['x', '1']])
            shown.plot('t1', svg.bars('t', 'y', ['g'], {'a': [1]}), 'bars')
            bench.skip('run 7')
            shown.write()
        text = (self.directory / 'pages/toy.md').read_text(encoding='utf-8')
        for word in ('# Toy', 'scripts/reproduce.sh toy --quick', 'cores', 'AVX', 'the short run, at most 5 minutes', 'No GPU is used.', 'Date: 20', 'commit ', '--no-hosts was given',
                     'differs from the original', '## Table 1', '| x | 1 |', '![bars](toy-t1.svg)', '- run 7: no time was left'):
            self.assertIn(word, text)
        self.assertLessEqual(max(map(len, text.splitlines())), 120)
        self.assertTrue((self.directory / 'pages/toy-t1.svg').exists())


class RunTest(QuietTest):
    SETTINGS = ('Train=[SGD=[maxEpochs=2;epochSize=400];reader=[samples=400]]', 'Test=[reader=[samples=100]]', 'parallelTrain=true')

    def test_a_run(self):
        with common.Bench('toy', options(self.directory), ()) as bench, bench.hosts(2) as hosts:
            run = bench.run('two ranks, 1 bit', 'samples/methods/dataparallel.cntk', *self.SETTINGS, hosts=hosts, command='Train:Test')
            self.assertIsNotNone(run, bench.skipped)
        self.assertEqual((run.ranks, [e.samples for e in run.epochs]), (2, [400, 400]))
        self.assertGreater(run.sent(), 0)
        self.assertGreater(run.part('compute'), 0)
        self.assertTrue(0 <= run.error() <= 100)
        self.assertIn('errs', run.test)
        self.assertIn('deviceId=-1', shlex.split((run.log.parent / 'command').read_text(encoding='utf-8')))

    def test_runs_that_do_not_end_well(self):
        with common.Bench('toy', options(self.directory), ()) as bench, bench.hosts(1) as hosts:
            self.assertIsNone(bench.run('long', 'samples/methods/plain.cntk', *self.SETTINGS, hosts=hosts, estimate=1000))
            self.assertIsNone(bench.run('wrong', 'samples/methods/plain.cntk', 'Train=[SGD=[minibatchSize=-1]]', hosts=hosts))
            bench.limit = bench.used() + common.RESERVE + .5
            self.assertIsNone(bench.run('late', 'samples/methods/plain.cntk', hosts=hosts))
        self.assertEqual(len(bench.skipped), 3)
        for words, skipped in zip(('long (1 rank): no time was left', 'wrong (1 rank): failed: ', 'late (1 rank): stopped as the time was up'), bench.skipped):
            self.assertIn(words, skipped)

    def test_an_experiment_goes_on(self):
        with common.Bench('toy', options(self.directory), ()) as bench, bench.hosts(2) as hosts:
            first = bench.run('one', 'samples/methods/plain.cntk', *self.SETTINGS, hosts=hosts.at([0]))
        with common.Bench('toy', options(self.directory, resume=True, trainer=pathlib.Path('gone')), ()) as bench, bench.hosts(2) as hosts:
            again = bench.run('one', 'samples/methods/plain.cntk', *self.SETTINGS, hosts=hosts.at([0]))
            self.assertEqual((again.ranks, again.epochs), (1, first.epochs))
            self.assertGreaterEqual(bench.used(), first.wall)
            self.assertIsNone(bench.run('one', 'samples/methods/plain.cntk', hosts=hosts.at([0])))  # other settings are another run

    def test_a_share_of_the_time(self):
        with common.Bench('toy', options(self.directory, minutes=1), ()) as bench, unittest.mock.patch.object(bench, 'used', lambda: 6):
            with bench.share(.5):
                self.assertEqual(bench.left(), (60 - common.RESERVE - 6) / 2)
            self.assertEqual(bench.left(), 60 - common.RESERVE - 6)

    def test_links_without_a_limit_where_the_kernel_has_none(self):
        def call(words, **_):
            limited = '1gbit' in words
            return subprocess.CompletedProcess(words, int(limited), '', 'Error: Specified qdisc kind is unknown.' if limited else '')

        with unittest.mock.patch.object(common, 'can_emulate', return_value=''), unittest.mock.patch('subprocess.run', side_effect=call), \
                common.Bench('toy', options(self.directory, no_hosts=False), ()) as bench:
            self.assertFalse(bench.emulated)
            self.assertIn('qdisc kind is unknown', bench.why_not)

    def test_places(self):
        with common.Bench('toy', options(self.directory), ()) as bench, bench.hosts(3) as hosts:
            bench.emulated, hosts.name = True, 'h'
            words = hosts.at([0, 0, 2]).words(3)
            self.assertEqual((bench.work / 'places').read_text(encoding='utf-8'), 'h-1\nh-1\nh-3\n')
            bench.emulated = False
        self.assertEqual(words[words.index('--map-by') + 1], 'seq')


class CommandLineTest(support.TrainerTest):
    def test_errors(self):
        for words, expected in ((['nobody'], "invalid choice: 'nobody'"), ([], 'required'), (['neon', '--parts', 'host,t9'], "neon has no part 't9'; it has host, links"),
                                (['neon', '--minutes', '0'], '--minutes must be more'),
                                (['neon', '--minutes', 'nan'], 'not nan'),
                                (['neon', '--minutes', 'inf'], 'fix: --minutes 10'),
                                (['neon', '--name', 'A'], 'small letter'),
                                (['neon', '--trainer', 'gone'], 'there is no gone')):
            done = subprocess.run([support.SOURCE / 'scripts/reproduce.sh', *words], capture_output=True, text=True, check=False, cwd=self.directory)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(expected, done.stderr)
            self.assertNotIn('Traceback', done.stderr)


class AllTest(support.TrainerTest):
    def test_a_source_that_fails_does_not_stop_the_others(self):
        spec = importlib.util.spec_from_file_location('reproduce_main', support.SOURCE / 'scripts/reproduce/__main__.py')
        program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(program)
        done = []

        def reproduce(bench):
            done.append(bench.source)
            if bench.source == 'theano-mpi':
                raise RuntimeError('no links')

        words, module = options(self.directory, source='all', check=False), argparse.Namespace(PARTS=(), reproduce=reproduce)
        with unittest.mock.patch.multiple(program, parse=lambda: words, module_of=lambda source: module), \
                unittest.mock.patch('signal.signal'), unittest.mock.patch('sys.stderr', io.StringIO()) as said:
            self.assertEqual(program.main(), 1)
        self.assertEqual(done, list(program.SOURCES))
        self.assertIn('error: theano-mpi: no links\n', said.getvalue())


class CommandsTest(unittest.TestCase):
    """The commands of docs/results/README.md: what they name is there, and scripts take their arguments."""
    # Runs a script up to the end of its parse_args.
    PARSE = ('import argparse, os, runpy, sys; parse = argparse.ArgumentParser.parse_args; '
             'argparse.ArgumentParser.parse_args = lambda *words: parse(*words) and os._exit(0); '
             'sys.argv = sys.argv[1:]; sys.path[0] = os.path.dirname(sys.argv[0]); '
             'runpy.run_path(sys.argv[0], run_name="__main__"); sys.exit("no parse_args")')

    PAGES, TEXT = (support.SOURCE / 'docs/results/README.md').read_text(encoding='utf-8').split('## Commands')
    BLOCKS = '\n'.join(re.findall(r'^```\n(.*?)^```$', TEXT, re.DOTALL | re.MULTILINE)).replace('\\\n', ' ')

    def test_each_page_has_a_command(self):
        pages = re.findall(r'^\| \[(.*?)\]', self.PAGES, re.MULTILINE)
        named = ','.join(re.findall(r'^# ([^:\n]*)', self.BLOCKS, re.MULTILINE)).replace(' ', '').split(',')
        self.assertEqual(sorted(named), sorted(pages))

    def test_programs_that_quickstart_does_not_build(self):
        built = re.search(r'^ninja -C build (.*)', self.BLOCKS, re.MULTILINE)[1].split()
        known = (support.SOURCE / 'benchmarks/meson.build').read_text(encoding='utf-8')
        self.assertLessEqual({pathlib.Path(target).name for target in built}, set(re.findall(r"executable\('(\w+)'", known)))
        self.assertLessEqual(set(re.findall(r'build/(benchmarks/\w+)', self.BLOCKS)), set(built))

    def test_arguments(self):
        lines = [[w for w in shlex.split(line, comments=True) if not re.match(r'[A-Z_]+=', w)] for line in self.BLOCKS.splitlines()]
        for first, *words in filter(None, lines):
            with self.subTest(first, words=words):
                for config in re.findall(r'configFile=(samples/\S+)', ' '.join(words)):
                    self.assertTrue((support.SOURCE / config).exists())
                if first == 'python3':
                    self.assertTrue((support.SOURCE / words[0]).exists())
                if first.startswith(('scripts/', 'benchmarks/')):
                    self.assertTrue(os.access(support.SOURCE / first, os.X_OK))
                if first.endswith('.py'):
                    subprocess.run([sys.executable, '-B', '-c', self.PARSE, support.SOURCE / first, *words], check=True)
                if first == 'scripts/reproduce.sh':
                    subprocess.run([support.SOURCE / first, *words, '--check'], check=True)

    def test_cores_of_the_simulator(self):
        words = ['taskset', '-c', str(min(os.sched_getaffinity(0))), sys.executable, '-B', '-c', 'import check_simulator as c; print(c.CORES)']
        self.assertEqual(subprocess.check_output(words, cwd=support.SOURCE / 'scripts'), b'1\n')


class MadeUpRuns:
    """In the place of Bench.run: speeds that grow with ranks, errors that differ, each fifth run missing if wanted."""

    def __init__(self, gaps):
        self.calls, self.gaps = 0, gaps

    def __call__(self, name, config, *settings, hosts, ranks=None, **_):
        self.calls += 1
        ranks = ranks or len(hosts.places or []) or hosts.number * hosts.per_host
        if self.gaps and self.calls % 5 == 0:
            return None
        kinds = {f'{kind}_seconds': [.1] * ranks for kind in ('compute', 'encode', 'wait', 'decode')}
        epochs = [common.Epoch(1000, 2 / ranks + .01 * self.calls, {'errs': .1}, {**kinds, 'bytes_sent': [1e6] * ranks}, {'errs': .2}) for _ in range(3)]
        return common.Run(name, ranks, 3, pathlib.Path('nowhere/run.log'), epochs, {'errs': .05 + .001 * self.calls})


class SourcesTest(support.TrainerTest):
    """Each source writes its page from made-up runs, whole or with gaps, in both sizes."""

    def write_page(self, source, words, **patches):
        module = importlib.import_module(source.replace('-', '_'))
        for quick in (True, False):
            for gaps in (True, False):
                with self.subTest(quick=quick, gaps=gaps):
                    with common.Bench(source, options(self.directory, quick=quick), module.PARTS) as bench:
                        bench.run = MadeUpRuns(gaps)
                        bench.emulated = False
                        bench.dataset = lambda name: self.directory
                        with unittest.mock.patch.multiple(module, **(patches or {'PARTS': module.PARTS})), unittest.mock.patch('builtins.print'):
                            module.reproduce(bench)
                    text = (self.directory / f'pages/{source}.md').read_text(encoding='utf-8')
                    for word in words:
                        self.assertIn(word, ' '.join(text.split()))
                    self.assertLessEqual(max(map(len, text.splitlines())), 120)
                    self.assertLess(len(text.split()), 2500)
                    for plot in (self.directory / 'pages').glob('*.svg'):
                        xml.etree.ElementTree.parse(plot)

    def test_exchange_is_that_of_the_last_rank(self):
        theano_mpi = importlib.import_module('theano_mpi')
        steps = [common.Epoch(10, 1, {}, {'encode_seconds': [.1, 0], 'wait_seconds': wait, 'decode_seconds': [0, 0]}) for wait in ([0, 0], [.5, .3], [.1, .4])]
        self.assertAlmostEqual(theano_mpi.exchange(common.Run('a', 2, 3, pathlib.Path('run.log'), steps, {})), .2)

    def test_figures_that_were_not_measured(self):
        """Without the run of one rank there is no speed-up, of one rank neither."""
        made_up = MadeUpRuns(gaps=False)

        def run(name, *words, **more):
            return None if name.startswith('alone') or name.endswith('one rank') else made_up(name, *words, **more)

        for source, parts, row in (('cntk', ['mnist'], '| one rank | 1 | – | – | – | – |'),
                                   ('mpi-learn', ['workers'], '| 1 | 1 | – | – | – |')):
            module = importlib.import_module(source.replace('-', '_'))
            with common.Bench(source, options(self.directory, parts=parts), module.PARTS) as bench:
                bench.run, bench.emulated, bench.dataset = run, False, lambda name: self.directory
                with unittest.mock.patch('builtins.print'):
                    module.reproduce(bench)
            self.assertIn(row, (self.directory / f'pages/{source}.md').read_text(encoding='utf-8'))

    def test_published_rows_that_a_short_run_does_not_measure(self):
        for source, part, rows in (
                ('theano-mpi', 't1', ['| 8 | 32 | 0.5 | 16 | 20.3 | 5.7 | – | – | – |', 'table 1, 8 workers with batch 32 and 16 bits']),
                ('theano-mpi', 't3', ['| VGG-32b | AR | 41.41 | 4.3 | 0.54 | – | – | – | – | – |', 'table 3, VGG-32b']),
                ('campos', 't2', ['| 15 nodes: 8 workers, 7 servers | 809.10 | 6.52 | 0.82 | – | – | – |', 'T2, 15 nodes: 8 workers, 7 servers']),
                ('campos', 't3', ['| 8 | 0.217 | 1.1 | 22.50 | 4.73 | – | – | – | – |', 'T3, 8 nodes']),
                ('mpi-learn', 't1', ['| 500 | 3.0 | – | – | – | – |', 'T1, batch 500'])):
            module = importlib.import_module(source.replace('-', '_'))
            with self.subTest(part), common.Bench(source, options(self.directory, parts=[part]), module.PARTS) as bench:
                bench.run, bench.emulated, bench.dataset = MadeUpRuns(gaps=False), False, lambda name: self.directory
                with unittest.mock.patch('builtins.print'):
                    module.reproduce(bench)
                text = (self.directory / f'pages/{source}.md').read_text(encoding='utf-8')
                self.assertIn(rows[0], text)
                self.assertIn(f'- {rows[1]}: in the full run only', text)

    def test_theano_mpi(self):
        self.write_page('theano-mpi', ['60,965,224', '13,378,280', '138,357,544', 'AlexNet-128b 31.2 and 3.9;', '| AlexNet-32b | AR | 8.03 | 2.9 |', '19.8', 'ASA16', 'α', '21.12',
                                       '| GoogLeNet-32b | AR | 2.07 |', '| VGG-32b | AR | 41.41 |', '| 8 | 128 | 0.5 | 32 | 20.7 | 6.7 |',
                                       '| 8 | 16 | – | 11.75 | 7.3 | – | – |'],
                        parameters=lambda bench, model: 60965224)

    def test_campos(self):
        self.write_page('campos', ['124.18', '7 nodes: 4 workers, 3 servers', '809.10', '0.202', '37.99', '22.50', 'mixed mode', 'backupWorkers = 1'])

    def test_mpi_learn(self):
        self.write_page('mpi-learn', ['| 10 | 0.1', '| 500 | 3.0 |', '| 60 | 30 | – | – | – |', 'one master', 'sharded servers', 'Speed-up by workers', 'Validation',
                                      'which method is ahead is chance'], make_events=lambda bench, count: self.directory)

    def test_neon(self):
        self.write_page('neon', ['VGG E', '512 images', 'shard', 'single'], times=lambda run, minibatch: {'forward': 1.0, 'backward': 2.0})
        first = importlib.import_module('neon').PLACEMENTS[:3]  # what a short run measures
        self.assertEqual([dense for _, dense, _ in first], ['replicate', 'auto', 'shard'])

    def test_cntk(self):
        self.write('test_map.txt', ''.join(f'.../test/cat/{i}.png\t3\n' for i in range(40)))
        self.write_page('cntk', ['MNIST', 'ATIS', 'block momentum', 'ResNet-20', 'slow worker'])


class DataTest(QuietTest):
    """Data that are not at hand."""

    def bench(self, source='toy', **changed):
        (self.directory / 'at-hand').mkdir(exist_ok=True)
        return common.Bench(source, options(self.directory, data=self.directory / 'data',
                                            data_from=self.directory / 'at-hand', **changed), ())

    def test_a_folder_that_lacks_a_set_is_not_copied_from(self):
        with self.bench() as bench, unittest.mock.patch('subprocess.run') as run:
            run.return_value.returncode = 0
            for name in ('mnist', 'cifar10', 'atis'):
                self.assertEqual(bench.dataset(name), self.directory / 'data' / name)
                self.assertNotIn('--from', run.call_args.args[0])
            (self.directory / 'at-hand/mnist').mkdir()
            bench.dataset('mnist')
            self.assertIn('--from', run.call_args.args[0])

    def test_a_page_without_the_parts_that_lack_data(self):
        for source in ('theano-mpi', 'cntk'):
            module = importlib.import_module(source.replace('-', '_'))
            with self.subTest(source), self.bench(source) as bench, unittest.mock.patch('subprocess.run') as run:
                run.return_value = subprocess.CompletedProcess([], 1, '', '')
                bench.run, bench.emulated = MadeUpRuns(gaps=False), False
                with unittest.mock.patch.object(module, 'parameters', lambda bench, model: 1, create=True), \
                        unittest.mock.patch('builtins.print'):
                    module.reproduce(bench)
                tries = [c for c in run.call_args_list if 'get_mnist.sh' in str(c.args[0][0])]
                self.assertEqual(len(tries), 1)
                text = (self.directory / f'pages/{source}.md').read_text(encoding='utf-8')
                self.assertIn('- all runs on mnist: scripts/get_mnist.sh could not get the data', text)
                if source == 'theano-mpi':
                    self.assertIn('| 8 | 32 | 0.5 | 32 | 19.9 | 4.9 | – | – | – |', text)

    def test_no_time_to_draw_events(self):
        mpi_learn = importlib.import_module('mpi_learn')
        with self.bench('mpi-learn', parts=['accuracy']) as bench, unittest.mock.patch('subprocess.run') as run:
            run.return_value = subprocess.CompletedProcess([], 1, '', '')
            bench.limit = bench.used() + 20
            mpi_learn.reproduce(bench)
            self.assertFalse([c for c in run.call_args_list if 'make_events' in str(c.args)])
        self.assertIn('- accuracy by workers, 4,000 events: no time was left',
                      (self.directory / 'pages/mpi-learn.md').read_text(encoding='utf-8'))


class ParametersTest(QuietTest):
    """Table 2 of theano-mpi, with a trainer that tells a number and goes on."""

    def setUp(self):
        super().setUp()
        self.write('trainer', '#!/bin/sh\nfor w; do case $w in '
                   'stderr=*) echo "Training 123 parameters" > "${w#stderr=}"; esac; done\nexec sleep 60\n')
        (self.directory / 'trainer').chmod(0o755)
        self.module = importlib.import_module('theano_mpi')

    def test_after_an_interruption(self):
        with common.Bench('toy', options(self.directory, trainer=self.directory / 'trainer'), ()) as bench:
            (bench.work / 'alexnet').mkdir()  # as a version that did not clean up has left it
            self.assertEqual(self.module.parameters(bench, 'alexnet'), 123)
            with unittest.mock.patch('time.sleep', side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
                self.module.parameters(bench, 'alexnet')
            self.assertFalse((bench.work / 'alexnet').exists())


class CamposTest(support.TrainerTest):
    def test_mixed_mode_with_a_server_beside_a_worker(self):
        campos = importlib.import_module('campos')
        self.assertEqual(campos.places(2, 1, 'shared'), [0, 0, 1, 1, 0])
        self.assertEqual(campos.places(2, 2, 'dedicated'), [0, 0, 1, 1, 2, 3])
        with unittest.mock.patch('sys.stderr', io.StringIO()), common.Bench('campos', options(self.directory), ()) as bench, bench.hosts(2) as hosts:
            bench.run('pretrained', campos.CONFIG, 'Pretrain=[SGD=[maxEpochs=1];reader=[samples=256]]', command='Pretrain', section='Pretrain', hosts=hosts.at([0]))
            run = bench.run('mixed', campos.CONFIG, 'Samples=512', 'Epochs=1', f'Base={campos.base_model(bench)}', campos.settings(campos.mixed(1), 2, .01),
                            hosts=hosts.at(campos.places(2, 1, 'shared')))
        self.assertIsNotNone(run, bench.skipped)
        self.assertEqual((run.ranks, run.epochs[0].samples), (5, 512))


if __name__ == '__main__':
    unittest.main()
