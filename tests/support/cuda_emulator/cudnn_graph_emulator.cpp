// SPDX-License-Identifier: Apache-2.0
// Graphs in the emulator of cuDNN: when attributes of descriptors may be set and read, and which descriptors are whole.
// Which attributes there are, of which type and number, tests/backend/cuda/library_test.cpp asks the library itself.
#include <cudnn.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <stdexcept>

#include "cudnn_descriptors.h"
#include "cudnn_nodes.h"
#include "device.h"

namespace {

using Node = CudnnDoubleNode;

constexpr cudnnBackendAttributeType_t node = CUDNN_TYPE_BACKEND_DESCRIPTOR, number = CUDNN_TYPE_INT64;

std::size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

// Descriptors that have not been destroyed.
std::set<const Node*>& living() {
  static std::set<const Node*> all;
  return all;
}

// Whether all parts of a descriptor are there and complete, and theirs.
bool is_whole(const Node& d) {
  for (const auto& [name, values] : d.attributes) {
    if (values.type != node) continue;
    for (const cudnnBackendDescriptor_t part : d.all<cudnnBackendDescriptor_t>(name))
      if (!living().count(part) || !part->complete || !is_whole(*part)) return false;
  }
  return true;
}

cudnnStatus_t fill(const std::vector<cuda_emulator::Proposal>& from, const Node& heuristics, std::int64_t most,
                   std::int64_t* count, const cudnnBackendDescriptor_t* configs) {
  *count = static_cast<std::int64_t>(from.size());
  if (most == 0) return CUDNN_STATUS_SUCCESS;
  *count = std::min(*count, most);
  for (std::int64_t i = 0; i < *count; ++i) {
    Node& c = *configs[i];
    if (!living().count(&c) || c.type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || c.complete)
      return CUDNN_STATUS_BAD_PARAM;
    const cuda_emulator::Proposal& p = from[static_cast<std::size_t>(i)];
    c.put(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, number, std::vector{p.engine});
    c.put(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, number, std::vector{p.tile});
    c.put(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, node,
          heuristics.all<cudnnBackendDescriptor_t>(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
    c.complete = true;
  }
  return CUDNN_STATUS_SUCCESS;
}

// An engine and its knob from what heuristics have filled in.
cudnnStatus_t take_apart(const Node& config, cudnnBackendAttributeName_t name, std::int64_t most, std::int64_t* count,
                         const cudnnBackendDescriptor_t* to) {
  const bool knob = name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES;
  if (!config.has(CUDNN_ATTR_ENGINE_GLOBAL_INDEX)) return CUDNN_STATUS_NOT_SUPPORTED;
  *count = 0;
  if (most < 1) return CUDNN_STATUS_SUCCESS;
  Node& d = **to;
  const auto type = knob ? CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR : CUDNN_BACKEND_ENGINE_DESCRIPTOR;
  if (!living().count(&d) || d.type != type || d.complete) return CUDNN_STATUS_BAD_PARAM;
  if (knob) {
    d.put(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, std::vector{CUDNN_KNOB_TYPE_TILE_SIZE});
    d.attributes[CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE] = config.attributes.at(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
  } else {
    for (const auto part : {CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_ATTR_ENGINE_OPERATION_GRAPH})
      d.attributes[part] = config.attributes.at(part);
    if (cuda_emulator::completed(d) != CUDNN_STATUS_SUCCESS) return CUDNN_STATUS_INTERNAL_ERROR;
  }
  d.complete = true, *count = 1;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* d) {
  const std::lock_guard lock(cuda_emulator::device().mutex);
  living().insert(*d = new Node{type, false, {}});
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
  const std::lock_guard lock(cuda_emulator::device().mutex);
  if (!living().erase(d)) return CUDNN_STATUS_BAD_PARAM;
  delete d;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  const std::lock_guard lock(cuda_emulator::device().mutex);
  if (!living().count(d) || d->complete || !values || count < 1) return CUDNN_STATUS_BAD_PARAM;
  const auto n = static_cast<std::size_t>(count);
  const auto* bytes = static_cast<const unsigned char*>(values);
  d->attributes[name] = {type, n, {bytes, bytes + n * bytes_of(type)}};
  return is_whole(*d) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d) {
  const std::lock_guard lock(cuda_emulator::device().mutex);
  if (!living().count(d) || d->complete || !is_whole(*d)) return CUDNN_STATUS_BAD_PARAM;
  try {
    const cudnnStatus_t status = cuda_emulator::completed(*d);
    d->complete = status == CUDNN_STATUS_SUCCESS;
    return status;
  } catch (const std::out_of_range&) {  // an attribute is missing, or a part is of another type
    return CUDNN_STATUS_BAD_PARAM;
  }
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t most, std::int64_t* count,
                                       void* values) {
  const std::lock_guard lock(cuda_emulator::device().mutex);
  if (!living().count(d) || !d->complete || most < 0 || (most > 0 && !values) || !is_whole(*d))
    return CUDNN_STATUS_BAD_PARAM;
  const auto* parts = static_cast<const cudnnBackendDescriptor_t*>(values);
  if (d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && name == CUDNN_ATTR_ENGINEHEUR_RESULTS)
    return type == node ? fill(cuda_emulator::proposals(*d), *d, most, count, parts) : CUDNN_STATUS_BAD_PARAM;
  if (d->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
    return type == node ? take_apart(*d, name, most, count, parts) : CUDNN_STATUS_BAD_PARAM;
  const auto found = d->attributes.find(name);
  if (found == d->attributes.end()) return CUDNN_STATUS_NOT_SUPPORTED;
  if (found->second.type != type || type == node) return CUDNN_STATUS_BAD_PARAM;
  *count = static_cast<std::int64_t>(found->second.count);
  if (most > 0) *count = std::min(*count, most);
  if (most > 0) std::memcpy(values, found->second.bytes.data(), static_cast<std::size_t>(*count) * bytes_of(type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const std::lock_guard lock(cuda_emulator::device().mutex);
  for (const auto& [d, type] : {std::pair{plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR},
                                std::pair{pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR}})
    if (!living().count(d) || d->type != type || !d->complete || !is_whole(*d)) return CUDNN_STATUS_BAD_PARAM;
  if (handle != plan->one<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE)) return CUDNN_STATUS_BAD_PARAM;
  try {
    return cuda_emulator::executed(handle->stream, *plan, *pack);
  } catch (const std::out_of_range&) {  // a part was destroyed, and another descriptor lies in its place
    return CUDNN_STATUS_BAD_PARAM;
  }
}
