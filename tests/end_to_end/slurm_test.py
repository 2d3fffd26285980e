# SPDX-License-Identifier: Apache-2.0
"""The trainer under a real Slurm: Debian's slurm-wlm and munge, for this machine alone, with all their files in the test's folder.
Skipped, with the reason, where they are not installed (apt install slurm-wlm munge) or do not start."""
import getpass
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import examples
import support

CONFIG = '''
ClusterName=tutti
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
'''


def program(name):
    found = shutil.which(name, path=os.environ['PATH'] + ':/usr/sbin:/sbin')
    if not found:
        raise unittest.SkipTest(f'no Slurm: {name} is not installed (apt install slurm-wlm munge)')
    return found


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(('127.0.0.1', 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class SlurmTest(support.TrainerTest):
    daemons = []

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if support.SANITIZED:
            raise unittest.SkipTest('Slurm does not pass the settings of sanitizers on')
        programs = {name: program(name) for name in ('munged', 'slurmctld', 'slurmd', 'srun', 'sbatch', 'salloc', 'sinfo')}
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix='slurm-'))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.addClassCleanup(cls.stop)
        for name in ('state', 'spool'):
            (cls.folder / name).mkdir()
        (cls.folder / 'munge.key').write_bytes(os.urandom(1024))
        (cls.folder / 'munge.key').chmod(0o400)
        host = socket.gethostname().split('.')[0]
        cls.configuration = cls.folder / 'slurm.conf'
        cls.configuration.write_text(CONFIG.format(host=host, folder=cls.folder, user=getpass.getuser(), ports=free_ports(2)))
        cls.start(programs['munged'], '--foreground', '--force', f'--key-file={cls.folder}/munge.key', f'--socket={cls.folder}/munge.socket', f'--pid-file={cls.folder}/munged.pid',
                  f'--log-file={cls.folder}/munged.log', f'--seed-file={cls.folder}/munged.seed')
        time.sleep(0.5)
        cls.start(programs['slurmctld'], '-D')
        time.sleep(1)
        cls.start(programs['slurmd'], '-D', '-N', host)
        for _ in range(40):
            state = subprocess.run([programs['sinfo'], '-h', '-o', '%T'], env=cls.variables(), capture_output=True, text=True, check=False).stdout.strip()
            if state == 'idle':
                return
            time.sleep(0.5)
        said = '; '.join((cls.folder / f'{pathlib.Path(d.args[0]).name}.out').read_text(errors='replace').strip().rsplit('\n', 1)[-1] for d in cls.daemons)
        raise unittest.SkipTest(f'Slurm does not start here (its node is {state or "unknown"}): {said}')

    @classmethod
    def variables(cls):
        return dict(os.environ, SLURM_CONF=str(cls.configuration))

    @classmethod
    def start(cls, *words):
        with open(cls.folder / f'{pathlib.Path(words[0]).name}.out', 'wb') as out:
            cls.daemons.append(subprocess.Popen(words, env=cls.variables(), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT))

    @classmethod
    def stop(cls):
        for daemon in reversed(cls.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        cls.daemons.clear()

    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config(hidden='20', minibatch=20, epochs=2, bits=1))
        self.write('train.ctf', examples.points(1000))

    def slurm(self, *words, expect=(0,)):
        environment = support.environment(self.directory) | {'SLURM_CONF': str(self.configuration)}
        done = subprocess.run([str(w) for w in words], cwd=self.directory, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=support.PATIENCE, check=False)
        self.assertIn(done.returncode, expect, f'{words}\n{done.stdout}')
        return done.stdout

    def script(self, *lines):
        return self.write('job.sh', '\n'.join(('#!/bin/sh', '#SBATCH --output=job.out') + lines) + '\n')

    def output(self):
        path = self.directory / 'job.out'
        return path.read_text() if path.exists() else ''

    def reference(self):
        self.run_trainer(['configFile=run.cntk', 'modelPath=mpiexec/m'], 2)
        return (self.directory / 'mpiexec/m').read_bytes()

    def test_srun_equals_mpiexec(self):
        if 'pmix' not in self.slurm('srun', '--mpi=list'):
            self.skipTest('this Slurm has no PMIx')
        text = self.slurm('srun', '--mpi=pmix', '-n', 2, support.TRAINER, 'configFile=run.cntk', 'modelPath=srun/m')
        self.assertIn('ranks      2 on 1 host', text)
        self.assertEqual((self.directory / 'srun/m').read_bytes(), self.reference())

    def test_a_batch_script_with_launch(self):
        self.script('#SBATCH --ntasks=2', f'exec {support.TRAINER} launch configFile=run.cntk modelPath=batch/m')
        self.slurm('sbatch', '--wait', 'job.sh')
        text = (self.directory / 'job.out').read_text()
        self.assertIn('attempt 1 on 2 ranks', text)
        self.assertEqual((self.directory / 'batch/m').read_bytes(), self.reference(), text)

    def test_a_signal_before_the_time_limit(self):
        """As with --signal=B:USR1@60: a checkpoint, code 75; the same script continues."""
        self.script('#SBATCH --ntasks=2', f'exec {support.TRAINER} launch configFile=run.cntk modelPath=batch/m "Train=[SGD=[maxEpochs=2000]]" stderr=log')
        job = re.search(r'\d+', self.slurm('sbatch', 'job.sh')).group(0)
        logs = [self.directory / name for name in ('log', 'log_Train.logrank0')]
        self.wait_for('Finished Epoch[ 3 ', lambda: ''.join(log.read_text() for log in logs if log.exists()))
        self.slurm('scancel', '--batch', '--signal=USR1', job)
        self.wait_for('exit code 75')
        self.script('#SBATCH --ntasks=2', f'exec {support.TRAINER} launch configFile=run.cntk modelPath=batch/m "Train=[SGD=[maxEpochs=5]]"')
        self.slurm('sbatch', '--wait', 'job.sh')

    def test_requeued(self):
        """Slurm ends the script of a preempted job and starts it again: the model is byte for byte that of an undisturbed run."""
        longer = 'Train=[SGD=[maxEpochs=300]]'
        self.script('#SBATCH --ntasks=2', '#SBATCH --requeue', '#SBATCH --open-mode=append',
                    f'exec {support.TRAINER} launch --restarts 1 configFile=run.cntk modelPath=batch/m "{longer}"')
        job = re.search(r'\d+', self.slurm('sbatch', 'job.sh')).group(0)
        self.wait_for('Finished Epoch[ 3 ')
        self.slurm('scontrol', 'requeue', job)
        self.wait_for('exit code 75')
        self.wait_for('JobState=PENDING', lambda: self.slurm('scontrol', 'show', 'job', job))
        self.slurm('scontrol', 'update', f'JobId={job}', 'StartTime=now')  # a requeued job waits for two minutes
        self.wait_for(', exit code 0')
        self.assertNotIn('attempt 2', self.output())  # the second start of the script is its own first attempt
        self.assertNotIn('Finished Epoch[ 1 of 300]', self.output().split('exit code 75')[1])
        self.run_trainer(['configFile=run.cntk', 'modelPath=mpiexec/m', longer], 2)
        self.assertEqual((self.directory / 'batch/m').read_bytes(), (self.directory / 'mpiexec/m').read_bytes(), self.output())

    def wait_for(self, words, where=None):
        """Until the output of the job, or what `where` gives, has these words."""
        end = time.monotonic() + support.PATIENCE
        while words not in (where or self.output)():
            self.assertLess(time.monotonic(), end, self.output())
            time.sleep(0.2)

    def test_a_rank_per_task(self):
        text = self.slurm('salloc', '-n', 3, support.TRAINER, 'doctor', expect=(0, 1))  # 1: warnings, as of few cores
        self.assertRegex(text, r'3 ranks')
        text = self.slurm('salloc', '-n', 3, support.TRAINER, 'plan', 'configFile=run.cntk')
        self.assertIn('Train on 3 ranks of 1 host', text)

    def test_a_sweep(self):
        self.write('sweep.yaml', 'config: run.cntk\nparameters: {Train.SGD.learningRatesPerMB: [0.1, 0.3, 0.5]}\nparallel: 2\noutput: out\n')
        text = self.slurm(support.TRAINER, 'sweep', 'sweep.yaml', '--slurm')
        self.assertEqual(len(re.findall(r'^run-.* ended ', text, re.MULTILINE)), 3, text)


if __name__ == '__main__':
    support.main()
