# SPDX-License-Identifier: Apache-2.0
"""The command line: flags, help, check and dump, overrides, several files, logs of several ranks."""
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import examples
import support


class CommandLineTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config())
        self.write('train.ctf', examples.points(64))
        self.write('test.ctf', examples.points(32, seed=2))

    # --- flags
    def test_version_says_what_is_built_in(self):
        text = self.run_trainer(['--version']).text
        self.assertRegex(text, r'\d+\.\d+\.\d+')
        for part in ('MPI', 'oneDNN', 'CUDA'):
            self.assertIn(part.lower(), text.lower())

    def test_version_says_why_there_is_no_gpu(self):
        """Built without CUDA, its part for GPUs not built, or no driver: a program in a folder of its own."""
        program = pathlib.Path(shutil.copy(support.TRAINER, self.directory / 'trainer'))
        self.write('build.ninja', '')

        def version():
            done = subprocess.run([program, '--version'], capture_output=True, text=True, check=True,
                                  env=support.environment(self.directory) | {'TUTTI_CUDA_LIBRARY': ''})
            return done.stdout.strip()
        if os.environ.get('TUTTI_CUDA_CONFIGURED') == 'true':
            self.assertTrue(version().endswith(f', GPU part not built (run ninja -C {self.directory} libtutti_cuda.so)'), version())
            (self.directory / 'build.ninja').unlink()
            self.assertTrue(version().endswith(', GPU part not built (run ninja -C build libtutti_cuda.so)'), version())
        else:
            self.assertTrue(version().endswith(', built without CUDA'), version())
        self.write('libtutti_cuda.so', '')  # --version asks the driver alone
        try:
            ctypes.CDLL('libcuda.so.1')
        except OSError:
            self.assertRegex(version(), r'CUDA built in, no driver \(driver: libcuda\.so\.1: ')
        else:
            self.assertRegex(version(), r'CUDA built in, (\d+ GPUs?$|no GPU \(driver: )')

    def test_threads_spin_briefly_unless_told_otherwise(self):
        def spins(**settings):
            env = support.environment(self.directory) | {'OMP_DISPLAY_ENV': 'verbose'} | settings
            env = {name: value for name, value in env.items() if value}
            done = subprocess.run([support.TRAINER, '--version'], env=env, capture_output=True, text=True, check=True)
            return re.findall(r"GOMP_SPINCOUNT = '(\d+)'", done.stderr)[-1]

        self.assertEqual(spins(OMP_WAIT_POLICY=''), '2000')
        self.assertEqual(spins(OMP_WAIT_POLICY='', GOMP_SPINCOUNT='77'), '77')
        self.assertGreater(int(spins(OMP_WAIT_POLICY='active')), 2000)
        self.assertNotEqual(spins(OMP_WAIT_POLICY='', PATH=''), '2000')  # whose place it takes

    def test_help_names_flags_and_blocks(self):
        text = self.run_trainer(['--help']).text
        for word in ('configFile=', '--check', '--dump-config', '--version', 'help=', 'trainer simulate --help'):
            self.assertIn(word, text)

    def test_help_of_a_block(self):
        for name in ('SGD', 'sgd'):
            text = self.run_trainer([f'help={name}']).text
            for key in ('maxEpochs', 'minibatchSize', 'learningRatesPerMB', 'momentumAsTimeConstant', 'checkpointEverySamples'):
                self.assertIn(key, text)
        self.assertIn('gradientBits', self.run_trainer(['help=DataParallelSGD']).text)
        self.assertIn('file', self.run_trainer(['help=CNTKTextFormatReader']).text)

    def test_help_of_a_command(self):
        for name in ('new', 'launch', 'plan', 'simulate', 'doctor', 'sweep', 'report', 'diff', 'completion', 'man'):
            self.assertIn(f'trainer {name} --help explains its options', self.run_trainer(['help', name]).text)
        self.assertIn('--safetensors', self.run_trainer(['help=export']).text)
        self.assertRegex(self.run_trainer(['help', 'list']).text, r'(?s)commands:.*\n  plan  .*\nblocks, actions and readers:')

    def test_a_mistyped_command(self):
        for words, fix in ((['predcit', 'models/model.dnn'], "did you mean 'predict'?"), (['lanch', '-n', '2', 'configFile=run.cntk'], "did you mean 'launch'?"),
                           (['nosuchcmd'], 'trainer --help lists the commands')):
            result = self.run_trainer(words, expect=2)
            self.assertIn(f"error: there is no command '{words[0]}'", result.stderr)
            self.assertIn(f'fix: {fix}', result.stderr)
        # A key alone means true, and a file is one.
        self.run_trainer(['makeMode', 'configFile=run.cntk', '--check'])
        self.assertIn('did you mean configFile=run.cntk?', self.run_trainer(['run.cntk'], expect=2).stderr)

    # --- check and dump
    def test_check_trains_nothing(self):
        result = self.run_trainer(['--check', 'configFile=run.cntk'])
        self.assertFalse((self.directory / 'models').exists(), 'a check leaves nothing behind')
        self.assertRegex(result.text, r'maxEpochs = 2')
        self.assertNotIn('Finished Epoch', result.text)

    def test_check_on_three_ranks_speaks_once(self):
        result = self.run_trainer(['--check', 'configFile=run.cntk'], ranks=3)
        self.assertEqual(len(re.findall(r'maxEpochs = 2', result.text)), 1, str(result))

    def test_check_reports_all_mistakes_together(self):
        result = self.run_trainer(['--check', 'configFile=run.cntk', 'Train=[SGD=[maxEpoch=3;useNAG=perhaps];reader=[file=no.ctf]]'], expect=2)
        for fragment in ("did you mean 'maxEpochs'", 'perhaps', 'no.ctf'):
            self.assertIn(fragment, result.text)
        self.assertGreaterEqual(result.text.count('<command line>:'), 3)

    def test_check_sees_wrong_shapes(self):
        self.run_trainer(['--check', 'configFile=run.cntk', 'Train=[reader=[input=[features=[dim=3]]]]'], expect=2)

    def test_dump_config_is_a_config(self):
        """What is dumped gives the same effective settings when it is read."""
        dumped = self.run_trainer(['--dump-config', 'configFile=run.cntk', 'Train=[SGD=[maxEpochs=5]]']).stdout
        self.assertRegex(dumped, r'maxEpochs = 5')
        self.assertFalse((self.directory / 'models').exists())

    # --- overrides and files
    def epochs_of(self, *arguments):
        return support.epochs(self.run_trainer(['configFile=run.cntk', 'makeMode=false', *arguments]).text)

    def test_overrides_merge_into_blocks(self):
        self.assertEqual(len(self.epochs_of('Train=[SGD=[maxEpochs=3]]')), 3)
        self.assertEqual(len(self.epochs_of('train=[sgd=[MAXEPOCHS=1]]')), 1)

    def test_later_beats_earlier(self):
        self.assertEqual(len(self.epochs_of('Train=[SGD=[maxEpochs=3]]', 'Train=[SGD=[maxEpochs=4]]')), 4)
        before = self.run_trainer(['Train=[SGD=[maxEpochs=5]]', 'configFile=run.cntk', 'makeMode=false']).text
        self.assertEqual(len(support.epochs(before)), 2, 'the file beats what stands before it')

    def test_several_files(self):
        self.write('more.cntk', 'Train = [ SGD = [ maxEpochs = 3 ] ]\n')
        text = self.run_trainer(['configFile=run.cntk+more.cntk']).text
        self.assertEqual(len(support.epochs(text)), 3)

    def test_variable_from_the_command_line(self):
        self.write('dir.cntk', examples.config().replace('"train.ctf"', '"$DataDir$/train.ctf"') + 'DataDir = "nowhere"\n')
        self.write('data/train.ctf', examples.points(48))
        text = self.run_trainer(['configFile=dir.cntk', 'DataDir=data']).text
        self.assertEqual(support.epochs(text)[0]['totalSamplesSeen'], 48)

    def test_current_directory(self):
        self.write('sub/other.cntk', examples.config())
        self.write('sub/train.ctf', examples.points(20))
        self.run_trainer(['currentDirectory=sub', 'configFile=other.cntk'])
        self.assertTrue((self.directory / 'sub/models/model.dnn').exists())

    def test_presets(self):
        """Every preset in configs/ fits a config of the user's, added on the command line or included."""
        presets = sorted((support.SOURCE / 'configs').glob('*.cntk'))
        self.assertTrue(presets)
        samples = ''.join(p.read_text(encoding='utf-8') for p in (support.SOURCE / 'samples/methods').glob('*.cntk'))
        for preset in presets:
            with self.subTest(preset=preset.name):
                self.run_trainer(['--check', f'configFile=run.cntk+{preset}'])
                self.write('including.cntk', examples.config() + f'include={preset}\n')
                if f'configs/{preset.name}\n' in samples:  # samples_test.py trains with it on two ranks
                    self.run_trainer(['--check', 'configFile=including.cntk'])
                    continue
                text = self.run_trainer(['configFile=including.cntk', 'makeMode=false'], ranks=2).text
                self.assertEqual(len(support.epochs(text)), 2)

    # --- logs
    def test_log_files_of_ranks(self):
        result = self.run_trainer(['configFile=run.cntk', 'stderr=logs/run.log'], ranks=2)
        first, second = ((self.directory / 'logs' / n).read_text() for n in ('run.log', 'run.log.rank1'))
        self.assertIn('Redirecting stderr to file logs/run.log', result.text)
        for log in (first, second):
            self.assertEqual(len(support.epochs(log)), 2)
            self.assertEqual(log.rstrip().splitlines()[-1], 'COMPLETED.')
        figures = [[(e['CrossEntropyWithSoftmax'], e['totalSamplesSeen']) for e in support.epochs(log)] for log in (first, second)]
        self.assertEqual(figures[0], figures[1], 'all ranks log the same totals')

    def test_terminal_shows_each_line_once(self):
        text = self.run_trainer(['configFile=run.cntk'], ranks=3).text
        self.assertEqual(len(support.epochs(text)), 2)

    def test_timestamps(self):
        self.run_trainer(['configFile=run.cntk', 'command=Train:Test', 'stderr=run', 'timestamping=true'], ranks=2)
        names = sorted(p.name for p in self.directory.glob('run_*'))
        self.assertEqual(names, ['run_Train_Test.logrank0', 'run_Train_Test.logrank1'])
        lines = [l for l in (self.directory / names[0]).read_text().splitlines() if l]
        # The settings shown at the start hold blocks of several lines as the user wrote them.
        begin = next(i for i, l in enumerate(lines) if 'Train command (train action)' in l)
        for line in lines[begin:]:
            self.assertRegex(line, r'^\d\d/\d\d/\d{4} \d\d:\d\d:\d\d: ')
        self.assertTrue(lines[-1].endswith('__COMPLETED__'), lines[-1])

    def test_a_test_adds_to_the_log_of_the_training(self):
        for make_mode in ('true', 'false'):
            words = ['configFile=run.cntk', f'modelPath={make_mode}/m', f'stderr={make_mode}/log', f'makeMode={make_mode}']
            for command in ('Train', 'Test'):
                self.run_trainer([*words, f'command={command}'])
            log = (self.directory / make_mode / 'log').read_text()
            self.assertEqual(len(support.epochs(log)), 2)
            self.assertTrue(support.final_results(log))
        self.run_trainer([*words, 'command=Train'])
        log = (self.directory / make_mode / 'log').read_text()
        self.assertEqual(len(support.epochs(log)), 2, 'a training from scratch begins the log anew')
        self.assertNotIn('Test command', log)

    def test_action_banner(self):
        text = self.run_trainer(['configFile=run.cntk', 'command=Train:Test']).text
        for action in ('Train command (train action)', 'Test command (test action)'):
            self.assertRegex(text, r'(?m)^#{78}$\n^#\s+#$\n^# ' + re.escape(action) + r' +#$|^#{78}\n# ' + re.escape(action) + r' +#\n#{78}$')
        self.assertIn('Action "train" complete.', text)


if __name__ == '__main__':
    support.main()
