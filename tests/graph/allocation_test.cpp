// SPDX-License-Identifier: Apache-2.0
// The step loop allocates nothing of its own: `new` is counted, except where oneDNN itself calls it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "graph_builder.h"
#include "sequence_data.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<long> allocations{0};

bool from_library(void* caller) {
  Dl_info info;
  return dladdr(caller, &info) != 0 && info.dli_fname && std::strstr(info.dli_fname, "dnnl");
}

void* counted(std::size_t size, void* caller) {
  if (counting && !from_library(caller)) ++allocations;
  if (void* p = std::malloc(size ? size : 1)) return p;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return counted(size, __builtin_return_address(0)); }
void* operator new[](std::size_t size) { return counted(size, __builtin_return_address(0)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (counting && !from_library(__builtin_return_address(0))) ++allocations;
  return std::malloc(size ? size : 1);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace tutti {
namespace {

using test::Data;
using test::GraphBuilder;

class Quiet : public GradientSink {
 public:
  void chunk_ready(std::size_t) override {}
};

TEST(Allocation, CountsAtAll) {
  counting = true;
  auto* made = new int(3);
  counting = false;
  delete made;
  EXPECT_EQ(allocations.exchange(0), 1);
}

TEST(Allocation, StepsAllocateOnlyTheMetrics) {
  GraphBuilder b;
  const auto x = b.input("x", {64});
  const auto h =
      b.add("Tanh", "h",
            {b.add("Plus", "s", {b.add("Times", "t", {b.parameter("W", {32, 64}), x}), b.parameter("b", {32})})});
  const auto d = b.add("Dropout", "d",
                       {b.add("RowStack", "stack", {h, b.add("Slice", "sl", {x}, {{"begin", 3.0}, {"end", 11.0}})})});
  const auto z = b.add("Times", "z", {b.parameter("V", {5, 40}, 2), d});
  const auto labels = b.input("labels", {5});
  b.criterion("CrossEntropyWithSoftmax", "ce", {labels, z});
  b.evaluation("ClassificationError", "errs", {labels, z});
  Data full(48), rest(29), none(0);
  for (auto* data : {&full, &rest}) data->random("x", 64), data->one_hot("labels", 5);
  none.dense("x", {}), none.dense("labels", {});
  Network network(b.graph(), {});
  network.bind(full.infos);
  network.initialize_parameters();
  network.plan_training(32);  // 48 are worked off in two parts
  network.set_mode({0.2, 1});
  Quiet sink;
  for (int i = 0; i < 2; ++i)
    for (const auto* data : {&full, &rest, &none}) network.forward_backward(data->batch, sink);
  counting = true;
  for (int i = 0; i < 10; ++i)
    for (const auto* data : {&full, &rest, &none}) network.forward_backward(data->batch, sink);
  counting = false;
  EXPECT_EQ(allocations.exchange(0), 30) << "one list of evaluations per metrics, nothing else";
}

TEST(Allocation, ImagesAreNoException) {
  using List = std::vector<double>;
  GraphBuilder b;
  const auto x = b.add("Reshape", "image", {b.input("x", {192})}, {{"dims", List{8, 8, 3}}});
  const auto conv = b.add("Convolution", "conv", {b.parameter("W", {3, 3, 3, 32}), x},
                          {{"kernelDims", List{3, 3}}, {"mapDims", List{32}}, {"autoPadding", List{1}}});
  const auto bn = b.add("BatchNormalization", "bn",
                        {conv, b.parameter("scale", {32}), b.parameter("shift", {32}), b.constant("mean", 0, {32}),
                         b.constant("variance", 0, {32})},
                        {{"spatial", true}});
  const auto relu = b.add("RectifiedLinear", "relu", {bn});
  const auto wino = b.add("Convolution", "wino", {b.parameter("U", {3, 3, 32, 32}, 3, 1), relu},
                          {{"kernelDims", List{3, 3}}, {"mapDims", List{32}}, {"autoPadding", List{1}}});
  const auto sum =
      b.add("LocalResponseNormalization", "lrn", {b.add("Plus", "sum", {wino, relu})}, {{"depthRadius", 2.0}});
  const auto pool = b.add("Pooling", "pool", {sum}, {{"kernelDims", List{2, 2}}, {"stride", List{2}}});
  const auto z =
      b.add("Times", "z", {b.parameter("V", {5, 512}, 2), b.add("Reshape", "flat", {pool}, {{"dims", List{512}}})});
  b.criterion("CrossEntropyWithSoftmax", "ce", {b.input("labels", {5}), z});
  Data full(8), rest(5);
  for (auto* data : {&full, &rest}) data->random("x", 192), data->one_hot("labels", 5);
  Network network(b.graph(), {});
  network.bind(full.infos);
  network.initialize_parameters();
  network.plan_training(8);
  Quiet sink;
  const auto steps = [&] {
    for (const auto* data : {&full, &rest}) network.forward_backward(data->batch, sink);
  };
  steps();
  counting = true;
  steps();
  counting = false;
  EXPECT_EQ(allocations.exchange(0), 0);
}

// Ragged sequences, packed anew in each step, sparse ones too.
TEST(Allocation, StepsOverSequencesAllocateOnlyTheMetrics) {
  GraphBuilder b;
  const auto x = b.input("x", {6});
  const auto s = b.input("s", {9}, true);
  const auto q = b.add("Plus", "q",
                       {b.add("Plus", "p",
                              {b.add("Times", "wx", {b.parameter("W", {20, 6}), x}),
                               b.add("Times", "es", {b.parameter("E", {20, 9}, 5), s})}),
                        b.parameter("B", {20})});
  const auto h = b.add("LSTM", "h", {q, b.parameter("H", {20, 5}, 2)});
  const auto u =
      b.add("GRU", "u", {b.add("Times", "gh", {b.parameter("G", {15, 5}), h}), b.parameter("K", {15, 5}, 4)});
  // g = tanh (u + R g'), where g is made two nodes later.
  const auto delayed = b.add("PastValue", "d", {0}, {{"dims", std::vector<double>{0}}});
  const auto sum = b.add("Plus", "sum", {u, b.add("Times", "rg", {b.parameter("R", {5, 5}, 3), delayed})});
  const auto g = b.add("Tanh", "g", {sum});
  b.graph().nodes[delayed].inputs = {g};
  const auto labels = b.input("labels", {5});
  b.criterion("CrossEntropyWithSoftmax", "ce", {labels, g});
  b.evaluation("ClassificationError", "errs", {labels, g});
  test::SequenceData first({{"x", 6, false}, {"s", 9, true}, {"labels", 5, false}}),
      second({{"x", 6, false}, {"s", 9, true}, {"labels", 5, false}}),
      none({{"x", 6, false}, {"s", 9, true}, {"labels", 5, false}});
  const Batch& ragged = first.batch(first.random({{5, 1, 9, 4, 9}}));
  const Batch& other = second.batch(second.random({{8, 8, 2}}));
  const Batch& empty = none.batch({});
  Network network(b.graph(), {});
  network.bind(first.infos);
  network.initialize_parameters();
  network.plan_training(20);
  Quiet sink;
  const auto all = [&] {
    for (const auto* batch : {&ragged, &other, &empty}) network.forward_backward(*batch, sink);
  };
  for (int i = 0; i < 3; ++i) all();
  counting = true;
  for (int i = 0; i < 10; ++i) all();
  counting = false;
  EXPECT_EQ(allocations.exchange(0), 30) << "one list of evaluations per metrics, nothing else";
}

}  // namespace
}  // namespace tutti
