// SPDX-License-Identifier: Apache-2.0
// simple_parts.h -- what the networks of SimpleNetworkBuilder are put together from. Names and seeds are the
// original's.
#pragma once

#include "brainscript/simple_network.h"

namespace tutti::brainscript {

class SimpleParts {
 public:
  SimpleParts(const SimpleNetworkOptions& options, const SourcePos& where, bool constant_seed)
      : o_(options), where_(where), constant_seed_(constant_seed) {}

 protected:
  std::string name_of(std::size_t i) const { return g_.nodes[i].name; }
  // Without a name it gets one of the kind that the original makes up.
  std::size_t node(std::string name, std::string operation, std::vector<std::size_t> inputs,
                   std::map<std::string, graph::Attribute> attributes = {});
  std::size_t input(std::string name, std::int64_t dim, bool sparse = false);
  // The next seed is for this one.
  std::size_t random_parameter(std::string name, std::int64_t rows, std::int64_t columns);
  std::size_t constant_parameter(std::string name, std::int64_t rows, std::int64_t columns, double value = 0);
  // That of hidden layer `layer`, from 0; the last type given repeats.
  std::size_t nonlinearity(std::size_t layer, std::size_t x, std::string name = {});

  const SimpleNetworkOptions& o_;
  const SourcePos where_;
  const bool constant_seed_;
  std::int64_t seed_ = 1;
  std::size_t unnamed_ = 0;
  graph::Graph g_;
};

// All types but feed-forward networks; simple_recurrent.cpp.
graph::Graph build_simple_recurrent(const SimpleNetworkOptions&, const SourcePos& where, bool constant_seed);

}  // namespace tutti::brainscript
