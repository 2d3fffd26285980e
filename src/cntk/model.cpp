// SPDX-License-Identifier: Apache-2.0
// Reads the sections of a model file: nodes, their inputs, special nodes. model_graph.cpp turns them into a graph.
#include "cntk/model.h"

#include <fmt/format.h>

#include "cntk/model_graph.h"
#include "cntk/node_types.h"
#include "tutti/error.h"

namespace tutti::cntk {
namespace {

// A node takes at least this many bytes of the file: precision, class, name, and its line in the relations.
constexpr std::size_t least_node = 36;
// Far beyond every network; a damaged count must not take memory for more.
constexpr std::size_t most_nodes = 32768;

class ModelReader {
 public:
  explicit ModelReader(ByteReader r) : r_(std::move(r)) {}

  FileNodes run() {
    r_.expect("BCN");
    read_version();
    const std::size_t at = r_.offset(), n = r_.count("the number of nodes", least_node);
    if (n > most_nodes) r_.fail(at, fmt::format("{} nodes are more than {}", n, most_nodes));
    r_.expect("BNodeList");
    for (std::size_t i = 0; i < n; ++i) read_node();
    r_.expect("ENodeList");
    r_.expect("BRelation");
    for (std::size_t i = 0; i < n; ++i) read_inputs();
    r_.expect("ERelation");
    read_special_nodes();
    r_.expect("ECN");
    if (r_.left() > 0) r_.fail(r_.offset(), fmt::format("{} bytes follow the end of the model", r_.left()));
    return std::move(file_);
  }

 private:
  void read_version() {
    std::uint64_t version = 1;
    if (r_.take("BVersion")) {
      version = r_.number<std::uint64_t>("the version");
      r_.expect("EVersion");
    }
    if (version < oldest_version || version > newest_version)
      throw Error(fmt::format("'{}' is a model of CNTK in format version {}; versions {} to {} are read\nfix: {}",
                              r_.path(), version, oldest_version, newest_version,
                              version < oldest_version ? "load and save it with a newer CNTK (action edit)"
                                                       : "save it with CNTK 2.0 beta 9 or older"));
    file_.version = version;
  }

  void read_node() {
    FileFormat format{file_.version};
    std::size_t at = r_.offset();
    const std::string precision = r_.name("the precision of a node");
    if (precision != "float" && precision != "double" && !precision.empty())
      r_.fail(at, fmt::format("a node has the precision '{}'", precision));
    format.double_precision = precision == "double";
    file_.double_precision |= format.double_precision;
    at = r_.offset();
    const std::string type_name = r_.name("the class of a node");
    FileNode node;
    node.offset = at;
    node.node.name = r_.name("the name of a node");
    node.type = find_type(type_name);
    if (!node.type)
      throw Error(fmt::format(
          "'{}', byte {}: the node '{}' is of the class '{}', which this version does not know\nfix: remove "
          "the node with CNTK (action edit), or write it with other operations; "
          "docs/brainscript/trained_models.md lists the classes",
          r_.path(), at, node.node.name, type_name));
    node.node.operation = node.type->operation.empty() ? type_name : std::string(node.type->operation);
    if (!file_.place.emplace(node.node.name, file_.nodes.size()).second)
      r_.fail(at, fmt::format("two nodes are called '{}'", node.node.name));
    if (node.type->read) node.type->read(r_, format, node.node);
    file_.nodes.push_back(std::move(node));
  }

  std::size_t read_node_name(const char* what) {
    const std::size_t at = r_.offset();
    const std::string name = r_.name(what);
    const auto found = file_.place.find(name);
    if (found == file_.place.end()) r_.fail(at, fmt::format("{} is '{}', but there is no such node", what, name));
    return found->second;
  }

  std::vector<std::size_t> read_names(const char* what) {
    std::vector<std::size_t> nodes(r_.count(what, 2));
    for (auto& n : nodes) n = read_node_name(what);
    return nodes;
  }

  void read_inputs() {
    const std::size_t node = read_node_name("the name of a node with inputs");
    file_.nodes[node].node.inputs = read_names("an input");
  }

  // Every section may be missing. Two are only found in old files.
  void read_special_nodes() {
    const auto section = [&](const std::string& begin, const std::string& end, std::vector<std::size_t>& to) {
      if (!r_.take(begin)) return false;
      to = read_names("a special node");
      r_.expect(end);
      return true;
    };
    std::vector<std::size_t> unused;
    r_.expect("BRootNodes");
    section("BFeatureNodes", "EFeatureNodes", file_.features);
    section("BLabelNodes", "ELabelNodes", file_.labels);
    if (!section("BCriterionNodes", "ECriterionNodes", file_.criteria))
      section("BCriteriaNodes", "ECriteriaNodes", file_.criteria);
    section("BNodesReqMultiSeqHandling", "ENodesReqMultiSeqHandling", unused);
    section("BEvalNodes", "EEvalNodes", file_.evaluations);
    section("BOutputNodes", "EOutputNodes", file_.outputs);
    section("BPairNodes", "EPairNodes", unused);
    r_.expect("ERootNodes");
  }

  ByteReader r_;
  FileNodes file_;
};

}  // namespace

bool is_model(const std::string& path) { return begins_with(path, "BCN"); }

Model read_model(ByteReader r) {
  const std::string path = r.path();
  return to_model(ModelReader(std::move(r)).run(), path);
}

Model read_model(const std::string& path) { return read_model(ByteReader::open(path)); }

}  // namespace tutti::cntk
