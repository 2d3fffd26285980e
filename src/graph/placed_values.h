// SPDX-License-Identifier: Apache-2.0
// placed_values.h -- where the values of a program lie while its layers are placed (placement.cpp), and the conversions
// between places, which are inserted once per value and place.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/lower.h"

namespace tutti::graph {

// own: this rank's samples (neon: fragment). all: the samples of all ranks, on every rank (replica). shard: the same
// with a range of the elements. first: the samples of all ranks on rank 0 (singlenode).
enum class Place { own, all, shard, first };

bool is_vector(const Shape&);

class PlacedValues {
 public:
  PlacedValues(Lowered& code, int rank, int ranks) : code_(code), rank_(rank), ranks_(ranks) {
    for (std::size_t a = 0; a < code.axes.size(); ++a) code_.rank_axes.push_back({a, RankAxis::Columns::own});
  }
  // The instruction that is placed: conversions get its name and place.
  void begin(const Instruction& i) { node_ = i.node, current_ = code_.tensors[i.out.tensor].node; }

  Place place_of(const Operand&) const;
  // The operand as instructions see it now; of a shard, the shape is that of the part.
  Operand as_it_lies(Operand) const;
  // The value at that place, as an operand of the same shape (of the part, in a shard).
  Operand at(const Operand&, Place);
  // Notes where a value lies from now on. `whole`: elements of a whole sample.
  void lies(const Operand&, Place, std::size_t whole);
  std::size_t own_axis(const Operand& o) const { return code_.rank_axes[as_it_lies(o).axis].own; }

  // A new value of the current node, with a shape and axis, or with those of another value.
  Operand make(Shape shape, std::size_t axis);
  Operand emit(const std::string& operation, std::vector<Operand> in, Operand out,
               std::map<std::string, Attribute> attributes = {});
  // An operation that crosses ranks; `width`: elements of a whole sample.
  Operand convert(const std::string& operation, std::vector<Operand> in, Operand out, std::size_t own,
                  std::size_t width, std::map<std::string, Attribute> attributes = {});

 protected:
  ShardRange range(std::size_t size) const { return shard_range(size, rank_, ranks_); }

  Lowered& code_;
  const int rank_, ranks_;

 private:
  std::size_t axis(std::size_t own, Place);
  Operand converted(const Operand&, Place);
  Operand to_shards(const Operand&, std::size_t own);
  bool sparse_input(const Operand&) const;
  Operand gathered_input(const Operand&, Place);
  Operand densify_shard(const Operand&);

  std::map<std::size_t, Place> place_;        // by tensor; absent = own
  std::map<std::size_t, Operand> now_;        // by tensor, where it is not own
  std::map<std::size_t, std::size_t> whole_;  // by tensor: elements of a whole sample
  std::map<std::pair<std::size_t, Place>, Operand> converted_;
  Node node_;
  std::size_t current_ = 0;
  int tags_ = 0;
};

// placed_losses.cpp: criteria on shards. False: the logits must be brought together first.
bool softmax_loss(PlacedValues&, const Instruction&);
bool classification_error(PlacedValues&, const Instruction&);

// dense_layers.cpp
const std::set<std::string>& elementwise_operations();
std::set<std::size_t> tensors_in_loops(Lowered code);
std::map<std::size_t, std::size_t> count_uses(const Lowered& code);  // by tensor
bool is_dense_layer(const Lowered& code, const Instruction& i, const std::map<std::size_t, std::size_t>& uses);

}  // namespace tutti::graph
