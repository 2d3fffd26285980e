// SPDX-License-Identifier: Apache-2.0
// CNTK's functions with their arguments by the names that CNTK gives them, and functions that only older or newer
// descriptions use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "networks.h"

namespace tutti::brainscript::original_names_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string network(const std::string& expression) {
  return "{ x = Input {3}; y = Input {3}; img = Input {5:5:2}; P = ParameterTensor {3}; M = ParameterTensor {3:2}\n"
         "out = " +
         expression + "\noutputNodes = (out) }";
}

class OriginalCalls : public testing::TestWithParam<const char*> {};
TEST_P(OriginalCalls, TakeTheirArgumentsByName) {
  const Built b = build(network(GetParam()));
  EXPECT_EQ(b.errors, "");
  EXPECT_THAT(b.names_of(b.graph.outputs), ElementsAre("out"));
}
INSTANTIATE_TEST_SUITE_P(
    Names, OriginalCalls,
    testing::Values(
        "Slice (beginIndex=0, endIndex=2, input=x)", "RowSlice (beginIndex=0, numRows=2, input=x)",
        "RowRepeat (input=x, numRepeats=2)", "TransposeDimensions (img, axis1=1, axis2=2)",
        "Clip (minValue=0, maxValue=1, x=x)", "Pooling (input=img, poolKind='max', kernelDims=(2:2))",
        "MaxPooling (input=img, windowWidth=2, windowHeight=2, horizontalSubsample=1, verticalSubsample=1)",
        "PastValue (dims=3, input=x)", "FutureValue (dims=3, input=x)", "TransposeTimes (leftMatrix=M, rightMatrix=x)",
        "Shift (input=x, fromOffset=-1, boundaryValue=0)", "NewReshape (input=x, dims=(1:3))",
        "Reshape (input=x, numRows=3)", "ReshapeDimension (x=x, axis=1, tensorShape=(3:1))",
        "DiagTimes (diagonalMatrixAsColumnVector=P, matrix=x)", "KhatriRaoProduct (leftMatrix=x, rightMatrix=y)",
        "LogPlus (leftMatrix=x, rightMatrix=y)", "ColumnElementTimes (aVectorSequence=x, anotherVectorSequence=y)",
        "CosDistance (aVectorSequence=x, anotherVectorSequence=y)", "SquareError (aMatrix=x, anotherMatrix=y)",
        "CrossEntropy (refProbVectorSequence=x, outProbVectorSequence=y)", "MatrixL2Reg (matrix=M)",
        "CrossEntropyWithSoftmax (labelSequence=x, outProbVectorSequence=y)", "SumElements (matrix=x)",
        "ClassificationError (labelSequence=x, outVectorSequence=y)", "MeanVarNorm (feat=x)",
        "Logistic (label=Slice (0, 1, x), probability=Slice (0, 1, y))", "Mean (dataVectorSequence=x)",
        "PerDimMeanVarNormalization (x=x, mean=Mean (x), invStdDev=InvStdDev (x))",
        "Parallel (arrayOfFunctions=(Sigmoid : Tanh), combineFunction=Splice) (x)",
        "MergeBinary (arrayOfFunctions=(Sigmoid : Tanh), combineFunction=Plus) (x, y)",
        "LayerStack {n=2, c=(i => DenseLayer {3})} (x)", "LearnableParameter {3, 1} .* x",
        "CNTK2.Slice (x, beginIndex=0, endIndex=2)", "CNTK2.Clip (x, minValue=0, maxValue=1)",
        "CNTK2.Reshape (x, shape=(1:3))", "CNTK2.TransposeDimensions (img, axis1=1, axis2=2)",
        "CNTK2.PastValue (x, shape=3)", "CNTK2.FutureValue (x, 3, timeStep=2)", "CNTK2.ReLU (x)", "CNTK2.Relu (x)",
        "CNTK2.Sigmoid (x)", "CNTK2.Tanh (x)", "CNTK2.Abs (x)", "CNTK2.Exp (x)", "CNTK2.Log (x)", "CNTK2.Sqrt (x)",
        "CNTK2.Square (x)", "CNTK2.Floor (x)", "CNTK2.Ceil (x)", "CNTK2.Round (x)", "CNTK2.Less (x, y)",
        "CNTK2.Equal (x, y)", "CNTK2.Greater (x, y)", "CNTK2.GreaterEqual (x, y)", "CNTK2.NotEqual (x, y)",
        "CNTK2.LessEqual (x, y)", "CNTK2.Pass (x)", "CNTK2.Identity (x)", "CNTK2.ErrorPrediction (x, y)"));

TEST(OriginalNames, InputsOfTheNewerSpellings) {
  const Built b = build("{ a = CNTK2.DynamicAxis (); x = CNTK2.Input (3, dynamicAxis=a); y = Sigmoid (x) }");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(std::get<std::string>(b["x"].attributes.at("dynamicAxis")), "a");
  EXPECT_EQ(std::get<std::vector<double>>(b["x"].attributes.at("dims")), std::vector<double>{3});
}

TEST(OriginalNames, TraceWarnsOfWhatItDoesNotPrint) {
  const Built b = build(network("Trace (x, say='x', logGradientToo=true, format=[ type = 'real' ])"));
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b["out"].operation, "Trace");
  EXPECT_THAT(b.notices, ElementsAre(HasSubstr("net.cntk:2:7: warning: Trace prints no gradients"),
                                     HasSubstr("'format' of Trace has no effect")));
  EXPECT_TRUE(build(network("Trace (x, logGradientToo=false)")).notices.empty());
}

TEST(OriginalNames, TrueAndFalseAreNumbers) {
  const Built b = build(R"({ x = Input {1}; one = BS.Boolean.True
    n = Print (if BS.Boolean.True == 1 && BS.Constants.False == 0 then 'numbers' else 'nodes')
    t = BS.Boolean.Toggle (x, initialValue=BS.Boolean.True)
    p = PastValue (0, x, defaultHiddenActivation=BS.Constants.True)
    a = BS.Boolean.And (BS.Boolean.True, x); o = BS.Boolean.Or (x, BS.Boolean.False)
    i = BS.Boolean.If (x, one, BS.Boolean.False)
    outputNodes = (t : p : a : o : i) })");
  ASSERT_EQ(b.errors, "");
  EXPECT_THAT(b.notices, ElementsAre(HasSubstr("numbers")));
  EXPECT_EQ(std::get<double>(b["p"].attributes.at("defaultHiddenActivation")), 1);
}

TEST(OriginalNames, TheOlderEmbeddingIsANode) {
  const Built b = build(R"({ x = Input {5}; a = Embedding (2, x, initFrom='gaussian')
    l = Embedding {2, init='uniform'} (x)
    shown = Print (a.dim : l.dim); outputNodes = (a : l) })");
  ASSERT_EQ(b.errors, "");
  EXPECT_THAT(b.notices, ElementsAre(HasSubstr("(2:2)")));
  EXPECT_EQ(b["a"].operation, "TransposeTimes");
  EXPECT_EQ(std::get<std::string>(b["a.E"].attributes.at("init")), "gaussian");
  EXPECT_EQ(std::get<double>(b["a.E"].attributes.at("learningRateMultiplier")), 0);
  EXPECT_EQ(b["l"].operation, "Times");
  EXPECT_THAT(build("{ x = Input {1}; a = Embedding (2, x, inputDim=5) }").errors,
              HasSubstr("Embedding: the input has one element: it must be a one-hot vector"));
}

TEST(OriginalNames, WhatIsNotPartOfThisVersionSaysSo) {
  for (const char* name : {"Acos", "Asin", "Asinh", "Atanh", "Cosh", "Sinh"})
    EXPECT_THAT(build(network(std::string(name) + " (x)")).errors,
                HasSubstr("the operation '" + std::string(name) + "' is not part of this version"));
}

}  // namespace
}  // namespace tutti::brainscript::original_names_test
