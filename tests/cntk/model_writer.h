// SPDX-License-Identifier: Apache-2.0
// model_writer.h -- writes files as CNTK lays them out, for tests of what reads them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::cntk::testing {

class Bytes {
 public:
  template <class T>
  Bytes& number(T v) {
    bytes_.insert(bytes_.end(), reinterpret_cast<const char*>(&v), reinterpret_cast<const char*>(&v) + sizeof(T));
    return *this;
  }
  Bytes& u64(std::uint64_t v) { return number(v); }
  Bytes& i32(std::int32_t v) { return number(v); }
  Bytes& flag(bool v) { return number<std::uint8_t>(v); }
  // ASCII as UTF-16.
  Bytes& text(std::string_view s) {
    for (const char c : s) number<std::uint16_t>(static_cast<unsigned char>(c));
    return number<std::uint16_t>(0);
  }
  Bytes& narrow_text(std::string_view s) {
    bytes_.insert(bytes_.end(), s.begin(), s.end());
    return number<char>(0);
  }
  Bytes& shape(const std::vector<std::uint32_t>& dims) {
    number(static_cast<std::uint32_t>(dims.size()));
    for (const auto d : dims) number(d);
    return *this;
  }
  Bytes& flags(const std::vector<bool>& all) {
    u64(all.size());
    for (const bool f : all) flag(f);
    return *this;
  }
  template <class T>
  Bytes& matrix(std::uint64_t rows, std::uint64_t columns, const std::vector<T>& values) {
    number('d').text("BMAT").u64(sizeof(T)).text("unnamed").i32(0).u64(rows).u64(columns);
    for (const T v : values) number(v);
    return text("EMAT");
  }
  Bytes& add(const Bytes& other) {
    bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
    return *this;
  }
  const std::vector<char>& get() const { return bytes_; }

 private:
  std::vector<char> bytes_;
};

struct WrittenNode {
  std::string type, name;
  std::vector<std::string> inputs;
  Bytes content;
};

struct WrittenModel {
  std::uint64_t version = 18;
  std::string precision = "float";
  std::vector<WrittenNode> nodes;
  std::vector<std::string> features, labels, criteria, evaluations, outputs;

  WrittenModel& add(std::string type, std::string name, std::vector<std::string> inputs = {}, Bytes content = {}) {
    nodes.push_back({std::move(type), std::move(name), std::move(inputs), std::move(content)});
    return *this;
  }
  WrittenModel& input(const std::string& name, const std::vector<std::uint32_t>& dims, const std::string& axis = "",
                      const std::string& type = "InputValue") {
    Bytes b;
    b.u64(0).u64(0).shape(dims);
    if (version >= 8) b.number<std::uint32_t>(1).text(axis);
    if (version >= 10) b.number(0.0f);
    return add(type, name, {}, b);
  }
  WrittenModel& parameter(const std::string& name, const std::vector<std::uint32_t>& dims,
                          const std::vector<float>& values, float rate = 1) {
    Bytes b;
    const std::uint64_t rows = dims.empty() ? 1 : dims[0];
    b.number(rate).shape(dims);
    precision == "double"
        ? b.matrix<double>(rows, values.size() / rows, std::vector<double>(values.begin(), values.end()))
        : b.matrix<float>(rows, values.size() / rows, values);
    return add("LearnableParameter", name, {}, b);
  }
  WrittenModel& times(const std::string& name, const std::string& w, const std::string& x,
                      const std::string& type = "Times") {
    Bytes b;
    b.u64(1);
    if (version >= 12) b.i32(-1);
    return add(type, name, {w, x}, b);
  }

  std::vector<char> bytes() const {
    Bytes b;
    b.text("BCN").text("BVersion").u64(version).text("EVersion").u64(nodes.size()).text("BNodeList");
    for (const auto& n : nodes) b.text(precision).text(n.type).text(n.name).add(n.content);
    b.text("ENodeList").text("BRelation");
    for (const auto& n : nodes) {
      b.text(n.name).u64(n.inputs.size());
      for (const auto& in : n.inputs) b.text(in);
    }
    b.text("ERelation").text("BRootNodes");
    const auto set = [&](const std::string& name, const std::vector<std::string>& all) {
      b.text("B" + name + "Nodes").u64(all.size());
      for (const auto& n : all) b.text(n);
      b.text("E" + name + "Nodes");
    };
    set("Feature", features), set("Label", labels), set("Criterion", criteria), set("Eval", evaluations);
    set("Output", outputs);
    return b.text("ERootNodes").text("ECN").get();
  }
};

// x [2] -> W x + b [3], with a cross entropy.
inline WrittenModel small_model(std::uint64_t version = 18, const std::string& precision = "float") {
  WrittenModel m{version, precision, {}, {}, {}, {}, {}, {}};
  m.input("features", {2}).input("labels", {3});
  m.parameter("W", {3, 2}, {1, 2, 3, 4, 5, 6}).parameter("b", {3}, {0.5f, -0.5f, 0.25f});
  m.times("product", "W", "features").add("Plus", "z", {"product", "b"});
  m.add("CrossEntropyWithSoftmax", "ce", {"labels", "z"}).add("ErrorPrediction", "errs", {"labels", "z"});
  m.features = {"features", "labels"}, m.labels = {"labels"}, m.criteria = {"ce"}, m.evaluations = {"errs"};
  m.outputs = {"z"};
  return m;
}

// What follows the name of a convolution or pooling.
inline Bytes window(std::uint64_t version, const std::vector<std::uint32_t>& kernel, std::uint32_t maps,
                    std::int32_t pooling, std::int32_t layout = 1, bool transposed = false) {
  Bytes b;
  b.shape(kernel).shape({maps}).shape({1, 1, 1}).flags({true, true, true}).flags({true, true, false});
  b.shape({0, 0, 0}).shape({0, 0, 0}).i32(pooling).i32(layout).u64(0);
  if (version >= 9) b.flag(transposed);
  return b;
}
inline Bytes convolution(std::uint64_t version, const std::vector<std::uint32_t>& kernel, std::uint32_t maps,
                         std::int32_t layout = 1, bool transposed = false) {
  Bytes b = window(version, kernel, maps, 0, layout, transposed);
  b.flag(false);
  if (version >= 18) b.shape({1});
  return b;
}
inline Bytes normalization(std::uint64_t seen, double epsilon, bool spatial = true) {
  Bytes b;
  return b.flag(spatial).number(4096.0).number(0.0).i32(1).u64(seen).number(epsilon).flag(true);
}

// Nodes of every kind of record, most of them without effect on the output.
inline WrittenModel model_of_every_kind(std::uint64_t version, const std::string& precision = "float") {
  WrittenModel m = small_model(version, precision);
  Bytes generator, initial, where;
  if (version >= 16) generator.u64(1).u64(2);
  precision == "double" ? initial.number(0.1) : initial.number(0.1f);
  if (version >= 11) where.text("WhereNodeAxis");
  m.input("words", {5}, "", "SparseInputValue").input("image", {4, 4, 2});
  m.parameter("half", {1, 1}, {0.5f}, 0).parameter("filters", {3, 3, 2, 3}, std::vector<float>(54, 0.1f));
  m.parameter("scale", {3}, {1, 1, 1}).parameter("bias", {3}, {0, 0, 0}).parameter("mean", {3}, {0, 0, 0}, 0);
  m.parameter("variance", {3}, {1, 2, 3}, 0);
  m.add("Mean", "average", {"features"},
        precision == "double" ? Bytes().flag(true).matrix<double>(2, 1, {1, 2})
                              : Bytes().flag(true).matrix<float>(2, 1, {1, 2}));
  m.add("Scale", "halved", {"half", "z"}).add("Dropout", "dropped", {"halved"}, generator);
  m.add("Slice", "first", {"dropped"}, Bytes().number<std::int64_t>(0).number<std::int64_t>(2).i32(1));
  m.add("RowStack", "stacked", {"first", "first"}, Bytes().i32(1));
  m.add("RowRepeat", "repeated", {"stacked"}, Bytes().u64(2));
  m.add("Reshape", "folded", {"repeated"}, Bytes().i32(0).i32(0).shape({4, 2}));
  m.add("LegacyReshape", "flat", {"folded"}, Bytes().u64(8).shape({}));
  m.add("TransposeDimensions", "turned", {"folded"}, Bytes().i32(1).i32(2));
  m.add("ReduceElements", "sum", {"turned"}, Bytes().i32(0).text("Sum"));
  m.add("PastValue", "before", {"sum"}, Bytes().i32(1).shape({1}).add(initial));
  m.add("Where", "where", {"before"}, where).add("PackedIndex", "index", {"sum", "where"});
  m.add("GatherPacked", "gathered", {"index", "sum"});
  m.add("Convolution", "maps", {"filters", "image"}, convolution(version, {3, 3, 2}, 3));
  m.add("BatchNormalization", "normal", {"maps", "scale", "bias", "mean", "variance"}, normalization(7, 1e-5));
  m.add("Pooling", "pooled", {"normal"}, window(version, {2, 2, 1}, 1, 1));
  m.add("MaxPooling", "small", {"pooled"},
        Bytes().number<std::uint32_t>(2).number<std::uint32_t>(1).u64(2).u64(2).u64(2));
  Bytes trace;
  trace.text("say").u64(1).u64(2).flag(false).flag(false).text("").flag(false).flag(true).text("").text("\n");
  for (int i = 0; i < 6; ++i) trace.narrow_text(" ");
  m.add("Trace", "shown", {"small"}, trace.u64(3).u64(4));
  return m;
}

inline std::vector<char> small_checkpoint() {
  Bytes b;
  b.text("BVersion").u64(2).text("EVersion").text("BCKP").text("BLearnRate").u64(100).number(0.5).number(1.5);
  b.text("ELearnRate").text("BMinibatchSize").u64(25).text("EMinibatchSize").text("BGradient");
  b.matrix<float>(3, 2, {1, 2, 3, 4, 5, 6}).matrix<float>(3, 1, {7, 8, 9}).text("EGradient").text("BCount");
  return b.number(3.0).number(4.0).text("ECount").text("ECKP").get();
}

}  // namespace tutti::cntk::testing
