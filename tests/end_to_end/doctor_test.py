# SPDX-License-Identifier: Apache-2.0
"""trainer doctor: a line for each thing, exit codes, and real traps: little shared memory, names that do not resolve, hosts that cannot
be reached, other programs and data on a host, a slow link, a wrong mpiexec."""
import os
import re
import shutil
import subprocess
import unittest

import cluster_test
import examples
import support


def private_mounts_allowed(at='/dev/shm'):
    return os.geteuid() == 0 and shutil.which('unshare') and subprocess.run(
        ['unshare', '--mount', 'mount', '-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', at], capture_output=True, check=False).returncode == 0


class DoctorBase(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config())
        self.write('train.ctf', examples.points(64))

    def doctor(self, *words, before=(), script=None, variables=None, expect=(0, 1)):
        """`script`: shell commands in a mount namespace of its own, before the doctor."""
        command = [support.TRAINER, 'doctor', *map(str, words)]
        if script:
            command = ['unshare', '--mount', 'sh', '-c', f'{script}\nexec "$@"', '-', *command]
        done = subprocess.run([*before, *command], cwd=self.directory, capture_output=True, text=True, check=False, timeout=support.PATIENCE,
                              env=support.environment(self.directory) | (variables or {}))
        text = done.stdout + done.stderr
        self.assertIn(done.returncode, expect, text)
        return text

    def line(self, text, subject, level):
        found = [l for l in text.splitlines() if re.match(rf'{level} +{subject}  ?', l)]
        self.assertTrue(found, f'no line "{level} {subject}" in\n{text}')
        if level != 'ok':
            self.assertIn('; fix: ', found[0])
        return found[0]


class DoctorTest(DoctorBase):
    def test_this_host(self):
        text = self.doctor('configFile=run.cntk')
        for subject in ('mpiexec', 'cores', 'memory', 'temporary', 'binding', 'GPU', 'program', 'data', 'link'):
            self.assertRegex(text, rf'(?m)^(ok|warning) +{subject} ')
        self.line(text, 'mpiexec', 'ok')
        self.assertIn('1 file of the readers, the same on all hosts', text)
        self.assertRegex(self.line(text, 'link', 'ok'), r'\d+ µs, [\d.]+ [MG]bit/s')
        counts = re.search(r'^(\d+) ok, (\d+) warnings?, 0 failures$', text, re.MULTILINE)
        self.assertEqual(len(re.findall(r'(?m)^warning ', text)), int(counts.group(2)))
        self.assertEqual([p.name for p in self.directory.iterdir() if 'doctor' in p.name], [])

    def test_exit_codes(self):
        """0 and 1 by the number of warnings."""
        text = self.doctor(expect=(0, 1))
        code = subprocess.run([support.TRAINER, 'doctor'], cwd=self.directory, env=support.environment(self.directory), capture_output=True, check=False).returncode
        self.assertEqual(code, 1 if re.search(r'(?m)^warning ', text) else 0, text)
        self.doctor('-n', '64', '--hosts', 'localhost:2', expect=(2,))
        self.assertIn("there is no '--host'", self.doctor('--host', 'a', expect=(2,)))
        self.assertIn('doctor: -n needs a value\nfix: trainer doctor --help', self.doctor('-n', expect=(2,)))
        self.assertIn('usage: trainer doctor', self.doctor('--help', expect=(0,)))
        self.assertIn("'no.cntk'", self.doctor('configFile=no.cntk', expect=(2,)))

    def test_more_ranks_than_cores(self):
        cores = len(os.sched_getaffinity(0))
        self.write('made.cntk', 'command = Train\nTrain = [ reader = [ readerType = "SyntheticReader" ; samples = 10 ] ]\n')
        text = self.doctor('-n', cores + 1, 'configFile=made.cntk')
        self.assertIn(f'fix: -n {cores}', self.line(text, 'cores', 'warning'))
        self.assertIn('name no files', self.line(text, 'data', 'ok'))

    @unittest.skipUnless(os.geteuid() == 0, 'needs root')
    def test_root(self):
        variables = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
        self.line(self.doctor(variables=variables), 'user', 'ok')
        self.assertIn('trainer launch', self.line(self.doctor(before=['env', '-u', 'OMPI_ALLOW_RUN_AS_ROOT']), 'user', 'warning'))

    def test_another_mpiexec(self):
        fake = self.write('mpiexec', '#!/bin/sh\necho "mpiexec (OpenRTE) 1.2.3"\n')
        fake.chmod(0o755)
        text = self.doctor('--mpiexec', fake, expect=(2,))
        self.assertIn('1.2.3', self.line(text, 'mpiexec', 'warning'))
        self.line(text, 'ranks', 'failure')
        self.line(self.doctor('--mpiexec', '/no/mpiexec', expect=(2,)), 'mpiexec', 'failure')

    def test_a_host_without_a_name(self):
        text = self.doctor('--hosts', 'localhost,no-such-host.invalid', expect=(2,))
        self.assertIn('/etc/hosts', self.line(text, 'host no-such-host.invalid', 'failure'))
        self.line(text, 'ranks', 'warning')

    def test_a_host_that_does_not_connect_back(self):
        agent = self.write('agent', '#!/bin/sh\nexit 1\n')
        agent.chmod(0o755)
        text = self.doctor('--hosts', 'localhost,127.0.0.2', '--agent', agent, expect=(2,))
        self.assertRegex(text, r'failure +host \S+ +(no process there connects back|the name does not resolve)')

    def test_data_that_are_missing_everywhere(self):
        (self.directory / 'train.ctf').unlink()
        self.assertIn('train.ctf', self.line(self.doctor('configFile=run.cntk', expect=(2,)), 'data', 'failure'))

    def test_the_output_folder(self):
        self.write('file', '')
        text = self.doctor('configFile=run.cntk', 'modelPath=file/m.dnn', expect=(2,))
        self.assertIn('cannot be written', self.line(text, 'output folder', 'failure'))

    def test_a_config_with_deserializers(self):
        """Files in an array of blocks, and a modelPath in SGD."""
        self.write('file', '')
        self.write('composite.cntk', 'command = Train\nTrain = [ SGD = [ modelPath = "file/m.dnn" ]\n'
                   'reader = [ deserializers = ( [ file = "train.ctf" ] : [ input = [ x = [ transforms = ([ meanFile = "gone.xml" ]) ] ] ] ) ] ]\n')
        text = self.doctor('configFile=composite.cntk', expect=(2,))
        self.assertIn('gone.xml', self.line(text, 'data', 'failure'))
        self.assertIn('1 file of the readers', self.line(text, 'data', 'ok'))
        self.assertIn('cannot be written', self.line(text, 'output folder', 'failure'))

    def test_folders_lists_and_what_they_name(self):
        for name in ('pictures/0/a.png', 'pictures/1/b.png', 'pictures/1/.hidden', 'a.h5', 'speech/a.mfc'):
            self.write(name, name)
        self.write('map.txt', '.../pictures/0/a.png\t0\nkey\tpictures/1/b.png\t1\n')
        self.write('all.scp', 'a=a.mfc[0,9]\nb=a.mfc[10,19]\nc=gone.mfc[0,9]\n')
        self.write('list.txt', '.../a.h5 # first\n\n')
        self.write('many.cntk', 'command = Train:Test\n'
                   'Train = [ reader = [ readerType = "ImageReader" ; file = "pictures" ]\n'
                   'cvReader = [ deserializers = ( [ type = "ImageDeserializer" ; file = "map.txt" ] ) ] ]\n'
                   'Test = [ reader = [ readerType = "HDF5Reader" ; files = "a.h5:b.h5" ; fileList = "list.txt" ]\n'
                   'cvReader = [ readerType = "HTKMLFReader" ; x = [ scpFile = "all.scp" ; prefixPathInSCP = "speech" ] ] ]\n')
        text = self.doctor('configFile=many.cntk', expect=(2,))
        at = self.directory
        for level, said in (('ok', f"2 files in '{at}/pictures', the same names and sizes on all hosts"),
                            ('ok', f"2 files that '{at}/map.txt' names, the same sizes on all hosts"),
                            ('ok', f"1 file that '{at}/list.txt' names, the same sizes on all hosts"),
                            ('ok', '3 files of the readers, the same on all hosts'),  # map.txt, a.h5, list.txt
                            ('failure', rf"'{at}/b.h5' cannot be read on \S+; fix: .*"),
                            ('failure', rf"1 of 2 files that '{at}/all.scp' names cannot be read on \S+: 'speech/gone.mfc'; fix: .*")):
            self.assertRegex(text, rf'(?m)^{level} +data +{said}$')
        self.assertEqual(len(re.findall(r'(?m)^\w+ +data ', text)), 6, text)

    @unittest.skipUnless(private_mounts_allowed('/proc/driver'), 'mounts below /proc are not allowed here')
    def test_the_driver_of_the_gpus(self):
        text = self.doctor('-n', 1, script='mount -t tmpfs tmpfs /proc/driver\nmkdir -p /proc/driver/nvidia/gpus/0000:01:00.0\ncd /proc/driver/nvidia\n'
                           'echo "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024" >version\n'
                           f'echo "Model: \t\t NVIDIA X1" >gpus/0000:01:00.0/information\ncd {self.directory}')
        self.assertRegex(text, r'(?m)^(ok|warning) +GPU .*\bdriver 550\.54\.15, NVIDIA X1[,;\n]')

    @unittest.skipUnless(private_mounts_allowed(), 'mount namespaces are not allowed here')
    def test_little_shared_memory(self):
        text = self.doctor(script='mount -t tmpfs -o size=1m tmpfs /dev/shm')
        self.assertIn('--shm-size', self.line(text, 'shared memory', 'warning'))
        self.line(text, 'link', 'ok')

    @unittest.skipUnless(private_mounts_allowed(), 'mount namespaces are not allowed here')
    def test_an_own_name_that_does_not_resolve(self):
        hosts = self.write('hosts', '127.0.0.1 localhost\n')
        self.write('resolv.conf', '')
        text = self.doctor(script=f'unshare --help >/dev/null; mount --bind {hosts} /etc/hosts && mount --bind {self.directory}/resolv.conf /etc/resolv.conf')
        self.assertIn('/etc/hosts', self.line(text, 'host name', 'warning'))

    @unittest.skipUnless(private_mounts_allowed(), 'mount namespaces are not allowed here')
    def test_output_in_memory(self):
        (self.directory / 'out').mkdir()
        text = self.doctor('configFile=run.cntk', 'modelPath=out/m.dnn', script='mount -t tmpfs -o size=100m tmpfs out')
        self.assertIn('tmpfs', self.line(text, 'output folder', 'warning'))


@unittest.skipUnless(cluster_test.namespaces_allowed(), 'network namespaces need root, iproute2 and a kernel that allows them')
class HostsTest(DoctorBase):
    RATE = '1gbit'

    def up(self, rate, body=None):
        """Two hosts, and an agent that gives the second one a view of the file system of its own."""
        code, text = cluster_test.cluster('up', 2, '--rate', rate)
        self.addCleanup(cluster_test.cluster, 'down')
        self.assertEqual(code, 0, text)
        agent, hostfile = re.search(r'plm_rsh_agent (\S+)', text).group(1), re.search(r'--hostfile (\S+)', text).group(1)
        if body:
            second = self.write('second-agent', '#!/bin/bash\nwhile [[ ${1-} == -* ]]; do shift; done\n'
                                f'if [ "$1" = {cluster_test.NAME}-2 ]; then exec unshare --mount sh -c \'{body}; exec "$@"\' - {agent} "$@"; fi\nexec {agent} "$@"\n')
            second.chmod(0o755)
            agent = second
        return ['--hostfile', hostfile, '--agent', agent]

    def test_two_hosts(self):
        text = self.doctor(*self.up('1gbit'), 'configFile=run.cntk')
        name = cluster_test.NAME
        found = re.search(rf'ok +link +{name}-1 - {name}-2: (\d+) µs, (\d+) Mbit/s', text)
        self.assertTrue(found, text)
        self.assertTrue(600 < int(found.group(2)) < 1100, text)
        self.line(text, 'clock', 'ok')
        self.line(text, 'program', 'ok')
        self.line(text, 'data', 'ok')
        self.line(text, 'TCP', 'ok')

    def test_a_slow_link(self):
        text = self.doctor(*self.up('50mbit'))
        line = self.line(text, 'link', 'warning')
        self.assertTrue(35 < int(re.search(r'(\d+) Mbit/s', line).group(1)) < 60, line)
        self.assertIn('gradientBits = 1', line)

    def test_bbr(self):
        bbr = self.write('bbr', 'bbr\n')
        # What /proc shows depends on the network namespace.
        mount = f'mount --bind {bbr} /proc/sys/net/ipv4/tcp_congestion_control'
        text = self.doctor(*self.up('1gbit', f'nsenter --net=/run/netns/{cluster_test.NAME}-2 {mount}'))
        self.assertIn(f'bbr on {cluster_test.NAME}-2:', self.line(text, 'TCP', 'warning'))

    def test_other_data_and_another_program(self):
        other = self.write('other.ctf', examples.points(64, seed=9))
        program = self.write('trainer-copy', '')
        program.write_bytes(open(support.TRAINER, 'rb').read() + b'x')
        program.chmod(0o755)
        path = self.directory / 'train.ctf'
        small, large = self.write('pictures/0/a.png', 'small'), self.write('larger.png', 'much larger')
        self.write('map.txt', f'{small}\t0\n')
        self.write('more.cntk', 'command = Train:More\nMore = [ reader = [ readerType = "ImageReader" ; file = "pictures" ]\n'
                   'cvReader = [ readerType = "ImageReader" ; file = "map.txt" ] ]\n')
        words = self.up('1gbit', f'mount --bind {other} {path} && mount --bind {large} {small} && '
                        f'mount --bind {program} {os.path.realpath(support.TRAINER)}')
        text = self.doctor(*words, 'configFile=run.cntk+more.cntk', expect=(2,))
        for whose in (f"in '{self.directory}/pictures'", f"that '{self.directory}/map.txt' names"):
            self.assertIn(f'files {whose} have other sizes on {cluster_test.NAME}-2 than on {cluster_test.NAME}-1;', text)
        self.assertIn(f"'{path}' on {cluster_test.NAME}-2 is not that of", self.line(text, 'data', 'failure'))
        self.line(text, 'program', 'failure')


if __name__ == '__main__':
    support.main()
