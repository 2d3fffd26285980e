# SPDX-License-Identifier: Apache-2.0
"""Shell completion from the option tables, in a real bash (and zsh and fish where they are); the manual page."""
import re
import shutil
import subprocess
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

    @unittest.skipUnless(shutil.which('zsh'), 'no zsh')
    def test_zsh(self):
        script = self.write('_trainer', subprocess.run([support.TRAINER, 'completion', 'zsh'], capture_output=True, text=True, check=True).stdout)
        subprocess.run(['zsh', '-n', script], check=True)

    @unittest.skipUnless(shutil.which('fish'), 'no fish')
    def test_fish(self):
        script = self.write('trainer.fish', subprocess.run([support.TRAINER, 'completion', 'fish'], capture_output=True, text=True, check=True).stdout)
        done = subprocess.run(['fish', '-c', f'source {script}; function trainer; {support.TRAINER} $argv; end; complete -C "trainer --dry"'], capture_output=True, text=True, check=True)
        self.assertIn('--dry-run', done.stdout)

    def test_unknown_shell(self):
        done = subprocess.run([support.TRAINER, 'completion', 'csh'], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn('fix: ', done.stderr)

    def test_manual_page(self):
        page = self.write('trainer.1', subprocess.run([support.TRAINER, 'man'], capture_output=True, text=True, check=True).stdout)
        for word in ('.SH NAME', 'trainer sweep', 'maxEpochs', 'gradientBits', 'DataParallelSGD', '\\-\\-dry\\-run'):
            self.assertIn(word, page.read_text())
        if shutil.which('groff'):
            done = subprocess.run(['groff', '-man', '-Tascii', '-ww', page], capture_output=True, text=True, check=True)
            self.assertIn('minibatchSize', done.stdout)
            self.assertEqual([l for l in done.stderr.splitlines() if 'cannot adjust line' not in l and "can't break line" not in l], [])


if __name__ == '__main__':
    support.main()
