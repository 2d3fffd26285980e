// SPDX-License-Identifier: Apache-2.0
#include "graph/placed_values.h"

#include <fmt/format.h>

namespace tutti::graph {

bool is_vector(const Shape& s) { return s.rank() >= 1 && s.elements() == s[0]; }

Place PlacedValues::place_of(const Operand& o) const {
  const auto found = place_.find(o.tensor);
  return found == place_.end() ? Place::own : found->second;
}

Operand PlacedValues::as_it_lies(Operand o) const {
  const auto found = now_.find(o.tensor);
  if (found == now_.end()) return o;
  const Operand& now = found->second;
  if (now.elements != o.elements) o.shape = now.shape;
  o.elements = now.elements, o.axis = now.axis;
  return o;
}

std::size_t PlacedValues::axis(std::size_t own, Place place) {
  using Columns = RankAxis::Columns;
  const Columns columns = place == Place::own ? Columns::own : place == Place::first ? Columns::first : Columns::all;
  for (std::size_t a = 0; a < code_.rank_axes.size(); ++a)
    if (code_.rank_axes[a].own == own && code_.rank_axes[a].columns == columns) return a;
  code_.rank_axes.push_back({own, columns});
  code_.axes.push_back(fmt::format("{}{}", columns == Columns::first ? "rank 0: " : "all ranks: ", code_.axes[own]));
  return code_.axes.size() - 1;
}

Operand PlacedValues::make(Shape shape, std::size_t axis) {
  Tensor t;
  t.name = node_.name, t.node = current_, t.elements = shape.elements(), t.per_sample = true, t.axis = axis;
  const Operand o{code_.tensors.size(), std::move(shape), t.elements, true, axis};
  code_.tensors.push_back(std::move(t));
  return o;
}

Operand PlacedValues::emit(const std::string& operation, std::vector<Operand> in, Operand out,
                           std::map<std::string, Attribute> attributes) {
  Instruction i;
  i.operation = operation;
  i.node = {node_.name, operation, {}, std::move(attributes), node_.where};
  i.in = std::move(in);
  i.out = out;
  code_.instructions.push_back(std::move(i));
  return out;
}

Operand PlacedValues::convert(const std::string& operation, std::vector<Operand> in, Operand out, std::size_t own,
                              std::size_t width, std::map<std::string, Attribute> attributes) {
  attributes["tag"] = static_cast<double>(++tags_);
  attributes["ownAxis"] = static_cast<double>(own);
  attributes["width"] = static_cast<double>(width);
  return emit(operation, std::move(in), std::move(out), std::move(attributes));
}

Operand PlacedValues::at(const Operand& o, Place to) {
  if (!o.per_sample || place_of(o) == to) return as_it_lies(o);
  Operand found;
  if (const auto known = converted_.find({o.tensor, to}); known != converted_.end()) {
    found = known->second;
  } else {
    found = converted(o, to);
    converted_[{o.tensor, to}] = found;
  }
  if (found.elements == o.elements) found.shape = o.shape;
  return found;
}

Operand PlacedValues::converted(const Operand& o, Place to) {
  const auto whole = whole_.find(o.tensor);
  const std::size_t own = own_axis(o), width = whole == whole_.end() ? o.elements : whole->second;
  const Place from = place_of(o);
  const Shape flat{{width}};
  if (from == Place::own) {
    if (to == Place::shard) return sparse_input(o) ? densify_shard(o) : to_shards(o, own);
    if (sparse_input(o)) return gathered_input(o, to);
    return convert(to == Place::all ? "AllGather" : "Gather", {as_it_lies(o)}, make(o.shape, axis(own, to)), own,
                   width);
  }
  if (from == Place::first && to == Place::all)
    return convert("Replicate", {as_it_lies(o)}, make(o.shape, axis(own, to)), own, width);
  if (to != Place::own) {  // by way of the ranks that the samples belong to
    const Operand here = at(o, Place::own);
    return converted(here, to);
  }
  Operand out = make(from == Place::shard ? flat : o.shape, own);
  if (from == Place::first) return convert("Fragment", {as_it_lies(o)}, out, own, width);
  if (from == Place::shard) return convert("ShardsToSamples", {as_it_lies(o)}, out, own, width);
  return convert("OwnSamples", {as_it_lies(o)}, out, own, width);
}

Operand PlacedValues::to_shards(const Operand& o, std::size_t own) {
  const Operand out = make(Shape{{range(o.elements).size()}}, axis(own, Place::shard));
  return convert("SamplesToShards", {as_it_lies(o)}, out, own, o.elements);
}

bool PlacedValues::sparse_input(const Operand& o) const {
  return code_.tensors[o.tensor].kind == Tensor::Kind::input && code_.tensors[o.tensor].sparse;
}

// The reader's columns of all ranks: an input of its own, filled before the forward pass.
Operand PlacedValues::gathered_input(const Operand& o, Place to) {
  Tensor t = code_.tensors[o.tensor];
  t.gathered_from = o.tensor, t.axis = axis(own_axis(o), to);
  Operand all = o;
  all.tensor = code_.tensors.size(), all.axis = t.axis;
  code_.tensors.push_back(std::move(t));
  return all;
}

Operand PlacedValues::densify_shard(const Operand& o) {
  const Operand all = at(o, Place::all);
  return emit("DensifyShard", {all}, make(Shape{{range(o.elements).size()}}, all.axis),
              {{"first", static_cast<double>(range(o.elements).first)}});
}

void PlacedValues::lies(const Operand& out, Place p, std::size_t whole) {
  place_[out.tensor] = p, now_[out.tensor] = out, whole_[out.tensor] = whole;
  code_.tensors[out.tensor].elements = out.elements, code_.tensors[out.tensor].axis = out.axis;
}

}  // namespace tutti::graph
