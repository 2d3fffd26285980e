// SPDX-License-Identifier: Apache-2.0
#include "actions/kernel_choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <sstream>
#include <vector>

#include "actions/cpu.h"
#include "base/cache_folder.h"
#include "base/clock.h"
#include "comm/agreement.h"
#include "train/checkpoint.h"
#include "train/container.h"

namespace tutti::actions {
namespace {

constexpr const char* kCacheFile = "products.txt";

// The large products of a step: dense layers alone, as the others have no fixed number of rows or reuse an operand that
// is kept packed.
std::vector<RepeatedProduct> products_of(const Training& t, std::size_t share) {
  std::vector<RepeatedProduct> all;
  const auto add = [&all](const Gemm& g, std::size_t times = 1) {
    if (is_large(g)) all.push_back({g, times});
  };
  const Parameters& p = t.network->parameters();
  NetworkOptions options;
  options.criterion = t.network->criterion().name;
  for (const DenseLayer& l : Network::dense_layers(t.network->graph(), options)) {
    const auto slice = std::ranges::find(p.slices, l.weight, &Slice::name);
    if (l.sparse || slice == p.slices.end() || slice->size() == 0) continue;
    const std::size_t out = slice->shape[0], in = slice->size() / out;
    const std::size_t rows = slice->shard ? share * static_cast<std::size_t>(t.layer_ranks->size()) : share;
    add({.m = rows, .n = out, .k = in, .lda = in, .ldb = out, .ldc = out});
    if (l.passes_gradient) add({.transpose_b = true, .m = rows, .n = in, .k = out, .lda = out, .ldb = out, .ldc = in});
    const auto number = static_cast<std::size_t>(slice - p.slices.begin());
    const auto chunk = std::ranges::find(p.chunks, number, &GradientChunk::slice);
    if (chunk == p.chunks.end()) continue;
    add({.transpose_a = true,
         .m = chunk->columns * slice->rows / out,
         .n = out,
         .k = rows,
         .lda = in,
         .ldb = out,
         .ldc = out},
        static_cast<std::size_t>(std::ranges::count(p.chunks, number, &GradientChunk::slice)));
  }
  return all;
}

// Lines "<kind> <library> <what product_libraries() says>". The first one for a kind counts, so that processes that
// have timed at the same moment read the same choices.
KernelChoices choices_in(const std::string& lines, const std::function<bool(const std::string&)>& is_for) {
  KernelChoices choices;
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string kind, library, made_for;
    words >> kind >> library >> std::ws;
    std::getline(words, made_for);
    const auto parsed = ProductKind::parse(kind);
    const auto found = std::ranges::find(all_product_libraries, library, [](ProductLibrary l) { return name_of(l); });
    if (parsed && found != std::end(all_product_libraries) && is_for(made_for)) choices.emplace(*parsed, *found);
  }
  return choices;
}

std::string lines_of(const KernelChoices& choices, const std::string& made_for) {
  std::string lines;
  for (const auto& [kind, library] : choices)
    lines += fmt::format("{} {} {}\n", kind.text(), name_of(library), made_for);
  return lines;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Of one rank: what it knows, and what it has still to time.
class RankChoices {
 public:
  RankChoices(std::vector<RepeatedProduct> products, std::string made_for)
      : products_(std::move(products)), made_for_(std::move(made_for)) {}

  const std::string& made_for() const { return made_for_; }
  std::size_t hash() const {
    std::string text = made_for_;
    for (const RepeatedProduct& p : products_) text += ' ' + ProductKind::of(p.product).text();
    return std::hash<std::string>()(text);
  }
  const KernelChoices& choices() const { return choices_; }
  KernelChoices own(const std::string& lines) const {
    return choices_in(lines, [&](const std::string& other) { return other == made_for_; });
  }

  // Of those found, the ones that this network needs and that are not known yet. Returns how many.
  std::size_t take(const KernelChoices& found) {
    std::size_t taken = 0;
    for (const RepeatedProduct& p : products_)
      if (const auto at = found.find(ProductKind::of(p.product)); at != found.end())
        taken += choices_.insert(*at).second;
    return taken;
  }
  std::vector<RepeatedProduct> unknown() const {
    std::vector<RepeatedProduct> rest;
    std::ranges::copy_if(products_, std::back_inserter(rest),
                         [&](const RepeatedProduct& p) { return !choices_.contains(ProductKind::of(p.product)); });
    return rest;
  }
  // Takes from the cache, times the rest and keeps it there. What another process has kept meanwhile counts. Without a
  // cache choices hold for this process. Does not throw.
  void complete() {
    static std::mutex one_at_a_time;  // ranks may be threads
    static std::string timed_here;    // lines
    const std::lock_guard lock(one_at_a_time);
    const auto folder = cache_folder();
    const auto kept = [&] { return folder ? text_of(*folder / kCacheFile) : timed_here; };
    if (unknown().empty()) return;
    if (take(own(kept())) > 0) source_ = "as timed before";
    const auto rest = unknown();
    if (rest.empty()) return;
    const auto start = Clock::now();
    try {
      const KernelChoices timed = time_products(rest);
      source_ = fmt::format("timed in {:.2f} s", seconds_since(start));
      const std::string lines = lines_of(timed, made_for_);
      if (folder)
        append_to_cache(*folder / kCacheFile, lines);
      else
        timed_here += lines;
      take(own(kept()));
      take(timed);  // what could not be written
    } catch (const std::exception& e) {
      source_ = fmt::format("the others cannot be timed: {}", e.what());
    }
  }
  const std::string& source() const { return source_; }

 private:
  const std::vector<RepeatedProduct> products_;
  const std::string made_for_;
  KernelChoices choices_;
  std::string source_;  // of what complete() has found
};

// The lines of a checkpoint or of a text file. Collective; only rank 0 reads.
std::string lines_of_file(const std::string& path, Communicator& world) {
  std::string lines;
  on_rank_0(world, [&] {
    if (container_kind(path).empty())
      lines = text_of(path);
    else {
      const ContainerReader reader(path, "checkpoint");
      LoadingArchive a(reader, "state/");
      archive_kernels(a, lines);
    }
    if (choices_in(lines, [](const std::string&) { return true; }).empty())
      throw Error(fmt::format("'{}' holds no choices of kernels", path));
  });
  broadcast_text(world, lines);
  return lines;
}

std::string lines_of_checkpoint(const Training& t) {
  std::string lines;
  if (t.make_mode && !t.model_path.empty())
    peek_state(t.model_path, t.sgd.max_epochs, *t.world, [&](Archive& a) { archive_kernels(a, lines); });
  broadcast_text(*t.world, lines);
  return lines;
}

std::string summary(const KernelChoices& choices, const std::string& source) {
  std::vector<std::string> others;
  for (const auto& [kind, library] : choices)
    if (library != ProductLibrary::by_shape) others.push_back(fmt::format("{} by {}", kind.text(), name_of(library)));
  const std::string usual =
      fmt::format("{} of {} kinds by the usual library", choices.size() - others.size(), choices.size());
  return fmt::format("{}{}{}", usual, others.empty() ? "" : fmt::format("; {}", fmt::join(others, ", ")),
                     source.empty() ? "" : "; " + source);
}

// The first rank of those with the same processor and the same products completes its choices, and tells the others.
// Returns the choices of all as lines. Collective.
std::string complete_everywhere(RankChoices& mine, Communicator& world) {
  const auto names = from_all(world, mine.hash());
  std::string lines;
  for (int r = 0; r < world.size(); ++r) {
    if (std::find(names.begin(), names.begin() + r, names[static_cast<std::size_t>(r)]) != names.begin() + r) continue;
    std::string of_rank;
    if (r == world.rank()) {
      mine.complete();
      of_rank = lines_of(mine.choices(), mine.made_for());
    }
    broadcast_text(world, of_rank, r);
    mine.take(mine.own(of_rank));
    lines += of_rank;
  }
  return lines;
}

// Takes what a file says. Returns where from, for the log. Collective.
std::string take_from_file(const ActionContext& context, const std::string& wanted, const Training& t,
                           RankChoices& mine) {
  const std::string lines = lines_of_file(wanted, *t.world);
  KernelChoices found = mine.own(lines);
  if (found.empty()) {
    found = choices_in(lines, [](const std::string&) { return true; });
    context.notice(fmt::format("kernelChoices: '{}' was made for other processors or libraries than these: {}", wanted,
                               mine.made_for()));
  }
  std::erase_if(found, [](const auto& choice) { return !has_library(choice.second); });
  return mine.take(found) > 0 ? fmt::format("as in '{}'", wanted) : "";
}

}  // namespace

void choose_kernels(const ActionContext& context, std::string wanted, ComputeType type, std::int64_t share,
                    Training& t) {
  broadcast_text(*t.world, wanted);
  if (wanted == kTimedKernels && context.command.boolean("forceDeterministicAlgorithms", false))
    wanted = kKernelsByShape;
  const bool named = wanted != kTimedKernels && wanted != kKernelsByShape;
  const bool here = context.device == "cpu" && type == ComputeType::float32;
  if (!here && named) context.notice("kernelChoices has no effect: it is for products in float32 on the CPU");
  if (!all_agree(*t.world, here && wanted != kKernelsByShape)) return;
  const ThreadLimit limit(t.threads);
  auto products = products_of(t, static_cast<std::size_t>(share));
  if (all_agree(*t.world, products.empty())) {
    if (named) context.notice("kernelChoices has no effect: the network has no large products");
    return;
  }
  RankChoices mine(std::move(products), product_libraries(t.threads));
  std::vector<std::string> sources;
  try {
    if (named) sources.push_back(take_from_file(context, wanted, t, mine));
  } catch (const Error& e) {  // the same on all ranks
    return context.problem("kernelChoices", e.what(), "name a checkpoint or a text file of choices, or auto");
  }
  if (mine.take(mine.own(lines_of_checkpoint(t))) > 0) sources.emplace_back("as in the checkpoint");
  t.kernels.lines = complete_everywhere(mine, *t.world);
  *t.kernels.used = mine.choices();
  sources.push_back(mine.source());
  std::erase(sources, "");
  // A check of the same config says the same again.
  t.kernels.summary = summary(mine.choices(), context.only_check ? "" : fmt::format("{}", fmt::join(sources, ", ")));
}

}  // namespace tutti::actions
