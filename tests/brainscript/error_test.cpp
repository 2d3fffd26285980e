// SPDX-License-Identifier: Apache-2.0
// Mistakes in network descriptions: each with its column, message and fix.
#include <gtest/gtest.h>

#include "networks.h"

namespace tutti::brainscript::error_test {
namespace {

struct Mistake {
  std::string script;
  int column;
  std::string message, fix;
};
void PrintTo(const Mistake& m, std::ostream* out) { *out << m.script; }

class Reports : public testing::TestWithParam<Mistake> {};

TEST_P(Reports, PlaceMessageAndFix) {
  const Mistake& m = GetParam();
  const Built b = build(m.script);
  const std::string first = fmt::format("net.cntk:1:{}: error: {}\n", m.column, m.message);
  EXPECT_EQ(b.errors.substr(0, first.size()), first) << b.errors;
  if (m.fix.empty())
    EXPECT_EQ(b.errors.find("fix: "), std::string::npos) << b.errors;
  else
    EXPECT_TRUE(b.errors.ends_with("fix: " + m.fix + "\n")) << b.errors;
  EXPECT_TRUE(b.graph.nodes.empty());
}

const std::vector<Mistake> mistakes = {
    {"{ a = 1 + }", 11, "expected a value, found '}'", ""},
    {"{ a = (1 + 2 }", 14, "expected ')' or an operator, found '}'", "the '(' in front of it is still open"},
    {"{ a = 1 b = 2 }", 9, "expected an operator, ';' or a new line, found 'b'",
     "members of a record are separated by ';' or a new line"},
    {"{ a = 1, b = 2 }", 8, "expected an operator, ';' or a new line, found ','",
     "members of a record are separated by ';' or a new line"},
    {"{ a = 1; a = 2 }", 10, "'a' is defined twice in this record", "rename or remove one of them"},
    {"{ if = 3 }", 3, "expected the name of a member, found 'if'",
     "'if' is a word of the language and cannot be a name"},
    {"{ a = if 1 then 2 }", 19, "expected 'else' or an operator, found '}'", "every if has an else"},
    {"{ a = if 1 then 2 else 3 }", 10, "the condition of 'if' must be true or false, not the number 1",
     "compare the number with something"},
    {"{ a = 'abc }", 7, "this string has no end", "close it with '"},
    {"{ a = 1 /* }", 9, "this comment has no end", "close it with */"},
    {"{ a = 1 & 2 }", 9, "a single '&' means nothing here", "write && for 'and'"},
    {"{ a = “x” }", 7, "'“' means nothing here",
     "outside strings and comments only plain ASCII is understood (typographic quotes and dashes are not)"},
    {"{ a = 12abc }", 9, "'a' right behind a number", "write an operator between them"},
    {"{ a = 1e999 }", 7, "the number 1e999 is beyond what a double can hold",
     "write 1#INF where you mean infinity, 0 where you mean nothing"},
    {"{ a = $x$ }", 7, "'$' is left over after the $variables$ were put in", "check the name of the variable"},
    {"{ a = [| 1, 2 |] }", 11, "expected ';', a new line or '|]', found ','", "elements of [| |] are separated by ';'"},
    {"{ a = f (1; 2); f (x) = x }", 11, "expected ')' or an operator, found ';'",
     "arguments are separated by ',', array elements by ':'"},
    {"{ a = f (x=1, x=2); f (x) = x }", 15, "the argument 'x' is given twice", "remove one"},
    {"{ f (x, x) = 1 }", 9, "'x' is named twice", "use another name"},
    {"{ f (x=1, y) = 1; a = f (x=2) }", 23, "'f' lacks the argument 'y'", "f (x=..., y)"},
    {"{ a = x : y => 1 }", 13, "on the left of '=>' stands one name",
     "put the function into parentheses of its own: a : (x => ...) : b"},
    {"{ a = () }", 7, "empty parentheses", "write [| |] for an array without elements"},
    {"{ a = (1, 2) }", 9, "expected ')' or an operator, found ','", "array elements are separated by ':'"},
    {"{ a = new Network { } }", 11, "this version has no type 'Network'",
     "there are ComputationNetwork and ComputationNode"},
    {"{ a = new ComputationNode { operation = 'Tmes'; inputs = 1 : 2 } }", 11, "this version has no operation 'Tmes'",
     "did you mean 'Times'?"},
    {"{ a = new ComputationNode { inputs = 1 : 2 } }", 11, "a ComputationNode needs its 'operation'",
     "operation = 'Times', for example"},
    {"{ a = new ComputationNode { operation = 'Times'; inputs = 1 } }", 11, "Times takes 2 inputs, not 1", ""},
    {"{ a = unknownName }", 7, "'unknownName' is not defined, and there is no operation of that name",
     "define it in this record or an enclosing one; docs/brainscript.md lists all operations"},
    {"{ features = Input {3}; z = feature + 1 }", 29,
     "'feature' is not defined, and there is no operation of that name", "did you mean 'features'?"},
    {"{ z = TreeLayer {10} }", 7, "'TreeLayer' is not defined, and there is no operation of that name",
     "define it in this record or an enclosing one; docs/brainscript.md lists all operations"},
    {"{ z = SeparableLayer {32, (3:3)} }", 7, "'SeparableLayer' is not defined, and there is no operation of that name",
     "define it in this record or an enclosing one; docs/brainscript.md lists all operations"},
    {"{ z = DenceLayer {10} }", 7, "'DenceLayer' is not defined, and there is no operation of that name",
     "did you mean 'DenseLayer'?"},
    {"{ z = DenseLayer {10, activaton=ReLU} }", 23, "'DenseLayer' has no argument 'activaton'",
     "did you mean 'activation'? DenseLayer (outDim, bias=..., activation=..., init=..., initValueScale=..., "
     "inputRank=..., mapRank=..., initBias=...)"},
    {"{ z = DenseLayer {} }", 7, "'DenseLayer' lacks the argument 'outDim'",
     "DenseLayer (outDim, bias=..., activation=..., init=..., initValueScale=..., inputRank=..., mapRank=..., "
     "initBias=...)"},
    {"{ z = Sigmoid (1, 2, 3) }", 22, "too many arguments: 'Sigmoid' takes 2, not 3", "Sigmoid (_, tag=...)"},
    {"{ z = Sigmoid (DenseLayer {3}) }", 7,
     "Sigmoid: the input must be a node or a number, not a function made by DenseLayer",
     "apply the function or layer to its input: f (x)"},
    {"{ z = DenseLayer {3} + 1 }", 22, "'+' does not go with a function made by DenseLayer and the number 1",
     "apply the function to its arguments first, or compose functions by >>"},
    {"{ features = Input {3}; z = features (1) }", 29, "the node 'features' cannot be called",
     "a node is a value; functions and layers can be called"},
    {"{ z = (1:2) (3) }", 9, "an array cannot be called", "compose the layers first: Sequential (a : b)"},
    {"{ z = 5 (3) }", 7, "the number 5 cannot be called", ""},
    {"{ z = {a=1} (3) }", 7, "a record cannot be called", "a member of it may be the function: record.member (...)"},
    {"{ a = 'x' + 1 }", 11, "'+' does not go with the string 'x' and the number 1",
     "turn the other operand into a string by Format (value, '')"},
    {"{ a = 1 && true }", 9, "'&&' does not go with the number 1 and the boolean true", ""},
    {"{ a = !3 }", 7, "'!' does not go with the number 3", "'!' negates true and false"},
    {"{ a = (1:2)[2] }", 12, "index 2 is outside 0..1", "indices of a:b:c begin at 0"},
    {"{ a = (1:2)[0.5] }", 13, "an index must be a whole number, not 0.5", ""},
    {"{ a = 5[0] }", 8, "the number 5 has no elements to index with [ ]",
     "only arrays (a:b:c) do; a record in front of '[' on the same line is read as an index"},
    {"{ r = {alpha=1; beta=2}; a = r.alpah }", 32, "this record has no member 'alpah'", "did you mean 'alpha'?"},
    {"{ r = {alpha=1; beta=2}; a = r.zzzzzz }", 32, "this record has no member 'zzzzzz'", "it has: alpha, beta"},
    {"{ a = 5 .x }", 10, "the number 5 has no members, so no 'x'", ""},
    {"{ a = DenseLayer.W }", 18, "the function 'DenseLayer' has no members, so no 'W'",
     "call the function first: f (arguments).W"},
    {"{ a = b; b = c; c = a }", 21, "'a' is defined by itself (a -> b -> c -> a)",
     "break the circle, or let it go through time: PastValue (0, x)"},
    {"{ x[i:0..3] = x[i]; y = x[1] }", 16, "'x[1]' is defined by itself (x[1] -> x[1])",
     "break the circle, or let it go through time: PastValue (0, x)"},
    {"{ a = { b = 1 } with { c = 2 } }", 17, "'with' is not supported", "write the record with all its members"},
    {"{ include \"nowhere.bs\" }", 11, "cannot find 'nowhere.bs'",
     "give its path from here, from the directory of the config file, or in full"},
    {"{ a = Parameter (3, 4, init='glorotunifrom') }", 7,
     "Parameter: the parameter 'a' has the unknown init 'glorotunifrom'", "did you mean 'glorotUniform'?"},
    {"{ a = Parameter (3, 4, init='fromFile') }", 7, "Parameter: init='fromFile' of 'a' needs initFromFilePath",
     "name the file"},
    {"{ a = Parameter (3, 4, initFromFilePath='/no/such/file') }", 7,
     "Parameter: cannot find '/no/such/file', which 'a' is initialised from", "check initFromFilePath"},
    {"{ a = Parameter (3, -4) }", 7, "Parameter: 'dims' of the parameter 'a' must not be negative (-4)",
     "0 means: find out from the input"},
    {"{ a = Parameter (3, 4, initValue='x') }", 7,
     "Parameter: 'initValue' of the parameter 'a' must be a number or an array of numbers", ""},
    {"{ a = Parameter (3, 4, initValue=1:2:3) }", 7,
     "Parameter: 'initValue' of the parameter 'a' has 3 values, the parameter 12 elements", ""},
    {"{ a = Parameter (3, 4, init='fromLiteral', initFromLiteral='1 2 x') }", 7,
     "parameter 'a': line 1 of initFromLiteral holds something that is not a number",
     "write one row per line, numbers separated by blanks"},
    {"{ a = Input (3, tag='featuer') }", 7, "Input: there is no tag 'featuer'", "did you mean 'feature'?"},
    {"{ features = Input {3}; z = features / features }", 38,
     "'/' does not go with the node 'features' and the node 'features'",
     "write ElementDivide (x, y) for nodes; / divides 1/node and node/number"},
    {"{ features = Input {3}; z = 2 / features }", 31, "only 1 can be divided by a node, not 2", "write 2 .* (1 / x)"},
    {"{ features = Input {3}; z = features ** 2 }", 38, "'**' does not go with the node 'features' and the number 2",
     "write the product out, or Exp (p .* Log (x))"},
    {"{ features = Input {3}; z = features || features }", 38,
     "'||' does not go with the node 'features' and the node 'features'", "write BS.Boolean.Or (x, y)"},
    {"{ features = Input {3}; z = features.dmi }", 38, "InputValue 'features' has no member 'dmi'",
     "did you mean 'dim'?"},
    {"{ features = Input {3}; z = Times (Parameter (3, 4), features).dim }", 29,
     "Times 'z': 'z.x' [3 x 4] and 'features' [3] do not fit: axis 2 of the left has 4 elements and axis 1 of the "
     "right has 3",
     "the axes that a product sums over must agree; a weight dimension of 0 is inferred"},
    {"{ features = Input {3}; z = Slice (0, 'x', features) }", 29,
     "Slice: 'end' of Slice 'z' must be a number, not the string 'x'", ""},
    {"{ features = Input {3}; z = ClassificationError (features, features, topN=1.5) }", 29,
     "ClassificationError: 'topN' of ClassificationError 'z' must be a whole number, not 1.5", ""},
    {"{ z = Splice (Input {3} : Input {3}, axis=-1) }", 7, "Splice: only the axes of a sample can be joined",
     "count them from 1: axis = 1 joins rows; time cannot be joined"},
    {"{ x = Input {3}; z = CNTK2.Splice (x : x, axis=0) }", 28, "Splice: only the axes of a sample can be joined",
     "count them from 1: axis = 1 joins rows; time cannot be joined"},
    {"{ x = Input {3}; z = ClassificationError (x, x, topN=2, axis=1) }", 22,
     "ClassificationError: topN needs all elements of a sample, not one axis", "leave topN or axis out"},
    {"{ z = LinearLayer {10, inputRank=1, mapRank=1} (Input {3}) }", 7,
     "LinearLayer: give either inputRank or mapRank, not both", ""},
    {"{ criterionNodes = 3 }", 20, "criterionNodes holds nodes, not the number 3", "write (node) or (node1 : node2)"},
    {"{ criterionNodes = (DenseLayer {3}) }", 21, "criterionNodes holds nodes, not a function made by DenseLayer",
     "apply the function or layer to its input: f (x)"},
    {"{ a = nope + 1; b = a; c = a + nada }", 7, "'nope' is not defined, and there is no operation of that name",
     "did you mean 'None'?"},
    {"{ a = Fail ('my own message') }", 7, "my own message", ""},
    {"{ a = Fail ('my own message', 'my advice') }", 7, "my own message", "my advice"},
    {"{ a = Format (1, '%n') }", 7, "cannot format by '%n'",
     "use one of %d %x %f %e %g %s, with a width if you like: '%.3f'"},
    {"{ a = Mod (1, 0) }", 7, "1 cannot be divided by 0", ""},
    {"{ a = 5 % 0 }", 9, "the number 5 cannot be divided by 0", ""},
    {"{ x = Input {3}; z = x / 0 }", 24, "the node 'x' cannot be divided by 0", ""},
    {"{ a = 1 ]", 9, "expected an operator, ';' or a new line, found ']'", ""},
    {"[ a = 1 }", 9, "expected an operator, ';' or a new line, found '}'", ""},
    {"3", 1, "the network must be a record of definitions, not the number 3",
     "write { ... }, (new ComputationNetwork { ... }) or (BS.Network.Load (path))"},
    {"( 3 )", 3, "the network must be a record of definitions, not the number 3",
     "write { ... }, (new ComputationNetwork { ... }) or (BS.Network.Load (path))"},
    {"(DenseLayer {3})", 2, "the network must be a record of definitions, not a function made by DenseLayer",
     "write { ... }, (new ComputationNetwork { ... }) or (BS.Network.Load (path))"},
    {"{ a = 1 } }", 11, "expected the end of the network, found '}'", ""},
    {"{ a == 1 }", 5, "expected '=', found '=='", "a definition has a single '='"},
    {"{ 3 = a }", 3, "expected the name of a member, found '3'", ""},
    {"{ f (x = 1 }", 12, "expected ')' or an operator, found '}'", "the '(' in front of it is still open"},
    {"{ a = array (3) }", 13, "expected '[', found '('", "write array[from..to] (i => value)"},
    {"{ a = array[1:3] (i => i) }", 16, "expected '..' or an operator, found ']'", "write from..to"},
    {"{ a = new }", 11, "expected the type of the object, found '}'", "write new ComputationNetwork { ... }"},
    {"{ z = Sequential (DenseLayer {3} : 5) (Input {3}) }", 7, "Sequential: the number 5 cannot be called", ""},
    {"{ z = Input {3}; y = z { a = 1 } }", 22, "the node 'z' cannot be called",
     "a node is a value; functions and layers can be called"},
    {"{ z = MergeBinary (Sigmoid, Plus) (Input {3}) }", 7, "MergeBinary: MergeBinary joins two functions: (f : g)", ""},
    {"{ z = ImageInput (3, 3, 3, imageLayout='WHC') }", 7, "ImageInput: imageLayout must be 'CHW' or 'HWC', not 'WHC'",
     ""},
    {"{ x = Input{3}; y = LatticeValue (3, x) }", 21,
     "'LatticeValue' is not defined, and there is no operation of that name",
     "define it in this record or an enclosing one; docs/brainscript.md lists all operations"},
    {"{ x = Input{3}; y = BatchNormalization (x, 1, 1, 1, 1, spatial=2) }", 21,
     "BatchNormalization: 'spatial' of BatchNormalization 'y' must be true or false, not the number 2",
     "compare the number with something"},
    {"{ net = BS.Networks.Load ('x') }", 12, "this record has no member 'Networks'", "did you mean 'Network'?"},
    {"{ z = if Input {3} < 1 then 'a' else 2 }", 29, "a branch of 'if' must be a node or a number, not the string 'a'",
     ""},
};
INSTANTIATE_TEST_SUITE_P(Mistakes, Reports, testing::ValuesIn(mistakes));

TEST(Errors, ShowTheLineOfALongerScript) {
  EXPECT_EQ(build("{\n  features = Input {3}\n  z = Sigmod (features)\n}").errors,
            "net.cntk:3:7: error: 'Sigmod' is not defined, and there is no operation of that name\n"
            "    3 |   z = Sigmod (features)\n      |       ^~~~~~\nfix: did you mean 'Sigmoid'?\n");
}

TEST(Errors, SeveralMistakesAreReportedTogetherAndEachOnce) {
  const std::string e = build("{ a = nope1 + 1; b = a; c = nope2; criterionNodes = (a : b) }").errors;
  EXPECT_NE(e.find("1:7: error: 'nope1'"), std::string::npos) << e;
  EXPECT_NE(e.find("1:29: error: 'nope2'"), std::string::npos) << e;
  EXPECT_EQ(e.find("nope1' is", e.find("nope1' is") + 1), std::string::npos) << e;
}

TEST(Errors, InsideTheLibraryPointToTheUsersCall) {
  const std::string e = build(
                            "{ features = Input {3}\n m = Sequential (DenseLayer {4} :\n LinearLayer {2, mapRank=1, "
                            "inputRank=1})\n z = m (features) }")
                            .errors;
  EXPECT_EQ(e.substr(0, 69), "net.cntk:3:2: error: LinearLayer: give either inputRank or mapRank, n") << e;
}

TEST(Errors, InPartOfALargerSourceCountFromItsBegin) {
  const std::string file = "command = Train\nTrain = [\n  BrainScriptNetworkBuilder = { z = nope } ]\n";
  const std::size_t at = file.find('{');
  auto source = std::make_shared<Source>(Source{"a.cntk", file, nullptr});
  Problems problems;
  BuildContext context;
  context.problems = &problems;
  build_network({{file.substr(at, file.find('}') + 1 - at), source, at, false}, {}, {}}, context);
  try {
    problems.throw_if_any();
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_EQ(std::string(e.what()).substr(0, 35), "a.cntk:3:37: error: 'nope' is not d");
  }
}

TEST(Errors, NestingHasALimitInsteadOfACrash) {
  const std::string deep(100'000, '(');
  EXPECT_NE(build("{ a = " + deep + " }").errors.find("nested more than"), std::string::npos);
  EXPECT_NE(build(std::string(100'000, '{')).errors.find("expected"), std::string::npos);
  EXPECT_NE(build("{ a = " + std::string(100'000, '-') + "1 }").errors.find("nested more than"), std::string::npos);
  std::string sum = "{ a = 0";
  for (int i = 0; i < 50'000; ++i) sum += "+1";
  EXPECT_NE(build(sum + " }").errors.find("levels deep"), std::string::npos);
}

}  // namespace
}  // namespace tutti::brainscript::error_test
