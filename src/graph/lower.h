// SPDX-License-Identifier: Apache-2.0
// lower.h -- from a graph to a list of instructions in evaluation order: views vanish, composite operations are
// expressed through simpler ones, bias and activation are fused into the product before them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/kernel.h"
#include "graph/loops.h"
#include "graph/shapes.h"

namespace tutti::graph {

struct Lowered {
  std::vector<Tensor> tensors;
  std::vector<Instruction> instructions;
  std::vector<Loop> loops;                 // runs of instructions, in their order
  std::map<std::size_t, Operand> of_node;  // where the value of a graph node is
  std::vector<std::string> axes;           // names of the dynamic axes
  std::size_t random_nodes = 0;            // instructions that draw random numbers
  bool sequential = false;                 // looks at sequences: columns are kept in packed order
  std::size_t fused = 0;                   // bias and activation passes saved
  std::size_t reorders = 0;                // changes of format between images
};

struct LowerOptions {
  bool training = false;
  bool winograd = true;
  std::size_t channel_block = 0;            // of images in blocks of channels; 0 = all images are plain
  Element half_element = Element::float32;  // what those in blocks, and what dense layers hand on, are stored as
  bool fused_products = false;              // products take bias and ReLU along
  bool fused_recurrent_inputs = false;
};

// `order` from evaluation_order, `values` from infer_graph, `roots` are kept observable (not fused away).
Lowered lower(const Graph& graph, const std::vector<std::size_t>& order, const std::vector<Value>& values,
              const std::vector<std::size_t>& roots, const LowerOptions& options);

// Loops that are GRUs become one operation; recognize_gru.cpp. Part of lower().
void recognize_grus(const Graph& graph, Lowered& code, const std::vector<std::size_t>& roots);
// Product, plus, activation -> product, one pass over it. Part of lower().
void fuse_bias_and_activation(Lowered& code, const std::vector<std::size_t>& roots);
// Recurrent layers take in the product that makes their input, where the backend wants that: fuse_recurrence.cpp.
void fuse_recurrent_inputs(Lowered& code, const std::vector<std::size_t>& roots);
// A product with one row for each sample and a weight for all.
bool plain_product(const Instruction&);
// Products do what stands behind them as well, where the backend can: fuse.cpp.
void fuse_into_products(Lowered& code, const std::vector<std::size_t>& roots);
// The same for convolutions and batch normalisation; image_fusion.cpp.
void fuse_images(Lowered& code, const std::vector<std::size_t>& roots);
// Formats and types of images and the reorders between them; layouts.cpp.
void choose_layouts(Lowered& code, const std::vector<std::size_t>& roots, std::size_t block, Element element);
// Which values between dense layers lie in 16 bits; half_values.cpp.
void choose_half_values(Lowered& code, const std::vector<std::size_t>& roots, Element element);

}  // namespace tutti::graph
