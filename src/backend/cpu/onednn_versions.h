// SPDX-License-Identifier: Apache-2.0
// onednn_versions.h -- the differences between oneDNN 2 and 3: version 2 first describes a primitive with a struct,
// version 3 takes the same arguments directly.
#pragma once

#include <dnnl.hpp>

namespace tutti::cpu {

// The description of a forward primitive: plan<dnnl::matmul>(engine, attributes, x, w, y).
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc plan(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                                        const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR < 3
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), attributes, engine);
#else
  return typename Primitive::primitive_desc(engine, arguments..., attributes);
#endif
}

// The same for a gradient, which needs its forward primitive.
template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc plan_gradient(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                                                 const Forward& forward, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR < 3
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), attributes, engine, forward);
#else
  return typename Primitive::primitive_desc(engine, arguments..., forward, attributes);
#endif
}

inline void append_relu(dnnl::post_ops& after) {
#if DNNL_VERSION_MAJOR < 3
  after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0, 0);
#else
  after.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
#endif
}

#if DNNL_VERSION_MAJOR < 3
// Version 3 has only this pooling, which takes a dilation.
using PoolingForward = dnnl::pooling_v2_forward;
using PoolingBackward = dnnl::pooling_v2_backward;

inline dnnl::memory::desc in_any_layout(const dnnl::memory::desc& md) {
  return {md.dims(), md.data_type(), dnnl::memory::format_tag::any};
}
#else
using PoolingForward = dnnl::pooling_forward;
using PoolingBackward = dnnl::pooling_backward;

inline dnnl::memory::desc in_any_layout(const dnnl::memory::desc& md) {
  return {md.get_dims(), md.get_data_type(), dnnl::memory::format_tag::any};
}
#endif

}  // namespace tutti::cpu
