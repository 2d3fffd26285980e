// SPDX-License-Identifier: Apache-2.0
#include "train/model_file.h"

#include <cmath>

#include "comm/threads.h"
#include "support.h"

namespace tutti::model_file_test {
namespace {

using testing::Directory;
using testing::error_of;
using testing::SmallModel;

void fill(SmallModel& m, float first) {
  for (float& x : m.numbers) x = first, first += 0.37f;
}

TEST(GraphText, KeepsEveryAttributeWithItsType) {
  graph::Graph g;
  g.nodes.push_back({"a \"quoted\"\nname: {x}", "InputValue", {}, {}, {}});
  auto& a = g.nodes[0].attributes;
  a["yes"] = true;
  a["no"] = false;
  a["text true"] = std::string("true");
  a["text 1"] = std::string("1");
  a["text empty"] = std::string();
  a["text null"] = std::string("~");
  a["tenth"] = 0.1;
  a["third"] = 1.0 / 3;
  a["big"] = 18446744073709551615.0;
  a["tiny"] = 5e-324;
  a["minus"] = -0.0;
  a["infinite"] = -INFINITY;
  a["none"] = std::vector<double>{};
  a["list"] = std::vector<double>{1, 0.1, INFINITY};
  g.nodes.push_back({"b", "Plus", {0, 0}, {}, {}});
  g.features = {0}, g.outputs = {1, 1};
  const graph::Graph h = parse_graph(to_text(g), "here");
  ASSERT_EQ(h.nodes.size(), 2u);
  EXPECT_EQ(h.nodes[0].name, g.nodes[0].name);
  EXPECT_EQ(h.nodes[0].attributes, g.nodes[0].attributes);
  EXPECT_TRUE(std::signbit(std::get<double>(h.nodes[0].attributes.at("minus"))));
  EXPECT_EQ(h.nodes[1].inputs, g.nodes[1].inputs);
  EXPECT_EQ(h.features, g.features);
  EXPECT_EQ(h.labels, g.labels);
  EXPECT_EQ(h.outputs, g.outputs);
  EXPECT_EQ(to_text(h), to_text(g));
}

TEST(GraphText, BadTextIsAnErrorThatNamesTheFile) {
  for (const char* bad :
       {"", "nonsense", "format: 2", "format: 1\nnodes: [{name: \"a\"}]", "[",
        "format: 1\nnodes: []\nfeatures: [3]\nlabels: []\ncriteria: []\nevaluations: []\noutputs: []"})
    EXPECT_NE(error_of([&] { parse_graph(bad, "m.1"); }).find("'m.1'"), std::string::npos) << bad;
}

TEST(ModelFile, GivesBackGraphAndValues) {
  const Directory d;
  SmallModel a, b;
  fill(a, 1);
  save_model(d / "m", a.view);
  EXPECT_EQ(to_text(load_graph(d / "m")), to_text(a.graph));
  load_values(d / "m", b.view);
  EXPECT_EQ(a.numbers, b.numbers);
  save_model(d / "n", b.view);
  EXPECT_EQ(testing::slurp(d / "m"), testing::slurp(d / "n"));
}

TEST(ModelFile, NeedsNoFileOfInitialValues) {
  const Directory d;
  SmallModel a;
  for (graph::Node& node : a.graph.nodes)
    if (node.operation == "LearnableParameter")
      node.attributes["init"] = std::string("fromFile"), node.attributes["initFromFilePath"] = d / "gone";
  save_model(d / "m", a.view);
  EXPECT_NO_THROW(Network(load_graph(d / "m"), NetworkOptions{}));
}

// What a network computes may depend on a constant, which `trainer import` may have changed.
TEST(ModelFile, TheDescriptionHasSingleValues) {
  const Directory d;
  SmallModel m;
  m.graph.nodes.push_back({"one",
                           "LearnableParameter",
                           {},
                           {{"dims", std::vector<double>{1}}, {"init", std::string("fixedValue")}, {"value", 1.0}},
                           {}});
  float changed = 0.842f;
  m.view.values.push_back({"one", {{1}}, {&changed, 1}});
  save_model(d / "m", m.view);
  const graph::Graph g = load_graph(d / "m");
  ASSERT_TRUE(g.nodes.back().start);
  EXPECT_EQ(*g.nodes.back().start, std::vector<float>{changed});
  EXPECT_FALSE(g.nodes[2].start) << "of a matrix";
}

// A GRU computes with 1, so it cannot go on from a loop that had another constant in its place.
TEST(ModelFile, AChangedConstantIsNamed) {
  float one = 1, other = 0.9f;
  const auto error = [](float& value, bool is_one) {
    return error_of([&] { check_constants({{"h.one", {{1}}, {&value, 1}, std::nullopt, is_one}}, "m.1"); });
  };
  EXPECT_EQ(error(one, true), "");
  EXPECT_EQ(error(other, false), "");
  EXPECT_EQ(error(other, true),
            "the constant 'h.one' is 0.9 in 'm.1' and 1 in this network");
}

TEST(ModelFile, AChangedNetworkIsNamed) {
  const Directory d;
  SmallModel a, b, c, e;
  save_model(d / "m", a.view);
  b.view.values[1].shape = {{1, 2}};
  c.view.values.pop_back();
  e.view.values[0].name = "V";
  std::erase_if(e.graph.nodes, [](const graph::Node& n) { return n.name == "W"; });
  const auto error = [&](SmallModel& m) {
    return error_of([&] { load_values(d / "m", m.view, nullptr, "model", true); });
  };
  const std::string start = "'" + d / "m" + "' ", end = ": the network has changed since";
  EXPECT_EQ(error(b), start + "holds 'b' as [2], the network has [1 x 2]" + end);
  EXPECT_EQ(error(c), start + "holds 'b', on which no criterion, evaluation or output depends any more");
  EXPECT_EQ(error(e), start + "holds 'W', which this network does not have" + end);
}

TEST(ModelFile, RankZeroReadsForAll) {
  const Directory d;
  SmallModel a;
  fill(a, 3);
  save_model(d / "m", a.view);
  run_ranks(3, [&](Communicator& comm) {
    SmallModel b;
    const std::string path = comm.rank() == 0 ? d / "m" : "/not/visible/here";
    EXPECT_EQ(to_text(load_graph(path, &comm)), to_text(a.graph));
    load_values(path, b.view, &comm);
    EXPECT_EQ(a.numbers, b.numbers);
    EXPECT_EQ(error_of([&] { load_graph("/no/such/model", &comm); }),
              "opening '/no/such/model': No such file or directory");
  });
}

// Of parameters that no criterion, evaluation or output needs, a network holds no values.
TEST(ModelFile, KeepsValuesThatAreNotUsed) {
  const Directory d;
  SmallModel m;
  const auto add = [&](const char* name, std::map<std::string, graph::Attribute> attributes) {
    attributes["dims"] = std::vector<double>{2, 1};
    m.graph.nodes.push_back({name, "LearnableParameter", {}, std::move(attributes), {}});
    return &m.graph.nodes.back();
  };
  add("made", {{"init", std::string("fixedValue")}, {"value", 7.0}});
  add("lost", {{"init", std::string("fromFile")}, {"initFromFilePath", d / "gone"}});
  add("trained", {})->start = std::make_shared<std::vector<float>>(std::vector<float>{3, 4});
  save_model(d / "m", m.view);
  const auto of = [](const graph::Graph& g, const std::string& name) {
    const auto& start = std::ranges::find(g.nodes, name, &graph::Node::name)->start;
    return start ? *start : std::vector<float>();
  };
  for (const graph::Graph& g : {load_graph(d / "m"), load_trained(d / "m")}) {
    EXPECT_EQ(of(g, "made"), (std::vector<float>{7, 7}));
    EXPECT_EQ(of(g, "trained"), (std::vector<float>{3, 4}));
    EXPECT_EQ(of(g, "lost"), std::vector<float>());
  }
  SmallModel again;
  again.graph = load_graph(d / "m");
  EXPECT_FALSE(of(again.graph, "trained").empty());
  EXPECT_NO_THROW(load_values(d / "m", again.view));
  save_model(d / "n", again.view);
  EXPECT_EQ(of(load_trained(d / "n"), "trained"), (std::vector<float>{3, 4}));
  std::ostringstream dumped;
  dump_nodes(again.view, {"trained", "", true, false}, dumped);
  EXPECT_EQ(dumped.str(), " 3\n 4\n");
}

// A training may name criteria, and an evaluation nodes, on which no criterion, evaluation or output depends.
TEST(ModelFile, AnEvaluationNeedsOtherValuesThanTheTraining) {
  const Directory d;
  std::vector<float> trained{3, 4}, found{0, 0};
  const auto with_extra = [](SmallModel& m, std::vector<float>* values) {
    m.graph.nodes.push_back({"extra", "LearnableParameter", {}, {{"dims", std::vector<double>{2, 1}}}, {}});
    if (values) m.view.values.push_back({"extra", {{2, 1}}, *values});
  };
  SmallModel a, b, c;
  with_extra(a, &trained), with_extra(c, &found);
  save_model(d / "more", a.view);
  b.graph = load_graph(d / "more");
  EXPECT_NO_THROW(load_values(d / "more", b.view));
  EXPECT_NE(error_of([&] { load_values(d / "more", b.view, nullptr, "model", true); }).find("holds 'extra', on which"),
            std::string::npos);
  std::ostringstream dumped;
  dump_nodes(b.view, {"extra", "", true, false}, dumped);
  EXPECT_EQ(dumped.str(), " 3\n 4\n");
  save_model(d / "less", b.view);
  load_values(d / "less", c.view);
  EXPECT_EQ(found, trained);
  EXPECT_NE(error_of([&] { load_values(d / "less", c.view, nullptr, "model", true); }).find("holds 'extra' as a node"),
            std::string::npos);
}

TEST(DumpNodes, PrintsAsTheOriginalDoes) {
  SmallModel m;
  m.numbers = {1, 2, 3, 4, 5, 6, -12.3975687f, 0.1f};
  const auto dump = [&](const DumpOptions& o) {
    std::ostringstream out;
    dump_nodes(m.view, o, out);
    return out.str();
  };
  const std::string line = " " + std::string(68, '#') + "\n";
  EXPECT_EQ(dump({}),
            "W=LearnableParameter [2,3]   learningRateMultiplier=1.000000  NeedsGradient=true\n 1 3 5\n 2 4 6\n" +
                line +
                "W.x=Times ( W , features )\n"
                "b=LearnableParameter [2,1]   learningRateMultiplier=0.000000  NeedsGradient=false\n"
                " -12.3975687\n 0.100000001\n" +
                line +
                "ce=CrossEntropyWithSoftmax ( labels , z )\n"
                "features=InputValue [ 3 ]\n"
                "labels=SparseInputValue [ 2 ]\n"
                "z=Plus ( W.x , b )\n");
  EXPECT_EQ(dump({"z", "", true, true}), "z=Plus ( W.x , b )\n");
  EXPECT_EQ(dump({"__AllNodes__", "W.*", true, false}), " 1 3 5\n 2 4 6\n");
  EXPECT_EQ(dump({"__AllNodes__", "[bz]", false, true}),
            "b=LearnableParameter [2,1]   learningRateMultiplier=0.000000  NeedsGradient=false\nz=Plus ( W.x , b )\n");
  EXPECT_EQ(error_of([&] {
              dump({"feature", "", true, true});
            }),
            "the model has no node 'feature'; did you mean 'features'?");
  EXPECT_EQ(error_of([&] { dump({"", "Q.*", true, true}); }), "no node matches nodeNameRegex 'Q.*'");
  EXPECT_NE(error_of([&] { dump({"", "(", true, true}); }).find("is not a regular expression"), std::string::npos);
}

}  // namespace
}  // namespace tutti::model_file_test
