// SPDX-License-Identifier: Apache-2.0
#include "cntk/node_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/kernel.h"

namespace tutti::cntk {
namespace {

using graph::Node;
using List = std::vector<double>;

double integer(ByteReader& r, const char* what) { return r.number<std::int32_t>(what); }
double size(ByteReader& r, const char* what) { return static_cast<double>(r.number<std::uint64_t>(what)); }

// ---- inputs, parameters, statistics

void read_parameter(ByteReader& r, const FileFormat&, Node& n) {
  const std::size_t at = r.offset();
  n.attributes["learningRateMultiplier"] = static_cast<double>(r.number<float>("a learning-rate multiplier"));
  const List dims = r.shape("the shape of a parameter");
  const Matrix m = r.matrix("a parameter");
  double elements = 1;
  for (const double d : dims) elements *= d;
  if (elements != static_cast<double>(m.values->size()))
    r.fail(at, fmt::format("the shape of a parameter has {} elements, its matrix {} x {}", elements, m.rows, m.columns));
  n.attributes["dims"] = dims;
  n.attributes["init"] = std::string("fixedValue");
  n.attributes["value"] = 0.0;
  n.start = m.values;
}

void read_input(ByteReader& r, const FileFormat& f, Node& n) {
  const auto rows = size(r, "the rows of an input");
  size(r, "the columns of an input");
  List dims = r.shape("the shape of an input");
  double elements = 1;
  for (const double d : dims) elements *= d;
  if (rows != 0 && rows != elements) dims = {rows};  // as the original does with inconsistent old files
  n.attributes["dims"] = dims;
  if (f.version >= 8) {
    const std::size_t at = r.offset();
    const auto axes = r.number<std::uint32_t>("the number of dynamic axes");
    if (axes > 1) r.fail(at, fmt::format("an input has {} dynamic axes", axes));
    const std::string axis = axes == 1 ? r.name("a dynamic axis") : std::string();
    if (!axis.empty()) n.attributes["dynamicAxis"] = axis;
  }
  if (f.version >= 10) r.number<float>("the learning-rate multiplier of an input");
}

void read_sparse_input(ByteReader& r, const FileFormat& f, Node& n) {
  read_input(r, f, n);
  n.attributes["sparse"] = true;
}

void read_statistic(ByteReader& r, const FileFormat&, Node& n) {
  const bool computed = r.flag("whether a statistic was computed");
  const Matrix m = r.matrix("a statistic");
  if (!computed) return;
  n.attributes["precomputed"] = true;
  n.start = m.values;
}

// ---- products, shapes

void read_times(ByteReader& r, const FileFormat& f, Node& n) {
  n.attributes["outputRank"] = size(r, "the output rank of a product");
  if (f.version < 12) return;
  const double mapped = integer(r, "the inferred rank of a product");
  if (n.operation == "Times" && mapped >= 0) n.attributes["inferInputRankToMap"] = mapped;
}

void read_slice(ByteReader& r, const FileFormat&, Node& n) {
  const auto begin = r.number<std::int64_t>("the begin of a slice"), length = r.number<std::int64_t>("a slice's length");
  n.attributes["begin"] = static_cast<double>(begin);
  n.attributes["end"] = static_cast<double>(begin) + static_cast<double>(length);
  const std::size_t at = r.offset();
  const double axis = integer(r, "the axis of a slice");
  if (axis < 1) r.fail(at, fmt::format("a slice has the axis {}", axis));
  n.attributes["axis"] = axis;
}

void read_row_stack(ByteReader& r, const FileFormat&, Node& n) { n.attributes["axis"] = integer(r, "an axis"); }
void read_row_repeat(ByteReader& r, const FileFormat&, Node& n) { n.attributes["numRepeats"] = size(r, "a repetition"); }

void read_reduce(ByteReader& r, const FileFormat&, Node& n) {
  const std::size_t at = r.offset();
  const double axis = integer(r, "the axis of a reduction");
  if (axis < 0) r.fail(at, fmt::format("a reduction has the axis {}", axis));
  n.attributes["axis"] = axis;
  n.attributes["op"] = r.name("the operation of a reduction");
}

void read_reshape(ByteReader& r, const FileFormat&, Node& n) {
  n.attributes["beginAxis"] = integer(r, "the begin of a reshape");
  n.attributes["endAxis"] = integer(r, "the end of a reshape");
  n.attributes["dims"] = r.shape("the new shape of a reshape");
}

void read_legacy_reshape(ByteReader& r, const FileFormat&, Node& n) {
  const double rows = size(r, "the rows of a reshape");
  const List image = r.shape("the image of a reshape");
  double elements = 1;
  for (const double d : image) elements *= d;
  n.attributes["dims"] = image.empty() || elements != rows ? List{rows} : image;
}

void read_transpose(ByteReader& r, const FileFormat&, Node& n) {
  n.attributes["axis1"] = integer(r, "an axis");
  n.attributes["axis2"] = integer(r, "an axis");
}

// ---- time

void read_delay(ByteReader& r, const FileFormat& f, Node& n) {
  n.attributes["timeStep"] = integer(r, "the steps of a delay");
  const List dims = r.shape("the shape of a delay");
  if (!dims.empty() && std::ranges::count(dims, 0.0) == 0) n.attributes["dims"] = dims;
  constexpr const char* initial = "the initial value of a delay";
  n.attributes["defaultHiddenActivation"] =
      f.double_precision ? r.number<double>(initial) : static_cast<double>(r.number<float>(initial));
}

void read_where(ByteReader& r, const FileFormat& f, Node&) {
  if (f.version >= 11) r.name("the axis of Where");  // every Where makes an axis of its own here
}

// ---- images

void set_layout(ByteReader& r, std::size_t at, std::int64_t layout, Node& n) {
  if (layout != 0 && layout != 1) r.fail(at, fmt::format("the image layout is {} instead of 0 or 1", layout));
  if (layout == 0) n.attributes["imageLayout"] = std::string("HWC");
}

void read_layout(ByteReader& r, Node& n) {
  const std::size_t at = r.offset();
  set_layout(r, at, r.number<std::int32_t>("an image layout"), n);
}

// The window of a convolution or pooling. Returns the kind of the pooling.
std::int32_t read_window(ByteReader& r, const FileFormat& f, Node& n) {
  n.attributes["kernelDims"] = r.shape("a kernel");
  n.attributes["mapDims"] = r.shape("the number of maps");
  n.attributes["stride"] = r.shape("a stride");
  n.attributes["sharing"] = r.flags("the sharing of a kernel");
  n.attributes["autoPadding"] = r.flags("the padding of a window");
  n.attributes["lowerPad"] = r.shape("the lower padding");
  n.attributes["upperPad"] = r.shape("the upper padding");
  const auto pooling = r.number<std::int32_t>("the kind of a pooling");
  read_layout(r, n);
  size(r, "the memory of a convolution");
  n.attributes["transpose"] = f.version >= 9 && r.flag("whether a convolution is transposed");
  return pooling;
}

void read_convolution(ByteReader& r, const FileFormat& f, Node& n) {
  read_window(r, f, n);
  r.flag("whether a convolution was written in two dimensions");
  if (f.version < 18) return;
  const std::size_t at = r.offset();
  for (const double d : r.shape("a dilation"))
    if (d != 1) r.fail(at, "a convolution is dilated, which no version of the original computes");
}

void read_pooling(ByteReader& r, const FileFormat& f, Node& n) {
  const std::size_t at = r.offset();
  const auto kind = read_window(r, f, n);
  if (kind != 1 && kind != 2) r.fail(at, fmt::format("the pooling is of kind {} instead of 1 or 2", kind));
  n.attributes["poolingType"] = std::string(kind == 1 ? "max" : "average");
  for (const char* unused : {"mapDims", "sharing", "transpose"}) n.attributes.erase(unused);
}

void read_unpooling(ByteReader& r, const FileFormat& f, Node& n) {
  read_pooling(r, f, n);
  n.attributes["poolingType"] = std::string("max");
}

void read_plane_pooling(ByteReader& r, Node& n, const char* type) {
  const double width = r.number<std::uint32_t>("the width of a window");
  const std::size_t at = r.offset();
  set_layout(r, at, r.number<std::uint32_t>("an image layout"), n);
  const double height = size(r, "the height of a window");
  const double across = size(r, "a stride"), down = size(r, "a stride");
  n.attributes["poolingType"] = std::string(type);
  n.attributes["kernelDims"] = List{width, height};
  n.attributes["stride"] = List{across, down};
  n.attributes["autoPadding"] = List{0};
}
void read_max_pooling(ByteReader& r, const FileFormat&, Node& n) { read_plane_pooling(r, n, "max"); }
void read_average_pooling(ByteReader& r, const FileFormat&, Node& n) { read_plane_pooling(r, n, "average"); }

void read_roi_pooling(ByteReader& r, const FileFormat&, Node& n) { n.attributes["shape"] = r.shape("the size of a region"); }

// Before version 13 the file counts minibatches; the original takes them for 16 samples each.
void read_normalization(ByteReader& r, const FileFormat& f, Node& n) {
  n.attributes["spatial"] = r.flag("whether a normalisation is spatial");
  n.attributes["normalizationTimeConstant"] = r.number<double>("a time constant");
  n.attributes["blendTimeConstant"] = r.number<double>("a time constant");
  read_layout(r, n);
  const double seen = size(r, "the samples of a normalisation") * (f.version < 13 ? 16 : 1);
  n.attributes["epsilon"] = r.number<double>("the epsilon of a normalisation");
  r.flag("the engine of a normalisation");
  auto count = std::make_shared<std::vector<float>>(2);
  graph::set_samples_seen(count->data(), seen);
  n.start = std::move(count);
}

// ---- training, debugging

// The state of a random generator, which is not used here. In version 16 the seed has 8 bytes, or 4 if Windows wrote it;
// what comes next tells.
void read_generator(ByteReader& r, const FileFormat& f, Node&) {
  if (f.version < 16) return;
  const auto node_follows = [&](std::size_t ahead) {
    return r.next_is("float", ahead) || r.next_is("double", ahead) || r.next_is("ENodeList", ahead);
  };
  constexpr const char* what = "the state of a random generator";
  if (f.version == 16 && !node_follows(16) && node_follows(12))
    r.number<std::uint32_t>(what);
  else
    r.number<std::uint64_t>(what);
  r.number<std::uint64_t>(what);
}

void read_trace(ByteReader& r, const FileFormat&, Node& n) {
  n.attributes["say"] = r.text("the text of a trace");
  const auto number = [&](const char* key) {
    n.attributes[key] = std::min(static_cast<double>(r.number<std::uint64_t>("a number of a trace")), 1e8);
  };
  number("logFirst");
  number("logFrequency");
  r.flag("whether a trace shows gradients");
  // The format of the values, which is not used here.
  r.flag("the format of a trace");
  r.text("the format of a trace");
  for (int i = 0; i < 2; ++i) r.flag("the format of a trace");
  for (int i = 0; i < 2; ++i) r.text("the format of a trace");
  for (int i = 0; i < 6; ++i) r.narrow_text("the format of a trace");
  number("onlyUpToRow");
  number("onlyUpToT");
}

const NodeType types[] = {
    {"LearnableParameter", {}, read_parameter},
    {"InputValue", {}, read_input},
    {"SparseInputValue", "InputValue", read_sparse_input},
    {"Mean InvStdDev", {}, read_statistic},
    // Products.
    {"Times TransposeTimes", {}, read_times},
    {"DiagTimes KhatriRaoProduct LookupTable", {}, nullptr},
    {"ElementTimes", {}, nullptr},
    {"ColumnElementTimes RowElementTimes Scale", "ElementTimes", nullptr},
    // One element at a time.
    {"Plus Minus LogPlus Less Equal Greater GreaterEqual NotEqual LessEqual If Clip", {}, nullptr},
    {"Negate Reciprocal Sigmoid Tanh RectifiedLinear Exp Log Sqrt Abs Floor Sin Cosine Pass", {}, nullptr},
    {"Softmax LogSoftmax Hardmax", {}, nullptr},
    {"Trace", {}, read_trace},
    // Criteria.
    {"CrossEntropyWithSoftmax CrossEntropy SquareError Logistic ClassificationError", {}, nullptr},
    {"ErrorPrediction", "ClassificationError", nullptr},
    {"ClassBasedCrossEntropyWithSoftmax MatrixL1Reg MatrixL2Reg CosDistance", {}, nullptr},
    {"CosDistanceWithNegativeSamples LambdaRank NDCG1Eval", {}, nullptr},
    {"DummyCriterion", {}, nullptr, "its derivatives come from another program"},
    // Reductions and shape.
    {"SumElements SumColumnElements", {}, nullptr},
    {"ReduceElements", {}, read_reduce},
    {"Slice", {}, read_slice},
    {"RowSlice", "Slice", read_slice},
    {"RowStack", {}, read_row_stack},
    {"RowRepeat", {}, read_row_repeat},
    {"Reshape", {}, read_reshape},
    {"LegacyReshape", "Reshape", read_legacy_reshape},
    {"TransposeDimensions", {}, read_transpose},
    {"Transpose", "TransposeDimensions", read_transpose},
    // Images.
    {"Convolution", {}, read_convolution},
    {"Pooling", {}, read_pooling},
    {"MaxPooling", "Pooling", read_max_pooling},
    {"AveragePooling", "Pooling", read_average_pooling},
    {"MaxUnpooling", {}, read_unpooling},
    {"ROIPooling", {}, read_roi_pooling},
    {"BatchNormalization", {}, read_normalization},
    // Time and dynamic axes.
    {"PastValue FutureValue", {}, read_delay},
    {"Delay", "PastValue", read_delay},
    {"Where", {}, read_where},
    {"PackedIndex GatherPacked ScatterPacked ReconcileDynamicAxis", {}, nullptr},
    {"ReconcileMBLayout", "ReconcileDynamicAxis", nullptr},
    {"DynamicAxis", {}, nullptr, "inputs name their dynamic axis"},
    // Training.
    {"Dropout", {}, read_generator},
    {"PerDimMeanVarNormalization PerDimMeanVarDeNormalization", {}, nullptr},
    {"PerDimMeanVarNormalizationNode", "PerDimMeanVarNormalization", nullptr},
    {"PerDimMeanVarDeNormalizationNode", "PerDimMeanVarDeNormalization", nullptr},
};

}  // namespace

const NodeType* find_type(std::string_view name) {
  if (name.empty() || name.find(' ') != name.npos) return nullptr;
  for (const NodeType& type : types)
    for (std::size_t at = 0; at < type.names.size();) {
      const std::size_t end = std::min(type.names.find(' ', at), type.names.size());
      if (type.names.substr(at, end - at) == name) return &type;
      at = end + 1;
    }
  return nullptr;
}

}  // namespace tutti::cntk
