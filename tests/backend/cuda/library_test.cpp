// SPDX-License-Identifier: Apache-2.0
// Graphs of convolutions and cuDNN itself, not its emulator. Since 9.8 the library makes plans for a GPU whose
// properties it is told; so none has to be there, only the library. What it has against a descriptor shows here.
#include <cudnn.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>

#include "backend/cuda/convolution_plans.h"

#if CUDNN_VERSION >= 90800

namespace {

constexpr char h100[] =
    R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
    R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
    R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
    R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":85000000000,)"
    R"("smClockRateKHz":1980000,"memClockRateKHz":2619000,"l2CacheSize":52428800,"cudaDeviceId":0,"deviceVer":900,)"
    R"("driverVer":13000,"deviceName":"NVIDIA H100 80GB HBM3"})";

using Set = cudnnStatus_t (*)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t,
                              std::int64_t, const void*);
Set set_by_library() {
  static const auto set = reinterpret_cast<Set>(dlsym(RTLD_NEXT, "cudnnBackendSetAttribute"));
  return set;
}

// Null where the library has another idea of how properties are written.
cudnnBackendDescriptor_t properties() {
  static const cudnnBackendDescriptor_t made = [] {
    cudnnBackendDescriptor_t d = nullptr;
    const bool whole = cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d) == CUDNN_STATUS_SUCCESS &&
                       set_by_library()(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                        static_cast<std::int64_t>(std::strlen(h100)), h100) == CUDNN_STATUS_SUCCESS &&
                       cudnnBackendFinalize(d) == CUDNN_STATUS_SUCCESS;
    return whole ? d : nullptr;
  }();
  return made;
}

}  // namespace

// In front of the library's: descriptors get those properties, there being no handle.
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  const auto give = [&](cudnnBackendAttributeName_t attribute) {
    const cudnnBackendDescriptor_t p = properties();
    return set_by_library()(d, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &p);
  };
  if (name == CUDNN_ATTR_OPERATIONGRAPH_HANDLE) return CUDNN_STATUS_SUCCESS;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE) return give(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  const cudnnStatus_t status = set_by_library()(d, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (name == CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH) return give(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  if (name == CUDNN_ATTR_ENGINE_OPERATION_GRAPH) return give(CUDNN_ATTR_ENGINE_DEVICEPROP);
  return status;
}

namespace tutti::cuda {
namespace {

using Graph = ConvolutionGraph;
using Sizes = std::vector<std::int64_t>;

Graph::Tensor tensor(const Sizes& sizes, bool channels_last) {
  Graph::Tensor t{sizes, Sizes(sizes.size(), 1)};
  std::int64_t step = channels_last ? sizes[1] : 1;
  for (std::size_t axis = sizes.size() - 1; axis > 1; step *= sizes[axis], --axis) t.strides[axis] = step;
  t.strides[1] = channels_last ? 1 : step;
  t.strides[0] = channels_last ? step : step * sizes[1];
  return t;
}

// Windows of three by three (by three), one step at a time.
Graph convolution(cudnnDataType_t type, bool channels_last, std::size_t rank) {
  Graph g;
  const auto sized = [&](std::int64_t outer, std::int64_t channels, std::int64_t size) {
    Sizes sizes{outer, channels};
    sizes.resize(2 + rank, size);
    return tensor(sizes, channels_last);
  };
  g.tensors[Graph::x] = sized(32, 16, 12), g.tensors[Graph::w] = sized(64, 16, 3);
  g.tensors[Graph::y] = sized(32, 64, 12), g.tensors[Graph::bias] = sized(1, 64, 1);
  g.pads.assign(rank, 1), g.strides.assign(rank, 1), g.type = type;
  return g;
}

class Library : public testing::Test {
 protected:
  void SetUp() override {
    if (cudnnGetVersion() < 90800 || !properties()) GTEST_SKIP() << "cuDNN makes no plans here without a GPU";
  }
  static void expect_plans(const Graph& g, const EngineRules& rules) {
    ConvolutionPlans plans(g, nullptr, nullptr);
    const auto names = plans.names(rules, 10);
    EXPECT_FALSE(names.empty());
    for (const std::string& name : names) EXPECT_TRUE(plans.take(name)) << name;
    EXPECT_FALSE(plans.take("9999:"));
  }
};

TEST_F(Library, MakesPlansOfGraphs) {
  for (const cudnnDataType_t type : {CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16, CUDNN_DATA_HALF})
    for (const bool channels_last : {false, true})
      for (const std::size_t rank : {2, 3}) {
        if (type != CUDNN_DATA_FLOAT && !channels_last) continue;
        SCOPED_TRACE(testing::Message() << "type " << type << ", last " << channels_last << ", rank " << rank);
        const EngineRules rules{.tensor_cores = type != CUDNN_DATA_FLOAT, .winograd = true};
        Graph g = convolution(type, channels_last, rank);
        expect_plans(g, rules);
        g.result = Graph::x;
        expect_plans(g, rules);
        g.result = Graph::w;
        expect_plans(g, rules);
        g.accumulates = true;
        expect_plans(g, rules);
      }
}

TEST_F(Library, MakesPlansOfGraphsWithBiasAndRelu) {
  for (const cudnnDataType_t type : {CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16, CUDNN_DATA_HALF}) {
    SCOPED_TRACE(type);
    Graph g = convolution(type, type != CUDNN_DATA_FLOAT, 2);
    g.adds_bias = true;
    expect_plans(g, {.tensor_cores = type != CUDNN_DATA_FLOAT});
    g.relu = true;
    expect_plans(g, {.tensor_cores = type != CUDNN_DATA_FLOAT});
  }
}

TEST_F(Library, HasNoPlanForWhatDoesNotFit) {
  Graph g = convolution(CUDNN_DATA_BFLOAT16, true, 2);
  g.tensors[Graph::y] = tensor({32, 64, 11, 12}, true);
  EXPECT_TRUE(ConvolutionPlans(g, nullptr, nullptr).names({.tensor_cores = true}, 10).empty());
}

}  // namespace
}  // namespace tutti::cuda

#endif
