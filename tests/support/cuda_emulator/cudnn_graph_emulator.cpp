// SPDX-License-Identifier: Apache-2.0
// Graphs in the emulator of cuDNN: which attributes descriptors have, of which type, and when they may be set and read.
#include <cudnn.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "cudnn_descriptors.h"
#include "cudnn_nodes.h"
#include "device.h"

namespace {

using Node = CudnnDoubleNode;

struct Attribute {
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  std::size_t least = 1, most = 1;                                         // how many; 0 = need not be set
  cudnnBackendDescriptorType_t part = CUDNN_BACKEND_POINTWISE_DESCRIPTOR;  // of descriptors
};

constexpr cudnnBackendAttributeType_t node = CUDNN_TYPE_BACKEND_DESCRIPTOR, number = CUDNN_TYPE_INT64;

std::vector<Attribute> of_convolution(cudnnBackendAttributeName_t alpha) {
  std::vector<Attribute> all;
  for (int i = 0; i < 6; ++i) {
    const auto name = static_cast<cudnnBackendAttributeName_t>(alpha + i);
    if (i < 2)
      all.push_back({name, CUDNN_TYPE_FLOAT});
    else
      all.push_back(
          {name, node, 1, 1, i == 2 ? CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR : CUDNN_BACKEND_TENSOR_DESCRIPTOR});
  }
  return all;
}

// What may be set.
std::vector<Attribute> attributes_of(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return {
          {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE}, {CUDNN_ATTR_TENSOR_DIMENSIONS, number, 3, 8},
          {CUDNN_ATTR_TENSOR_STRIDES, number, 3, 8},           {CUDNN_ATTR_TENSOR_UNIQUE_ID, number},
          {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, number},          {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 0}};
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return {{CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
              {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE},
              {CUDNN_ATTR_CONVOLUTION_DILATIONS, number, 2, 3},
              {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, number, 2, 3},
              {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, number, 2, 3},
              {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, number, 2, 3},
              {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, number}};
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
      return {{CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE},
              {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE},
              {CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 0}};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return of_convolution(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return of_convolution(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return of_convolution(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return {{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, node, 1, 1, CUDNN_BACKEND_POINTWISE_DESCRIPTOR},
              {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, node, 1, 1, CUDNN_BACKEND_TENSOR_DESCRIPTOR},
              {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, node, 0, 1, CUDNN_BACKEND_TENSOR_DESCRIPTOR},
              {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, node, 1, 1, CUDNN_BACKEND_TENSOR_DESCRIPTOR}};
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:  // of operations of any kind: looked at when it is completed
      return {{CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE},
              {CUDNN_ATTR_OPERATIONGRAPH_OPS, node, 1, 3, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR}};
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return {{CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE},
              {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, node, 1, 1, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR}};
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
      return {{CUDNN_ATTR_ENGINE_GLOBAL_INDEX, number},
              {CUDNN_ATTR_ENGINE_OPERATION_GRAPH, node, 1, 1, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR}};
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
      return {{CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE}, {CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, number}};
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
      return {
          {CUDNN_ATTR_ENGINECFG_ENGINE, node, 1, 1, CUDNN_BACKEND_ENGINE_DESCRIPTOR},
          {CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, node, 0, CUDNN_KNOB_TYPE_COUNTS, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR}};
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return {{CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE},
              {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, node, 1, 1, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR}};
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return {{CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, number, 1, 8},
              {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, 8},
              {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR}};
  }
  return {};
}

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

// Whether a part is there, complete, and what the attribute wants.
bool is_part(const Node* part, const Attribute& a) {
  return living().count(part) && part->complete && (a.name == CUDNN_ATTR_OPERATIONGRAPH_OPS || part->type == a.part);
}
// And so are all parts, and theirs.
bool is_whole(const Node& d) {
  for (const Attribute& a : attributes_of(d.type)) {
    if (a.type != node) continue;
    for (const cudnnBackendDescriptor_t part : d.all<cudnnBackendDescriptor_t>(a.name))
      if (!is_part(part, a) || !is_whole(*part)) return false;
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
  if (attributes_of(type).empty()) return CUDNN_STATUS_NOT_SUPPORTED;
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
  for (const Attribute& a : attributes_of(d->type)) {
    if (a.name != name) continue;
    if (a.type != type || n < a.least || n > a.most) return CUDNN_STATUS_BAD_PARAM;
    const auto* bytes = static_cast<const unsigned char*>(values);
    Node::Values set{type, n, {bytes, bytes + n * bytes_of(type)}};
    if (type == node)
      for (std::size_t i = 0; i < n; ++i)
        if (!is_part(static_cast<const cudnnBackendDescriptor_t*>(values)[i], a)) return CUDNN_STATUS_BAD_PARAM;
    d->attributes[name] = std::move(set);
    return CUDNN_STATUS_SUCCESS;
  }
  return CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d) {
  const std::lock_guard lock(cuda_emulator::device().mutex);
  if (!living().count(d) || d->complete) return CUDNN_STATUS_BAD_PARAM;
  for (const Attribute& a : attributes_of(d->type))
    if (a.least > 0 && !d->has(a.name)) return CUDNN_STATUS_BAD_PARAM;
  if (!is_whole(*d)) return CUDNN_STATUS_BAD_PARAM;
  const cudnnStatus_t status = cuda_emulator::completed(*d);
  d->complete = status == CUDNN_STATUS_SUCCESS;
  return status;
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
  return cuda_emulator::executed(handle->stream, *plan, *pack);
}
