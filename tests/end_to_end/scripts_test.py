# SPDX-License-Identifier: Apache-2.0
"""The scripts beside the program: the layout check finds what it is for, the summary reads what the trainer logs."""
import subprocess
import sys

import support

LOG = '''\
Finished Epoch[ 1 of 2]: [Training] ce = 0.60000000 * 10000; errs = 31.250% * 10000; totalSamplesSeen = 10000; learningRatePerSample = 0.0099999998; epochTime=2s
Exchange of Epoch[ 1 of 2]: 1.50 MB sent by this rank of 2, 1.000 bits per value, 1/32.0 of float32
Finished Epoch[ 2 of 2]: [Training] ce = 0.50000000 * 10000; errs = 21.250% * 10000; totalSamplesSeen = 20000; learningRatePerSample = 0.0099999998; epochTime=0.5s
Exchange of Epoch[ 2 of 2]: 500.00 kB sent by this rank of 2, 2.000 bits per value, 1/16.0 of float32
Final Results: Minibatch[1-3]: errs = 5.120% * 600; ce = 0.12345678 * 600; perplexity = 1.13140010
'''
SOUND = {
    'include/tutti/shape.h': '// SPDX-License-Identifier: Apache-2.0\n#pragma once\n#include <string>\nstd::string f();\n',
    'include/tutti/graph.h': '// SPDX-License-Identifier: Apache-2.0\n#pragma once\n#include "tutti/shape.h"\n',
    'src/graph/a.cpp': '// SPDX-License-Identifier: Apache-2.0\n#include "graph/a.h"\n#include "tutti/graph.h"\n',
    'src/graph/a.h': '// SPDX-License-Identifier: Apache-2.0\n#include <string>\n',
    'src/comm/mpi.cpp': '// SPDX-License-Identifier: Apache-2.0\n#include <mpi.h>\n',
}


class LayoutTest(support.TrainerTest):
    def check(self, **changed):
        """The verdict on the sound tree with some files replaced: (exit code, text)."""
        for name, text in {**SOUND, **changed.get('files', {})}.items():
            self.write(name, text)
        done = subprocess.run([sys.executable, support.SOURCE / 'scripts/check_layout.py', self.directory], capture_output=True,
                              text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_sound_tree(self):
        code, text = self.check()
        self.assertEqual(code, 0, text)

    def test_findings(self):
        spdx = '// SPDX-License-Identifier: Apache-2.0\n'
        for name, content, place in (
                ('src/strategy/bad.cpp', spdx + '#include "tutti/graph.h"\n', 'src/strategy/bad.cpp:2'),
                ('src/strategy/bad.cpp', spdx + '#include "graph/a.h"\n', 'src/strategy/bad.cpp:2'),
                ('src/base/bad.cpp', spdx + '\n#include "graph/a.h"\n', 'src/base/bad.cpp:3'),
                ('src/train/bad.cpp', spdx + '#include <mpi.h>\n', 'src/train/bad.cpp:2'),
                ('src/graph/bad.cpp', spdx + '#include <dnnl.hpp>\n', 'src/graph/bad.cpp:2'),
                ('src/graph/bad.cpp', spdx + '#include "nothing.h"\n', 'src/graph/bad.cpp:2'),
                ('src/graph/bad.cpp', '#include <string>\n', 'src/graph/bad.cpp:1'),
                ('include/tutti/shape.h', spdx + '#pragma once\nstd::string f();\n', 'include/tutti/shape.h: does not compile alone'),
                ('src/fresh/bad.cpp', spdx, 'src/fresh/bad.cpp')):
            with self.subTest(file=name, content=content):
                code, text = self.check(files={name: content})
                self.assertEqual(code, 1)
                self.assertIn(place, text)
                (self.directory / name).unlink()


class SummaryTest(support.TrainerTest):
    def test_summary(self):
        log = self.write('run.log', LOG)
        done = subprocess.run([sys.executable, support.SOURCE / 'scripts/summarize.py', log, '--model', 'm.dnn'], capture_output=True,
                              text=True, check=True)
        self.assertRegex(done.stdout, r'Test error +5\.12 % of 600 ')
        self.assertRegex(done.stdout, r'Training speed +20,000 samples/s on 2 ranks')  # the first epoch warms up
        self.assertRegex(done.stdout, r'Sent by each rank +2\.0 MB; as float32 it would be 56\.0 MB, 28\.0 times')
        self.assertRegex(done.stdout, r'Model +m\.dnn')


if __name__ == '__main__':
    support.main()
