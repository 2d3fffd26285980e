// SPDX-License-Identifier: Apache-2.0
// Options of the HDF5 reader, and the files that they name.

#include <filesystem>

#include "reader/hdf5/hdf5_source.h"
#include "reader/lines.h"
#include "reader/mapped_file.h"
#include "reader/reader_row.h"

namespace tutti::reader {

void Hdf5Stream::describe(config::Fields& f) {
  f.inherit_nothing("labelDim");  // makes this a stream of classes; further out it is meant for another
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
  order.describe(f, "number of samples to shuffle rows among; 0 = the whole data set");
  truncation.describe(f);
  f("lengths", lengths,
    "dataset with the number of steps of each row that are data, of sequences filled up to one length");
  describe_faults(f, "number of faulty files and rows to tolerate; they are skipped");
  describe_chunks(f, "files are shuffled in chunks of this size first; a file is at least one");
  describe_keep(f, "keep data in memory for later sweeps, up to this size per rank");
  f.no_effect("prefetch", "the next minibatches are always prepared in the background");
  const int given = int{f.given("file")} + int{f.given("files")} + int{f.given("fileList")};
  if (given != 1)
    f.problem(given == 0         ? "file"
              : f.given("files") ? "files"
                                 : "fileList",
              "give exactly one of file, files and fileList", "file = \"train.h5\"");
  if (f.given("input") && input.empty())
    f.problem("input", "no stream is described", "input = [ features = [ dataset = \"Images\" ] ]");
}

namespace {

// A comment begins with # at the start of a line or after a blank; elsewhere # belongs to the path.
std::string_view without_comment(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i)
    if (line[i] == '#' && (i == 0 || is_blank(line[i - 1]))) return line.substr(0, i);
  return line;
}

std::vector<Hdf5Path> all_files(const Hdf5ReaderOptions& o, const config::Record& block) {
  std::vector<Hdf5Path> files;
  if (!o.file.empty()) files.push_back({o.file, block.value("file").where});
  for (const std::string& path : o.files) files.push_back({path, block.value("files").where});
  if (o.list.empty()) return files;
  const std::string folder = std::filesystem::path(o.list).parent_path().string();
  each_line(o.list, [&](std::size_t number, const std::string& line) {
    const std::string_view named = trimmed(without_comment(line));
    if (named.empty()) return;
    const SourcePos where = line_place(o.list, number, line, named);
    std::string path(named);
    if (path.starts_with(".../")) path = folder.empty() ? path.substr(4) : folder + path.substr(3);
    files.push_back({std::move(path), where});
  });
  return files;
}

}  // namespace

Made read_hdf5(const config::Record& block, const std::string& title, const ReaderContext& context) {
  const auto o = new_options<Hdf5ReaderOptions>(context);
  const std::size_t before = context.problems->count();
  read_block(*o, block, title, context);
  if (!o->list.empty()) check_file(block, "fileList", o->list, context);
  const bool sound = context.problems->count() == before;
  if (sound) o->paths = all_files(*o, block);
  if (sound && o->paths.empty())
    context.problems->add(Diagnostic{block.value(o->list.empty() ? "files" : "fileList").where, "no HDF5 file is named",
                                     "one path per line"});
  // Files that may be missing are counted when the data are looked at.
  for (const Hdf5Path& f : o->paths)
    if (const std::string why = unreadable(f.path); !why.empty() && o->max_errors == 0)
      context.problems->add(unreadable_data(f.where, f.path, why));
  return made<Hdf5Source>(o, o->order.randomization(), o->truncation.truncation(trains(context)));
}

}  // namespace tutti::reader
