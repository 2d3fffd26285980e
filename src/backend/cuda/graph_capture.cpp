// SPDX-License-Identifier: Apache-2.0
// Runs of calls as CUDA graphs: the stream is captured while they are noted.
#include "backend/cuda/cuda_backend.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

// By design, and so no obstacle that anybody wants to hear of.
struct CannotBeNoted : Error {
  CannotBeNoted() : Error("a call that waits for the device cannot be captured") {}
};

using Graph = Handle<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

class CudaGraph final : public CapturedGraph {
 public:
  // No graph is ever updated to another one: the driver says that it can do so, and keeps the clusters of thread blocks
  // that the kernels of products had before.
  CudaGraph(const Graph& graph, cudaStream_t stream) : stream_(stream), given_back_(times_given_back()) {
    check(cudaGraphInstantiate(exec_.out(), graph.get(), 0), "making a graph of calls");
  }

  bool launch() override {
    if (given_back_ != times_given_back()) return false;
    check(cudaGraphLaunch(exec_.get(), stream_), "repeating calls");
    return true;
  }

 private:
  const cudaStream_t stream_;
  const std::uint64_t given_back_;
  GraphExec exec_;  // one that is running goes away when it has finished
};

}  // namespace

void CudaDevice::not_while_capturing() const {
  if (capturing_) throw CannotBeNoted();
}

// Whatever goes wrong on the way is met again, and told, when the calls are made.
std::unique_ptr<CapturedGraph> CudaDevice::capture(const std::function<void()>& work) {
  check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "capturing calls");
  capturing_ = true;
  bool whole = true;
  obstacle_.clear();
  try {
    work();
  } catch (const CannotBeNoted&) {
    whole = false;
  } catch (const Error& e) {
    whole = false;
    obstacle_ = e.what();
  }
  capturing_ = false;
  Graph graph;
  const cudaError_t status = cudaStreamEndCapture(stream(), graph.out());
  if (!whole || status != cudaSuccess) {
    if (whole) obstacle_ = cudaGetErrorString(status);
    cudaGetLastError();
    return nullptr;
  }
  return std::make_unique<CudaGraph>(graph, stream());
}

}  // namespace tutti::cuda
