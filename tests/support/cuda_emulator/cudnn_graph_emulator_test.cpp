// SPDX-License-Identifier: Apache-2.0
// the emulator of cuDNN's graphs refuses what the library does.
#include <cudnn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace {

using Numbers = std::vector<std::int64_t>;

// A forward convolution of one image of 4 channels, as wrong as a test wants it.
class CudnnGraphDouble : public testing::Test {
 protected:
  using Node = cudnnBackendDescriptor_t;

  void SetUp() override {
    cudnnCreate(&handle_);
    for (void*& p : memory_) cudaMalloc(&p, 4096);
  }
  void TearDown() override {
    for (const Node d : nodes_) cudnnBackendDestroyDescriptor(d);
    cudnnDestroy(handle_);
    for (void* p : memory_) cudaFree(p);
  }

  Node make(cudnnBackendDescriptorType_t type) {
    Node d = nullptr;
    EXPECT_EQ(cudnnBackendCreateDescriptor(type, &d), CUDNN_STATUS_SUCCESS);
    nodes_.push_back(d);
    return d;
  }
  static cudnnStatus_t set(Node d, cudnnBackendAttributeName_t name, const Numbers& values) {
    return cudnnBackendSetAttribute(d, name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
  }
  template <class T>
  static cudnnStatus_t set(Node d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, T value) {
    return cudnnBackendSetAttribute(d, name, type, 1, &value);
  }
  static cudnnStatus_t set(Node d, cudnnBackendAttributeName_t name, Node part) {
    return set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, part);
  }

  Node tensor(std::int64_t number, const Numbers& dims, bool complete = true) {
    const Node d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
    set(d, CUDNN_ATTR_TENSOR_STRIDES, {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1});
    set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {16});
    set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, {number});
    if (complete) {
      EXPECT_EQ(cudnnBackendFinalize(d), CUDNN_STATUS_SUCCESS);
    }
    return d;
  }
  Node windows() {
    const Node d = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    set(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
    set(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2});
    for (const auto name : {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES})
      set(d, name, {1, 1});
    for (const auto name : {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS})
      set(d, name, {0, 0});
    EXPECT_EQ(cudnnBackendFinalize(d), CUDNN_STATUS_SUCCESS);
    return d;
  }
  Node operation(Node x, Node w, Node y) {
    const Node d = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.0f);
    set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 0.0f);
    set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, windows());
    set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    return d;
  }
  cudnnStatus_t completed(Node d) { return cudnnBackendFinalize(d); }
  Node graph() {
    const Node op = operation(tensor(1, {1, 4, 3, 3}), tensor(2, {8, 4, 1, 1}), tensor(3, {1, 8, 3, 3}));
    EXPECT_EQ(completed(op), CUDNN_STATUS_SUCCESS);
    const Node d = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle_);
    set(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, op);
    EXPECT_EQ(completed(d), CUDNN_STATUS_SUCCESS);
    return d;
  }
  Node plan() {
    const Node engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR), config = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
               d = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph());
    set(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, {1});
    EXPECT_EQ(completed(engine), CUDNN_STATUS_SUCCESS);
    set(config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    EXPECT_EQ(completed(config), CUDNN_STATUS_SUCCESS);
    set(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle_);
    set(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    EXPECT_EQ(completed(d), CUDNN_STATUS_SUCCESS);
    return d;
  }
  cudnnStatus_t run(Node plan, const Numbers& numbers, std::vector<void*> places, void* workspace) {
    const Node pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, numbers);
    cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                             static_cast<std::int64_t>(places.size()), places.data());
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
    const cudnnStatus_t status = completed(pack);
    return status == CUDNN_STATUS_SUCCESS ? cudnnBackendExecute(handle_, plan, pack) : status;
  }

  cudnnHandle_t handle_ = nullptr;
  std::array<void*, 4> memory_{};
  std::vector<Node> nodes_;
};

TEST_F(CudnnGraphDouble, AttributesMustNotBeMissing) {
  const Node d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  EXPECT_EQ(set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, Numbers{1}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(completed(d), CUDNN_STATUS_BAD_PARAM);
}

TEST_F(CudnnGraphDouble, DescriptorsAreCompletedOnceAndBeforeTheyAreUsed) {
  const Node raw = tensor(1, {1, 4, 3, 3}, false), op = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  EXPECT_EQ(set(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, raw), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(completed(raw), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(set(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, raw), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(set(raw, CUDNN_ATTR_TENSOR_UNIQUE_ID, Numbers{2}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(completed(raw), CUDNN_STATUS_BAD_PARAM);
}

TEST_F(CudnnGraphDouble, TensorsHaveNoGapsAndFitEachOther) {
  const Node gaps = tensor(1, {1, 4, 3, 3}, false), odd = tensor(1, {1, 4, 3, 3}, false);
  set(gaps, CUDNN_ATTR_TENSOR_STRIDES, Numbers{40, 10, 3, 1});
  EXPECT_EQ(completed(gaps), CUDNN_STATUS_BAD_PARAM);
  set(odd, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Numbers{12});
  EXPECT_EQ(completed(odd), CUDNN_STATUS_BAD_PARAM);
  const Node x = tensor(1, {1, 4, 3, 3}), w = tensor(2, {8, 4, 1, 1});
  EXPECT_EQ(completed(operation(x, w, tensor(3, {1, 8, 2, 3}))), CUDNN_STATUS_BAD_PARAM);
  const Node same_number = operation(x, w, tensor(2, {1, 8, 3, 3}));
  EXPECT_EQ(completed(same_number), CUDNN_STATUS_SUCCESS);
  const Node d = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set(d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle_);
  set(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, same_number);
  EXPECT_EQ(completed(d), CUDNN_STATUS_BAD_PARAM);
}

TEST_F(CudnnGraphDouble, PacksNameEachOperandOnceWhereItLiesWell) {
  const Node p = plan();
  void *const x = memory_[0], *const w = memory_[1], *const y = memory_[2], *const workspace = memory_[3];
  EXPECT_EQ(run(p, {1, 2, 3}, {x, w, y}, workspace), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(run(p, {3, 1, 2}, {y, x, w}, workspace), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(run(p, {1, 2}, {x, w, y}, workspace), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(run(p, {1, 2}, {x, w}, workspace), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(run(p, {1, 2, 4}, {x, w, y}, workspace), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(run(p, {1, 2, 3}, {x, w, nullptr}, workspace), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(run(p, {1, 2, 3}, {x, static_cast<char*>(w) + 4, y}, workspace), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(run(p, {1, 2, 3}, {x, w, y}, nullptr), CUDNN_STATUS_BAD_PARAM);
}

TEST_F(CudnnGraphDouble, PlansNeedTheirPartsAndNoCapture) {
  const Node p = plan();
  const std::vector<void*> places(memory_.begin(), memory_.begin() + 3);
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  const Node again = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set(again, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph());
  set(again, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  EXPECT_EQ(completed(again), CUDNN_STATUS_INTERNAL_ERROR);
  cudaGraph_t broken = nullptr;
  cudaStreamEndCapture(stream, &broken);
  cudaStreamDestroy(stream);
  EXPECT_EQ(run(p, {1, 2, 3}, places, memory_[3]), CUDNN_STATUS_SUCCESS);
  cudnnBackendDestroyDescriptor(nodes_.front());  // an operand of the graph
  nodes_.erase(nodes_.begin());
  EXPECT_EQ(run(p, {1, 2, 3}, places, memory_[3]), CUDNN_STATUS_BAD_PARAM);
}

}  // namespace
