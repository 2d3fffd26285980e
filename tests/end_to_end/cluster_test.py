# SPDX-License-Identifier: Apache-2.0
"""scripts/cluster.sh makes hosts, runs ranks on them as on real nodes, limits their links, and leaves nothing behind."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import support

SCRIPT = support.SOURCE / 'scripts' / 'cluster.sh'
NAME = f't{os.getpid() % 100000:05d}'
SEND = '''
import socket, sys, time
ears = socket.create_server(("", 4000))
if sys.argv[1] == "hear":
    print("ready", flush=True)
    ear, _ = ears.accept()
    start, got = time.time(), 0
    while data := ear.recv(1 << 16):
        got += len(data)
    print(got * 8 / (time.time() - start))
else:
    socket.create_connection((sys.argv[1], 4000)).sendall(bytes(int(sys.argv[2])))
'''


def cluster(*words, name=NAME):
    done = subprocess.run([SCRIPT, '--name', name, *map(str, words)], capture_output=True, text=True, check=False, timeout=support.PATIENCE)
    return done.returncode, done.stdout + done.stderr


def traces(name=NAME):
    """Everything on this machine that carries the name."""
    links = {p.name for p in pathlib.Path('/sys/class/net').iterdir()}
    found = [i for i in links if i.startswith(name)]
    for folder in ('/run/netns', '/etc/netns', '/run/tutti-cluster', '/sys/fs/cgroup/cpuset', '/sys/fs/cgroup'):
        path = pathlib.Path(folder)
        found += [str(p) for p in path.iterdir() if name in p.name] if path.is_dir() else []
    return found


CONGESTION = pathlib.Path('/proc/sys/net/ipv4/tcp_congestion_control')


def namespaces_allowed():
    if os.geteuid() != 0 or not all(map(shutil.which, ('ip', 'tc', 'unshare'))):
        return False
    code, _ = cluster('up', 1, '--rate', '1gbit')
    cluster('down')
    return code == 0


class ErrorsTest(unittest.TestCase):
    def test_words(self):
        for words, expected in ((['up'], 'up takes 1 argument'), (['up', '0'], "not '0'"), (['up', 'many'], "not 'many'"),
                                (['up', '2', '--rate', 'fast'], "not 'fast'"), (['up', '2', '--rate', '0mbit'], 'more than nothing'),
                                (['up', '2', '--cores-per-host', '100000'], 'this machine has'), (['up', '2', '--speed', '3'], '--speed'),
                                (['fly'], "no command 'fly'"), (['status'], 'there is no cluster')):
            with self.subTest(words=words):
                code, text = cluster(*words)
                self.assertEqual(code, 1, text)
                self.assertIn(expected, text)
        self.assertIn("not 'A-b'", cluster('status', name='A-b')[1])

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which('setpriv'), 'needs root to become somebody else')
    def test_root_is_asked_for(self):
        done = subprocess.run(['setpriv', '--reuid=65534', '--clear-groups', 'bash', '-s', 'up', '1'], input=SCRIPT.read_text(), capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn('need root', done.stderr)


@unittest.skipUnless(namespaces_allowed(), 'network namespaces are not allowed here')
class ClusterTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.nothing_is_left)

    def nothing_is_left(self):
        if pathlib.Path('/run/tutti-cluster', NAME).exists():
            cluster('down')
        self.assertEqual(traces(), [])

    def up(self, *words):
        code, text = cluster('up', *words)
        self.assertEqual(code, 0, text)
        return text

    def test_hosts_have_names_cores_and_addresses(self):
        cores = sorted(os.sched_getaffinity(0))
        self.up(3)
        code, text = cluster('run', '-n', '3', sys.executable, '-c',
                             'import os, socket, sys; host = socket.gethostname(); '
                             'sys.stdout.write(f"{host} {sorted(os.sched_getaffinity(0))} {socket.gethostbyname(host)}\\n")')
        self.assertEqual(code, 0, text)
        for i in range(3):
            self.assertRegex(text, rf'(?m)^{NAME}-{i + 1} \[{cores[i % len(cores)]}\] 10\.213\.\d+\.{i + 1}$')
        for words in ((2,), (f'{NAME}-2',)):
            self.assertEqual(cluster('exec', *words, 'printf', '%s.', 'a b', '*', '$HOME'), (0, 'a b.*.$HOME.'))
        self.assertIn('no host', cluster('exec', 4, 'true')[1])
        self.assertEqual(cluster('exec', 1, 'sh', '-c', 'exit 7')[0], 7)
        code, text = cluster('up', 2)
        self.assertEqual(code, 1)
        self.assertIn('is up already', text)
        self.assertIn('3 hosts', cluster('status')[1])

    def rate(self, count):
        script = self.write('send.py', SEND)
        hearing = subprocess.Popen([SCRIPT, '--name', NAME, 'exec', '2', sys.executable, script, 'hear'], stdout=subprocess.PIPE, text=True)
        with hearing:
            hearing.stdout.readline()
            self.assertEqual(cluster('exec', 1, sys.executable, script, f'{NAME}-2', count)[0], 0)
            return float(hearing.stdout.read())

    def test_links_are_as_slow_as_asked(self):
        # Nothing makes a link faster than its bucket; how much slower it is depends on what else the machine does.
        self.up(2, '--rate', '20mbit')
        self.assertLess(self.rate(1_000_000), 23e6)
        code, text = cluster('rate', '100mbit')
        self.assertEqual(code, 0, text)
        self.assertLess(self.rate(2_000_000), 115e6)
        self.assertIn('rate 100mbit', cluster('status')[1])
        self.assertEqual(cluster('rate', 'fast')[0], 1)
        self.assertEqual(cluster('rate', 'none')[0], 0)
        self.assertNotIn('tbf', cluster('exec', 1, 'tc', 'qdisc')[1])

    def test_ranks_train_on_hosts(self):
        self.up(2, '--rate', '1gbit')
        options = [f'configFile={support.SOURCE}/samples/digits/digits.cntk', f'OutputDir={self.directory}', 'stderr=""', 'command=Train', 'makeMode=false',
                   'Train=[SGD=[maxEpochs=1;epochSize=1280;numMBsToShowResult=1;ParallelTrain=[DataParallelSGD=[gradientBits=32]]]]']
        code, text = cluster('run', support.TRAINER, *options)
        self.assertEqual(code, 0, text)
        self.assertIn('2 ranks', text)
        # Messages between hosts are cut in other ways than those within one; the numbers are the same.
        alone = self.run_trainer(options, ranks=2)
        losses = [re.findall(r'Minibatch\[.*?(\w+ = [\d.]+ \* \d+; \w+ = [\d.]+)', t) for t in (text, alone.text)]
        self.assertEqual(len(losses[0]), 10, text)
        self.assertEqual(*losses)
        self.assertIn('through shared memory', alone.text)
        self.assertNotIn('through shared memory', text)
        code, text = cluster('run', support.TRAINER, *options, 'Train=[SGD=[ParallelTrain=[transport=sharedMemory]]]')
        self.assertNotEqual(code, 0, text)
        self.assertIn('transport = sharedMemory needs all ranks on one host, but these 2 ranks are on 2', text)
        # The groups of ranks of a host can: one bit between hosts, a sum in full within. With --oversubscribe alone Open MPI 5 puts all ranks on one host.
        code, text = cluster('run', '-n', '4', '--map-by', 'ppr:2:node', '--oversubscribe', '--mca', 'mpi_yield_when_idle', '1', support.TRAINER, *options,
                             'Train=[SGD=[ParallelTrain=[DataParallelSGD=[gradientBits=1];groups=byNode;insideGroups=[parallelizationMethod=DataParallelSGD;'
                             'transport=sharedMemory]]]]')
        self.assertEqual(code, 0, text)
        self.assertIn('between them DataParallelSGD on 2 ranks, gradients in 1 bit; within them DataParallelSGD on 2 ranks, gradients in 32 bits through '
                      'shared memory', text)

    def test_down_ends_what_runs_there(self):
        self.up(1)
        with subprocess.Popen([SCRIPT, '--name', NAME, 'exec', '1', 'sleep', '1000']) as sleeper:
            deadline = time.time() + support.PATIENCE
            while ' 0 processes' in cluster('status')[1]:
                self.assertLess(time.time(), deadline, 'nothing runs there')
                time.sleep(0.05)
            self.assertEqual(cluster('down')[0], 0)
            self.assertNotEqual(sleeper.wait(support.PATIENCE), 0)

    def test_half_made_clusters_go_away(self):
        bystander = 'b' + NAME[1:]  # host 2 cannot be made: the name is taken by somebody else
        subprocess.run(['ip', 'netns', 'add', f'{bystander}-2'], check=True)
        self.addCleanup(subprocess.run, ['ip', 'netns', 'del', f'{bystander}-2'], check=True)
        code, text = cluster('up', 2, name=bystander)
        self.assertEqual(code, 1)
        self.assertIn('not made', text)
        self.assertEqual(traces(bystander), [f'/run/netns/{bystander}-2'])

        congestion = CONGESTION.read_text()
        for wait in (0.01, 0.03, 0.06, 0.1):  # killed on the way: down finds what there is
            with subprocess.Popen([SCRIPT, '--name', NAME, 'up', '4'], stdout=subprocess.DEVNULL) as making:
                time.sleep(wait)
                making.send_signal(signal.SIGKILL)
            code, text = cluster('down')  # always: a command of the killed script may still be making something, and down waits for its end
            self.assertTrue(code == 0 or 'there is no cluster' in text, text)
            self.assertEqual(traces(), [])
            self.assertEqual(CONGESTION.read_text(), congestion)

    def test_hosts_have_cubic_and_the_machine_keeps_its_own(self):
        own = CONGESTION.read_text()
        self.up(1)
        self.assertEqual(cluster('exec', 1, 'cat', str(CONGESTION)), (0, 'cubic\n'))
        self.assertEqual(CONGESTION.read_text(), own)

    def test_clusters_stand_side_by_side(self):
        self.up(1)
        other = 'c' + NAME[1:]
        self.assertEqual(cluster('up', 1, name=other)[0], 0)
        self.assertEqual(cluster('down', name=other)[0], 0)
        self.assertEqual(traces(other), [])
        self.assertEqual(cluster('exec', 1, 'hostname'), (0, f'{NAME}-1\n'))


if __name__ == '__main__':
    unittest.main()
