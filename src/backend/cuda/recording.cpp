// SPDX-License-Identifier: Apache-2.0
// Runs of calls as CUDA graphs: the stream is captured while they are noted.
#include "backend/cuda/cuda_backend.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

using Graph = Handle<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

class CudaRecording final : public Recording {
 public:
  explicit CudaRecording(cudaStream_t stream) : stream_(stream) {}
  // Other pointers and numbers fit into the graph that is there; other calls need a new one. One that is running goes
  // away when it has finished.
  void take(const Graph& graph) {
    cudaGraphExecUpdateResultInfo result{};
    if (exec_.get() && cudaGraphExecUpdate(exec_.get(), graph.get(), &result) != cudaSuccess) {
      cudaGetLastError();
      exec_ = GraphExec();
    }
    if (!exec_.get()) check(cudaGraphInstantiate(exec_.out(), graph.get(), 0), "making a graph of calls");
    given_back_ = times_given_back();
  }

  bool repeat() override {
    if (given_back_ != times_given_back()) return false;
    check(cudaGraphLaunch(exec_.get(), stream_), "repeating calls");
    return true;
  }

 private:
  cudaStream_t stream_;
  GraphExec exec_;
  std::uint64_t given_back_ = 0;
};

}  // namespace

void CudaBackend::only_when_not_recording() const {
  if (recording_) throw Error("a call that waits for the device cannot be recorded");
}

// Whatever goes wrong on the way is met again, and told, when the calls are made.
std::unique_ptr<Recording> CudaBackend::record(const std::function<void()>& work, std::unique_ptr<Recording> before) {
  check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "recording calls");
  recording_ = true;
  bool whole = true;
  try {
    work();
  } catch (const Error&) {
    whole = false;
  }
  recording_ = false;
  Graph graph;
  const cudaError_t status = cudaStreamEndCapture(stream(), graph.out());
  if (!whole || status != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  if (!before) before = std::make_unique<CudaRecording>(stream());
  static_cast<CudaRecording&>(*before).take(graph);
  return before;
}

}  // namespace tutti::cuda
