// SPDX-License-Identifier: Apache-2.0
#include "cntk/records.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/kernel.h"

namespace tutti::cntk {

// ---- inputs, parameters, statistics

void read_parameter(ByteReader& r, const FileFormat&, Node& n) {
  const std::size_t at = r.offset();
  n.attributes["learningRateMultiplier"] = static_cast<double>(r.number<float>("a learning-rate multiplier"));
  const List dims = r.shape("the shape of a parameter");
  const Matrix m = r.matrix("a parameter");
  double elements = 1;
  for (const double d : dims) elements *= d;
  if (elements != static_cast<double>(m.values->size()))
    r.fail(at,
           fmt::format("the shape of a parameter has {} elements, its matrix {} x {}", elements, m.rows, m.columns));
  n.attributes["dims"] = dims;
  n.attributes["init"] = std::string("fixedValue");
  n.attributes["value"] = 0.0;
  n.start = m.values;
}

void read_input(ByteReader& r, const FileFormat& f, Node& n) {
  const auto rows = read_size(r, "the rows of an input");
  read_size(r, "the columns of an input");
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
  n.attributes["outputRank"] = read_size(r, "the output rank of a product");
  if (f.version < 12) return;
  const double mapped = read_integer(r, "the inferred rank of a product");
  if (n.operation == "Times" && mapped >= 0) n.attributes["inferInputRankToMap"] = mapped;
}

void read_slice(ByteReader& r, const FileFormat&, Node& n) {
  const auto begin = r.number<std::int64_t>("the begin of a slice"),
             length = r.number<std::int64_t>("a slice's length");
  n.attributes["begin"] = static_cast<double>(begin);
  n.attributes["end"] = static_cast<double>(begin) + static_cast<double>(length);
  const std::size_t at = r.offset();
  const double axis = read_integer(r, "the axis of a slice");
  if (axis < 1) r.fail(at, fmt::format("a slice has the axis {}", axis));
  n.attributes["axis"] = axis;
}

void read_row_stack(ByteReader& r, const FileFormat&, Node& n) { n.attributes["axis"] = read_integer(r, "an axis"); }
void read_row_repeat(ByteReader& r, const FileFormat&, Node& n) {
  n.attributes["numRepeats"] = read_size(r, "a repetition");
}

void read_reduce(ByteReader& r, const FileFormat&, Node& n) {
  const std::size_t at = r.offset();
  const double axis = read_integer(r, "the axis of a reduction");
  if (axis < 0) r.fail(at, fmt::format("a reduction has the axis {}", axis));
  n.attributes["axis"] = axis;
  n.attributes["op"] = r.name("the operation of a reduction");
}

void read_reshape(ByteReader& r, const FileFormat&, Node& n) {
  n.attributes["beginAxis"] = read_integer(r, "the begin of a reshape");
  n.attributes["endAxis"] = read_integer(r, "the end of a reshape");
  n.attributes["dims"] = r.shape("the new shape of a reshape");
}

void read_legacy_reshape(ByteReader& r, const FileFormat&, Node& n) {
  const double rows = read_size(r, "the rows of a reshape");
  const List image = r.shape("the image of a reshape");
  double elements = 1;
  for (const double d : image) elements *= d;
  n.attributes["dims"] = image.empty() || elements != rows ? List{rows} : image;
}

void read_transpose(ByteReader& r, const FileFormat&, Node& n) {
  n.attributes["axis1"] = read_integer(r, "an axis");
  n.attributes["axis2"] = read_integer(r, "an axis");
}

// ---- time

void read_delay(ByteReader& r, const FileFormat& f, Node& n) {
  n.attributes["timeStep"] = read_integer(r, "the steps of a delay");
  const List dims = r.shape("the shape of a delay");
  if (!dims.empty() && std::ranges::count(dims, 0.0) == 0) n.attributes["dims"] = dims;
  constexpr const char* initial = "the initial value of a delay";
  n.attributes["defaultHiddenActivation"] =
      f.double_precision ? r.number<double>(initial) : static_cast<double>(r.number<float>(initial));
}

void read_where(ByteReader& r, const FileFormat& f, Node&) {
  if (f.version >= 11) r.name("the axis of Where");  // every Where makes an axis of its own here
}

// ---- training, debugging

// The state of a random generator, which is not used here. In version 16 the seed has 8 bytes, or 4 if Windows wrote
// it; what comes next tells.
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

}  // namespace tutti::cntk
