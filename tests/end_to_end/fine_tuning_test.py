# SPDX-License-Identifier: Apache-2.0
"""Training that begins with a trained model: layers taken over as they are, frozen or trained on; models made by action edit."""
import examples
import support

TUNE = '''
Tune = [
    action = "train"
    modelPath = "tuned/model.dnn"
    BrainScriptNetworkBuilder = {
        net  = BS.Network.Load ("models/model.dnn")
        base = BS.Network.CloneFunction (net.features, net.H1, parameters="$mode$")
        features = Input {2}; labels = Input {2}
        h = base (features)
        z = LinearLayer {2} (h)
        ce = CrossEntropyWithSoftmax (labels, z); errs = ClassificationError (labels, z)
        featureNodes = (features); labelNodes = (labels); criterionNodes = (ce); evaluationNodes = (errs); outputNodes = (z)
    }
    SGD = [ minibatchSize = 16; learningRatesPerMB = 0.5; maxEpochs = 2
            ParallelTrain = [ parallelizationMethod = "DataParallelSGD" ] ]
    reader = [ readerType = "CNTKTextFormatReader"; file = "train.ctf"
               input = [ features = [ alias = "x" ; dim = 2 ; format = "dense" ]; labels = [ alias = "y" ; dim = 2 ; format = "dense" ] ] ]
]
Edit = [
    action = "edit"
    outputModelPath = "edited/model.dnn"
    BrainScriptNetworkBuilder = ({
        net = BS.Network.Load ("models/model.dnn")
        top = LinearLayer {2, init="zero"} (net.H1)
        edited = BS.Network.Edit (net, BS.Network.Editing.ReplaceLinksToNode (net.HLast, top), (top))
    }.edited)
]
Copy = [
    action = "edit"
    outputModelPath = "copied/model.dnn"
    BrainScriptNetworkBuilder = (BS.Network.Load ("models/model.dnn"))
]
mode = "constant"
'''


class FineTuningTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        self.write('run.cntk', examples.config(epochs=3) + TUNE)
        self.write('train.ctf', examples.points(200))
        self.write('test.ctf', examples.points(60, seed=2))

    def train(self, command, *options, ranks=None, **more):
        return self.run_trainer(['configFile=run.cntk', f'command={command}', *options], ranks, **more)

    def values(self, model, node):
        """The numbers of a parameter, as dumpNode prints them."""
        self.run_trainer(['configFile=run.cntk', 'command=Dump',
                          f'Dump=[action=dumpNode;modelPath={model};nodeName={node};outputFile=dump.txt;printMetadata=false]'])
        numbers = (self.directory / 'dump.txt').read_text().split('####')[0].split()
        self.assertGreater(len(numbers), 1)
        return numbers

    def test_frozen_layers_stay_as_they_are(self):
        self.train('Train')
        self.train('Tune')
        for node in ('W0', 'B0'):
            self.assertEqual(self.values('tuned/model.dnn', f'base.{node}'), self.values('models/model.dnn', node))
        self.assertNotEqual(self.values('tuned/model.dnn', 'z.W'), self.values('tuned/model.dnn.0', 'z.W'))

    def test_other_layers_train_on_from_there(self):
        self.train('Train')
        self.train('Tune', 'mode=learnable')
        for node in ('W0', 'B0'):
            self.assertEqual(self.values('tuned/model.dnn.0', f'base.{node}'), self.values('models/model.dnn', node))
            self.assertNotEqual(self.values('tuned/model.dnn', f'base.{node}'), self.values('models/model.dnn', node))

    def test_seeds_are_those_of_the_new_layers(self):
        self.train('Train')
        self.train('Tune', 'mode=learnable')
        self.train('Alone', 'Alone=[action=edit;outputModelPath=alone.dnn;BrainScriptNetworkBuilder={h=Input{8};z=LinearLayer{2}(h);outputNodes=(z)}]')
        self.assertEqual(self.values('tuned/model.dnn.0', 'z.W'), self.values('alone.dnn', 'z.W'))

    def test_a_run_may_load_what_it_has_made_before(self):
        both = self.train('Train:Tune', ranks=2)
        self.assertIn('which this run makes first', both.text)
        model = (self.directory / 'tuned/model.dnn').read_bytes()
        self.train('Tune', 'makeMode=false', ranks=2)
        self.assertEqual((self.directory / 'tuned/model.dnn').read_bytes(), model)

    def test_a_copy_tests_like_the_model(self):
        self.train('Train:Copy')
        before = self.train('Test').text
        self.assertEqual(support.final_results(self.train('Test', 'modelPath=copied/model.dnn', ranks=2).text),
                         support.final_results(before))
        loaded = self.train('Test', 'Test=[modelPath="";BrainScriptNetworkBuilder=(BS.Network.Load("models/model.dnn"))]', ranks=2).text
        self.assertEqual(support.final_results(loaded), support.final_results(before))

    def test_an_edited_model_is_a_model(self):
        self.train('Train:Edit')
        self.assertEqual(self.values('edited/model.dnn', 'W0'), self.values('models/model.dnn', 'W0'))
        text = self.train('Test', 'modelPath=edited/model.dnn').text
        self.assertIn('CrossEntropyWithSoftmax = 0.69314718 * 60', text)  # the new layer says nothing yet
        self.run_trainer(['configFile=run.cntk', 'command=Write',
                          'Write=[action=write;modelPath=edited/model.dnn;outputPath=out;reader=[readerType=CNTKTextFormatReader;file=test.ctf;'
                          'input=[features=[alias=x;dim=2;format=dense];labels=[alias=y;dim=2;format=dense]]]]'])
        self.assertTrue((self.directory / 'out.top').exists())

    def test_mistakes(self):
        self.train('Train')
        self.assertIn("the model 'models/model.dnn' has no node 'H2'",
                      self.train('Edit', 'Edit=[BrainScriptNetworkBuilder={x=BS.Network.Load("models/model.dnn").H2}]', expect=2).text)
        self.assertIn("cannot read the editing script 'edit.mel'", self.train('Edit', 'Edit=[editPath=edit.mel]', expect=2).text)
        (self.directory / 'models/model.dnn').write_bytes(b'no model')
        self.assertRegex(self.train('Tune', expect=2).text, r'run.cntk:\d+:\d+: error: Load: .*models/model.dnn')


if __name__ == '__main__':
    support.main()
