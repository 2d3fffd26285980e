// SPDX-License-Identifier: Apache-2.0
// Options of the text reader. Sequences of this rank's share are parsed directly into the share.
#include "reader/text/text_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "reader/lines.h"
#include "reader/reader_row.h"

namespace tutti::reader {

TextSource::TextSource(TextReaderOptions options)
    : options_(std::move(options)), layout_(options_.layout()), file_(options_.file) {
  for (const auto& s : layout_.streams) infos_.push_back({s.name, s.dim, s.sparse});
}

const TextIndex& TextSource::text_index() {
  if (!index_) {
    index_ = scan_text(file_, options_);
    layout_.ids = index_->ids;
    if (options_.keep_in_memory || index_->parsed_bytes <= static_cast<std::uint64_t>(options_.keep_bytes))
      cache_.emplace(index_->offsets.size());
    // Read-ahead at random places would fill memory with unused pages.
    const bool scattered = options_.order.shuffle && options_.order.window == 0;
    if (scattered && !cache_) file_.expect(MappedFile::Access::random);
  }
  return *index_;
}

void TextSource::read(std::span<const std::uint32_t> sequences, Share& share) {
  constexpr std::size_t neighbourhood = 64 << 10;  // what the system maps around a page that is touched
  const std::string_view text = file_.bytes();
  const char* const end = text.data() + index_->end;
  RowParser<true> parser(layout_, text.data(), text.data() + text.size(), nullptr, &share);
  for (const std::uint32_t sequence : sequences) {
    if (cache_ && cache_->copy(sequence, share)) continue;
    const char* const at = text.data() + index_->offsets[sequence];
    const char* const behind = read_sequence(parser, layout_, at, end, share, scratch_);
    sparse_rows_ += std::max(static_cast<std::size_t>(behind - at), neighbourhood);
    if (cache_) cache_->keep(sequence, share);
  }
  // Pages of the file that were read would otherwise stay mapped, look like memory of this process, and count against
  // limits.
  constexpr std::size_t range = 256 << 20;
  if (sparse_rows_ >= range) {
    file_.release(text.data(), text.data() + text.size());
    sparse_rows_ = 0;
  }
}

std::string TextSource::key(std::uint32_t sequence) {
  const auto& f = index_->frames;
  if (!f.empty()) return key_of_frame(std::to_string(f[sequence].id), f[sequence].number);
  if (!index_->ids) return std::to_string(index_->numbers.empty() ? sequence : index_->numbers[sequence]);
  std::uint64_t id = 0;
  sequence_id(file_.bytes().data() + index_->offsets[sequence], id);
  return std::to_string(id);
}

std::string TextSource::key_behind(std::uint32_t sequence) {
  const auto& f = index_->frames;
  if (f.empty() || f[sequence].behind == 0) return {};
  return key_of_frame(std::to_string(f[sequence].id), f[sequence].behind);
}

std::string TextSource::place(std::uint32_t sequence) {
  return fmt::format("{}:{}", file_.path(), line_number(file_.bytes(), index_->offsets[sequence]));
}

void TextStreamOptions::describe(config::Fields& f) {
  f("dim", dim, "numbers per sample");
  f.required("dim");
  f.choice("format", sparse, {{"dense", false}, {"sparse", true}}, "how the values are written");
  f.required("format");
  f("alias", alias, "the stream's name in the file; \"\" = the name of this block");
  f.no_effect("definesMBSize", "a sequence counts as many samples as its longest stream has");
  if (f.given("dim") && (dim < 1 || dim > 2'147'483'647))
    f.problem("dim", "dim is the number of values per sample", "1 or more");
}

void TextReaderOptions::describe(config::Fields& f) {
  f("file", file, "the data file");
  f.required("file");
  f.blocks("input", input, "one block per stream, under the name of the network's input");
  f.required("input");
  order.describe(f, "number of samples to shuffle sequences among; 0 = the whole data set");
  f("skipSequenceIds", skip_sequence_ids, "treat every line as a sequence and ignore its id");
  f("frameMode", frame_mode, "treat every sample as a sequence, as skipSequenceIds does");
  describe_faults(f, "number of errors to tolerate; faulty sequences are skipped");
  describe_chunks(f, "the file is first shuffled in chunks of this size");
  f("keepDataInMemory", keep_in_memory, "keep parsed data in memory, whatever their size");
  describe_keep(f, "keep parsed data in memory for later sweeps, up to this size per rank");
  f("precision", precision, "accepted; data are float32 either way");
  truncation.describe(f);
  f.no_effect("prefetch", "the next minibatches are always prepared in the background");
  f.no_effect("verbosity", "traceLevel decides what is shown");
  f.no_effect("miniBatchMode", "minibatches end with the sweep, which is partial");
  f.no_effect("cacheIndex", "the index is rebuilt in every run");
  f.no_effect("multiThreadedDeserialization", "one thread reads ahead");
  if (deserializer) f.no_effect("module", "all deserializers are built in");

  if (f.given("input") && input.empty())
    f.problem("input", "no stream is described", "input = [ features = [ dim = 784 ; format = \"dense\" ] ]");
  std::set<std::string> aliases;
  for (const TextStream& stream : layout().streams) {
    const std::string& alias = stream.alias;
    if (!aliases.insert(alias).second)
      f.problem("input", fmt::format("two streams have the name '{}' in the file", alias),
                "give each stream an alias of its own");
    if (alias.starts_with('#') ||
        std::any_of(alias.begin(), alias.end(), [](unsigned char c) { return c <= ' ' || c == '|'; }))
      f.problem("input", fmt::format("'{}' cannot be a stream's name in a text file", alias),
                "names have no blanks and no '|', and do not start with '#'");
  }
}

TextLayout TextReaderOptions::layout() const {
  TextLayout l;
  for (const auto& [name, s] : input)
    l.streams.push_back({name, s.alias.empty() ? name : s.alias, static_cast<std::size_t>(s.dim), s.sparse});
  return l;
}

Made read_text(const config::Record& block, const std::string& title, const ReaderContext& context) {
  const auto o = new_options<TextReaderOptions>(context);
  o->deserializer = title != "CNTKTextFormatReader";
  read_block(*o, block, title, context, {o->deserializer ? "type" : "readerType"});
  // As speech data, with which it may be joined: whole utterances are written.
  if (o->deserializer && context.action == "write") o->frame_mode = false;
  check_file(block, "file", o->file, context);
  if (!o->deserializer) return made<TextSource>(o, o->order.randomization(), o->truncation.truncation(trains(context)));
  // Inherited they only tell how the file will be read.
  for (const char* key : {"randomize", "randomizationSeed", "randomizationWindow", "truncated", "truncationLength"})
    if (block.has_own(key))
      context.notices->lines.push_back(
          fmt::format("'{}' in {} has no effect here because it belongs into the reader's block", key, title));
  return made<TextSource>(o);
}

void describe_text_deserializer(config::Fields& f) {
  TextReaderOptions o;
  o.deserializer = true;
  o.describe(f);
}

}  // namespace tutti::reader
