// SPDX-License-Identifier: Apache-2.0
// Chooses the layout of the images in a program. Convolutions with enough channels need blocks of channels; what
// follows them (pooling, normalisation, elementwise operations, sums, stacks of channels) takes the layout of its
// input. If a consumer needs the other layout, a Reorder is inserted, once per value. Blocked images are stored in the
// backend's type, perhaps 16 bits; everything else is float32 so far (half_values.cpp).
#include <algorithm>
#include <set>

#include "graph/image_geometry.h"
#include "graph/lower.h"

namespace tutti::graph {
namespace {

const std::set<std::string>& keeps_zero() {
  static const std::set<std::string> operations = {"RectifiedLinear", "Tanh",  "Sin",  "Abs",   "Sqrt",
                                                   "Negate",          "Floor", "Ceil", "Round", "Dropout"};
  return operations;
}

class Layouts {
 public:
  Layouts(Lowered& code, const std::vector<std::size_t>& roots, std::size_t block, Element element)
      : code_(code),
        roots_(roots),
        block_(block),
        least_(block == all_channels ? few_channels : block),
        element_(element) {}

  void run() {
    std::vector<Instruction> old = std::move(code_.instructions);
    code_.instructions.clear();
    shape_.resize(code_.tensors.size());
    for (auto& i : old) {
      shape_[i.out.tensor] = i.out.shape;
      assign(i);
      code_.instructions.push_back(std::move(i));
    }
    for (const auto root : roots_) {
      Operand& o = code_.of_node.at(root);
      o = in_format(o, Format::plain);
    }
  }

 private:
  Format format(const Operand& o) const { return format_.contains(o.tensor) ? Format::blocked : Format::plain; }
  // Whether the use sees the image itself, not a view of it with another shape.
  bool as_made(const Operand& o) const { return o.tensor < shape_.size() && shape_[o.tensor] == o.shape; }
  bool blocked_image(const Operand& o) const { return format(o) == Format::blocked && as_made(o); }
  std::size_t stored(const Shape& s) const {
    const std::size_t channels = s.dims.back();
    if (block_ == all_channels) return s.elements();
    return s.elements() / channels * ((channels + block_ - 1) / block_ * block_);
  }

  // A use of `o` in the wanted layout; through a Reorder, made once.
  Operand in_format(Operand o, Format wanted) {
    if (format(o) == wanted) {
      if (wanted == Format::blocked) set_blocked(o);
      return o;
    }
    // Plain values can become images of several shapes.
    const Key key{o.tensor, wanted == Format::blocked ? o.shape.dims : std::vector<std::size_t>{}};
    const auto found = other_.find(key);
    const std::size_t other = found != other_.end() ? found->second : add_reorder(o, wanted);
    other_[key] = other;
    o.tensor = other;
    wanted == Format::blocked ? set_blocked(o) : set_plain(o);
    return o;
  }

  void set_blocked(Operand& o) const { o.format = Format::blocked, o.element = element_, o.elements = stored(o.shape); }
  static void set_plain(Operand& o) {
    o.format = Format::plain, o.element = Element::float32, o.elements = o.shape.elements();
  }

  std::size_t add_reorder(const Operand& o, Format wanted) {
    Instruction i;
    i.operation = "Reorder";
    Operand from = o, to = o;
    if (wanted == Format::plain) from.shape = to.shape = shape_[o.tensor];
    set_blocked(wanted == Format::blocked ? to : from), set_plain(wanted == Format::blocked ? from : to);
    Tensor t = code_.tensors[o.tensor];
    i.node.name = t.name, i.node.operation = "Reorder";
    t.kind = Tensor::Kind::computed, t.trained = t.sparse = false, t.elements = to.elements;
    to.tensor = code_.tensors.size();
    code_.tensors.push_back(t);
    shape_.push_back(to.shape);
    if (wanted == Format::blocked) format_.insert(to.tensor);
    i.in = {from}, i.out = to;
    code_.instructions.push_back(std::move(i));
    ++code_.reorders;
    return to.tensor;
  }

  void make_blocked(Instruction& i) {
    set_blocked(i.out);
    code_.tensors[i.out.tensor].elements = i.out.elements;
    format_.insert(i.out.tensor);
  }

  void assign(Instruction& i) {
    if (i.operation == "Convolution" && i.out.per_sample && flag(i.node, "channelAxis", false)) return convolution(i);
    const bool follows = i.operation == "Pooling" || i.operation == "LocalResponseNormalization" ||
                         (i.operation == "BatchNormalization" && flag(i.node, "spatial", false)) ||
                         keeps_zero().contains(i.operation);
    if (follows && blocked_image(i.in[0]) && i.out.shape.rank() == i.in[0].shape.rank() && pools_within_channels(i) &&
        (i.in.size() <= added_image || as_image(i.in[added_image])))
      return follow(i);
    if (flat_combination(i) || stack_of_blocks(i)) return joined(i);
    // A sparse input is not changed; everything else needs plain values.
    for (auto& o : i.in) o = in_format(o, Format::plain);
  }

  static bool pools_within_channels(const Instruction& i) {
    return i.operation != "Pooling" || pooling_geometry(i.node, i.in[0].shape).channel_axis;
  }

  void convolution(Instruction& i) {
    const ImageGeometry g = convolution_geometry(i.node, i.in[1].shape, i.in[0].shape);
    const auto whole_blocks = [&](std::size_t channels) {
      return block_ == all_channels || channels / g.groups % block_ == 0;
    };
    const bool fits = g.groups == 1 || (whole_blocks(g.channels) && whole_blocks(g.maps));
    // Images with fewer channels than a block are read and made in their current layout.
    const bool few = g.channels < least_ && !g.transposed;
    if (!fits || g.maps < least_ || (g.transposed && g.channels < least_)) {
      for (auto& o : i.in) o = in_format(o, Format::plain);
      return;
    }
    for (std::size_t k = 0; k < i.in.size(); ++k)
      if (k != 1) i.in[k] = in_format(i.in[k], Format::plain);
    i.in[1] = in_format(i.in[1], few || !as_image(i.in[1]) ? Format::plain : Format::blocked);
    make_blocked(i);
  }
  // Plain values can become an image under any shape, blocked ones only under their own.
  bool as_image(const Operand& o) const { return format(o) == Format::plain || as_made(o); }

  void follow(Instruction& i) {
    i.in[0] = in_format(i.in[0], Format::blocked);
    if (i.in.size() > added_image) i.in[added_image] = in_format(i.in[added_image], Format::blocked);
    make_blocked(i);
  }

  bool flat_combination(const Instruction& i) const {
    if (i.operation != "Plus" && i.operation != "Minus" && i.operation != "ElementTimes") return false;
    const auto alike = [&](const Operand& o) {
      return o.shape == i.out.shape && o.per_sample && as_image(o) && o.tensor < shape_.size();
    };
    return alike(i.in[0]) && alike(i.in[1]) && (blocked_image(i.in[0]) || blocked_image(i.in[1]));
  }
  bool stack_of_blocks(const Instruction& i) const {
    if (i.operation != "RowStack" || i.out.shape.rank() < 2 || !i.out.per_sample) return false;
    const double axis = number(i.node, "axis", 1);
    if (axis != static_cast<double>(i.out.shape.rank()) && axis != -1) return false;
    return std::all_of(i.in.begin(), i.in.end(), [&](const Operand& o) {
      return blocked_image(o) && same_pixels(o.shape, i.out.shape) &&
             (block_ == all_channels || o.shape.dims.back() % block_ == 0);
    });
  }
  static bool same_pixels(const Shape& a, const Shape& b) {
    return a.rank() == b.rank() && std::equal(a.dims.begin(), a.dims.end() - 1, b.dims.begin());
  }
  // Operations that do not depend on the position of channels: they see the stored values under a shape of their own.
  void joined(Instruction& i) {
    for (auto& o : i.in) o = in_format(o, Format::blocked), o.shape = in_blocks(o.shape);
    make_blocked(i);
    i.out.shape = in_blocks(i.out.shape);
    if (i.operation == "RowStack") i.node.attributes["axis"] = block_ == all_channels ? 1.0 : 2.0;
  }
  Shape in_blocks(const Shape& s) const {
    if (block_ == all_channels) return Shape{{s.dims.back(), s.elements() / s.dims.back()}};
    const std::size_t blocks = (s.dims.back() + block_ - 1) / block_;
    return Shape{{stored(s) / blocks, blocks}};
  }

  Lowered& code_;
  const std::vector<std::size_t>& roots_;
  static constexpr std::size_t few_channels = 8;
  static constexpr std::size_t added_image = 6;  // input of a batch normalisation
  std::size_t block_, least_;                    // least_: images of fewer channels stay plain
  Element element_;                              // of those in blocks
  std::vector<Shape> shape_;                     // by tensor: the shape under which it was made
  std::set<std::size_t> format_;                 // tensors in blocks
  using Key = std::pair<std::size_t, std::vector<std::size_t>>;
  std::map<Key, std::size_t> other_;  // by tensor and shape: the same value in the other format
};

}  // namespace

void choose_layouts(Lowered& code, const std::vector<std::size_t>& roots, std::size_t block, Element element) {
  Layouts(code, roots, block, element).run();
}

}  // namespace tutti::graph
