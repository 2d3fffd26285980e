// SPDX-License-Identifier: Apache-2.0
// cudnn_nodes.h -- descriptors of graphs as the emulator of cuDNN keeps them: any attribute by its name.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

struct CudnnDoubleNode {
  struct Values {
    cudnnBackendAttributeType_t type;
    std::size_t count;
    std::vector<unsigned char> bytes;
  };

  cudnnBackendDescriptorType_t type;
  bool complete = false;
  std::map<cudnnBackendAttributeName_t, Values> attributes;
  // What lies in a queue, or is repeated from a graph, sees by this whether the plan that it was made with still is.
  std::shared_ptr<const char> life = std::make_shared<const char>();

  bool has(cudnnBackendAttributeName_t name) const { return attributes.count(name) > 0; }
  template <class T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    std::vector<T> values(found->second.count);
    std::memcpy(values.data(), found->second.bytes.data(), found->second.bytes.size());
    return values;
  }
  // Of an attribute that is there.
  template <class T>
  T one(cudnnBackendAttributeName_t name) const {
    T value;
    std::memcpy(&value, attributes.at(name).bytes.data(), sizeof value);
    return value;
  }
  const CudnnDoubleNode& part(cudnnBackendAttributeName_t name) const { return *one<cudnnBackendDescriptor_t>(name); }
  template <class T>
  void put(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t of, const std::vector<T>& values) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
    attributes[name] = {of, values.size(), {bytes, bytes + values.size() * sizeof(T)}};
  }
};

namespace cuda_emulator {

// What the library says to a descriptor that has all it needs. May set what can be asked for afterwards.
cudnnStatus_t completed(CudnnDoubleNode&);
cudnnStatus_t executed(cudaStream_t, const CudnnDoubleNode& plan, const CudnnDoubleNode& pack);
// What heuristics propose: engines, each with the value of its one knob.
struct Proposal {
  std::int64_t engine, tile;
};
std::vector<Proposal> proposals(const CudnnDoubleNode& heuristics);

}  // namespace cuda_emulator
