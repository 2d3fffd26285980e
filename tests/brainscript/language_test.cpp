// SPDX-License-Identifier: Apache-2.0
// The expression language: what each expression is worth.
#include <gtest/gtest.h>

#include "brainscript/network.h"

namespace tutti::brainscript::language_test {
namespace {

struct Case {
  std::string expression, value;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.expression; }

class Evaluates : public testing::TestWithParam<Case> {};

TEST_P(Evaluates, To) { EXPECT_EQ(evaluate_to_text(GetParam().expression), GetParam().value); }

INSTANTIATE_TEST_SUITE_P(Numbers, Evaluates,
                         testing::Values(Case{"1", "1"}, Case{"1.5e-3", "0.0015"}, Case{".5", "0.5"}, Case{"2.", "2"},
                                         Case{"1#INF", "inf"}, Case{"1+2*3", "7"}, Case{"(1+2)*3", "9"},
                                         Case{"7-2-1", "4"}, Case{"8/4/2", "1"}, Case{"2**3**2", "64"},
                                         Case{"2*3**2", "36"},  // all of * / .* ** % bind alike, from the left
                                         Case{"2.*3", "6"}, Case{"7.5%2", "1.5"}, Case{"-7%4", "-3"},
                                         Case{"-2**2", "4"}, Case{"- -2", "2"}, Case{"+3", "3"},
                                         Case{"1/256", "0.00390625"}, Case{"1+2 # comment\n+3", "6"},
                                         Case{"1 /* a\n b */ + 2", "3"}, Case{"1 // x\n", "1"}));

INSTANTIATE_TEST_SUITE_P(Comparisons, Evaluates,
                         testing::Values(Case{"1<2", "true"}, Case{"2<=1", "false"}, Case{"1==1", "true"},
                                         Case{"1!=1", "false"}, Case{"1+1==2", "true"}, Case{"3>2 && 2>3", "false"},
                                         Case{"3>2 || Fail('no')", "true"}, Case{"false && Fail('no')", "false"},
                                         Case{"!true", "false"}, Case{"!true == false", "true"},
                                         Case{"'a'<'b'", "true"}, Case{"'a'=='b'", "false"},
                                         Case{"'ab'+\"c'd\"", "abc'd"}, Case{"true == true", "true"},
                                         Case{"true || false && false", "true"}));

INSTANTIATE_TEST_SUITE_P(
    Arrays, Evaluates,
    testing::Values(Case{"1:2:3", "(1:2:3)"}, Case{"(1:2):3", "(1:2:3)"}, Case{"1:(2:3)", "(1:2:3)"}, Case{"(5)", "5"},
                    Case{"[| |]", "()"}, Case{"[||]", "()"}, Case{"[| 4 |]", "(4)"}, Case{"[| 4; 5\n6 |]", "(4:5:6)"},
                    Case{"(1:2:3)[1]", "2"}, Case{"0 : (1:2:3) << 1", "(0:2:3)"},  // << binds tighter than :
                    Case{"(1:2:3) << 1", "(2:3)"}, Case{"(1:2:3) << 3", "()"},
                    Case{"array[0..3] (i => i*i)", "(0:1:4:9)"}, Case{"array[2..4] (i => i)[3]", "3"},
                    Case{"(array[2..4] (i => i))[3]", "3"}, Case{"array[1..0] (i => i)", "()"},
                    Case{"0 : array[1..2] (i => i) : 3", "(0:1:2:3)"},
                    Case{"{ x[i:0..5] = if i < 2 then 1 else x[i-1] + x[i-2] }.x", "(1:1:2:3:5:8)"},
                    Case{"Length (1:2:3)", "3"}, Case{"Length (7)", "1"}, Case{"Length ('four')", "4"},
                    Case{"Length ([||])", "0"}, Case{"1+2:3*4", "(3:12)"}, Case{"Repeat (3, 7)", "(7:7:7)"},
                    Case{"Repeat (0, 7) : 1", "(1)"}));

INSTANTIATE_TEST_SUITE_P(
    RecordsAndFunctions, Evaluates,
    testing::Values(Case{"{ a = 1; b = a + 1 }", "{ a = 1; b = 2 }"}, Case{"[ a = b + 1\n b = 1 ]", "{ a = 2; b = 1 }"},
                    Case{"{ a = 1; r = { b = a; a = 5 } }.r.b", "5"},  // the nearest definition, wherever it stands
                    Case{"{ f (x) = x + 1; y = f (2) }.y", "3"}, Case{"{ f {x} = x + 1; y = f {2} }.y", "3"},
                    Case{"{ f (x, k=10) = x + k; y = f (1) : f (1, k=2) : f (x=3) : f (1, 5) }.y", "(11:3:13:6)"},
                    Case{"{ n = 3; f (x, k=n) = x * k; g (n) = f (2); y = g (100) }.y",
                         "6"},  // defaults see the definition's scope
                    Case{"{ f (x) = 1; y = f (Fail ('never used')) }.y", "1"}, Case{"(x => x*x) (3)", "9"},
                    Case{"(x => y => x-y) (5) (3)", "2"}, Case{"((a, b) => a - b) (5, 3)", "2"},
                    Case{"{ h = (x => x+1) >> (x => x*10); y = h (1) }.y", "20"},
                    Case{"((x => x+1) >> (x => x*10) >> (x => x-1)) (1)", "19"},
                    Case{"if 1 < 2 then 'yes' else Fail ('no')", "yes"},
                    Case{"if false then 1 else if true then 2 else 3", "2"}, Case{"1 + if true then 2 else 3", "3"},
                    Case{"{ fac (n) = if n <= 1 then 1 else n * fac (n-1); y = fac (10) }.y", "3628800"},
                    Case{"{ apply (f, x) = f (x); y = apply (x => x + 1, 4) }.y", "5"},
                    Case{"{ f (k=10, x) = x + k; y = f (1) : f (1, 2) : f (k=3, 1) : f (1, k=2) }.y", "(11:3:4:3)"},
                    Case{"{ f (a, k=10, b) = a * k + b; y = f (1, 2) : f (1, 2, 3) : f (b=1, 2, k=5) }.y", "(12:5:11)"},
                    Case{"{ f (x) = x + 1\n a = f\n (2)\n b = (1:2)\n [1]\n c = f\n {4} }.a", "3"},
                    Case{"{ b = (1:2)\n [1]\n c = 5 }.b", "2"}, Case{"{ a = 1\n + 2\n * 3\n b = 4 }.a", "7"},
                    Case{"[| 1\n (2)\n -3 |]", "(1:2:-3)"}, Case{"{ a = \n 5\n b = a }.b", "5"},
                    Case{"{ f (x) = { y = x; z = y + 1 }; r = f (1).z }.r", "2"},
                    Case{"new ComputationNetwork { a = 3 }.a", "3"}, Case{"{ a = 1 ;; b = 2 ; }.b", "2"},
                    Case{"{ a = (1 +\n 2\n + 3) }.a", "6"}, Case{"{ f () = 4; a = f () }.a", "4"},
                    Case{"{ _ = 3; a = _ }.a", "3"}, Case{"{ if1 = 2; a = if1 }.a", "2"}));

INSTANTIATE_TEST_SUITE_P(
    BuiltIns, Evaluates,
    testing::Values(
        Case{"Sign (-3) : Sign (0) : Sign (2)", "(-1:0:1)"}, Case{"Min (1, 2) : Max (1, 2)", "(1:2)"},
        Case{"Fac (5)", "120"}, Case{"Mod (7, 3) : IntDiv (7, 3) : IntDiv (-7, 3)", "(1:2:-2)"},
        Case{"Abs (-2) : Floor (1.5) : Ceil (1.5)", "(2:1:2)"}, Case{"Round (-2.5) : Round (0.5)", "(-2:1)"},
        Case{"Round (2.6) : Sqrt (9) : Exp (0) : Log (1)", "(3:3:1:0)"}, Case{"Replace ('a-b-c', '-', '+')", "a+b+c"},
        Case{"Substr ('network', 3, 4)", "work"}, Case{"Substr ('network', -4, 9)", "work"}, Case{"Chr (65)", "A"},
        Case{"Format (1.25, '')", "1.25"}, Case{"Format (3, '%d')", "3"},
        Case{"Format (3.14159, 'pi is %.2f!')", "pi is 3.14!"}, Case{"Format ('x', '<%s>')", "<x>"},
        Case{"Format (1:2, '%s%%')", "(1:2)%"}, Case{"Format (255, '%x')", "ff"},
        Case{"IsArray (1:2) : IsArray (1)", "(true:false)"}, Case{"IsDouble (1) : IsDouble ('1')", "(true:false)"},
        Case{"IsBool (true) : IsBool (1)", "(true:false)"},
        Case{"{ a = {x=1}; b = {x=1}; c = IsSameObject (a, a) : IsSameObject (a, b) }.c", "(true:false)"},
        Case{"IsSameObject (1, 1)", "false"},
        Case{"BS.Constants.IsNone (None) : BS.Constants.IsNone (1)", "(true:false)"}, Case{"Print (3) + 1", "4"},
        Case{"Inferred", "0"}, Case{"Input {2:3}.dim", "6"}, Case{"Input {2:3}.dims", "(2:3)"},
        Case{"Input {5}.operation", "InputValue"}, Case{"Input (5, sparse=true).sparse", "true"},
        Case{"Length ((Input {5} + 1).inputs)", "2"}, Case{"Times (Parameter (3, 0), Input {5}).dim", "3"},
        Case{"Times (ParameterTensor {3:4:0}, Input {5}, outputRank=2).dims", "(3:4)"},
        Case{"ClassificationError (Input {5}, Input {5}, topN=2).topN", "2"}));

TEST(Language, LongChainsOfOperatorsAreNoProblem) {
  std::string sum = "0", array = "0";
  for (int i = 0; i < 3000; ++i) sum += " + 1", array += " : 1";
  EXPECT_EQ(evaluate_to_text(sum), "3000");
  EXPECT_EQ(evaluate_to_text("Length (" + array + ")"), "3001");
}

TEST(Language, DeepButFiniteRecursionWorks) {
  EXPECT_EQ(evaluate_to_text("{ count (n) = if n == 0 then 0 else 1 + count (n-1); y = count (2000) }.y"), "2000");
  EXPECT_EQ(evaluate_to_text("LayerStack {200, i => DenseLayer {3}} (Input {2}).dim"), "3");
}

}  // namespace
}  // namespace tutti::brainscript::language_test
