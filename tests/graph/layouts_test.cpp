// SPDX-License-Identifier: Apache-2.0
// Images in blocks of channels: the same results as plain ones, no change of format inside of chains, one where a chain
// ends. And how far Winograd's way is from the direct one.
#include <gtest/gtest.h>

#include <cmath>

#include "../support/on_gpu.h"
#include "image_networks.h"

namespace tutti::layouts_test {
namespace {

using test::distance;
using test::Layers;
using test::List;
using test::Result;
using test::trained;
using Case = test::ImageNetwork;

std::vector<Case> cases() {
  return {
      {"Residual",
       [](Layers& l) {
         auto x = l.relu(l.normalized(l.convolution(l.b.input("x", {8, 8, 3}), 3, 16), 16));
         for (int i = 0; i < 2; ++i) {
           const auto y = l.relu(l.normalized(l.convolution(x, 16, 16), 16));
           x = l.relu(l.plus(l.normalized(l.convolution(y, 16, 16), 16), x));
         }
         l.end(l.pool(x, "average", 8, 1), 16);
       },
       8 * 8 * 3, 1},
      {"Projection",
       [](Layers& l) {
         auto x = l.relu(l.normalized(l.convolution(l.b.input("x", {6, 6, 3}), 3, 32), 32));
         const auto y = l.normalized(l.convolution(x, 32, 40), 40);
         x = l.relu(l.plus(y, l.normalized(l.convolution(x, 32, 40, 1), 40)));
         l.end(l.pool(x, "max", 2, 2), 3 * 3 * 40);
       },
       6 * 6 * 3, 1},
      {"GroupsAndResponse",
       [](Layers& l) {
         auto x = l.relu(l.convolution(l.b.input("x", {9, 9, 3}), 3, 32, 5, 1, true));
         x = l.b.add("LocalResponseNormalization", "lrn", {x}, {{"depthRadius", 2.0}, {"alpha", 0.5}});
         x = l.relu(l.convolution(l.pool(x, "max", 3, 2), 32, 64, 3, 2, true));
         l.end(l.b.add("Dropout", "drop", {x}, {{"rate", 0.3}}), 4 * 4 * 64);
       },
       9 * 9 * 3, 1},
      {"Inception",
       [](Layers& l) {
         const auto x = l.relu(l.convolution(l.b.input("x", {7, 7, 1}), 1, 32, 3, 1, true));
         const auto both =
             l.stack({l.relu(l.convolution(x, 32, 16, 1)), l.convolution(l.relu(l.convolution(x, 32, 24, 1)), 24, 32),
                      l.pool(l.convolution(x, 32, 48), "max", 1, 1)});
         l.end(both, 7 * 7 * 96);
       },
       7 * 7, 1},
      {"OddChannels",
       [](Layers& l) {
         auto x = l.relu(l.convolution(l.b.input("x", {7, 5, 3}), 3, 20, 3, 1, true));
         x = l.b.add("Dropout", "drop", {l.pool(x, "max", 2, 1)}, {{"rate", 0.3}});
         x = l.b.add("Tanh", "t", {l.convolution(x, 20, 17)});
         l.end(x, 6 * 4 * 17);
       },
       7 * 5 * 3, 1},
      {"UsedInBothFormats",
       [](Layers& l) {
         const auto x = l.relu(l.convolution(l.b.input("x", {5, 5, 3}), 3, 16, 3, 1, true));
         const auto y = l.convolution(l.b.add("Sigmoid", "s", {x}), 16, 16);  // not 0 at 0: plain
         l.end(l.plus(y, x), 5 * 5 * 16);
       },
       5 * 5 * 3, 3},
      {"SumWithAView",
       [](Layers& l) {
         const auto x = l.b.input("x", {8, 8, 3});
         const auto seen = l.b.add("Reshape", "seen", {l.convolution(x, 3, 16)}, {{"dims", List{4, 8, 32}}});
         const auto turned = l.b.add("Reshape", "turned", {x}, {{"dims", List{4, 8, 6}}});
         l.end(l.relu(l.plus(l.normalized(l.convolution(turned, 6, 32), 32), seen)), 8 * 8 * 16);
       },
       8 * 8 * 3, 2},
      {"FewMaps",
       [](Layers& l) {
         l.end(l.relu(l.convolution(l.b.input("x", {5, 5, 3}), 3, 5, 3, 1, true)), 5 * 5 * 5);
       },
       5 * 5 * 3, 0},
  };
}

class Layouts : public testing::TestWithParam<Case> {};

TEST_P(Layouts, GiveTheResultsOfPlainImages) {
  NetworkOptions blocked, plain;
  blocked.winograd = false, plain.image_layouts = false;
  const Result a = trained(GetParam(), blocked), b = trained(GetParam(), plain);
  EXPECT_NEAR(a.criterion, b.criterion, 1e-5 * b.criterion);
  EXPECT_LT(distance(a.gradients, b.gradients), 2e-5);
  if (!b.state.empty()) {
    EXPECT_LT(distance(a.state, b.state), 1e-5);
  }
}

TEST_P(Layouts, ChangeOnlyWhereAChainEnds) {
  const Result r = trained(GetParam(), {});
  EXPECT_NE(r.description.find(std::to_string(GetParam().reorders) + " image reorders"), std::string::npos)
      << r.description;
}

TEST_P(Layouts, MemoryIsReusedWithoutHarm) {
  NetworkOptions own;
  own.reuse_memory = false;
  const Result a = trained(GetParam(), {}), b = trained(GetParam(), own);
  EXPECT_EQ(a.criterion, b.criterion);
  EXPECT_EQ(a.gradients, b.gradients);
}

TEST_P(Layouts, SameBitsAgain) {
  const Result a = trained(GetParam(), {}), b = trained(GetParam(), {});
  EXPECT_EQ(a.gradients, b.gradients);
  EXPECT_EQ(a.state, b.state);
}

// Operands are rounded by 2^-9 of their size; normalisation and deep chains blow that up somewhat. ReLU may turn.
TEST_P(Layouts, InBfloat16NearFloat32) {
  if (!supports("cpu", ComputeType::bfloat16)) GTEST_SKIP() << "this processor has no AVX-512 with BF16";
  NetworkOptions rounded, plain;
  rounded.compute_type = plain.compute_type = ComputeType::bfloat16;
  plain.image_layouts = false;
  const Result exact = trained(GetParam(), {}), blocked = trained(GetParam(), rounded);
  for (const Result& r : {blocked, trained(GetParam(), plain)}) {
    EXPECT_NEAR(r.criterion, exact.criterion, 0.02 * exact.criterion);
    EXPECT_LT(distance(r.gradients, exact.gradients), 0.1);
    EXPECT_GT(distance(r.gradients, exact.gradients), 1e-4) << "was it computed in bfloat16?";
  }
  EXPECT_EQ(trained(GetParam(), rounded).gradients, blocked.gradients);
}

// Channels last where tensor cores compute, against plain images on the CPU. How they round is up to the device, and a
// ReLU that turns counts for more than all rounding: a wrong gradient is much farther away.
TEST_P(Layouts, OnADevice) {
  if (skipped_without_gpu()) return;
  constexpr std::size_t columns = 2;
  NetworkOptions plain;
  plain.image_layouts = plain.winograd = false;
  const Result exact = trained(GetParam(), plain, columns);
  for (const auto& [type, near] : {std::pair{ComputeType::tf32, 2e-2}, {ComputeType::bfloat16, 0.1}}) {
    if (type == ComputeType::bfloat16 && GetParam().name != "GroupsAndResponse")
      continue;  // the others take their time
    NetworkOptions device;
    device.device = "cuda:0", device.compute_type = type;
    const Result r = trained(GetParam(), device, columns);
    EXPECT_NEAR(r.criterion, exact.criterion, near * exact.criterion);
    EXPECT_LT(distance(r.gradients, exact.gradients), near);
    if (!exact.state.empty()) {
      EXPECT_LT(distance(r.state, exact.state), near);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Images, Layouts, testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });

// Products that take bias and ReLU along, and mask the gradient that they hand back; in one part and in several.
TEST(Products, OnADevice) {
  if (skipped_without_gpu()) return;
  const Case dense{"dense",
                   [](Layers& l) {
                     auto x = l.b.input("x", {20});
                     double from = 20;
                     for (const double to : {130.0, 33.0, 8.0}) {
                       const auto y = l.b.add("Times", l.name("p"), {l.b.parameter(l.name("W"), {to, from}, to), x});
                       x = l.b.add("Plus", l.name("s"), {y, l.b.parameter(l.name("b"), {to}, to + 1)});
                       if (to < 130 || from < 30) x = l.relu(x);
                       from = to;
                     }
                     const auto z = l.b.add("Times", "z", {l.b.parameter("V", {4, 8}, 7), x});
                     l.b.criterion("CrossEntropyWithSoftmax", "ce",
                                   {l.b.input("labels", {4}), l.b.add("Plus", "o", {z, l.b.parameter("c", {4})})});
                   },
                   20, 0};
  NetworkOptions device, own;
  device.device = own.device = "cuda:0", own.reuse_memory = false;
  const Result exact = trained(dense, {}, 12, 12);
  for (const std::size_t part : {12, 5})
    for (const NetworkOptions& o : {device, own}) {
      const Result r = trained(dense, o, 12, part);
      EXPECT_NEAR(r.criterion, exact.criterion, 1e-5 * exact.criterion);
      EXPECT_LT(distance(r.gradients, exact.gradients), 1e-5) << part;
    }
}

TEST(Winograd, IsNearTheDirectWay) {
  const Case deep{"deep",
                  [](Layers& l) {
                    auto x = l.relu(l.convolution(l.b.input("x", {13, 11, 3}), 3, 32, 3, 1, true));
                    for (int i = 0; i < 3; ++i) x = l.relu(l.convolution(x, i == 0 ? 32 : 64, 64, 3, 1, true));
                    l.end(x, 13 * 11 * 64);
                  },
                  13 * 11 * 3, 1};
  NetworkOptions direct;
  direct.winograd = false;
  const Result a = trained(deep, {}, 3), b = trained(deep, direct, 3);
  EXPECT_NEAR(a.criterion, b.criterion, 1e-4 * b.criterion);
  NetworkOptions plain = direct;
  plain.image_layouts = false;
  RecordProperty("criterion", std::to_string((a.criterion - b.criterion) / b.criterion * 1e6) + "e-6");
  RecordProperty("gradients", std::to_string(distance(a.gradients, b.gradients) * 1e6) + "e-6");
  RecordProperty("direct_ways", std::to_string(distance(trained(deep, plain, 3).gradients, b.gradients) * 1e6) + "e-6");
  EXPECT_LT(distance(a.gradients, b.gradients), 1e-4);
}

}  // namespace
}  // namespace tutti::layouts_test
