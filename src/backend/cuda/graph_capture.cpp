// SPDX-License-Identifier: Apache-2.0
// Captures runs of calls as CUDA graphs.
#include "backend/cuda/cuda_backend.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

// Expected, so not worth a message.
struct CannotBeNoted : Error {
  CannotBeNoted() : Error("a call that waits for the device cannot be captured") {}
};

using Graph = Handle<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

class CudaGraph final : public CapturedGraph {
 public:
  // Captured graphs are never updated: the driver accepts an update but keeps the thread block clusters that the
  // previous product kernels had.
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

// Errors during a capture occur again, and are reported, when the calls are made.
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
