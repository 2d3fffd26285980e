// SPDX-License-Identifier: Apache-2.0
// lower.h -- lowers a graph to instructions in evaluation order: removes views, expresses composite operations with
// simpler ones, fuses bias and activation into the product before them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/kernel.h"
#include "graph/label_smoothing.h"
#include "graph/loops.h"
#include "graph/result_terms.h"
#include "graph/shapes.h"
#include "tutti/placement.h"

namespace tutti::graph {

// Where the divided weights of a network lie, by graph node. The training program chooses; the other programs of the
// network follow.
using Shards = std::map<std::size_t, ParameterShard>;

// The columns of a dynamic axis: this rank's, those of all ranks, or those of all ranks on rank 0 and none elsewhere.
struct RankAxis {
  enum class Columns { own, all, first };
  std::size_t own = 0;  // the axis of this rank's columns
  Columns columns = Columns::own;
};

struct Lowered {
  std::vector<Tensor> tensors;
  std::vector<Instruction> instructions;
  std::vector<Loop> loops;                 // contiguous instructions, in order
  std::map<std::size_t, Operand> of_node;  // the value of each graph node
  // Of nodes whose result is a ratio of two sums: the sum to divide by, in place of the number of samples.
  std::map<std::size_t, Operand> divisor_of_node;
  std::vector<std::string> axes;           // names of the dynamic axes
  std::vector<RankAxis> rank_axes;         // of each axis; empty without layers that several ranks compute together
  std::size_t random_nodes = 0;            // instructions that draw random numbers
  bool sequential = false;                 // depends on sequences: columns are in packed order
  std::size_t fused = 0;                   // bias and activation passes that were fused
  std::size_t reorders = 0;                // layout changes between images
  std::set<std::size_t> ones;              // nodes of the constants 1 that fused GRUs replace
};

struct LowerOptions {
  bool training = false;
  bool winograd = true;
  std::size_t channel_block = 0;            // of blocked images; 0 = all images are plain
  Element half_element = Element::float32;  // storage type of blocked images and between dense layers
  bool fused_products = false;              // products can fuse bias and ReLU
  bool fused_recurrent_inputs = false;
  const ModelParallel* model_parallel = nullptr;  // null: every layer is replicated
  const Shards* shards = nullptr;                 // chosen for this network before
  const LabelSmoothing* label_smoothing = nullptr;
  const ResultTerms* terms = nullptr;  // those of parameters alone count by the rank's share of the minibatch
};

// `order` is from evaluation_order, `values` from infer_graph. `roots` stay observable (are not fused away).
Lowered lower(const Graph& graph, const std::vector<std::size_t>& order, const std::vector<Value>& values,
              const std::vector<std::size_t>& roots, const LowerOptions& options);

// Replaces loops that are GRUs with one operation (recognize_gru.cpp). Part of lower().
void recognize_grus(const Graph& graph, Lowered& code, const std::vector<std::size_t>& roots);
// Fuses product, plus and activation into the product and one pass over it. Part of lower().
void fuse_bias_and_activation(Lowered& code, const std::vector<std::size_t>& roots);
// Fuses the product that makes the input of a recurrent layer into it, if the backend prefers that (fuse.cpp).
void fuse_recurrent_inputs(Lowered& code, const std::vector<std::size_t>& roots);
// A product with one row per sample and one weight for all samples.
bool plain_product(const Instruction&);
// Fuses what follows a product into it, if the backend can (fuse.cpp).
void fuse_into_products(Lowered& code, const std::vector<std::size_t>& roots);
// The same for convolutions and batch normalisation (fuse.cpp).
void fuse_images(Lowered& code, const std::vector<std::size_t>& roots);
// Chooses layouts and types of images and inserts reorders between them (layouts.cpp).
void choose_layouts(Lowered& code, const std::vector<std::size_t>& roots, std::size_t block, Element element);
// Chooses which values between dense layers are stored in 16 bits (half_values.cpp).
void choose_half_values(Lowered& code, const std::vector<std::size_t>& roots, Element element);

}  // namespace tutti::graph
