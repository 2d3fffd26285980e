// SPDX-License-Identifier: Apache-2.0
// The model editing language: what commands make of a graph, names and patterns, inline definitions, mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "brainscript/edit_script.h"
#include "config/load.h"
#include "networks.h"
#include "tutti/network.h"

namespace tutti::brainscript::edit_script_test {
namespace {

// Files of another user must not be in the way.
std::filesystem::path own_folder() {
  const auto folder = std::filesystem::path(testing::TempDir()) / ("tutti-edit-" + std::to_string(getuid()));
  std::filesystem::create_directories(folder);
  return folder;
}

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Two layers, whose parameter number i holds i everywhere.
graph::Graph trained() {
  graph::Graph g = build(R"({
    layer (x, n, m) = { W = Parameter {n, m}; B = Parameter {n, 1}; T = W * x; P = T + B; S = Sigmoid (P) }
    features = Input {3}; labels = Input {2}
    L1 = layer (features, 4, 3)
    L2 = layer (L1.S, 4, 4)
    CE = layer (L2.S, 2, 4)
    cr = CrossEntropyWithSoftmax (labels, CE.P); err = ClassificationError (labels, CE.P)
    featureNodes = (features); labelNodes = (labels); criterionNodes = (cr); evaluationNodes = (err); outputNodes = (CE.P)
  })")
                       .graph;
  float first = 0;
  for (auto& n : g.nodes) {
    n.where = {};
    if (n.operation != "LearnableParameter") continue;
    double size = 1;
    for (const double d : graph::numbers(n, "dims")) size *= d;
    n.start = std::make_shared<std::vector<float>>(static_cast<std::size_t>(size), first++);
  }
  return g;
}

struct Edited {
  std::map<std::string, Built> saved;  // by path
  std::map<std::string, std::vector<std::string>> dumped;
  std::string errors;
  std::vector<std::string> notices, paths;

  const Built& operator[](const std::string& path) const {
    if (!saved.contains(path)) throw std::runtime_error("'" + path + "' was not saved: " + errors);
    return saved.at(path);
  }
  float value(const std::string& path, const std::string& node) const {
    const auto& start = (*this)[path][node].start;
    return start ? start->at(0) : -1;
  }
};

Edited edit(const std::string& script, const std::string& settings = "") {
  const auto folder = own_folder();
  const std::string file = (folder / "edit_script_test.mel").string();
  std::ofstream(file) << script;
  Edited e;
  config::Notices notices;
  BuildContext context;
  context.notices = &notices;
  EditFiles files;
  files.load = [&](const std::string& path) {
    if (const auto own = e.saved.find(path); own != e.saved.end()) return own->second.graph;
    if (path != "base.dnn") throw Error("reading '" + path + "': No such file or directory");
    return trained();
  };
  files.save = [&](const std::string& path, graph::Graph g) {
    const Network network(g, {});  // it has to be a sound one
    e.saved[path].graph = std::move(g);
  };
  files.dump = [&](const std::string& path, graph::Graph g, const std::vector<std::string>& nodes, bool values) {
    e.dumped[path] = nodes;
    e.dumped[path].push_back(std::to_string(g.nodes.size()) + (values ? " values" : ""));
  };
  try {
    const EditScript parsed(config::record_from_text("editPath = \"" + file + "\"\n" + settings, "a.cntk"));
    e.paths = parsed.saved_models();
    parsed.run(files, context);
  } catch (const ConfigError& error) {
    e.errors = error.what();
  }
  e.notices = notices.lines;
  return e;
}

// The script between a load and a save of the default model.
Edited edit_base(const std::string& script) {
  return edit("m = LoadModel (base.dnn)\n" + script + "\nSaveModel (m, \"out.dnn\", format=cntk)\n");
}

std::vector<std::string> inputs(const Built& b, const std::string& node) { return b.names_of(b[node].inputs); }

TEST(EditScript, SavesWhatItLoads) {
  const Edited e = edit("SaveDefaultModel (x)\n");
  EXPECT_THAT(e.errors, HasSubstr("there is no default model"));
  const Edited same = edit_base("");
  ASSERT_EQ(same.errors, "");
  Built base;
  base.graph = trained();
  EXPECT_EQ(same["out.dnn"].listing(), base.listing());
  EXPECT_THAT(same.paths, ElementsAre("out.dnn"));
}

TEST(EditScript, AddsALayerFromVariablesAndMacros) {
  const auto macros = (own_folder() / "edit_script_test.ndl").string();
  std::ofstream(macros) << "FF (x, n, m)\n{\n W = Parameter (n, m)\n T = Times (W, x)\n S = Sigmoid (T)\n}\n";
  const Edited e = edit(R"(m = LoadModel ("$in$")   # $unknown$ in a comment is no variable
    H = 4
    L$n$ = FF (L2.S, H, H); SetInput (CE.*T, 1, l$n$.S)
    SaveModel ($out$)
  )",
                        "n = 3\nin = base.dnn\nout = \"out.dnn\"\nndlMacros = \"" + macros + "\"\n");
  ASSERT_EQ(e.errors, "");
  EXPECT_THAT(inputs(e["out.dnn"], "L3.T"), ElementsAre("L3.W", "L2.S"));
  EXPECT_THAT(inputs(e["out.dnn"], "CE.T"), ElementsAre("CE.W", "L3.S"));
  EXPECT_EQ(e["out.dnn"].seed("L3.W"), 1);
  EXPECT_GT(e.value("out.dnn", "L2.W"), 0);
  EXPECT_FALSE(e["out.dnn"]["L3.W"].start);
}

TEST(EditScript, NamesKnowNoCaseAndSetsHaveParts) {
  const Edited e = edit_base("delete (CR)\ncr = SquareError (Labels, OutputNodes.P, tag = criteria)");
  ASSERT_EQ(e.errors, "");
  EXPECT_EQ(e["out.dnn"]["cr"].operation, "SquareError");
  EXPECT_THAT(inputs(e["out.dnn"], "cr"), ElementsAre("labels", "CE.P"));
  EXPECT_THAT(e["out.dnn"].names_of(e["out.dnn"].graph.criteria), ElementsAre("cr"));
}

TEST(EditScript, CopiesLinksAmongWhatIsCopied) {
  const Edited e = edit_base("Copy (L2.*, L3.*)\nSetInput (L3.T, 1, L2.S)\nSetInput (CE.T, 1, L3.S)");
  ASSERT_EQ(e.errors, "");
  EXPECT_THAT(inputs(e["out.dnn"], "L3.T"), ElementsAre("L3.W", "L2.S"));
  EXPECT_THAT(inputs(e["out.dnn"], "L3.P"), ElementsAre("L3.T", "L3.B"));
  EXPECT_EQ(e.value("out.dnn", "L3.W"), e.value("out.dnn", "L2.W"));
  EXPECT_THAT(edit_base("Copy (L2.*, L3.*)").errors, HasSubstr("input 1 of the node 'L3.T' (Times) is not set"));
}

TEST(EditScript, CopiesOverNodesKeepWhatIsOutside) {
  const Edited e = edit_base("CopyNode (L2.*, L1.*, copy=all)\nSetInput (L1.T, 0, Small)\nSmall = Parameter (4, 3)");
  EXPECT_THAT(e.errors, HasSubstr("has no node 'Small'"));
  const Edited f = edit_base("Small = Parameter (4, 3)\nCopyNode (L2.*, L1.*)\nSetInput (L1.T, 0, Small)");
  ASSERT_EQ(f.errors, "");
  EXPECT_THAT(inputs(f["out.dnn"], "L1.T"), ElementsAre("Small", "features"));
}

TEST(EditScript, CopiesOfValuesLeaveLinksAlone) {
  const Edited e = edit_base("Copy (L1.B, L2.B, copy=value)");
  ASSERT_EQ(e.errors, "");
  EXPECT_EQ(e.value("out.dnn", "L2.B"), e.value("out.dnn", "L1.B"));
  const Edited all = edit_base("Copy (L2.B, L*.B, copy=value)");
  EXPECT_EQ(all.value("out.dnn", "L1.B"), all.value("out.dnn", "L2.B"));
  EXPECT_THAT(edit_base("Copy (L1.W, L2.W, copy=value)").errors, HasSubstr("'L2.W' cannot take the values of 'L1.W'"));
  EXPECT_THAT(edit_base("Copy (L1.W, L9.W, copy=value)").errors, HasSubstr("has no node 'L9.W' to copy values to"));
  EXPECT_THAT(edit_base("Copy (L1.W, L1.W)").errors, HasSubstr("onto itself"));
  EXPECT_THAT(edit_base("Copy (L1.*, *.L1)").errors, HasSubstr("patterns of different form"));
}

TEST(EditScript, SubTreesGoToOtherModels) {
  const Edited e = edit(R"(a = LoadModel (base.dnn)
    LoadModelWithName (b, base.dnn)
    CreateModelWithName (empty)
    CopySubTree (L1.S, empty, "old.")
    CopySubTree (b.L1.P, a, "b.")
    SetProperty (empty.old.L1.S, output, true)
    SaveModel (empty, part.dnn)
    SaveDefaultModel (whole.dnn)
    UnloadModel (a)
    SaveModel (a, again.dnn)
  )");
  EXPECT_THAT(e.errors, HasSubstr("there is no model 'a'"));
  EXPECT_THAT(e["part.dnn"].names(), HasSubstr("old.L1.S"));
  EXPECT_EQ(e["part.dnn"].graph.nodes.size(), 6u);
  EXPECT_EQ(e["whole.dnn"].graph.nodes.size(), trained().nodes.size() + 5);
}

TEST(EditScript, PropertiesAreRatesAndSets) {
  const Edited e = edit_base(R"(SetProperty (L1.W, learningRateMultiplier, 0.5)
    SetPropertyForSubTree (L2.S, needGradient, f)
    SetProperty (err, eval, false)
    SetProperty (L2.S, output, true)
    SetProperty (L2.S, output, true)
    SetProperty (L1.S, needGradient, false))");
  ASSERT_EQ(e.errors, "");
  const Built& b = e["out.dnn"];
  for (const char* frozen : {"L1.W", "L1.B", "L2.W", "L2.B"})
    EXPECT_EQ(graph::number(b[frozen], "learningRateMultiplier", 1), 0) << frozen;
  EXPECT_EQ(graph::number(b["CE.W"], "learningRateMultiplier", 1), 1);
  EXPECT_THAT(b.names_of(b.graph.evaluations), IsEmpty());
  EXPECT_THAT(b.names_of(b.graph.outputs), ElementsAre("CE.P", "L2.S"));
  EXPECT_THAT(e.notices, ElementsAre(HasSubstr("no parameter is among these nodes")));
  EXPECT_THAT(edit_base("SetProperty (cr, multiSeq, true)").errors, HasSubstr("there is no property 'multiSeq'"));
  EXPECT_THAT(edit_base("SetProperty (cr, output, 2)").errors, HasSubstr("'2' is neither true nor false"));
  EXPECT_THAT(edit_base("SetProperty (L1.W, learningRateMultiplier, -1)").errors, HasSubstr("must not be negative"));
  EXPECT_THAT(edit_base("SetProperty (L1.W, freezeParameters, true)").errors, HasSubstr("has no statistics to freeze"));
}

TEST(EditScript, NodesAreRenamedAndDeleted) {
  const Edited e = edit_base("Rename (L1.*, Bottom.*)\nDelete (err)\nRename (Bottom.S, Top)");
  ASSERT_EQ(e.errors, "");
  EXPECT_THAT(inputs(e["out.dnn"], "L2.T"), ElementsAre("L2.W", "Top"));
  EXPECT_THAT(e["out.dnn"].names(), testing::Not(HasSubstr("err")));
  EXPECT_THAT(e["out.dnn"].names_of(e["out.dnn"].graph.evaluations), IsEmpty());
  EXPECT_THAT(edit_base("Rename (L1.S, L2.S)").errors, HasSubstr("the model has a node 'L2.S' already"));
  EXPECT_THAT(edit_base("L2.S = Sigmoid (L1.P)").errors, HasSubstr("already"));
  EXPECT_THAT(edit_base("X = Sigmoid (L1.P)\nDelete (X)\nY = Sigmoid (X)").errors,
              HasSubstr("the node 'X' was deleted"));
}

TEST(EditScript, InputsAreCheckedByNumber) {
  EXPECT_THAT(edit_base("SetInput (CE.T, 2, L1.S)").errors, HasSubstr("'CE.T' (Times) has no input 2"));
  EXPECT_THAT(edit_base("SetInputs (CE.T, L1.S)").errors, HasSubstr("'CE.T' (Times) does not take 1 inputs"));
  EXPECT_THAT(edit_base("SetInput (CE.T, 1, L*.S)").errors, HasSubstr("'L*.S' stands for 2 nodes"));
  EXPECT_THAT(edit_base("CopyInputs (L1.T, L2.T)\nSetInput (L2.T, 0, L2.W)").errors, HasSubstr("L2.T"));
  EXPECT_THAT(inputs(edit_base("CopyInputs (L1.T, L2.T)")["out.dnn"], "L2.T"), ElementsAre("L1.W", "features"));
}

TEST(EditScript, NetworksInBrackets) {
  const Edited e = edit(R"(n = [
      Twice (x)
      {
        y = Plus (x, x)
      }
      x = Input (3, tag = feature)
      z = Twice (x)
      OutputNodes = (z)
    ]
    m = LoadModel (base.dnn)
    SetDefaultModel (m)
    t = Twice (L1.S)
    Dump (n, n.txt)
    DumpNode (n.*, all.txt, includeData = true)
    SaveModel (n, n.dnn)
    SaveModel (m.dnn)
    again = LoadModel (n.dnn)
  )");
  ASSERT_EQ(e.errors, "");
  EXPECT_EQ(e["n.dnn"].listing(), "x = InputValue ()\nz.y = Plus (x, x)\n");
  EXPECT_THAT(inputs(e["m.dnn"], "t.y"), ElementsAre("L1.S", "L1.S"));
  EXPECT_THAT(e.dumped.at("n.txt"), ElementsAre("2"));
  EXPECT_THAT(e.dumped.at("all.txt"), ElementsAre("x", "z.y", "2 values"));
}

TEST(EditScript, SectionsAreChosenByEdit) {
  const Edited e = edit(R"(load = macros
    edit = second
    macros = [ Twice (x) = Plus (x, x) ]
    first = [ m = LoadModel (nowhere.dnn) ]
    second = [
      m = LoadModel (base.dnn)
      two = Twice (L1.S)
      SaveModel (m, out.dnn)
    ])");
  ASSERT_EQ(e.errors, "");
  EXPECT_THAT(inputs(e["out.dnn"], "two"), ElementsAre("L1.S", "L1.S"));
  EXPECT_THAT(edit("edit = third\nsecond = [ x = 1 ]\n").errors, HasSubstr("there is no section 'third'"));
}

TEST(EditScript, ValuesComeFromFiles) {
  const auto file = (own_folder() / "edit_script_test.txt").string();
  std::ofstream(file) << "1 2 3\n4 5 6\n7 8 9\n10 11 12\n";
  const Edited e = edit_base("ReviseParameter (L1.W, \"" + file + "\")");
  ASSERT_EQ(e.errors, "");
  EXPECT_THAT(*e["out.dnn"]["L1.W"].start, ElementsAre(1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12));
  EXPECT_THAT(edit_base("ReviseParameter (L2.W, \"" + file + "\")").errors, HasSubstr("'L2.W' is [4 x 4]"));
}

TEST(EditScript, StatisticsOfBatchNormalizationAreFrozen) {
  const Edited e = edit(R"(n = [
      x = Input (3, tag = feature)
      s = Parameter (3); b = Parameter (3); m = Parameter (3, needGradient = false); v = Parameter (3, needGradient = false)
      z = BatchNormalization (x, s, b, m, v, tag = output)
    ]
    SetProperty (z, freezeParameters, true)
    SaveModel (n, n.dnn))");
  ASSERT_EQ(e.errors, "");
  EXPECT_TRUE(std::isinf(graph::number(e["n.dnn"]["z"], "normalizationTimeConstant", 0)));
  EXPECT_TRUE(std::isinf(graph::number(e["n.dnn"]["z"], "blendTimeConstant", 0)));
}

TEST(EditScript, MistakesNameTheirPlace) {
  EXPECT_THAT(edit_base("Coppy (a, b)").errors,
              testing::AllOf(HasSubstr("edit_script_test.mel:2:1"), HasSubstr("there is no editing command 'Coppy'"),
                             HasSubstr("did you mean 'Copy'?")));
  EXPECT_THAT(edit_base("Copy (a)").errors, HasSubstr("Copy does not take 1 argument"));
  EXPECT_THAT(edit_base("Copy (L1.*, L4.*, mode=all)").errors, HasSubstr("Copy has no option 'mode'"));
  EXPECT_THAT(edit_base("Copy (L1.*, L4.*, copy=some)").errors, HasSubstr("there is no copy=some"));
  EXPECT_THAT(edit_base("Delete (L1.SS)").errors, HasSubstr("did you mean 'L1.S'?"));
  EXPECT_THAT(edit_base("Delete (L*1.*)").errors, HasSubstr("more than one *"));
  EXPECT_THAT(edit_base("Delete (k.L1.S)").errors, HasSubstr("has no node 'k.L1.S'"));
  EXPECT_THAT(edit_base("Delete (L1.S").errors, HasSubstr("'(' is not closed"));
  EXPECT_THAT(edit_base("x = Sigmiod (L1.P)").errors, HasSubstr("did you mean 'Sigmoid'?"));
  EXPECT_THAT(edit("m = LoadModel (none.dnn)").errors, HasSubstr("No such file"));
  EXPECT_THAT(edit("m = LoadModel ($none$)").errors, HasSubstr("No variable found with the name none"));
  EXPECT_THAT(edit("m = LoadModel (base.dnn, format=dbn)").errors, HasSubstr("there is no model format 'dbn'"));
  EXPECT_THAT(edit_base("Delete (features)").errors, HasSubstr("is not set"));
  EXPECT_THAT(edit_base("SetInput (CE.T, 1, L1.W)").errors, HasSubstr("edit_script_test.mel:3:1"));
  EXPECT_THAT(edit_base("Copy (L2.*, L3.*)\nSetInput (CE.T, 1, L3.S)\nSetInput (L3.T, 1, features)").errors,
              HasSubstr("edit_script_test.mel:4:1"))
      << "not that of the copy";
}

}  // namespace
}  // namespace tutti::brainscript::edit_script_test
