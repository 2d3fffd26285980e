// SPDX-License-Identifier: Apache-2.0
// The functions of the older network language: their names, arguments in order, and operations.
#include <limits>

#include "brainscript/ndl.h"

namespace tutti::brainscript::ndl {
namespace {

using Kind = ParameterKind;
using List = std::vector<double>;

Parameter node(std::string name) { return {{std::move(name)}, Kind::node, {}}; }
Parameter integer(std::vector<std::string> names, std::optional<double> otherwise = {}) {
  Parameter p{std::move(names), Kind::integer, {}};
  if (otherwise) p.otherwise = *otherwise;
  return p;
}
Parameter number(std::vector<std::string> names, double otherwise) {
  return {std::move(names), Kind::number, otherwise};
}
Parameter flag(std::vector<std::string> names, bool otherwise) { return {std::move(names), Kind::flag, otherwise}; }
Parameter text(std::vector<std::string> names, std::string otherwise) {
  return {std::move(names), Kind::text, std::move(otherwise)};
}
Parameter dims(std::vector<std::string> names, std::optional<List> otherwise = {}) {
  Parameter p{std::move(names), Kind::dims, {}};
  if (otherwise) p.otherwise = *otherwise;
  return p;
}
Parameter layout() { return text({"imageLayout"}, "HWC"); }
Parameter ignored(std::vector<std::string> names, std::string because) {
  return {std::move(names), Kind::ignored, std::string{}, std::move(because)};
}
Parameter axis_of_time() { return text({"dynamicAxis"}, ""); }
Parameter temporary_memory() { return ignored({"maxTempMemSizeInSamples"}, "no temporary matrix is made"); }

Function unary(std::vector<std::string> names, std::string operation) {
  return {std::move(names), std::move(operation), {node("x")}};
}
Function binary(std::vector<std::string> names, std::string operation) {
  return {std::move(names), std::move(operation), {node("x"), node("y")}};
}

// Several images stand behind each other on an axis of their own.
List image_dims(const graph::Node& n, const Given& g) {
  const std::string& layout = g.text("imageLayout");
  const bool channels_last = layout == "CHW" || layout == "cudnn";
  if (!channels_last && layout != "HWC" && layout != "legacy")
    throw ConfigError(n.where, "there is no imageLayout '" + layout + "'",
                      "use \"CHW\" (or \"cudnn\") or \"HWC\" (\"legacy\")");
  const double w = g.number("width"), h = g.number("height"), c = g.number("channels"), images = g.number("numImages");
  List dims = channels_last ? List{w, h, c} : List{c, w, h};
  if (images != 1) dims.push_back(images);
  return dims;
}

std::vector<Parameter> image_parameters() {
  return {integer({"_width", "imageWidth"}), integer({"_height", "imageHeight"}),
          integer({"_channels", "imageChannels"}), integer({"_numImages"}, 1), text({"_imageLayout"}, "HWC")};
}
std::vector<Parameter> image_input_parameters() {
  auto all = image_parameters();
  all.push_back(axis_of_time());
  return all;
}

void sparse(graph::Node& n, const Given&) { n.attributes["sparse"] = true; }

// What every kind of parameter takes behind its dims.
std::vector<Parameter> with_initialisation(std::vector<Parameter> first) {
  for (auto& p : std::vector<Parameter>{
           flag({"_needGradient", "needsGradient", "computeGradient"}, true), number({"learningRateMultiplier"}, 1),
           text({"init"}, "uniform"), number({"value"}, 0), number({"initValueScale"}, 1),
           text({"initFromFilePath"}, ""), flag({"_initOnCPUOnly"}, false), integer({"randomSeed"}, -1),
           text({"initFromLiteral"}, ""), ignored({"kernelWidth"}, "bilinear filters are as wide as the parameter"),
           ignored({"kernelHeight"}, "bilinear filters are as high as the parameter")})
    first.push_back(std::move(p));
  return first;
}

void frozen(graph::Node& n, const Given& g) {
  if (!g.flag("needGradient")) n.attributes["learningRateMultiplier"] = 0.0;
}

void windows(graph::Node& n, const char* pooling, const Given& g) {
  n.attributes["poolingType"] = std::string(pooling);
  n.attributes["kernelDims"] = List{g.number("windowWidth"), g.number("windowHeight")};
  n.attributes["stride"] = List{g.number("horizontalSubsample"), g.number("verticalSubsample")};
  n.attributes["autoPadding"] = List{0};
}

std::vector<Parameter> window_parameters() {
  return {node("x"),
          integer({"_windowWidth"}),
          integer({"_windowHeight"}),
          integer({"_horizontalSubsample"}),
          integer({"_verticalSubsample"}),
          layout()};
}

std::vector<Parameter> delay_parameters() {
  return {integer({"_rows"}), node("input"), integer({"timeStep", "delayTime"}, 1),
          number({"defaultHiddenActivation", "defaultHiddenActivity"}, 0.1)};
}
// The older form (rows, cols, input); cols was the number of samples.
std::vector<Parameter> delay_with_cols() {
  auto all = delay_parameters();
  all.insert(all.begin() + 1, integer({"_cols"}));
  return all;
}
void delay(graph::Node& n, const Given& g) { n.attributes["dims"] = List{g.number("rows")}; }

std::vector<Function> inputs_and_parameters() {
  return {
      {{"InputValue", "Input"}, "InputValue", {dims({"dims", "rows"}), integer({"_cols"}, 1), axis_of_time()}},
      {{"SparseInputValue", "SparseInput"},
       "InputValue",
       {dims({"dims", "rows"}), integer({"_cols"}, 1), axis_of_time()},
       sparse},
      {{"ImageInput", "Image"},
       "InputValue",
       image_input_parameters(),
       [](graph::Node& n, const Given& g) { n.attributes["dims"] = image_dims(n, g); }},
      {{"SparseImageInput", "SparseImage"},
       "InputValue",
       image_input_parameters(),
       [](graph::Node& n, const Given& g) {
         n.attributes["dims"] = image_dims(n, g);
         n.attributes["sparse"] = true;
       }},
      {{"LearnableParameter", "Parameter"},
       "LearnableParameter",
       with_initialisation({integer({"_rows"}), integer({"_cols"}, 1)}),
       [](graph::Node& n, const Given& g) {
         n.attributes["dims"] = List{g.number("rows"), g.number("cols")};
         frozen(n, g);
       }},
      {{"ParameterTensor"}, "LearnableParameter", with_initialisation({dims({"dims"})}), frozen},
      {{"ImageParameter"},
       "LearnableParameter",
       with_initialisation(image_parameters()),
       [](graph::Node& n, const Given& g) {
         n.attributes["dims"] = image_dims(n, g);
         frozen(n, g);
       }},
      {{"Constant", "Const"},
       "LearnableParameter",
       {{{"value"}, Kind::number, {}}, integer({"_rows"}, 1), integer({"_cols"}, 1)},
       [](graph::Node& n, const Given& g) {
         n.attributes["dims"] = List{g.number("rows"), g.number("cols")};
         n.attributes["init"] = std::string("fixedValue");
         n.attributes["learningRateMultiplier"] = 0.0;
       }},
  };
}

std::vector<Function> arithmetic() {
  return {
      {{"Times"}, "Times", {node("x"), node("y"), integer({"outputRank"}, 1)}},
      binary({"TransposeTimes"}, "TransposeTimes"),
      binary({"DiagTimes"}, "DiagTimes"),
      binary({"ElementTimes", "Scale", "RowElementTimes", "ColumnElementTimes"}, "ElementTimes"),
      binary({"KhatriRaoProduct", "ColumnwiseCrossProduct"}, "KhatriRaoProduct"),
      {{"LookupTable"}, "LookupTable", {node("embeddingMatrix"), node("inputTensor")}},
      binary({"Plus"}, "Plus"),
      binary({"Minus"}, "Minus"),
      binary({"LogPlus"}, "LogPlus"),
      unary({"Sigmoid"}, "Sigmoid"),
      unary({"Tanh"}, "Tanh"),
      unary({"RectifiedLinear", "ReLU"}, "RectifiedLinear"),
      unary({"Log"}, "Log"),
      unary({"Exp"}, "Exp"),
      unary({"Sqrt"}, "Sqrt"),
      unary({"Abs"}, "Abs"),
      unary({"Floor"}, "Floor"),
      unary({"Ceil"}, "Ceil"),
      unary({"Round"}, "Round"),
      unary({"Sin"}, "Sin"),
      unary({"Cosine", "Cos"}, "Cosine"),
      unary({"Negate"}, "Negate"),
      unary({"Reciprocal"}, "Reciprocal"),
      unary({"Pass", "Identity"}, "Pass"),
      binary({"Less"}, "Less"),
      binary({"LessEqual"}, "LessEqual"),
      binary({"Equal"}, "Equal"),
      binary({"NotEqual"}, "NotEqual"),
      binary({"Greater"}, "Greater"),
      binary({"GreaterEqual"}, "GreaterEqual"),
      {{"If"}, "If", {node("condition"), node("then"), node("otherwise")}},
      {{"Clip"}, "Clip", {node("minimum"), node("maximum"), node("x")}},
      unary({"Softmax"}, "Softmax"),
      unary({"LogSoftmax"}, "LogSoftmax"),
      unary({"Hardmax"}, "Hardmax"),
      unary({"Dropout"}, "Dropout"),
      unary({"Mean"}, "Mean"),
      unary({"InvStdDev"}, "InvStdDev"),
      unary({"SumElements"}, "SumElements"),
      unary({"SumColumnElements"}, "SumColumnElements"),
      {{"PerDimMeanVarNormalization", "PerDimMVNorm"},
       "PerDimMeanVarNormalization",
       {node("x"), node("mean"), node("invStdDev")}},
      {{"PerDimMeanVarDeNormalization", "PerDimMVDeNorm"},
       "PerDimMeanVarDeNormalization",
       {node("x"), node("mean"), node("invStdDev")}},
  };
}

std::vector<Function> criteria() {
  return {
      binary({"CrossEntropyWithSoftmax", "CEWithSM"}, "CrossEntropyWithSoftmax"),
      binary({"CrossEntropy"}, "CrossEntropy"),
      binary({"SquareError", "SE"}, "SquareError"),
      binary({"Logistic"}, "Logistic"),
      {{"WeightedLogistic"}, "WeightedLogistic", {node("label"), node("probability"), node("weight")}},
      {{"ClassCrossEntropyWithSoftmax", "CBCEWithSM", "ClassBasedCrossEntropyWithSoftmax"},
       "ClassBasedCrossEntropyWithSoftmax",
       {node("labels"), node("input"), node("inputweights"), node("clsProbBeforeSoftmax")}},
      {{"ClassificationError", "ErrorPrediction"},
       "ClassificationError",
       {node("labels"), node("z"), integer({"topN"}, 1)}},
      unary({"MatrixL1Reg", "L1Reg"}, "MatrixL1Reg"),
      unary({"MatrixL2Reg", "L2Reg"}, "MatrixL2Reg"),
      binary({"CosDistance", "CosDist"}, "CosDistance"),
      {{"CosDistanceWithNegativeSamples", "CosWithNegSamples"},
       "CosDistanceWithNegativeSamples",
       {node("a"), node("b"), integer({"shift"}), integer({"negatives"})}},
      {{"LambdaRank"}, "LambdaRank", {node("gain"), node("prediction"), node("queryId")}},
      {{"NDCG1Eval"}, "NDCG1Eval", {node("gain"), node("prediction"), node("queryId")}},
  };
}

std::vector<Function> shapes() {
  return {
      {{"RowSlice"},
       "Slice",
       {integer({"_start", "startIndex"}), integer({"_num", "numRows"}), node("x")},
       [](graph::Node& n, const Given& g) {
         n.attributes["begin"] = g.number("start");
         n.attributes["end"] = g.number("start") + g.number("num");
         n.attributes["axis"] = 1.0;
       }},
      {{"RowStack"}, "RowStack", {{{"inputs"}, Kind::nodes, {}}}},
      {{"RowRepeat"}, "RowRepeat", {node("x"), integer({"numRepeats"})}},
      {{"Transpose"},
       "TransposeDimensions",
       {node("x")},
       [](graph::Node& n, const Given&) { n.attributes["axis1"] = 1.0, n.attributes["axis2"] = 2.0; }},
      {{"TransposeDimensions"}, "TransposeDimensions", {node("x"), integer({"axis1"}), integer({"axis2"})}},
      {{"Slice"}, "Slice", {integer({"begin"}), integer({"end"}), node("x"), integer({"axis"}, 1)}},
      {{"Reshape"},
       "Reshape",
       {node("x"), integer({"_numRows"}), integer({"_imageWidth"}, 0), integer({"_imageHeight"}, 0),
        integer({"_imageChannels"}, 0)},
       [](graph::Node& n, const Given& g) {
         n.attributes["dims"] = g.number("imageWidth") == 0
                                    ? List{g.number("numRows")}
                                    : List{g.number("imageChannels"), g.number("imageWidth"), g.number("imageHeight")};
       }},
      {{"PastValue", "Delay"}, "PastValue", delay_parameters(), delay},
      {{"PastValue with cols", "Delay with cols"}, "PastValue", delay_with_cols(), delay},
      {{"FutureValue"}, "FutureValue", delay_parameters(), delay},
      {{"FutureValue with cols"}, "FutureValue", delay_with_cols(), delay},
      unary({"Where"}, "Where"),
      {{"PackedIndex"}, "PackedIndex", {node("layoutOf"), node("frames")}},
      {{"GatherPacked"}, "GatherPacked", {node("index"), node("source")}},
      {{"ScatterPacked"}, "ScatterPacked", {node("layoutOf"), node("index"), node("source")}},
      {{"ReconcileDynamicAxis", "ReconcileMBLayout"}, "ReconcileDynamicAxis", {node("x"), node("layoutOf")}},
  };
}

std::vector<Function> images() {
  return {
      {{"Convolution", "Convolve"},
       "Convolution",
       {node("W"), node("x"), integer({"_kernelWidth"}), integer({"_kernelHeight"}), integer({"_outputChannels"}),
        integer({"_horizontalSubsample"}), integer({"_verticalSubsample"}), flag({"_zeroPadding"}, false),
        temporary_memory(), layout()},
       [](graph::Node& n, const Given& g) {
         n.attributes["kernelDims"] = List{g.number("kernelWidth"), g.number("kernelHeight")};
         n.attributes["mapDims"] = List{g.number("outputChannels")};
         n.attributes["stride"] = List{g.number("horizontalSubsample"), g.number("verticalSubsample")};
         n.attributes["autoPadding"] = List{g.flag("zeroPadding") ? 1.0 : 0.0};
       }},
      // With a list for the kernel: any number of axes.
      {{"Convolution{}"},
       "Convolution",
       {node("W"), node("x"), dims({"kernelDims", "kernelShape"}), dims({"mapDims", "mapCount", "mapShape"}, List{0}),
        dims({"stride", "strideShape"}, List{1}), dims({"sharing"}, List{1}), dims({"autoPadding", "autoPad"}, List{1}),
        dims({"lowerPad"}, List{0}), dims({"upperPad"}, List{0}), flag({"transpose", "deconv"}, false),
        temporary_memory(), text({"imageLayout"}, "CHW"), dims({"outputShape"}, List{})}},
      {{"MaxUnpooling"},
       "MaxUnpooling",
       {node("unpoolInput"), node("poolInput"), dims({"kernelDims", "kernelShape"}),
        dims({"stride", "strideShape"}, List{1}), dims({"autoPadding", "autoPad"}, List{1}),
        dims({"lowerPad"}, List{0}), dims({"upperPad"}, List{0}), text({"imageLayout"}, "CHW")}},
      {{"ROIPooling"}, "ROIPooling", {node("x"), node("rois"), dims({"shape"})}},
      {{"MaxPooling"}, "Pooling", window_parameters(), [](graph::Node& n, const Given& g) { windows(n, "max", g); }},
      {{"AveragePooling"},
       "Pooling",
       window_parameters(),
       [](graph::Node& n, const Given& g) { windows(n, "average", g); }},
      {{"Pooling"},
       "Pooling",
       {node("x"), text({"poolingType", "poolKind"}, "max"), dims({"kernelDims", "kernelShape"}),
        dims({"stride", "strideShape"}, List{1}), dims({"autoPadding", "autoPad"}, List{1}),
        dims({"lowerPad"}, List{0}), dims({"upperPad"}, List{0}), text({"imageLayout"}, "CHW")}},
      {{"BatchNormalization"},
       "BatchNormalization",
       {node("x"), node("scale"), node("bias"), node("runMean"), node("runVariance"), flag({"spatial"}, false),
        number({"normalizationTimeConstant"}, 0), number({"blendTimeConstant"}, 0), number({"epsilon"}, 0.00001),
        flag({"useCntkEngine"}, true), layout(), flag({"synchronized"}, false), flag({"_eval"}, false),
        ignored({"engine"}, "the device decides which one is used"),
        ignored({"expAvgFactor"}, "normalizationTimeConstant says how fast the running statistics move")},
       // With eval=true the running statistics are used in training too, and kept.
       [](graph::Node& n, const Given& g) {
         if (!g.flag("eval")) return;
         n.attributes["normalizationTimeConstant"] = std::numeric_limits<double>::infinity();
         n.attributes["blendTimeConstant"] = std::numeric_limits<double>::infinity();
       }},
  };
}

}  // namespace

const std::vector<Function>& functions() {
  static const std::vector<Function> all = [] {
    std::vector<Function> rows;
    for (auto* group : {inputs_and_parameters, arithmetic, criteria, shapes, images})
      for (auto& row : group()) rows.push_back(std::move(row));
    return rows;
  }();
  return all;
}

}  // namespace tutti::brainscript::ndl
