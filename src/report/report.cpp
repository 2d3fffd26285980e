// SPDX-License-Identifier: Apache-2.0
#include "report/report.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>

#include "report/page.h"
#include "tutti/error.h"

namespace tutti::report {
namespace {

constexpr const char* kUsage = R"(usage: trainer report DIR... [--output FILE] [--title TEXT]

Writes a page about one or several trainings: curves, throughput, waiting and bytes of every rank, settings side by side.
  DIR              folder of a run, or a file of it: metrics (jsonl), or a log where there are none
  --output FILE    the page; report.html by default
  --title TEXT     its heading
)";

struct Options {
  std::vector<std::string> folders;
  std::string output = "report.html", title = "Training report";
  bool help = false;
};

Options parse(int argc, const char* const* argv) {
  Options o;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i], name = word.substr(0, word.find('='));
    std::string* const value = name == "--output" || name == "-o" ? &o.output : name == "--title" ? &o.title : nullptr;
    if (word == "--help" || word == "-h") {
      o.help = true;
    } else if (value) {
      if (name.size() < word.size())
        *value = word.substr(name.size() + 1);
      else if (++i < argc)
        *value = argv[i];
      else
        throw Error(fmt::format("report: {} needs a value\nfix: {} {}", word, word, *value));
    } else if (word.starts_with("-")) {
      throw Error(fmt::format("report: there is no '{}'\nfix: {}", word,
                              did_you_mean(name, {"--output", "--title", "--help"}, "trainer report --help")));
    } else {
      o.folders.push_back(word);
    }
  }
  if (o.folders.empty() && !o.help) throw Error("report: no run is named\nfix: trainer report DIR");
  return o;
}

// The page must not replace what it shows.
void refuse_source(const std::string& output, const std::vector<RunData>& runs) {
  std::error_code ignored;
  for (const RunData& r : runs)
    for (const std::string& source : {r.source, r.predicted_by})
      if (std::filesystem::equivalent(output, source, ignored))
        throw Error(
            fmt::format("report: the page would replace '{}', which it is made of\nfix: --output report.html", source));
}

void write(const std::string& path, const std::string& page) {
  std::ofstream out(path);
  out << page;
  out.close();
  if (!out)
    throw Error(fmt::format("report: '{}' cannot be written: {}\nfix: --output with a file in a folder that exists",
                            path, std::strerror(errno)));
}

}  // namespace

int run(int argc, const char* const* argv) {
  try {
    const Options o = parse(argc, argv);
    if (o.help) {
      std::fputs(kUsage, stdout);
      return 0;
    }
    const auto runs = read_runs(o.folders);
    for (const RunData& r : runs)
      for (const auto& note : r.notes) std::fprintf(stderr, "Note: %s\n", note.c_str());
    refuse_source(o.output, runs);
    write(o.output, to_html(runs, o.title));
    std::printf("%s: %zu run%s\n", o.output.c_str(), runs.size(), runs.size() == 1 ? "" : "s");
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}

}  // namespace tutti::report
