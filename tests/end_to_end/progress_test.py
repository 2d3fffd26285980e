# SPDX-License-Identifier: Apache-2.0
"""The progress line on a real (pseudo) terminal: of one process, under mpiexec and under trainer launch, with and without a log file;
log files stay plain. And what else a user sees: long lines broken on terminals only, the settings at start, the result at the end."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import examples
import support

PROGRESS = re.compile(r'epoch \d+/\d  \d+%  ETA \d+:\d\d:\d\d  CrossEntropyWithSoftmax = [\d.]+(  \d+ samples/s(  waits \d+\.\d%)?)?$')


class Screen:
    """What a terminal shows of a stream of \\r, \\n, ESC[K and text; `drawn`: every progress line that it has ever shown."""

    def __init__(self, data):
        self.lines, self.drawn = [''], []
        column = 0
        for token in re.findall(r'\r|\n|\x1b\[K|[^\r\n\x1b]+', data):
            if token == '\r':
                column = 0
            elif token == '\n':
                self.lines.append('')
                column = 0
            elif token == '\x1b[K':
                self.lines[-1] = self.lines[-1][:column]
                self.drawn += [self.lines[-1]] if PROGRESS.match(self.lines[-1]) else []
            else:
                self.lines[-1] = self.lines[-1][:column] + token + self.lines[-1][column + len(token):]
                column += len(token)


class ProgressTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config(epochs=4, minibatch=20, bits=1))
        self.write('train.ctf', examples.points(600))
        # 30 steps of 20 ms in each epoch, so a line is drawn in most epochs, whatever the machine does meanwhile.
        self.slow = ['configFile=run.cntk', 'Train=[SGD=[numMBsToShowResult=0;ParallelTrain=[faultHook=[rank=0;sleep=0.02]]]]']

    def watched(self, command, columns=100, controlling=False, stderr='terminal', stop_in_background=False):
        """Runs a command with a terminal for stderr; returns its screen and what it wrote to stdout."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack('HHHH', 40, columns, 0, 0))
        if stop_in_background:
            settings = termios.tcgetattr(its)
            settings[3] |= termios.TOSTOP
            termios.tcsetattr(its, termios.TCSANOW, settings)
        variables = support.environment(self.directory) | {'TERM': 'xterm'}
        attach = (lambda: fcntl.ioctl(its, termios.TIOCSCTTY, 0)) if controlling else None
        with open(self.directory / 'stdout', 'w+b') as out, open(self.directory / 'stderr', 'w+b') as err:
            process = subprocess.Popen(command, cwd=self.directory, env=variables, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=its if stderr == 'terminal' else err, start_new_session=True, preexec_fn=attach, pass_fds=[its])
        os.close(its)
        data, end = b'', time.monotonic() + support.PATIENCE
        while time.monotonic() < end:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    more = os.read(ours, 65536)
                except OSError:  # nobody has it open any more
                    break
                if not more:
                    break
                data += more
            elif process.poll() is not None and stderr != 'terminal':
                break
        self.assertEqual(process.wait(support.PATIENCE), 0, data.decode('utf-8', 'replace'))
        os.close(ours)
        return Screen(data.decode('utf-8', 'replace').replace('\r\n', '\n'))

    def expect_progress(self, screen, ranks):
        # One process trains without the pauses, perhaps in less time than lies between two lines.
        self.assertGreaterEqual(len(screen.drawn), min(ranks, 2), '\n'.join(screen.lines))
        self.assertTrue(all(len(line) < 100 for line in screen.drawn), screen.drawn)
        self.assertTrue(ranks == 1 or any('  waits ' in line for line in screen.drawn), screen.drawn)
        self.assertFalse([line for line in screen.lines if 'ETA' in line], 'the last progress line is left behind')

    def expect_plain(self, name):
        text = (self.directory / name).read_bytes()
        self.assertNotIn(b'\x1b', text)
        self.assertNotIn(b'\r', text)
        self.assertNotIn(b'samples/s', text)
        self.assertEqual(len(support.epochs(text.decode())), 4)
        return text.decode()

    def test_a_single_process(self):
        screen = self.watched([support.TRAINER, *self.slow])
        self.expect_progress(screen, 1)
        # Epoch lines are broken, and nothing of them is lost.
        self.assertTrue(all(len(line) <= 100 for line in screen.lines if 'Epoch[' in line), '\n'.join(screen.lines))
        whole = re.sub(r'([;,])\n    ', r'\1 ', '\n'.join(screen.lines))
        self.assertTrue(all({'totalSamplesSeen', 'learningRatePerSample', 'epochTime'} <= set(e) for e in support.epochs(whole)), whole)
        self.assertEqual(len(support.epochs(whole)), 4)

    def test_under_mpiexec(self):
        """No terminal is a rank's stderr there."""
        for controlling in (False, True):
            with self.subTest(controlling=controlling):
                screen = self.watched(support.command_line(self.slow + ['makeMode=false'], 2), controlling=controlling, stop_in_background=controlling)
                self.expect_progress(screen, 2)
                self.assertTrue(all(len(line) <= 100 for line in screen.lines if 'Epoch[' in line), '\n'.join(screen.lines))

    def test_slow_steps_that_write_lines(self):
        """No line is drawn while another is on its way through mpiexec. It is drawn later, though the next step still runs."""
        screen = self.watched(support.command_line(['configFile=run.cntk', 'Train=[SGD=[maxEpochs=2;minibatchSize=200;numMBsToShowResult=1;'
                                                    'ParallelTrain=[faultHook=[rank=1;sleep=0.6]]]]'], 2))
        self.assertEqual(sum('Minibatch[' in line for line in screen.lines), 6, '\n'.join(screen.lines))
        self.expect_progress(screen, 2)

    def test_a_narrow_terminal(self):
        """Fields that do not fit are left out, the least important first."""
        for columns in (80, 70):
            with self.subTest(columns=columns):
                screen = self.watched(support.command_line(self.slow + ['makeMode=false'], 2), columns=columns)
                self.assertGreater(len(screen.drawn), 1, '\n'.join(screen.lines))
                self.assertTrue(all(len(line) < columns for line in screen.drawn), screen.drawn)
                self.assertFalse(any('waits' in line for line in screen.drawn), screen.drawn)
                self.assertEqual(any('samples/s' in line for line in screen.drawn), columns == 80, screen.drawn)

    def test_under_trainer_launch(self):
        screen = self.watched([support.TRAINER, 'launch', '-n', '2', *self.slow], controlling=True)
        self.expect_progress(screen, 2)

    def test_with_a_log_file(self):
        for ranks in (None, 2):
            with self.subTest(ranks=ranks):
                screen = self.watched(support.command_line(self.slow + ['stderr=run.log', 'makeMode=false'], ranks))
                self.expect_progress(screen, ranks or 1)
                text = self.expect_plain('run.log')
                self.assertTrue(any(len(line) > 120 for line in text.splitlines()), 'lines of files are not broken')
                # The user of the terminal is told how it ended, and where everything lies.
                for shown in ('\n'.join(screen.lines), text):
                    self.assertRegex(shown, r'(?m)^Result: after 4 of 4 epochs: CrossEntropyWithSoftmax = [\d.]+ \* 600; ')
                    self.assertRegex(shown, rf'(?m)^Model:  {self.directory}/models/model.dnn$')
                    self.assertRegex(shown, rf'(?m)^Log:    {self.directory}/run.log$')

    def test_redirected_by_the_user(self):
        """mpiexec 2> file, in a terminal: the terminal gets nothing."""
        screen = self.watched(support.command_line(self.slow, 2), controlling=True, stderr='file')
        self.assertEqual(screen.lines, [''])
        self.expect_plain('stderr')

    def test_settings_at_start(self):
        text = self.run_trainer(['configFile=run.cntk', 'Train=[SGD=[minibatchSize=20*2:60]]'], 2).text
        self.assertRegex(text, r'(?m)^  schedule   learning rate [\d.e-]+ per sample in epoch 1, [\d.e-]+ in epoch 4; 4 epochs of 600 samples, '
                               r'30 steps of 20 samples each at first, 80 steps in all$')
        self.assertRegex(text, r'(?m)^  binding    \S+: rank 0 on cores? [\d,-]+, rank 1 on cores? [\d,-]+$')
        self.assertRegex(text, r'(?m)^Memory: [\d.]+ .B for weights, .* on this rank, [\d.]+ .B on the 2 ranks together$')


if __name__ == '__main__':
    support.main()
