// SPDX-License-Identifier: Apache-2.0
#include "report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/memory.h"
#include "report/chart.h"
#include "report/style.h"

namespace tutti::report {
namespace {

constexpr int kColors = 8;  // of the style sheet

int color_of(std::size_t i) { return static_cast<int>(i % kColors); }

// Chart and legend in a box of their own; "" for a chart without points.
std::string card(Chart chart) {
  for (Line& line : chart.lines) std::erase_if(line.points, [](const auto& p) { return !std::isfinite(p.second); });
  const std::string svg = to_svg(chart);
  if (svg.empty()) return {};
  std::string legend;
  for (const Line& line : chart.lines)
    if (!line.points.empty() && line.style != Line::Style::faint)
      legend += fmt::format("<span class='key'><i class='swatch c{}{}'></i>{}</span> ", line.color,
                            line.style == Line::Style::dashed ? " dashed" : "", html_text(line.name));
  return fmt::format("<figure><figcaption>{}{}</figcaption>{}<div class='legend'>{}</div></figure>\n",
                     html_text(chart.title), chart.unit.empty() ? "" : " <small>" + html_text(chart.unit) + "</small>",
                     svg, legend);
}

// Every result that a run has, the criterion first.
std::vector<std::string> result_names(const std::vector<RunData>& runs) {
  std::vector<std::string> names;
  for (const RunData& run : runs)
    for (const Result& r : run.results)
      if (std::find(names.begin(), names.end(), r.name) == names.end()) names.push_back(r.name);
  return names;
}

std::string result_cards(const std::vector<RunData>& runs) {
  std::string cards;
  const bool single = runs.size() == 1;
  for (const auto& name : result_names(runs)) {
    Chart chart{name, "", {}};
    for (std::size_t r = 0; r < runs.size(); ++r)
      for (const Result& result : runs[r].results) {
        if (result.name != name) continue;
        if (result.percent) chart.unit = "%";
        const std::string lead = single ? "" : runs[r].name + ", ";
        chart.lines.push_back({lead + "minibatches", color_of(r), Line::Style::faint, false, result.steps});
        chart.lines.push_back({lead + "training", color_of(r), Line::Style::plain, true, result.epochs});
        chart.lines.push_back(
            {lead + "validation", color_of(single ? 1 : r), Line::Style::dashed, true, result.validation});
      }
    cards += card(chart);
  }
  return cards;
}

// A line per run, of all ranks together.
std::string run_card(const std::vector<RunData>& runs, const std::string& title, const std::string& unit,
                     bool from_zero, const std::function<Points(const RunData&)>& points) {
  Chart chart{title, unit, {}, from_zero};
  for (std::size_t r = 0; r < runs.size(); ++r)
    chart.lines.push_back({runs[r].name, color_of(r), Line::Style::plain, true, points(runs[r])});
  return card(chart);
}

Points scaled(Points points, double by) {
  for (auto& [x, y] : points) y *= by;
  return points;
}

// A line per rank: in the colour of its run, every second one dashed, or in one of its own where there is a single run.
std::string rank_card(const std::vector<RunData>& runs, const std::string& title, Points RankData::*points) {
  Chart chart{title, "% of the time", {}, true};
  const bool single = runs.size() == 1;
  for (std::size_t r = 0; r < runs.size(); ++r)
    for (std::size_t rank = 0; rank < runs[r].ranks.size(); ++rank)
      chart.lines.push_back({single ? fmt::format("rank {}", rank) : fmt::format("{}, rank {}", runs[r].name, rank),
                             color_of(single ? rank : r),
                             single || rank % 2 == 0 ? Line::Style::plain : Line::Style::dashed, true,
                             scaled(runs[r].ranks[rank].*points, 100)});
  return card(chart);
}

// Empty if not all are known.
Points summed_bytes(const RunData& run) {
  Points sum;
  if (run.lacks_logs()) return sum;
  for (const RankData& rank : run.ranks)
    for (const auto& [x, bytes] : rank.bytes_sent) {
      const double at = x;
      const auto found = std::find_if(sum.begin(), sum.end(), [&](const auto& p) { return p.first == at; });
      found == sum.end() ? void(sum.emplace_back(x, bytes / 1e6)) : void(found->second += bytes / 1e6);
    }
  return sum;
}

double sum_of(const Points& points) {
  double sum = 0;
  for (const auto& [x, y] : points) sum += y;
  return sum;
}

// Of the epochs whose samples are known; 0 = none.
double speed_of(const RunData& run) {
  double samples = 0, seconds = 0;
  for (std::size_t e = 0; e < run.seconds.size(); ++e)
    if (std::isfinite(run.samples[e].second)) samples += run.samples[e].second, seconds += run.seconds[e].second;
  return seconds > 0 ? samples / seconds : 0;
}

// Of a rank's time in all epochs.
double share_of_time(const RankData& rank, const Points& shares) {
  double sum = 0;
  auto seconds = rank.seconds.begin();  // has every epoch of `shares`
  for (const auto& [x, share] : shares) {
    while (seconds->first != x) ++seconds;
    sum += share * seconds->second;
  }
  return shares.empty() ? 0 : sum / sum_of(rank.seconds);
}

double mean_over_ranks(const RunData& run, Points RankData::*shares) {
  double sum = 0;
  for (const RankData& r : run.ranks) sum += share_of_time(r, r.*shares);
  return run.ranks.empty() ? 0 : sum / static_cast<double>(run.ranks.size());
}

std::string value_text(const Result& r, double value) {
  if (std::isnan(value)) return "not finite";  // metrics do not tell inf from NaN
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return r.percent ? fmt::format("{:.3f}%", value) : fmt::format("{:.5g}", value);
}

// "0.123 (best 0.120 in epoch 7)"
std::string last_and_best(const Result& r, const Points& points) {
  if (points.empty()) return "–";
  const auto is_better = [&](double a, double b) {
    return std::isfinite(a) && (!std::isfinite(b) || (r.rises ? a > b : a < b));
  };
  const auto* best = &points.back();
  for (const auto& p : points)
    if (is_better(p.second, best->second)) best = &p;
  std::string text = value_text(r, points.back().second);
  if (best != &points.back())
    text += fmt::format(" <small>best {} in epoch {:.0f}</small>", value_text(r, best->second), best->first);
  return text;
}

const Result* result_of(const RunData& run, const std::string& name) {
  const auto r = std::find_if(run.results.begin(), run.results.end(), [&](const Result& x) { return x.name == name; });
  return r == run.results.end() ? nullptr : &*r;
}

bool is_validated(const RunData& run, const std::string& name) {
  const Result* r = result_of(run, name);
  return r && !r->validation.empty();
}

std::string summary(const std::vector<RunData>& runs) {
  std::string head = "<th>run</th><th>epochs</th>";
  const auto names = result_names(runs);
  std::vector<bool> validated;
  for (const auto& name : names) {
    validated.push_back(
        std::any_of(runs.begin(), runs.end(), [&](const RunData& run) { return is_validated(run, name); }));
    head += fmt::format("<th>{}</th>{}", html_text(name), validated.back() ? "<th>validation</th>" : "");
  }
  head += "<th>time</th><th>samples/s</th><th>ranks</th><th>computing</th><th>waiting for ranks</th><th>sent</th>";
  std::string rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunData& run = runs[i];
    rows +=
        fmt::format("<tr><td><i class='swatch c{}'></i> {}{}</td><td>{} of {}</td>", color_of(i), html_text(run.name),
                    run.finished ? "" : " <small>not finished</small>", run.seconds.size(), run.epochs);
    for (std::size_t n = 0; n < names.size(); ++n) {
      const Result* r = result_of(run, names[n]);
      rows += fmt::format("<td>{}</td>", r ? last_and_best(*r, r->epochs) : "–");
      if (validated[n]) rows += fmt::format("<td>{}</td>", r ? last_and_best(*r, r->validation) : "–");
    }
    const double speed = speed_of(run);
    rows += fmt::format("<td>{:.1f} s</td><td>{}</td><td>{}</td><td>{:.1f}%</td><td>{:.1f}%</td><td>{}</td></tr>\n",
                        sum_of(run.seconds), speed > 0 ? short_number(speed) : "–",
                        std::max({run.ranks.size(), run.all_ranks, std::size_t{1}}),
                        100 * mean_over_ranks(run, &RankData::compute), 100 * mean_over_ranks(run, &RankData::wait),
                        run.lacks_logs() ? "–" : bytes_text(1e6 * sum_of(summed_bytes(run))));
  }
  return fmt::format("<div class='wide'><table><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></div>\n", head,
                     rows);
}

// Samples per second of the epochs that were trained, and what a plan or auto had measured before.
std::string predictions(const std::vector<RunData>& runs) {
  std::string rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunData& run = runs[i];
    const double achieved = speed_of(run);
    if (run.predicted <= 0 || achieved <= 0) continue;
    rows += fmt::format(
        "<tr><td><i class='swatch c{}'></i> {}</td><td>{:.0f}</td><td>{:.0f}</td><td>{:.2f}</td><td>{}</td></tr>\n",
        color_of(i), html_text(run.name), run.predicted, achieved, achieved / run.predicted,
        html_text(run.predicted_by));
  }
  if (rows.empty()) return {};
  return "<h2>Predicted and achieved</h2>\n<div class='wide'><table><thead><tr><th>run</th><th>predicted "
         "samples/s</th><th>achieved samples/s</th><th>achieved / predicted</th><th>predicted "
         "by</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div>\n";
}

// What each rank did with its time, over all epochs.
std::string rank_table(const std::vector<RunData>& runs) {
  std::string rows;
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (std::size_t rank = 0; rank < runs[i].ranks.size(); ++rank) {
      const RankData& d = runs[i].ranks[rank];
      rows += fmt::format("<tr><td><i class='swatch c{}'></i> {}</td><td>{}</td>", color_of(i), html_text(runs[i].name),
                          rank);
      for (const Points* share : {&d.compute, &d.wait, &d.convert, &d.read})
        rows += fmt::format("<td>{:.1f}%</td>", 100 * share_of_time(d, *share));
      rows += fmt::format("<td>{}</td></tr>\n", bytes_text(sum_of(d.bytes_sent)));
    }
  if (rows.empty()) return {};
  return "<h2>Ranks</h2>\n<div class='wide'><table><thead><tr><th>run</th><th>rank</th><th>computing</th><th>waiting "
         "for "
         "ranks</th><th>encode, decode</th><th>waiting for data</th><th>sent</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div>\n";
}

// Settings side by side. What differs between runs is marked.
std::string settings(const std::vector<RunData>& runs) {
  std::vector<std::string> keys;
  for (const RunData& run : runs)
    for (const auto& [key, value] : run.settings)
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  if (keys.empty()) return {};
  std::string head = "<th>setting</th>", rows;
  for (std::size_t i = 0; i < runs.size(); ++i)
    head += fmt::format("<th><i class='swatch c{}'></i> {}</th>", color_of(i), html_text(runs[i].name));
  for (const auto& key : keys) {
    const std::string first = runs[0].setting(key);
    const bool differs = std::any_of(runs.begin(), runs.end(), [&](const auto& r) { return r.setting(key) != first; });
    rows += fmt::format("<tr{}><td>{}</td>", differs ? " class='differs'" : "", html_text(key));
    for (const RunData& run : runs) rows += fmt::format("<td class='text'>{}</td>", html_text(run.setting(key)));
    rows += "</tr>\n";
  }
  return fmt::format(
      "<h2>Settings</h2>\n<div class='wide'><table><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></div>\n", head,
      rows);
}

std::string notes(const std::vector<RunData>& runs) {
  std::string items;
  for (const RunData& run : runs) {
    items += fmt::format("<li>{}: {}</li>\n", html_text(run.name), html_text(run.source));
    for (const auto& note : run.notes) items += fmt::format("<li>{}: {}</li>\n", html_text(run.name), html_text(note));
  }
  return "<h2>Sources</h2>\n<ul>\n" + items + "</ul>\n";
}

}  // namespace

std::string to_html(const std::vector<RunData>& runs, const std::string& title) {
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><title>{0}</title>\n<meta name='viewport' "
      "content='width=device-width'>\n<style>{1}</style></head>\n<body>\n<h1>{0}</h1>\n",
      html_text(title), kStyle);
  page += summary(runs);
  page += predictions(runs);
  page += "<h2>Results</h2>\n<div class='cards'>\n" + result_cards(runs) + "</div>\n";
  page += "<h2>Speed</h2>\n<div class='cards'>\n";
  page += run_card(runs, "Throughput", "samples/s", true, [](const RunData& r) { return r.samples_per_second; });
  page += rank_card(runs, "Waiting for other ranks", &RankData::wait);
  page += rank_card(runs, "Waiting for data", &RankData::read);
  page += run_card(runs, "Sent by all ranks", "MB per epoch", true, summed_bytes);
  page += run_card(runs, "Learning rate", "per sample", false, [](const RunData& r) { return r.learning_rate; });
  page += "</div>\n";
  return page + rank_table(runs) + settings(runs) + notes(runs) + "</body></html>\n";
}

}  // namespace tutti::report
