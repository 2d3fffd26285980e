// SPDX-License-Identifier: Apache-2.0
// Options of the HDF5 reader, and the files that they name.
#include "reader/hdf5/hdf5_options.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "reader/fault_budget.h"
#include "reader/mapped_file.h"

namespace tutti::reader {

void Hdf5StreamOptions::describe(config::Fields& f) {
  f("dataset", dataset, "the dataset that holds the stream, such as \"Images\" or \"group/labels\"");
  f.required("dataset");
  f("dim", dim, "numbers per sample; 0 = by the dataset: a row of two axes, the last of three, all of four and more");
  f("labelDim", classes,
    "number of classes: the dataset holds class numbers and the stream is one-hot; 0 = plain numbers");
  f.choice("format", sparse, {{"dense", false}, {"sparse", true}}, "format of one-hot vectors");
  f("scale", scale, "factor on plain numbers");
  if (dim < 0 || dim > 2'147'483'647)
    f.problem("dim", "dim is the number of values per sample", "leave it out to take it from the dataset");
  if (classes < 0 || classes > 2'147'483'647)
    f.problem("labelDim", "labelDim is the number of classes", "10 for digits");
  if (dim > 0 && classes > 0)
    f.problem("labelDim", "a stream has either dim or labelDim",
              "labelDim for class numbers, dim for numbers as they are");
  if (sparse && classes == 0)
    f.problem("format", "only a stream of classes can be sparse", "set labelDim, or leave format out");
}

void Hdf5ReaderOptions::describe(config::Fields& f) {
  f("file", file, "one HDF5 file");
  f("files", files, "or several of one form, as a:b:c");
  f("fileList", list, "or a text file with one path per line; ... at the start of a path is the directory of the list");
  f.blocks("input", input, "one block per stream, under the name of the network's input");
  f.required("input");
  order.describe(f);
  f("randomizationWindow", window, "number of samples to shuffle rows among; 0 = the whole data set");
  truncation.describe(f);
  f("lengths", lengths,
    "dataset with the number of steps of each row that are data, of sequences filled up to one length");
  f("maxErrors", max_errors, "number of faulty files and rows to tolerate; they are skipped");
  f("traceLevel", trace_level, "0 = errors only, 1 = also warnings");
  f("chunkSizeInBytes", chunk_bytes, "files are shuffled in chunks of this size first; a file is at least one");
  f("keepLimitInBytes", keep_bytes, "keep data in memory for later sweeps, up to this size per rank");
  f.no_effect("prefetch", "the next minibatches are always prepared in the background");
  const int given = int{f.given("file")} + int{f.given("files")} + int{f.given("fileList")};
  if (given != 1)
    f.problem(given == 0         ? "file"
              : f.given("files") ? "files"
                                 : "fileList",
              "give exactly one of file, files and fileList", "file = \"train.h5\"");
  if (f.given("input") && input.empty())
    f.problem("input", "no stream is described", "input = [ features = [ dataset = \"Images\" ] ]");
  if (window < 0)
    f.problem("randomizationWindow", "randomizationWindow is a number of samples", "0 means the whole data set");
  if (max_errors < 0) f.problem("maxErrors", "maxErrors is a count", "0 tolerates no error");
  if (chunk_bytes < 1) f.problem("chunkSizeInBytes", "chunkSizeInBytes must be at least 1", "the default is 33554432");
  if (keep_bytes < 0) f.problem("keepLimitInBytes", "keepLimitInBytes must not be negative", "0 keeps nothing");
}

namespace {

std::vector<Hdf5Path> listed_files(const std::string& list) {
  std::vector<Hdf5Path> files;
  std::ifstream in(list);
  const std::string folder = std::filesystem::path(list).parent_path().string();
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    const std::size_t begin = line.find_first_not_of(" \t\r"), end = line.find_last_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    std::string path = line.substr(begin, end - begin + 1);
    const SourcePos where = line_place(list, number, line, begin, path.size());
    if (path.starts_with(".../")) path = folder.empty() ? path.substr(4) : folder + path.substr(3);
    files.push_back({std::move(path), where});
  }
  return files;
}

std::vector<Hdf5Path> all_files(const Hdf5ReaderOptions& o, const config::Record& block) {
  std::vector<Hdf5Path> files;
  if (!o.file.empty()) files.push_back({o.file, block.value("file").where});
  for (const std::string& path : o.files) files.push_back({path, block.value("files").where});
  if (!o.list.empty())
    for (Hdf5Path& path : listed_files(o.list)) files.push_back(std::move(path));
  return files;
}

}  // namespace

Made read_hdf5(const config::Record& block, const ReaderContext& context) {
  auto o = std::make_shared<Hdf5ReaderOptions>();
  o->order.shuffle = trains(context);
  o->trace_level = context.trace_level;
  const std::size_t before = context.problems->count();
  config::read_fields(block, "HDF5Reader", [&](config::Fields& f) { o->describe(f); }, *context.problems,
                      *context.notices, {"readerType"});
  if (!o->list.empty()) check_file(block, "fileList", o->list, context);
  const bool sound = context.problems->count() == before;
  std::vector<Hdf5Path> files;
  if (sound) files = all_files(*o, block);
  if (sound && files.empty())
    context.problems->add(Diagnostic{block.value(o->list.empty() ? "files" : "fileList").where, "no HDF5 file is named",
                                     "one path per line"});
  // Files that may be missing are counted when the data are looked at.
  for (const Hdf5Path& f : files)
    if (const std::string why = unreadable(f.path); !why.empty() && o->max_errors == 0)
      context.problems->add(Diagnostic{f.where, fmt::format("the data file '{}' cannot be read: {}", f.path, why),
                                       "relative paths start at the directory in which the trainer was started"});
  return {[o](config::Fields& f) { o->describe(f); },
          [o, files] {
            Hdf5SourceOptions s;
            s.files = files;
            for (const auto& [name, i] : o->input)
              s.streams.push_back({name, i.dataset, i.dim, i.classes, i.sparse, i.scale});
            s.lengths = o->lengths;
            s.chunk_bytes = o->chunk_bytes;
            s.max_errors = o->max_errors;
            s.trace_level = o->trace_level;
            s.keep_bytes = static_cast<std::uint64_t>(o->keep_bytes);
            return std::make_unique<Hdf5Source>(std::move(s));
          },
          o->order.randomization(o->window), o->truncation.truncation(trains(context))};
}

}  // namespace tutti::reader
