// SPDX-License-Identifier: Apache-2.0
// Trained models inside a description: Load, CloneFunction, Edit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "networks.h"
#include "tutti/network.h"

namespace tutti::brainscript::loaded_network_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

const char* const base_text = R"({
  model = Sequential (DenseLayer {4, activation=Sigmoid} : LinearLayer {3})
  features = Input {5}; labels = Input {3}
  z = model (features)
  ce = CrossEntropyWithSoftmax (labels, z); errs = ClassificationError (labels, z)
  featureNodes = (features); labelNodes = (labels); criterionNodes = (ce); evaluationNodes = (errs); outputNodes = (z)
})";

// The base network after a training that made element i of every parameter i + its number.
graph::Graph trained(const std::string& path) {
  if (path != "base.dnn") throw Error("reading '" + path + "': No such file or directory");
  graph::Graph g = build(base_text).graph;
  float first = 100;
  for (auto& n : g.nodes)
    if (n.operation == "LearnableParameter") n.start = std::make_shared<std::vector<float>>(3, first++);
  return g;
}

Built with(const std::string& text) {
  BuildContext context;
  context.load_model = trained;
  return build(text, context);
}

const char* const w0 = "model.arrayOfFunctions[0].arrayOfFunctions[0].W";

TEST(LoadedNetwork, AsItStands) {
  const Built b = with("(BS.Network.Load ('base.dnn'))"), base = build(base_text);
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b.listing(), base.listing());
  EXPECT_THAT(b.names_of(b.graph.criteria), ElementsAre("ce"));
  EXPECT_THAT(b.names_of(b.graph.features), ElementsAre("features"));
  EXPECT_THAT(b.names_of(b.graph.labels), ElementsAre("labels"));
  EXPECT_THAT(b.names_of(b.graph.outputs), ElementsAre("z"));
  EXPECT_TRUE(b[w0].start);
}

TEST(LoadedNetwork, NodesComeWithWhatTheyNeedAndNoMore) {
  const Built b = with(R"({ net = BS.Network.Load ('base.dnn')
    h = net.model.arrayOfFunctions[0].arrayOfFunctions[0].W; same = net.model_arrayOfFunctions_0_arrayOfFunctions_0_W
    y = net.z; top = LinearLayer {2} (y); outputNodes = (top); isSame = Print (IsSameObject (h, same)) })");
  ASSERT_EQ(b.errors, "");
  EXPECT_THAT(b.notices, ElementsAre(HasSubstr(": note: true")));
  EXPECT_THROW(b["ce"], std::runtime_error);
  EXPECT_THROW(b["labels"], std::runtime_error);
  EXPECT_EQ(b["top.PlusArgs[0]"].operation, "Times");
  EXPECT_THAT(b.names_of(b.graph.features), ElementsAre("features"));
  EXPECT_EQ(b.seed("top.W"), 1) << "loaded parameters take no seed";
}

TEST(LoadedNetwork, NewNodesMayHaveTheNamesOfOldOnes) {
  const Built b = with(R"({ net = BS.Network.Load ('base.dnn')
    base = BS.Network.CloneFunction (net.features, net.z, parameters='constant')
    features = Input {5}; labels = Input {2}
    z = LinearLayer {2} (base (features)); ce = CrossEntropyWithSoftmax (labels, z)
    featureNodes = (features); labelNodes = (labels); criterionNodes = (ce); outputNodes = (z) })");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(std::count_if(b.graph.nodes.begin(), b.graph.nodes.end(),
                          [](const auto& n) { return n.operation == "InputValue"; }),
            2);
  EXPECT_NO_THROW(b["features"]);
  EXPECT_NO_THROW(b["labels"]);
  EXPECT_THAT(b.names_of(b.graph.features), ElementsAre("features"));
  EXPECT_THAT(b.names_of(b.graph.outputs), ElementsAre("z"));
  for (std::size_t n = 0; n < b.graph.nodes.size(); ++n)
    for (const auto in : b.graph.nodes[n].inputs) EXPECT_LT(in, n);
}

TEST(CloneFunction, ParametersAreCopiedSharedOrFrozen) {
  const auto text = [](const std::string& mode) {
    return R"({ net = BS.Network.Load ('base.dnn'); x = Input {5}
      f = BS.Network.CloneFunction ((net.features), net.z, parameters=')" +
           mode + "'); a = f (x); b = f (x .* 2); c = net.z; outputNodes = (a : b : c) }";
  };
  const auto multiplier = [](const graph::Node& n) { return graph::number(n, "learningRateMultiplier", 1); };
  const Built learnable = with(text("learnable")), constant = with(text("constant")), shared = with(text("shared"));
  ASSERT_EQ(learnable.errors + constant.errors + shared.errors, "");
  const std::string copy = std::string("f.") + w0;
  EXPECT_EQ(multiplier(learnable[copy]), 1);
  EXPECT_EQ(learnable[copy].start, learnable[w0].start);
  EXPECT_EQ(multiplier(constant[copy]), 0);
  EXPECT_EQ(multiplier(constant[w0]), 1) << "the original stays as it was";
  EXPECT_THROW(shared[copy], std::runtime_error);
  for (const Built* b : {&learnable, &constant, &shared}) {
    const auto& a = (*b)["a"];
    const auto& second = (*b)["b"];
    EXPECT_EQ(a.operation, "Plus");
    EXPECT_EQ(a.inputs[1], second.inputs[1]) << "all applications have the same parameters";
    EXPECT_NE(a.inputs[0], second.inputs[0]);
  }
}

TEST(CloneFunction, SeveralInputsAndOutputs) {
  const Built b = with(R"({ net = BS.Network.Load ('base.dnn'); x = Input {5}; y = Input {3}
    f = BS.Network.CloneFunction ((net.features : net.labels), [ loss = net.ce; out = net.z ])
    r = f (x, y); ce = r.loss; z = r.out; g = BS.Network.CloneFunction (net.features, (net.z : net.z)); q = g (x); last = q[1]
    criterionNodes = (ce); outputNodes = (z : last) })");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b["ce"].operation, "CrossEntropyWithSoftmax");
  EXPECT_EQ(b.graph.nodes[b["ce"].inputs[0]].name, "y");
  EXPECT_EQ(b.graph.nodes[b["ce"].inputs[1]].name, "z");
  EXPECT_EQ(b["last"].operation, "Plus");
}

TEST(CloneFunction, FrozenNormalisationKeepsItsStatistics) {
  BuildContext context;
  context.load_model = [](const std::string&) {
    return build("{ features = Input {5}; z = BatchNormalizationLayer {} (features); outputNodes = (z) }").graph;
  };
  const Built b = build(R"({ net = BS.Network.Load ('m'); x = Input {5}
    a = BS.Network.CloneFunction (net.features, net.z, parameters='constant') (x)
    b = BS.Network.CloneFunction (net.features, net.z) (x); outputNodes = (a : b) })",
                        context);
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(graph::number(b["a"], "blendTimeConstant", 0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(graph::number(b["a"], "normalizationTimeConstant", 0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(graph::number(b["b"], "normalizationTimeConstant", 0), 5000);
}

TEST(CloneFunction, LoopsStayLoops) {
  BuildContext context;
  context.load_model = [](const std::string&) {
    return build(R"({ features = Input {5, dynamicAxis='t'}; labels = Input {2}
      h = RecurrentLSTMLayer {4, usePeepholes=true} (features); z = ReconcileDynamicAxis (LinearLayer {2} (BS.Sequences.Last (h)), labels)
      ce = CrossEntropyWithSoftmax (labels, z); criterionNodes = (ce); outputNodes = (z) })")
        .graph;
  };
  const Built whole = build("(BS.Network.Load ('m'))", context);
  const Built b = build(R"({ net = BS.Network.Load ('m'); features = Input {5, dynamicAxis='u'}; labels = Input {2}
    f = BS.Network.CloneFunction (net.features, net.h, parameters='constant')
    z = ReconcileDynamicAxis (LinearLayer {2} (BS.Sequences.Last (f (features))), labels)
    ce = CrossEntropyWithSoftmax (labels, z); criterionNodes = (ce); outputNodes = (z) })",
                        context);
  ASSERT_EQ(whole.errors + b.errors, "");
  for (const Built* one : {&whole, &b}) {
    std::size_t delays = 0;
    for (std::size_t n = 0; n < one->graph.nodes.size(); ++n) {
      const graph::Node& node = one->graph.nodes[n];
      const bool delay = node.operation == "PastValue";
      delays += delay;
      for (const auto in : node.inputs) EXPECT_TRUE(in < n || delay) << node.name;
    }
    EXPECT_EQ(delays, 2u);
    Network network(one->graph, {});
    EXPECT_EQ(network.criterion().name, "ce");
    EXPECT_EQ(network.parameters().slices.size(), one == &whole ? 8u : 2u) << "frozen parameters are not trained";
  }
}

TEST(Edit, LinksLeadToTheNewNode) {
  const Built b = with(R"(({ net = BS.Network.Load ('base.dnn')
    hidden = net.model.arrayOfFunctions[0].arrayOfFunctions[0].b
    wider = Dropout (net.z)
    edited = BS.Network.Edit (net, (BS.Network.Editing.ReplaceLinksToNode (net.z, wider)), (ClassificationError (net.labels, wider, topN=2)))
  }.edited))");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b.graph.nodes[b["ce"].inputs[1]].operation, "Dropout");
  EXPECT_EQ(b.graph.nodes[b["errs"].inputs[1]].operation, "Dropout");
  EXPECT_EQ(b.graph.nodes[b.graph.nodes[b["ce"].inputs[1]].inputs[0]].name, "z");
  EXPECT_EQ(b.graph.nodes[b.graph.outputs[0]].operation, "Dropout");
  EXPECT_EQ(graph::number(b.graph.nodes[b.graph.outputs.at(1)], "topN", 0), 2);
  EXPECT_THAT(b.names_of(b.graph.criteria), ElementsAre("ce"));
}

TEST(Edit, FunctionsSeeEveryNode) {
  const Built b = with(R"((BS.Network.Edit (BS.Network.Load ('base.dnn'),
    (node => if node.operation == 'Sigmoid' then Tanh (node.inputs[0]) else node) :
    (node => if node.name == 'errs' then ClassificationError (node.inputs[0], node.inputs[1], topN=2) else node))))");
  ASSERT_EQ(b.errors, "");
  const auto count = [&](const std::string& operation) {
    return std::count_if(b.graph.nodes.begin(), b.graph.nodes.end(),
                         [&](const auto& n) { return n.operation == operation; });
  };
  EXPECT_EQ(count("Sigmoid"), 0);
  EXPECT_EQ(count("Tanh"), 1);
  EXPECT_EQ(count("ClassificationError"), 1);
  EXPECT_EQ(graph::number(b.graph.nodes[b.graph.evaluations.at(0)], "topN", 0), 2);
  EXPECT_TRUE(b[w0].start);
}

TEST(LoadedNetwork, MistakesAreNamed) {
  EXPECT_THAT(with("{ net = BS.Network.Load ('bsae.dnn') }").errors,
              HasSubstr("net.cntk:1:20: error: Load: reading 'bsae.dnn': No such file"));
  EXPECT_THAT(with("{ z = BS.Network.Load ('base.dnn').feature }").errors, HasSubstr("did you mean 'features'?"));
  EXPECT_THAT(with("{ f = BS.Network.CloneFunction (BS.Network.Load ('base.dnn').features, 3) }").errors,
              HasSubstr("the outputs must be nodes, not the number 3"));
  EXPECT_THAT(with("{ n = BS.Network.Load ('base.dnn'); f = BS.Network.CloneFunction (n.features, n.ce) }").errors,
              HasSubstr("the outputs depend on 'labels', which is not one of the inputs"));
  EXPECT_THAT(
      with("{ n = BS.Network.Load ('base.dnn'); f = BS.Network.CloneFunction (n.features, n.z, parameters='frozen') }")
          .errors,
      HasSubstr("none of learnable, constant, shared"));
  EXPECT_THAT(
      with("{ n = BS.Network.Load ('base.dnn'); f = BS.Network.CloneFunction (n.features, n.z) (1, 2) }").errors,
      HasSubstr("too many arguments"));
  EXPECT_THAT(build("{ net = BS.Network.Load ('base.dnn') }").errors, HasSubstr("models cannot be loaded here"));
  EXPECT_THAT(with("{ net = BS.Network.Edit (3, (n => n)) }").errors,
              HasSubstr("must be a loaded network, not the number 3"));
}

}  // namespace
}  // namespace tutti::brainscript::loaded_network_test
