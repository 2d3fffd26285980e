// SPDX-License-Identifier: Apache-2.0
// Streams, events and memory. Memory of the device is closed to the host except while the device works; what the device
// still has to do when memory is given back is done first, as the runtime does. Work may have to wait for another
// stream, or for another rank: then its stream stands still, and whoever waits for it tries again.
#include "queue.h"

#include "calls.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

// Work that was noted while its stream was captured; the same for a graph that can be launched.
struct CudaDoubleGraph {
  std::vector<std::function<void()>> work;
};
struct CudaDoubleStream {
  struct Work {
    std::function<bool()> ready;  // empty: at any time
    std::function<void()> work;
  };
  std::deque<Work> work;
  int device = 0;
  bool busy = false;                          // asks whether it may go on
  std::unique_ptr<CudaDoubleGraph> captured;  // while it is
  bool broken = false;                        // the capture
};
struct CudaDoubleEvent {
  CudaDoubleStream* stream = nullptr;
  std::uint64_t recorded = 0;
  std::shared_ptr<std::uint64_t> reached = std::make_shared<std::uint64_t>(0);  // by who waits as well
  std::uint64_t time = 0;                                                       // when it was reached last
};

namespace cuda_double {
namespace {

// The stream that this thread captures. Whoever does in between what cannot be captured has broken the capture.
thread_local CudaDoubleStream* capturing = nullptr;
bool breaks_capture() {
  if (capturing) capturing->broken = true;
  return capturing;
}

// One device does one thing at a time, whichever thread waits for it.
struct Device {
  std::recursive_mutex mutex;
  std::set<CudaDoubleStream*> streams;
  std::map<void*, std::size_t> memory, managed;
  int working = 0;
  std::uint64_t time = 0;  // pieces of work done
  CudaDoubleCalls calls;

  static constexpr std::size_t total = std::size_t{64} << 30;
  std::size_t available() const {
    std::size_t taken = 0;
    for (const auto* kind : {&memory, &managed})
      for (const auto& [p, bytes] : *kind) taken += bytes;
    return total - std::min(taken, total);
  }
  void protect(int how) {
    for (const auto& [p, bytes] : memory) mprotect(p, bytes, how);
  }
};
Device& device() {
  static Device& d = *new Device;
  return d;
}

class Working {
 public:
  Working() {
    if (device().working++ == 0) device().protect(PROT_READ | PROT_WRITE);
  }
  ~Working() {
    if (--device().working == 0) device().protect(PROT_NONE);
  }
  Working(const Working&) = delete;
};

bool next(CudaDoubleStream& s) {
  if (s.busy || s.work.empty()) return false;
  if (const auto ready = s.work.front().ready) {
    s.busy = true;
    const bool goes_on = ready();
    s.busy = false;
    if (!goes_on) return false;
  }
  const auto work = std::move(s.work.front().work);
  s.work.pop_front();
  work();
  ++device().time;
  return true;
}

// The stream goes on until `done`. While it stands still other threads may do what it waits for.
template <class Done>
void wait_for(CudaDoubleStream& s, const Done& done) {
  constexpr auto patience = std::chrono::seconds(60);
  auto moved = std::chrono::steady_clock::now();
  for (std::uint64_t time = 0;;) {
    {
      const std::lock_guard lock(device().mutex);
      if (done()) return;
      const Working now;
      while (next(s))
        if (done()) return;
      if (std::exchange(time, device().time) != device().time) moved = std::chrono::steady_clock::now();
    }
    if (std::chrono::steady_clock::now() - moved > patience) {
      std::fputs("stand-in: a stream has waited a minute for what nobody does\n", stderr);
      std::abort();
    }
    std::this_thread::yield();
  }
}

// Other ranks may destroy theirs meanwhile.
void drain(CudaDoubleStream& s) {
  wait_for(s, [&] { return !device().streams.count(&s) || s.work.empty(); });
}

thread_local int device_of_thread = 0;

// The streams of the device that this thread uses.
void drain_all() {
  std::set<CudaDoubleStream*> streams;
  {
    const std::lock_guard lock(device().mutex);
    for (auto* s : device().streams)
      if (s->device == device_of_thread) streams.insert(s);
  }
  for (auto* s : streams) drain(*s);
}

void reach(CudaDoubleEvent& e, std::uint64_t number) {
  if (e.stream) wait_for(*e.stream, [&] { return *e.reached >= number; });
}

std::size_t pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
}

}  // namespace

void enqueue(cudaStream_t stream, std::function<void()> work) {
  const std::lock_guard lock(device().mutex);
  if (stream && stream->captured) return stream->captured->work.push_back(std::move(work));
  ++device().calls.single;
  if (stream) return stream->work.push_back({{}, std::move(work)});
  const Working now;
  work();
  ++device().time;
}

bool on_device(const void* p, std::size_t bytes) {
  const std::lock_guard lock(device().mutex);
  auto block = device().memory.upper_bound(const_cast<void*>(p));
  if (!p || block == device().memory.begin()) return false;
  --block;
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(p) - static_cast<const char*>(block->first));
  return offset <= block->second && bytes <= block->second - offset;
}

void enqueue_when(cudaStream_t stream, std::function<bool()> ready, std::function<void()> work) {
  const std::lock_guard lock(device().mutex);
  ++device().calls.single;
  stream->work.push_back({std::move(ready), std::move(work)});
}

bool drive(cudaStream_t stream, const std::function<bool()>& done) {
  while (!done() && next(*stream)) {
  }
  return done();
}

}  // namespace cuda_double

using namespace cuda_double;

CudaDoubleCalls cuda_double_calls() {
  const std::lock_guard lock(device().mutex);
  return device().calls;
}

// Fresh memory holds no zeros, so that nobody comes to rely on them; behind it lies a page that nobody may touch.
cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard lock(device().mutex);
  const std::size_t size = pages(bytes), guard = pages(1);
  if (bytes > device().available()) return cudaErrorMemoryAllocation;
  void* block = mmap(nullptr, size + guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return cudaErrorMemoryAllocation;
  mprotect(block, size, PROT_READ | PROT_WRITE);
  std::memset(block, 0xee, size);
  if (device().working == 0) mprotect(block, size, PROT_NONE);
  device().memory[block] = size;
  *p = block;
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  drain_all();
  const std::lock_guard lock(device().mutex);
  const auto found = device().memory.find(p);
  if (found == device().memory.end()) {
    device().managed.erase(p);
    std::free(p);
    return cudaSuccess;
  }
  munmap(p, found->second + pages(1));
  device().memory.erase(found);
  return cudaSuccess;
}

static cudaError_t allocate_for_both(void** p, std::size_t bytes) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + 255) / 256 * 256;
  *p = std::aligned_alloc(256, size);
  if (!*p) return cudaErrorMemoryAllocation;
  std::memset(*p, 0xee, size);
  return cudaSuccess;
}
// More of it than is free would be moved to and fro while kernels run.
cudaError_t cudaMallocManaged(void** p, std::size_t bytes, unsigned) {
  if (bytes == 0) return cudaErrorInvalidValue;
  const std::lock_guard lock(device().mutex);
  if (bytes > device().available()) {
    std::fputs("cuda_double: more managed memory than the device has free\n", stderr);
    std::abort();
  }
  const cudaError_t status = allocate_for_both(p, bytes);
  if (status == cudaSuccess) device().managed[*p] = bytes;
  return status;
}
cudaError_t cudaMallocHost(void** p, std::size_t bytes) { return allocate_for_both(p, bytes); }
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) { return allocate_for_both(p, bytes); }
cudaError_t cudaFreeHost(void* p) { return cudaFree(p); }
cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  const std::lock_guard lock(device().mutex);
  *available = device().available(), *total = Device::total;
  return cudaSuccess;
}

// All devices are the same one, under several names.
cudaError_t cudaSetDevice(int device) {
  int count = 0;
  cudaGetDeviceCount(&count);
  if (device < 0 || device >= count) return cudaErrorInvalidDevice;
  device_of_thread = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = device_of_thread;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  drain_all();
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  const std::lock_guard lock(device().mutex);
  *s = new CudaDoubleStream;
  (*s)->device = device_of_thread;
  device().streams.insert(*s);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  drain(*s);
  const std::lock_guard lock(device().mutex);
  device().streams.erase(s);
  delete s;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  if (s) drain(*s);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  if (!s) {
    reach(*e, e->recorded);
    return cudaSuccess;
  }
  if (!e->stream) return cudaSuccess;
  const auto there = [reached = e->reached, number = e->recorded] { return *reached >= number; };
  enqueue_when(
      s, [there, other = e->stream] { return drive(other, there); }, [] {});
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  *e = new CudaDoubleEvent;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  reach(*e, e->recorded);
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  e->stream = s;
  enqueue(s, [e, number = ++e->recorded] { *e->reached = number, e->time = device().time; });
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  reach(*e, e->recorded);
  return cudaSuccess;
}
// A piece of work takes a millisecond.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (*begin->reached < begin->recorded || *end->reached < end->recorded) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(end->time - begin->time);
  return cudaSuccess;
}
// Whoever asks again and again is answered at last: each time the stream does a little.
cudaError_t cudaEventQuery(cudaEvent_t e) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard lock(device().mutex);
  if (*e->reached >= e->recorded) return cudaSuccess;
  const Working now;
  next(*e->stream);
  return *e->reached >= e->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  if (!s || breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard lock(device().mutex);
  s->captured = std::make_unique<CudaDoubleGraph>(), s->broken = false;
  capturing = s;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
  if (capturing != s) return cudaErrorInvalidValue;
  const std::lock_guard lock(device().mutex);
  capturing = nullptr;
  const std::unique_ptr<CudaDoubleGraph> captured = std::move(s->captured);
  *graph = s->broken ? nullptr : new CudaDoubleGraph(*captured);
  return s->broken ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CudaDoubleGraph(*graph);
  return cudaSuccess;
}
// Other numbers, but not other calls.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo*) {
  if (exec->work.size() != graph->work.size()) return cudaErrorGraphExecUpdateFailure;
  exec->work = graph->work;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard lock(device().mutex);
  ++device().calls.graphs;
  for (const auto& work : exec->work) s->work.push_back({{}, work});
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
