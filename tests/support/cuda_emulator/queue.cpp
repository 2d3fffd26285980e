// SPDX-License-Identifier: Apache-2.0
// Streams and events. Work may have to wait for another stream, or for another rank: then its stream stands still, and
// whoever waits for it tries again.
#include "queue.h"

#include "device.h"
#include "order.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <numeric>
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
  std::uint32_t haste = 0;                    // how often it runs ahead
  bool busy = false;                          // asks whether it may go on
  std::unique_ptr<CudaDoubleGraph> captured;  // while it is
  bool broken = false;                        // the capture
};
struct CudaDoubleEvent {
  struct Reached {
    std::uint64_t number = 0, time = 0;
  };
  int device = 0;
  CudaDoubleStream* stream = nullptr;
  std::uint64_t recorded = 0;
  std::shared_ptr<Reached> reached = std::make_shared<Reached>();  // outlives the event where somebody waits
  bool has_time = false;

  bool done() const { return reached->number >= recorded; }
};

namespace cuda_emulator {
namespace {

// The stream that this thread captures. Whoever does in between what cannot be captured has broken the capture.
thread_local CudaDoubleStream* capturing = nullptr;

template <class T>
bool among(const std::vector<T*>& all, const T* one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}
// Handles that were destroyed, or never made.
bool unknown(const CudaDoubleStream* s) {
  const std::lock_guard lock(device().mutex);
  return s && !among(device().streams, s);
}
bool unknown(const CudaDoubleEvent* e) {
  const std::lock_guard lock(device().mutex);
  return !among(device().events, e);
}

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
      std::fputs("emulator: a stream has waited a minute for what nobody does\n", stderr);
      std::abort();
    }
    std::this_thread::yield();
  }
}

// Other ranks may destroy theirs meanwhile.
void drain(CudaDoubleStream& s) {
  wait_for(s, [&] { return !among(device().streams, &s) || s.work.empty(); });
}

thread_local int device_of_thread = 0;

void reach(const CudaDoubleEvent& e) {
  if (e.stream) wait_for(*e.stream, [reached = e.reached, number = e.recorded] { return reached->number >= number; });
}

// What keeps work from being put into a stream: nothing goes into a capture that is broken.
cudaError_t obstacle(const CudaDoubleStream* s) {
  return s && s->captured && s->broken ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

cudaError_t waited() {
  const std::lock_guard lock(device().mutex);
  ++device().calls.waits;
  return std::exchange(device().faulted, false) ? cudaErrorIllegalAddress : cudaSuccess;
}

// Streams do some of their work before anybody waits for it, as the order says.
void run_ahead() {
  Order& order = Order::of_thread();
  if (!order.drawn() || device().working > 0) return;
  std::vector<unsigned> turns(device().streams.size());
  std::iota(turns.begin(), turns.end(), 0u);
  order.shuffle(turns);
  for (const unsigned turn : turns) {
    CudaDoubleStream& s = *device().streams[turn];
    if (s.work.empty() || order.bits() >= s.haste) continue;
    const Working now;
    for (std::size_t left = order.below(2) ? s.work.size() : order.below(8); left > 0 && next(s); --left) {
    }
  }
}

// Of a stream: from never to always.
std::uint32_t drawn_haste() {
  constexpr std::uint32_t always = 0xffffffffu, of[] = {0, always >> 6, always >> 3, always >> 1, always};
  return of[Order::of_thread().below(5)];
}

}  // namespace

Device& device() {
  static Device& d = *new Device;
  return d;
}

bool breaks_capture() {
  if (capturing) capturing->broken = true;
  return capturing;
}

void drain_all() {
  std::vector<CudaDoubleStream*> streams;
  {
    const std::lock_guard lock(device().mutex);
    for (auto* s : device().streams)
      if (s->device == device_of_thread) streams.push_back(s);
  }
  for (auto* s : streams) drain(*s);
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  const std::lock_guard lock(device().mutex);
  if (const cudaError_t status = obstacle(stream); status != cudaSuccess) return status;
  if (stream && stream->captured) {
    stream->captured->work.push_back(std::move(work));
    return cudaSuccess;
  }
  ++device().calls.single;
  if (stream) {
    stream->work.push_back({{}, std::move(work)});
    run_ahead();
    return cudaSuccess;
  }
  const Working now;
  work();
  ++device().time;
  return cudaSuccess;
}

bool is_of_this_device(cudaStream_t stream) { return !stream || stream->device == device_of_thread; }

void enqueue_when(cudaStream_t stream, std::function<bool()> ready, std::function<void()> work) {
  const std::lock_guard lock(device().mutex);
  ++device().calls.single;
  stream->work.push_back({std::move(ready), std::move(work)});
  run_ahead();
}

bool drive(cudaStream_t stream, const std::function<bool()>& done) {
  while (!done() && next(*stream)) {
  }
  return done();
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

CudaDoubleCalls cuda_emulator_calls() {
  const std::lock_guard lock(device().mutex);
  return device().calls;
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

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  const std::lock_guard lock(device().mutex);
  *s = new CudaDoubleStream;
  (*s)->device = device_of_thread, (*s)->haste = drawn_haste();
  device().streams.push_back(*s);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  if (!s || unknown(s)) return cudaErrorInvalidResourceHandle;
  drain(*s);
  const std::lock_guard lock(device().mutex);
  std::erase(device().streams, s);
  delete s;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  if (unknown(s)) return cudaErrorInvalidResourceHandle;
  if (s) drain(*s);
  return waited();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  if (unknown(s) || unknown(e)) return cudaErrorInvalidResourceHandle;
  if (!s) {
    reach(*e);
    return cudaSuccess;
  }
  if (!e->stream) return cudaSuccess;
  const auto there = [reached = e->reached, number = e->recorded] { return reached->number >= number; };
  enqueue_when(
      s, [there, other = e->stream] { return drive(other, there); }, [] {});
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags) {
  const std::lock_guard lock(device().mutex);
  *e = new CudaDoubleEvent;
  (*e)->device = device_of_thread, (*e)->has_time = !(flags & cudaEventDisableTiming);
  device().events.push_back(*e);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  if (unknown(e)) return cudaErrorInvalidResourceHandle;
  const std::lock_guard lock(device().mutex);
  std::erase(device().events, e);
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  if (unknown(s) || unknown(e) || e->device != (s ? s->device : device_of_thread))
    return cudaErrorInvalidResourceHandle;
  e->stream = s;
  enqueue(s, [reached = e->reached, number = ++e->recorded] { *reached = {number, device().time}; });
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  if (unknown(e)) return cudaErrorInvalidResourceHandle;
  reach(*e);
  return waited();
}
// A chunk of work takes a millisecond.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (unknown(begin) || unknown(end) || !begin->has_time || !end->has_time || begin->recorded == 0 ||
      end->recorded == 0)
    return cudaErrorInvalidResourceHandle;
  if (!begin->done() || !end->done()) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(end->reached->time - begin->reached->time);
  return cudaSuccess;
}
// Whoever asks again and again is answered at last: each time the stream does a little.
cudaError_t cudaEventQuery(cudaEvent_t e) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  if (unknown(e)) return cudaErrorInvalidResourceHandle;
  const std::lock_guard lock(device().mutex);
  if (e->done()) return cudaSuccess;
  const Working now;
  next(*e->stream);
  return e->done() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  if (!s || breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard lock(device().mutex);
  s->captured = std::make_unique<CudaDoubleGraph>(), s->broken = false;
  capturing = s;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(device().mutex);
  *status = s && s->captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
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
// TUTTI_CUDA_EMULATOR_GRAPHS=0: there is no memory for one.
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  const char* const graphs = std::getenv("TUTTI_CUDA_EMULATOR_GRAPHS");
  if (graphs && std::atoi(graphs) == 0) return cudaErrorMemoryAllocation;
  *exec = new CudaDoubleGraph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  if (!s || unknown(s)) return cudaErrorInvalidResourceHandle;
  const std::lock_guard lock(device().mutex);
  ++device().calls.graphs;
  for (const auto& work : exec->work) s->work.push_back({{}, work});
  run_ahead();
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
