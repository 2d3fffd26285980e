# SPDX-License-Identifier: Apache-2.0
"""What may go wrong while ranks train: one of them is killed, the disk is full, a directory cannot be read or written. All ranks end soon
and say why, what is on the disk is whole, and the same command goes on from it."""
import os
import re
import shutil
import subprocess
import time
import unittest

import examples
import support

# A rank's death is seen at once; the rest is for busy machines.
PROMPTLY = 40 if support.SANITIZED else 20

# name: ranks, the one that is killed, ParallelTrain
METHODS = {
    'gradients': (3, 1, 'parallelizationMethod=DataParallelSGD'),
    'gradients, rank 0': (3, 0, 'parallelizationMethod=DataParallelSGD'),
    'blocks': (3, 2, 'parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=200;exchangeBits=1]'),
    'servers beside the workers': (3, 1, 'parallelizationMethod=ASGD;DataParallelASGD=[syncPeriod=20]'),
    'servers apart, a worker': (3, 1, 'parallelizationMethod=ASGD;DataParallelASGD=[syncPeriod=20;servers=1]'),
    'servers apart, a server': (3, 2, 'parallelizationMethod=ASGD;DataParallelASGD=[push=gradients;servers=1]'),
    'a free centre': (3, 1, 'parallelizationMethod=EASGD;EASGD=[policy=async;period=3]'),
    'a free centre apart': (3, 2, 'parallelizationMethod=EASGD;EASGD=[policy=async;period=3;servers=1]'),
    'groups': (4, 3, 'parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=200];groups=size:2;'
                     'insideGroups=[parallelizationMethod=DataParallelSGD]'),
    'groups at servers': (4, 2, 'parallelizationMethod=ASGD;DataParallelASGD=[syncPeriod=20];groups=size:2;'
                                'insideGroups=[parallelizationMethod=DataParallelSGD]'),
}


class FailureTest(support.TrainerTest):
    def prepare(self, parallel='parallelizationMethod=DataParallelSGD', epochs=100000):
        self.write('run.cntk', examples.config(hidden='32', minibatch=40, epochs=epochs))
        self.write('train.ctf', examples.points(400))
        # Slow enough that what happens in the middle happens there.
        return ['configFile=run.cntk', f'Train=[SGD=[numMBsToShowResult=0;ParallelTrain=[{parallel};faultHook=[rank=0;sleep=0.01]]]]']

    def wait_for(self, path, run):
        while run.running() and not path.exists():
            time.sleep(0.01)

    def newest(self, models):
        """The last epoch whose model and state are there."""
        return max(int(p.name.split('.')[2]) for p in models.glob('model.dnn.*.ckp') if p.with_suffix('').exists())

    def goes_on(self, arguments, models, ranks):
        newest = self.newest(models)
        result = self.run_trainer([*arguments, f'Train=[SGD=[maxEpochs={newest + 2}]]'], ranks)
        self.assertRegex(result.text, rf"Starting from checkpoint\. Loading network from '.*model\.dnn\.{newest}'")
        self.assertNotRegex(result.text, '(?i)warning: .*(damaged|missing|checksum)')
        self.assertEqual([e['epoch'] for e in support.epochs(result.text)], [newest + 1, newest + 2], str(result))
        self.assertEqual([p.name for p in models.iterdir() if p.name.endswith('.tmp')], [])


class KilledRankTest(FailureTest):
    def kill(self, ranks, victim, parallel):
        arguments = self.prepare(parallel)
        models = self.directory / 'models'
        run = self.start_trainer(arguments, ranks)
        self.wait_for(models / 'model.dnn.2', run)
        pids = run.pids_by_rank()
        self.assertEqual(sorted(pids), list(range(ranks)), run.output())
        self.assertTrue(run.kill_rank(victim))
        self.assertTrue(support.all_end(pids.values(), within=PROMPTLY), f'the others live on\n{run.output()}')
        result = run.wait(run.seconds() + support.PATIENCE)
        self.assertNotEqual(result.code, 0, str(result))
        self.assertRegex(result.text, rf'rank {victim}\b')
        self.goes_on(arguments, models, ranks)

    def test_every_method(self):
        for name, (ranks, victim, parallel) in METHODS.items():
            with self.subTest(name):
                self.kill(ranks, victim, parallel)
            shutil.rmtree(self.directory / 'models', ignore_errors=True)


def mounting_allowed():
    if os.geteuid() != 0 or not shutil.which('mount'):
        return False
    place = support.tempfile.mkdtemp(prefix='tutti-')
    done = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', place], capture_output=True, check=False)
    if done.returncode == 0:
        subprocess.run(['umount', place], check=True)
    os.rmdir(place)
    return done.returncode == 0


class DiskTest(FailureTest):
    def mount(self, name, size='8m'):
        place = self.directory / name
        place.mkdir()
        subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size}', 'tmpfs', place], check=True)
        self.addCleanup(subprocess.run, ['umount', place], check=True)
        return place

    def one_line(self, result, *words):
        """The error says everything in one line, once."""
        lines = [line for line in result.text.splitlines() if all(word in line for word in words)]
        self.assertEqual(len(lines), 1, str(result))

    @unittest.skipUnless(mounting_allowed(), 'mounting is not allowed here')
    def test_the_disk_is_full_at_a_checkpoint(self):
        for parallel in ('parallelizationMethod=DataParallelSGD', 'parallelizationMethod=ASGD;DataParallelASGD=[syncPeriod=20]'):
            with self.subTest(parallel):
                models = self.mount(f'disk{len(parallel)}')
                arguments = [*self.prepare(parallel), f'modelPath={models}/model.dnn']
                run = self.start_trainer(arguments, 2)
                self.wait_for(models / 'model.dnn.2', run)
                with open(models / 'filler', 'wb', buffering=0) as filler:
                    try:
                        while filler.write(bytes(4096)):
                            pass
                    except OSError:
                        pass
                result = run.wait()
                # A failed checkpoint is a warning, the third in a row the end.
                self.assertEqual(result.code, 86, str(result))
                self.assertEqual(len(re.findall(r"Warning: '\S+model\.dnn\.\d+' could not be saved \(.*: No space left on device", result.text)), 3, str(result))
                self.one_line(result, '3 checkpoints in a row could not be written')
                (models / 'filler').unlink()
                self.goes_on(arguments, models, 2)

    @unittest.skipUnless(mounting_allowed(), 'mounting is not allowed here')
    def test_the_disk_is_full_for_a_while(self):
        """The run goes on, and so do its checkpoints once there is space; what was there is intact."""
        models = self.mount('disk')
        arguments = [*self.prepare(), f'modelPath={models}/model.dnn', 'Train=[SGD=[maxEpochs=8;ParallelTrain=[faultHook=[sleep=0.05]]]]']
        run = self.start_trainer(arguments, 2)
        self.wait_for(models / 'model.dnn.2', run)
        (models / 'filler').write_bytes(bytes(os.statvfs(models).f_bavail * os.statvfs(models).f_frsize - 4096))
        while run.running() and 'could not be saved' not in ''.join(run.output()):
            time.sleep(0.01)
        kept = {p.name for p in models.glob('*.ckp')}
        self.assertTrue(kept)
        (models / 'filler').unlink()
        result = run.wait()
        self.assertEqual(result.code, 0, str(result))
        self.assertTrue((models / 'model.dnn').exists())
        self.assertIn('earlier checkpoints are intact', result.text)

    def test_keep_checkpoints(self):
        arguments = self.prepare(epochs=9)
        self.run_trainer([*arguments, 'Train=[SGD=[keepCheckpoints=3]]'], 2)
        self.assertEqual(sorted(p.name for p in (self.directory / 'models').iterdir()),
                         ['model.dnn', 'model.dnn.7', 'model.dnn.7.ckp', 'model.dnn.8', 'model.dnn.8.ckp', 'model.dnn.ckp', 'model.dnn.config'])
        self.assertRegex(self.run_trainer([*arguments, 'Train=[SGD=[keepCheckpoints=-1]]', '--check'], expect=2).text, 'cannot be negative')

    @unittest.skipUnless(mounting_allowed(), 'mounting is not allowed here')
    def test_the_disk_may_not_be_written(self):
        models = self.mount('disk')
        subprocess.run(['mount', '-o', 'remount,ro', models], check=True)
        result = self.run_trainer([*self.prepare(), f'modelPath={models}/model.dnn'], 2, expect=None)
        self.one_line(result, str(models), 'Read-only file system')
        self.assertEqual(support.epochs(result.text), [])

    def test_the_directory_is_a_file(self):
        self.write('taken', 'a file')
        for model in ('taken/model.dnn', 'taken/deeper/model.dnn'):
            result = self.run_trainer([*self.prepare(), f'modelPath={model}'], 2, expect=None)
            self.one_line(result, 'taken', 'Not a directory')
            self.assertEqual(support.epochs(result.text), [])

    @unittest.skipIf(os.geteuid() == 0, 'root may read and write everything')
    def test_the_directory_is_locked(self):
        for mode in (0o000, 0o300, 0o500):
            models = self.directory / f'models{mode}'
            models.mkdir(mode=mode)
            self.addCleanup(models.chmod, 0o700)
            result = self.run_trainer([*self.prepare(), f'modelPath={models}/model.dnn'], 2, expect=None)
            self.one_line(result, str(models), 'Permission denied')

    def test_a_checkpoint_that_is_a_directory(self):
        """Where the state should be stands something that cannot be read; the one before it is used."""
        arguments = self.prepare('parallelizationMethod=DataParallelSGD', epochs=3)
        self.run_trainer(arguments, 2)
        models = self.directory / 'models'
        for name in ('model.dnn', 'model.dnn.ckp', 'model.dnn.2.ckp'):
            (models / name).unlink()
        (models / 'model.dnn.2.ckp').mkdir()
        result = self.run_trainer(arguments, 2)
        self.one_line(result, 'arning: ', 'model.dnn.2.ckp')
        self.assertEqual(support.epochs(result.text)[-1]['epoch'], 3)


if __name__ == '__main__':
    support.main()
