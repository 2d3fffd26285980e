# SPDX-License-Identifier: Apache-2.0
"""Hostile and odd surroundings: a run works there, or says what is missing, and writes nowhere that it was not told to."""
import os
import resource
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
        # The model fits, and its state does not.
        words = [*self.prepare(self.directory / 'size'), 'Train=[SimpleNetworkBuilder=[layerSizes=2:200:2];SGD=[checkpointEverySamples=100]]']
        done = subprocess.run(support.command_line(words, None), cwd=self.directory, capture_output=True, text=True, timeout=support.PATIENCE, check=False,
                              env=support.environment(self.directory), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (7168, 7168)))
        self.assertEqual(done.returncode, 86, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"model\.dnn\.\S+' could not be saved \(writing '.*': File too large \(ulimit -f, or the file system\)\)")
        self.assertEqual(list((self.directory / 'size/models').glob('*.tmp')), [])

    @unittest.skipUnless(shell_allowed('mount -t tmpfs -o size=4k tmpfs /dev/shm'), 'mounting is not allowed here')
    def test_no_shared_memory(self):
        """/dev/shm without space: the trainer moves Open MPI's files, and trainer launch says so."""
        expected = self.expected()
        env = support.environment(self.directory)
        env.pop('OMPI_MCA_btl_vader_backing_directory')
        for name, start in (('launch', [support.TRAINER, 'launch', '-n', '2']), ('mpiexec', [support.MPIEXEC, '-n', '2', support.TRAINER])):
            with self.subTest(name):
                folder = self.directory / f'shm-{name}'
                words = ['sh', '-c', 'mount -t tmpfs -o size=4k tmpfs /dev/shm && exec "$@"', 'sh', *start, *self.prepare(folder)]
                done = subprocess.run(['unshare', '--mount', *words], env=env, cwd=self.directory, capture_output=True, text=True,
                                      timeout=support.PATIENCE, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual('/dev/shm is small' in done.stderr, name == 'launch')
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

    MORE = '''
reader = [ readerType = CNTKTextFormatReader ; file = "train.ctf" ; input = [
    features = [ alias = "x" ; dim = 2 ; format = "dense" ]
    labels   = [ alias = "y" ; dim = 2 ; format = "dense" ] ] ]
Write = [ action = write ; outputPath = "out/nodes" ]
Htk   = [ action = write ; outputNodeNames = features ; writer = [ writerType = HTKMLFWriter ; features = [ dim = 2 ; scpFile = list ] ] ]
Dump  = [ action = dumpNode ; outputFile = "out/nodes.txt" ]
Stats = [ action = bnstat ; newModelPath = "out/stats.dnn" ]
Svd   = [ action = SVD ; outputModelPath = "out/svd.dnn" ; nodeNameRegex = ".*" ]
Edit  = [ action = edit ; editPath = script ]
Words = [ action = writeWordAndClass ; inputFile = train.ctf ; outputVocabFile = "out/words" ; vocabSize = 9 ; beginSequence = a ; endSequence = b ]
'''

    def test_write_under(self):
        """--write-under: whatever the config names, nothing outside of that folder is written; the rest is written as ever."""
        folder = self.directory / 'given'
        arguments = [*self.prepare(folder, self.MORE), '--write-under', folder]
        for name, text in (('list', '../a.htk\n'), ('script', 'm = LoadModel("models/model.dnn")\nDumpModel(m, "../dump.txt")\nSaveModel(m, "out/m")\n'),
                           ('saves', 'm = LoadModel("models/model.dnn")\nSaveModel(m, "../m.dnn")\n')):
            (folder / name).write_text(text, encoding='utf-8')
        (self.directory / 'elsewhere').mkdir()
        (folder / 'link').symlink_to(self.directory / 'elsewhere')
        (folder / 'log').symlink_to('../new.log')
        allowed = ['stderr=logs/run.log', f'doneFile={folder}/done', 'Train=[SGD=[timeline=new/t.json;metrics=[jsonl=new/a.jsonl;tensorBoard=new/board]]]',
                   'Test=[reader=[file=train.ctf];confusionFile=new/table.csv]', 'command=Train:Test:Write:Dump:Words']
        self.run_trainer([*arguments, *allowed], 2)
        for name in ('models/model.dnn', 'logs/run.log', 'done', 'new/t.json', 'new/a.jsonl', 'new/board', 'new/table.csv', 'out/nodes.txt', 'out/words'):
            self.assertTrue((folder / name).exists(), name)
        before = {p for p in self.directory.rglob('*')}
        for ranks, *words in ((2, 'modelPath=../out/m'), (2, 'Train=[modelPath=link/m]'), (2, f'stderr={self.directory}/run.log'), (None, 'stderr=log'),
                              (None, 'stderr=link/new/run.log'), (None, 'doneFile=new/../../done'), (None, 'Train=[SGD=[timeline=link/t.json]]'),
                              (None, 'Train=[SGD=[metrics=[jsonl=../a.jsonl]]]'), (None, 'Train=[SGD=[metrics=[tensorBoard=link]]]'),
                              (None, 'Test=[confusionFile=/c.csv;reader=[file=train.ctf]]', 'command=Test'), (None, 'Write=[outputPath=../w]', 'command=Write'),
                              (None, 'command=Htk'), (None, 'Dump=[outputFile=link/nodes.txt]', 'command=Dump'), (None, 'command=Edit'),
                              (None, 'Edit=[editPath=saves]', 'command=Edit'), (None, 'Stats=[newModelPath=../s]', 'command=Stats'),
                              (None, 'Svd=[outputModelPath=../s]', 'command=Svd'), (None, 'Words=[outputMappingFile=../w]', 'command=Words')):
            with self.subTest(words=words):
                result = self.run_trainer([*arguments, 'makeMode=false', *words], ranks, expect=2)
                self.assertRegex(result.text, r"(?m)^(<command line>|run\.cntk|script|saves):\d+:\d+: error: .*is outside of '\S*/given', and --write-under")
                self.assertIn('fix: name ', result.text)
                self.assertEqual({p for p in self.directory.rglob('*')}, before)
        self.assertIn("there is no directory 'nowhere'", self.run_trainer([*arguments[:2], '--write-under=nowhere'], expect=2).text)


if __name__ == '__main__':
    support.main()
