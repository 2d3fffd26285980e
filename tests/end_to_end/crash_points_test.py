# SPDX-License-Identifier: Apache-2.0
"""Every system call of every checkpoint and of the final save fails, is cut short, or is the last one before the process dies; each
rename is also made, but reported as failed. The next run goes on from the last complete checkpoint at least, and ends with the bytes of a run
that nothing happened to."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess

import examples
import support

SHIM = os.environ.get('TUTTI_CRASH_SHIM', '')
WRITES = ('short', 'torn')
CALLS = ('28', '5', 'last')  # ENOSPC, EIO
HARMLESS = ('short', 'lost')
# The files of a run, in the order in which they are written.
ORDER = ['model.dnn.0', 'model.dnn.1.mid', 'model.dnn.1', 'model.dnn.2.mid', 'model.dnn']


class CrashPointsTest(support.TrainerTest):
    def prepare(self, name):
        folder = self.directory / name
        folder.mkdir()
        (folder / 'run.cntk').write_text(examples.config(hidden='8', minibatch=40, epochs=2), encoding='utf-8')
        (folder / 'train.ctf').write_text(examples.points(200), encoding='utf-8')
        return folder

    def run_in(self, folder, crash=None):
        """crash: (number of the call, how)."""
        log = folder / 'calls'
        log.unlink(missing_ok=True)
        env = support.environment(folder)
        if crash is not None:
            env |= {'LD_PRELOAD': SHIM, 'CRASH_FOLDER': f'{folder}/models', 'CRASH_LOG': str(log), 'CRASH_AT': str(crash[0]), 'CRASH_HOW': crash[1]}
        done = subprocess.run([support.TRAINER, 'configFile=run.cntk', f'modelPath={folder}/models/model.dnn',
                               'Train=[SGD=[numMBsToShowResult=0;checkpointEverySamples=120]]'], cwd=folder, env=env, capture_output=True, text=True,
                              timeout=support.PATIENCE, check=False)
        calls = [line.split(' ') for line in log.read_text().splitlines()] if log.exists() else []
        return done.returncode, done.stdout + done.stderr, calls

    def complete(self, calls):
        """The newest file whose rename was made: the model of an epoch is renamed after its state."""
        done = [pathlib.Path(path).name for _, call, path, result in calls if call == 'rename' and result == '0']
        done = [ORDER.index(name) for name in done if name in ORDER]
        return max(done, default=-1)

    def crash_and_resume(self, number, how, expected):
        folder = self.prepare(f'{how}-{number}')
        code, text, calls = self.run_in(folder, (number, how))
        complete = self.complete(calls)
        again, said, _ = self.run_in(folder)
        problem = None
        used = re.search(r"Loading network from '\S*/(model\S*)'", said)
        start = ORDER.index(used.group(1)) if used else len(ORDER) - 1 if 'Final model exists' in said else -1
        if again != 0:
            problem = f'the next run fails with exit code {again}'
        elif (folder / 'models/model.dnn').read_bytes() != expected:
            problem = 'the model differs'
        elif start < complete:
            problem = f'{ORDER[complete]} was complete, and the next run began with {ORDER[start] if start >= 0 else "nothing"}'
        elif how in ('torn', 'last') and code != 137:
            problem = f'exit code {code} instead of death'
        elif how in HARMLESS and (code != 0 or 'could not be saved' in text):
            problem = f'this is no failure, but exit code {code} or a warning'
        elif [p.name for p in (folder / 'models').iterdir() if p.name.endswith('.tmp') and how != 'last']:
            problem = 'temporary files are left'
        shutil.rmtree(folder)
        return problem and f'call {number} {how}: {problem}\n{calls[-1:]}\n{text[-1500:]}\n--- next run\n{said[-1500:]}'

    def test_every_call(self):
        if not SHIM:
            self.skipTest('TUTTI_CRASH_SHIM does not name the library')
        folder = self.prepare('whole')
        code, text, calls = self.run_in(folder, (0, ''))
        self.assertEqual(code, 0, text)
        expected = (folder / 'models/model.dnn').read_bytes()
        points = [(int(number), how) for number, call, *_ in calls for how in CALLS + {'write': WRITES, 'rename': ('lost',)}.get(call, ())]
        self.assertGreater(len(points), 100)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            problems = [p for p in pool.map(lambda point: self.crash_and_resume(*point, expected), points) if p]
        print(f'{len(calls)} system calls, {len(points)} crash points, {len(problems)} problems')
        self.assertEqual(problems, [], '\n\n'.join(problems[:5]))


if __name__ == '__main__':
    support.main()
