# SPDX-License-Identifier: Apache-2.0
"""Hostile and odd surroundings: a run works there, or says what is missing, and writes nowhere that it was not told to."""
import os
import shutil
import subprocess
import unittest

import examples
import support


def shell_allowed(command):
    """Whether this command works here as root in namespaces of its own."""
    return os.geteuid() == 0 and shutil.which('unshare') and subprocess.run(['unshare', '--mount', '--time', 'sh', '-c', command], capture_output=True,
                                                                           check=False).returncode == 0


class SurroundingsTest(support.TrainerTest):
    def prepare(self, folder, more=''):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / 'run.cntk').write_text(examples.config(minibatch=40) + more, encoding='utf-8')
        (folder / 'train.ctf').write_text(examples.points(400), encoding='utf-8')
        return [f'currentDirectory={folder}', 'configFile=run.cntk']

    model = None

    def expected(self):
        """The model of a plain run, which is made once."""
        if SurroundingsTest.model is None:
            self.run_trainer(self.prepare(self.directory / 'plain'), 2)
            SurroundingsTest.model = (self.directory / 'plain/models/model.dnn').read_bytes()
        return SurroundingsTest.model

    def test_paths(self):
        expected = self.expected()
        for name in ('with a space', 'übung-数据-🚀', "quote's", '-dash', 'long-' + 'x' * 200):
            with self.subTest(name=name):
                folder = self.directory / 'paths' / name
                self.run_trainer(self.prepare(folder), 2)
                self.assertTrue((folder / 'models/model.dnn').read_bytes() == expected)

    def test_symbolic_links(self):
        expected = self.expected()
        real = self.directory / 'real'
        arguments = self.prepare(real)
        (self.directory / 'elsewhere').mkdir()
        (real / 'models').symlink_to(self.directory / 'elsewhere')
        (self.directory / 'link').symlink_to(real)
        arguments[0] = f'currentDirectory={self.directory / "link"}'
        self.run_trainer(arguments, 2)
        self.assertTrue((self.directory / 'elsewhere/model.dnn').read_bytes() == expected)
        # Two names of one model are one model: the second run finds it finished.
        arguments[0] = f'currentDirectory={real}'
        self.assertIn('Final model exists', self.run_trainer(arguments, 2).text)

    def test_locales(self):
        """A locale that is not installed, and one that writes numbers with a comma, change nothing."""
        expected = self.expected()
        for locale in ('xx_XX.UTF-8', 'C', 'de_DE.UTF-8', ''):
            with self.subTest(locale=locale):
                folder = self.directory / f'locale{len(locale)}'
                run = support.Run(self.directory, self.prepare(folder), 2, {'LC_ALL': locale, 'LANG': locale})
                self.addCleanup(run.close)
                result = run.wait()
                self.assertEqual(result.code, 0, str(result))
                self.assertTrue((folder / 'models/model.dnn').read_bytes() == expected)

    def limited(self, limits, arguments, variables=None):
        command = f'{limits}; exec "$@"'
        return subprocess.run(['sh', '-c', command, 'sh', *support.command_line(arguments, 2)], cwd=self.directory, capture_output=True, text=True,
                              env=support.environment(self.directory) | (variables or {}), timeout=support.PATIENCE, check=False)

    def test_limits(self):
        """Few open files and no core files are enough; a limit on the size of files is a full disk."""
        expected = self.expected()
        done = self.limited('ulimit -n 128; ulimit -c 0', self.prepare(self.directory / 'files'))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue((self.directory / 'files/models/model.dnn').read_bytes() == expected)
        done = self.limited('ulimit -f 1', self.prepare(self.directory / 'size'))
        self.assertNotEqual(done.returncode, 0)

    @unittest.skipUnless(shell_allowed('mount -t tmpfs -o size=4k tmpfs /dev/shm'), 'mounting is not allowed here')
    def test_no_shared_memory(self):
        """/dev/shm without space: trainer launch moves Open MPI's files."""
        expected = self.expected()
        folder = self.directory / 'shm'
        words = [support.TRAINER, 'launch', '-n', '2', *self.prepare(folder)]
        env = support.environment(self.directory)
        env.pop('OMPI_MCA_btl_vader_backing_directory')
        done = subprocess.run(['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs -o size=4k tmpfs /dev/shm && exec "$@"', 'sh', *words], env=env,
                              cwd=self.directory, capture_output=True, text=True, timeout=support.PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn('/dev/shm is small', done.stderr)
        self.assertTrue((folder / 'models/model.dnn').read_bytes() == expected)

    def test_two_runs_into_one_folder(self):
        arguments = [*self.prepare(self.directory / 'twice'), 'Train=[SGD=[maxEpochs=100000;numMBsToShowResult=0]]']
        first = self.start_trainer(arguments, 2)
        while first.running() and not (self.directory / 'twice/models/model.dnn.1').exists():
            support.time.sleep(0.01)
        second = self.run_trainer(arguments, 2, expect=2)
        self.assertRegex(second.text, r"another run works on the model 'models/model\.dnn': process \d+ on \S+, started")
        self.assertTrue(first.running())

    def test_a_config_from_a_stranger(self):
        """A run writes below the model path, the log and what the config names; nothing outside of the folder it was given."""
        folder = self.directory / 'inside'
        arguments = self.prepare(folder)
        before = {p for p in self.directory.rglob('*')}
        self.run_trainer([*arguments, 'stderr=logs/run.log'], 2)
        made = {p for p in self.directory.rglob('*')} - before
        outside = [p for p in made if folder not in p.parents and not p.name.startswith(('.std', 'vader', 'ompi', 'pmix'))]
        self.assertEqual(outside, [])
        names = sorted(p.relative_to(folder).parts[0] for p in made if p.parent == folder)
        self.assertEqual(names, ['logs', 'models'])


if __name__ == '__main__':
    support.main()
