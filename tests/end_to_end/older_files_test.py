# SPDX-License-Identifier: Apache-2.0
"""Models and checkpoints of an earlier version (commit 918afff): runs go on from them as that version itself did.

data/checkpoints/METHOD holds what two epochs of net.cntk left there; expected.json has the settings, and the criteria of
the third and fourth epoch as the earlier version trained them from the same files.
"""
import json
import shutil

import support

FILES = support.SOURCE / 'tests' / 'end_to_end' / 'data' / 'checkpoints'


class OlderFilesTest(support.TrainerTest):
    def test_runs_go_on(self):
        for name in ('net.cntk', 'train.ctf'):
            shutil.copy(FILES / name, self.directory / name)
        for method, run in json.loads((FILES / 'expected.json').read_text()).items():
            with self.subTest(method):
                models = self.directory / method
                shutil.copytree(FILES / method, models)
                text = self.run_trainer(['configFile=net.cntk', f'modelPath={models}/net.dnn', f"Train=[SGD=[maxEpochs=4;{run['sgd']}]]"],
                                        run['ranks']).text
                self.assertIn('has 2 epochs and maxEpochs is now 4', text)
                self.assertNotRegex(text, 'is lost|are lost|is gone|unusable|damaged')
                found = [epoch['ce'][0] for epoch in support.epochs(text)]
                self.assertEqual(len(found), 2, text)
                # Equal bits on the same kind of core; another one's products round in another order.
                for expected, got in zip(run['ce'], found):
                    self.assertAlmostEqual(expected, got, delta=2e-3)


if __name__ == '__main__':
    support.main()
