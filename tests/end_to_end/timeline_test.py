# SPDX-License-Identifier: Apache-2.0
"""timeline = F: a trace of every rank on one clock, strictly in the format that Perfetto and chrome://tracing read."""
import json

import examples
import support

NAMES = {'read', 'copy', 'forward', 'backward', 'encode', 'wait', 'decode', 'update'}


class TimelineTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config(hidden='64:64', epochs=3, minibatch=60, bits=1))
        self.write('train.ctf', examples.points(600))

    def trace(self, name='trace.json'):
        """The events of a file after a check of its form, by kind."""
        def refuse(constant):
            raise ValueError(f'{constant} is no JSON')
        trace = json.loads((self.directory / name).read_text(encoding='utf-8'), parse_constant=refuse)
        self.assertEqual(set(trace), {'displayTimeUnit', 'traceEvents'})
        self.assertEqual(trace['displayTimeUnit'], 'ms')
        about, spans = [], []
        for e in trace['traceEvents']:
            if e['ph'] == 'M':
                self.assertEqual(set(e), {'ph', 'name', 'pid', 'tid', 'args'})
                self.assertIn(e['name'], ('process_name', 'process_sort_index', 'thread_name'))
                about.append(e)
                continue
            self.assertEqual(set(e), {'ph', 'name', 'cat', 'pid', 'tid', 'ts', 'dur', 'args'})
            self.assertEqual(e['ph'], 'X')
            self.assertIn(e['name'], NAMES)
            self.assertIsInstance(e['ts'], (int, float))
            self.assertGreater(e['ts'], 0)
            self.assertGreater(e['dur'], 0)
            spans.append(e)
        return about, spans

    def expect_nested(self, spans):
        """Spans of one thread lie beside each other or within each other, as slices of a track must."""
        for rank in {s['pid'] for s in spans}:
            open_until = []
            for s in sorted((s for s in spans if s['pid'] == rank), key=lambda s: (s['ts'], -s['dur'])):
                while open_until and open_until[-1] <= s['ts'] + 0.002:  # the file has nanoseconds, rounded
                    open_until.pop()
                end = s['ts'] + s['dur']
                self.assertTrue(not open_until or end <= open_until[-1] + 0.002, s)
                open_until.append(end)

    def test_every_work_of_every_rank(self):
        result = self.run_trainer(['configFile=run.cntk', 'Train=[SGD=[timeline=trace.json]]'], 3)
        self.assertRegex(result.text, r"(?m)^Timeline: 'trace.json' records the first 100 minibatches of each epoch; the clocks of the ranks differ")
        about, spans = self.trace()
        names = {e['pid']: e['args']['name'] for e in about if e['name'] == 'process_name'}
        self.assertEqual(sorted(names), [0, 1, 2])
        self.assertTrue(all(names[r].startswith(f'rank {r} on ') for r in names), names)
        for rank in range(3):
            mine = [s for s in spans if s['pid'] == rank]
            self.assertEqual({s['name'] for s in mine} - {'copy', 'read'}, NAMES - {'copy', 'read'}, f'rank {rank}')
            for name in ('forward', 'backward'):
                self.assertEqual([(s['args']['epoch'], s['args']['minibatch']) for s in mine if s['name'] == name],
                                 [(e, m) for e in (1, 2, 3) for m in range(1, 11)])
        self.expect_nested(spans)
        self.expect_one_clock(spans)

    def expect_one_clock(self, spans):
        """A step cannot end on one rank before it has begun on another: its gradients are a sum over all."""
        for epoch in (1, 2, 3):
            for minibatch in range(1, 11):
                step = [s for s in spans if (s['args']['epoch'], s['args']['minibatch']) == (epoch, minibatch)]
                begins = [min(s['ts'] for s in step if s['pid'] == r and s['name'] == 'forward') for r in range(3)]
                ends = [max(s['ts'] + s['dur'] for s in step if s['pid'] == r and s['name'] in ('wait', 'decode', 'update')) for r in range(3)]
                self.assertLess(max(begins), min(ends) + 200, (epoch, minibatch))

    def test_only_the_first_minibatches_of_epochs(self):
        self.run_trainer(['configFile=run.cntk', 'Train=[SGD=[timeline="traces/run.json";timelineSteps=2]]'], 2)
        _, spans = self.trace('traces/run.json')
        seen = {(s['args']['epoch'], s['args']['minibatch']) for s in spans}
        self.assertEqual(seen, {(e, m) for e in (1, 2, 3) for m in (1, 2)})

    def test_other_methods(self):
        methods = ('ModelAveragingSGD', 'DataParallelASGD', 'EASGD')
        self.train_each((self.directory / 'run.cntk').read_text(encoding='utf-8'), [
            f'SGD=[timeline={method}.json;ParallelTrain=[parallelizationMethod={method}]]' for method in methods], 2)
        for method in methods:
            with self.subTest(method=method):
                _, spans = self.trace(f'{method}.json')
                self.assertEqual({s['pid'] for s in spans if s['name'] == 'backward'}, {0, 1})
                self.expect_nested(spans)

    def test_a_single_process_changes_nothing_else(self):
        self.run_trainer(['configFile=run.cntk'])
        expected = (self.directory / 'models/model.dnn').read_bytes()
        self.run_trainer(['configFile=run.cntk', 'Train=[SGD=[timeline=trace.json]]', 'makeMode=false'])
        self.assertTrue((self.directory / 'models/model.dnn').read_bytes() == expected)
        self.assertEqual({s['pid'] for s in self.trace()[1]}, {0})


if __name__ == '__main__':
    support.main()
