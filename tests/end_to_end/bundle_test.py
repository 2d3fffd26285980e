# SPDX-License-Identifier: Apache-2.0
"""scripts/bundle.sh: what it packs runs from any place, with no library of this system but the C library's."""
import os
import pathlib
import re
import shutil
import subprocess

import support

BUILD = pathlib.Path(support.TRAINER).parent
OF_THE_HOST = re.compile(r'/(ld-linux|libc|libm|libdl|libpthread|librt|libresolv)[-.]')


class BundleTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        if support.SANITIZED:
            self.skipTest('a build under sanitizers needs their libraries')
        packed = subprocess.run([f'{support.SOURCE}/scripts/bundle.sh', '--folder'], env=dict(os.environ, BUILD=str(BUILD)),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(packed.returncode, 0, packed.stdout)
        made, = (folder for folder in BUILD.glob('tutti-*') if folder.is_dir())
        self.bundle = self.directory / 'elsewhere'
        shutil.move(made, self.bundle)

    def test_trains_on_two_ranks_from_another_place(self):
        launchers = [p for p in self.bundle.glob('bin/*') if p.name != 'mpiexec' and not p.is_symlink()]
        libraries = subprocess.run(['ldd', self.bundle / 'trainer', *launchers, *self.bundle.glob('lib/*.so*'), *self.bundle.glob('lib/openmpi/*.so')],
                                   stdout=subprocess.PIPE, text=True, check=True).stdout
        foreign = {path for path in re.findall(r'(?:=> |^\t)(/\S+)', libraries, re.M) if not path.startswith(str(self.bundle))}
        self.assertEqual({path for path in foreign if not OF_THE_HOST.search(path)}, set())
        self.assertNotIn('not found', libraries)

        # Its launcher finds everything by itself, the way to send messages, too.
        environment = {name: value for name, value in support.environment(self.directory).items() if not name.startswith(('LD_', 'OPAL_', 'PRTE_PREFIX', 'PMIX_PREFIX', 'OMPI_MCA_pml'))}
        run = subprocess.run([self.bundle / 'bin/mpiexec', '-n', '2', '--oversubscribe', 'bin/trainer', 'configFile=samples/digits/digits.cntk', 'makeMode=false',
                              'Train=[SGD=[maxEpochs=1;epochSize=640]]', 'Test=[epochSize=100]'], cwd=self.bundle, env=environment,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        self.assertEqual(run.returncode, 0, run.stdout)
        log = (self.bundle / 'output/digits/digits.log').read_text(encoding='utf-8')
        self.assertEqual(support.final_results(log)['errs'][1], 100)


if __name__ == '__main__':
    support.main()
