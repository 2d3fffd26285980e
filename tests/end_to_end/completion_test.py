# SPDX-License-Identifier: Apache-2.0
"""Shell completion from the option tables, in a real bash (and zsh and fish where they are); the manual page."""
import contextlib
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
import unittest

import examples
import support


class CompletionTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config())

    def words(self, *words):
        return subprocess.run([support.TRAINER, 'completion', 'words', *words], cwd=self.directory, capture_output=True, text=True, check=True).stdout.split()

    def test_words(self):
        self.assertIn('doctor', self.words(''))
        self.assertEqual(self.words('--ch'), ['--check'])
        self.assertEqual(self.words('--write-under', 'ru'), ['run.cntk'])
        self.assertEqual(self.words('configFile=ru'), ['configFile=run.cntk'])
        self.assertEqual(self.words('configFile=run.cntk', 'Train=[SGD=[maxEp'), ['Train=[SGD=[maxEpochs='])
        self.assertEqual(self.words('Train=[SGD=[maxEpochs=3;minib'), ['Train=[SGD=[maxEpochs=3;minibatchSize='])
        self.assertIn('Train=[SGD=[ParallelTrain=[DataParallelSGD=[', self.words('Train=[SGD=[ParallelTrain=[Data'))
        self.assertIn('Train=[SGD=[ParallelTrain=[parallelizationMethod=EASGD', self.words('Train=[SGD=[ParallelTrain=[parallelizationMethod=E'))
        self.assertEqual(self.words('configFile=run.cntk', 'Tes'), ['Test=['])
        self.assertEqual(self.words('Tes'), [])
        self.assertEqual(self.words('help=gradientBi'), ['help=gradientBits'])
        self.assertEqual(self.words('forceDeterministicAlgorithms=t'), ['forceDeterministicAlgorithms=true'])
        self.assertEqual(self.words('nonsense=[a=[b'), [])
        self.assertEqual(self.words('diff', 'run'), ['run.cntk'])
        self.assertEqual(self.words('export', 'a.dnn', '--on'), ['--onnx'])
        self.assertIn('--classes', self.words('predict', 'a.dnn', '--'))
        self.assertEqual(self.words('predict', 'a.dnn', '--ch'), [])

    def test_words_of_commands(self):
        self.write('hosts', 'localhost slots=2\n')
        self.assertEqual(self.words('new', ''), ['mnist', 'images', 'text', 'sequence', 'table'])
        self.assertEqual(self.words('new', 'table', 'ru'), ['run.cntk'])
        self.assertEqual(self.words('launch', '--hostfile', 'h'), ['hosts'])
        self.assertEqual(self.words('launch', '--hostfile=h'), ['--hostfile=hosts'])
        self.assertEqual(self.words('launch', '--rest'), ['--restarts'])
        self.assertEqual(self.words('launch', '-n', '2', '--ch'), ['--check'])
        self.assertEqual(self.words('launch', '--write-under', 'ru'), ['run.cntk'])
        self.assertEqual(self.words('launch', '-n', '2', 'configFile=ru'), ['configFile=run.cntk'])
        self.assertEqual(self.words('report', '--output', 'ru'), ['run.cntk'])
        self.assertEqual(self.words('sweep', '--ta'), ['--table'])
        self.assertEqual(self.words('doctor', '--ch'), [])
        self.assertIn('configFile=', self.words())

    def test_every_option_of_a_usage_is_known(self):
        for command in ('new', 'launch', 'plan', 'simulate', 'doctor', 'sweep', 'report'):
            usage = subprocess.run([support.TRAINER, command, '--help'], capture_output=True, text=True, check=True).stdout
            usage = re.sub(r'trainer \w+ --help', '', usage)
            self.assertLessEqual(set(re.findall(r'--[a-z-]+', usage)), set(self.words(command, '--')), command)

    def test_every_key_of_help_is_known(self):
        keys = re.findall(r'^  ([a-zA-Z]\w*)  ', self.run_trainer(['help=SGD']).stdout, re.MULTILINE)
        found = {re.sub(r'.*\[|=\[?$', '', w) for w in self.words('Train=[SGD=[')} | {w[len('Train=[SGD=['):].rstrip('=[') for w in self.words('Train=[SGD=[')}
        self.assertLessEqual(set(keys), found)

    def bash(self, line):
        script = subprocess.run([support.TRAINER, 'completion', 'bash'], capture_output=True, text=True, check=True).stdout
        # Words as readline splits them: at blanks, = and :.
        parts = [p for word in line.split(' ')[:-1] for p in re.findall(r'[=:]+|[^=:]+', word)] + (re.findall(r'[=:]+|[^=:]+', line.split(' ')[-1]) or [''])
        quoted = ' '.join("'" + p + "'" for p in parts)
        done = subprocess.run(['bash', '-c', f"compopt() {{ :; }}\n{script}\nCOMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=({quoted}); COMP_CWORD={len(parts) - 1}\n"
                               '_trainer; printf "%s\\n" "${COMPREPLY[@]}"'], cwd=self.directory, capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, '')
        return done.stdout.split()

    @unittest.skipUnless(shutil.which('bash'), 'no bash')
    def test_bash(self):
        program = support.TRAINER
        self.assertIn('sweep', self.bash(f'{program} '))
        self.assertEqual(self.bash(f'{program} --dry'), ['--dry-run'])
        # What readline replaces begins behind the last = or :.
        self.assertEqual(self.bash(f'{program} configFile='), ['run.cntk'])
        self.assertEqual(self.bash(f'{program} configFile=run'), ['run.cntk'])
        self.assertEqual(self.bash(f'{program} configFile=run.cntk Train=[SGD=[maxEpo'), ['[maxEpochs='])

    def script(self, shell, name):
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(subprocess.run([support.TRAINER, 'completion', shell], capture_output=True, text=True, check=True).stdout, encoding='utf-8')
        return path

    def typed(self, shell, setup, line, one='$((0+1))'):
        """What stands on the command line of a shell after a user has typed `line` and pressed Tab. The line is then echoed, within double quotes."""
        (self.directory / 'bin').mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (self.directory / 'bin/trainer').symlink_to(support.TRAINER)
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(self.directory)
            os.environ.update(PATH=f'{self.directory}/bin:{os.environ["PATH"]}', HOME=str(self.directory), TERM='dumb', PS1='> ')
            os.execvp(shell[0], shell)
        self.addCleanup(os.waitpid, process, 0)
        self.addCleanup(os.kill, process, signal.SIGKILL)
        said = ''

        def until(pattern):
            nonlocal said
            end = time.monotonic() + support.PATIENCE
            while not (found := re.search(pattern, said)):
                self.assertLess(time.monotonic(), end, said)
                if select.select([terminal], [], [], 0.1)[0]:
                    said += os.read(terminal, 65536).decode(errors='replace')
            return found[1]
        os.write(terminal, f'{setup}\necho READY{one}\n'.encode())
        until('(READY1)')
        os.write(terminal, f'{line}\t'.encode())
        # Ctrl-A and Ctrl-E go to the begin and the end of the line. A shell reads them when it is done with the Tab.
        os.write(terminal, b'\x01echo "LINE:\x05:END"\n')
        return until(r'\nLINE:(.*?):END')

    @unittest.skipUnless(shutil.which('bash'), 'no bash')
    def test_typed_in_bash(self):
        setup = f'source {self.script("bash", "trainer.bash")}'
        for line, wanted in (('trainer --dry', 'trainer --dry-run '), ('trainer configFile=ru', 'trainer configFile=run.cntk '),
                             ('trainer Train=[SGD=[maxEp', 'trainer Train=[SGD=[maxEpochs=')):
            self.assertEqual(self.typed(['bash', '--norc', '--noprofile', '-i'], setup, line), wanted)

    @unittest.skipUnless(shutil.which('zsh'), 'no zsh')
    def test_typed_in_zsh(self):
        folder = self.script('zsh', 'functions/_trainer').parent
        setup = f'unsetopt prompt_cr prompt_sp; fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D'
        for line, wanted in (('trainer --dry', 'trainer --dry-run'), ('trainer configFile=ru', 'trainer configFile=run.cntk'), ('trainer sweep ru', 'trainer sweep run.cntk'),
                             ("trainer 'Train=[SGD=[maxEp", "trainer 'Train=[SGD=[maxEpochs="), (r'trainer Train=\[SGD=\[maxEp', r'trainer Train=\[SGD=\[maxEpochs='),
                             ("trainer 'Train=[SGD=[ParallelTrain=[DataParallelS", "trainer 'Train=[SGD=[ParallelTrain=[DataParallelSGD=[")):
            self.assertEqual(self.typed(['zsh', '-f', '-i'], setup, line), wanted)

    @unittest.skipUnless(shutil.which('fish'), 'no fish')
    def test_typed_in_fish(self):
        setup = f'source {self.script("fish", "trainer.fish")}'
        for line, wanted in (('trainer --dry', 'trainer --dry-run '), ('trainer configFile=ru', 'trainer configFile=run.cntk '),
                             (r'trainer Train=\[SGD=\[maxEp', r'trainer Train=\[SGD=\[maxEpochs='), ("trainer 'Train=[SGD=[maxEp", "trainer 'Train=[SGD=[maxEpochs="),
                             ("trainer 'Train=[SGD=[ParallelTrain=[DataParallelS", "trainer 'Train=[SGD=[ParallelTrain=[DataParallelSGD=")):
            self.assertEqual(self.typed(['fish', '--no-config', '-i'], setup, line, one='(math 0+1)'), wanted)

    def test_unknown_shell(self):
        done = subprocess.run([support.TRAINER, 'completion', 'csh'], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn('fix: ', done.stderr)

    def test_manual_page(self):
        page = self.write('trainer.1', subprocess.run([support.TRAINER, 'man'], capture_output=True, text=True, check=True).stdout)
        for word in ('.SH NAME', 'trainer sweep', 'maxEpochs', 'gradientBits', 'DataParallelSGD', '\\-\\-dry\\-run'):
            self.assertIn(word, page.read_text())
        for command, options in (('launch', ('-n', '--restarts', '--min-ranks')), ('new', ('--label',)), ('predict', ('--classes',)), ('export', ('--onnx',))):
            said = re.search(rf'\.B trainer {command} .*\n.*\nOptions: (.*)\n', page.read_text()).group(1)
            self.assertLessEqual(set(options), set(said.replace('\\-', '-').split(', ')), command)
        if shutil.which('groff'):
            done = subprocess.run(['groff', '-man', '-Tascii', '-ww', page], capture_output=True, text=True, check=True)
            self.assertIn('minibatchSize', done.stdout)
            self.assertEqual([l for l in done.stderr.splitlines() if 'cannot adjust line' not in l and "can't break line" not in l], [])


if __name__ == '__main__':
    support.main()
