// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "base/trimmed.h"
#include "starter/kinds.h"

namespace tutti::starter {
namespace {

constexpr std::size_t kMostClasses = 1000, kFewIntegers = 30, kFirstLines = 20;

std::string_view unquoted_field(std::string_view field) {
  if (field.size() > 1 && field.front() == '"' && field.back() == '"') field = field.substr(1, field.size() - 2);
  return trimmed(field);
}

std::vector<std::string_view> split_fields(std::string_view line, char delimiter) {
  std::vector<std::string_view> fields;
  if (delimiter == ' ') {  // blanks and tabs, any number of them
    for (std::size_t at = line.find_first_not_of(" \t"); at != line.npos;) {
      const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
      fields.push_back(trimmed(line.substr(at, end - at)));
      at = line.find_first_not_of(" \t", end);
    }
    return fields;
  }
  for (std::size_t at = 0;;) {
    const std::size_t end = std::min(line.find(delimiter, at), line.size());
    fields.push_back(trimmed(line.substr(at, end - at)));
    if (end == line.size()) return fields;
    at = end + 1;
  }
}

// Whether a delimiter within quotes has divided a field. The reader does not support it, either.
bool divides_quotes(const std::vector<std::string_view>& fields) {
  return std::ranges::any_of(fields, [](auto f) { return f.size() > 1 && f.front() == '"' && f.back() != '"'; });
}
constexpr const char* kQuotesFix =
    "delimiters within quotes are not supported: take them out of the fields, or use another delimiter";

// Whether it is a finite number. 1,5 is one where commas do not separate the columns.
bool read_number(std::string_view field, char delimiter, double& value) {
  std::string point;
  if (delimiter != ',' && field.find(',') != field.npos) {
    std::ranges::replace_copy(field, std::back_inserter(point), ',', '.');
    field = point;
  }
  return as_number(field, value) && std::isfinite(value);
}

bool is_number(std::string_view field, char delimiter) {
  double ignored = 0;
  return read_number(field, delimiter, ignored);
}

constexpr std::pair<char, const char*> kDelimiters[] = {
    {',', "commas"}, {';', "semicolons"}, {'\t', "tabs"}, {' ', "blanks"}};

const char* name_of(char delimiter) {
  return std::ranges::find(kDelimiters, delimiter, &std::pair<char, const char*>::first)->second;
}

// The delimiter that finds most numbers, in lines with as many columns as the first. Without numbers, one that the
// first line has.
char delimiter_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream in(path, std::ios::binary);
  for (std::string line; lines.size() < kFirstLines && std::getline(in, line);)
    if (!trimmed(line).empty()) lines.push_back(line);
  char best = ' ';
  std::ptrdiff_t most = 0;
  for (const auto& [c, name] : kDelimiters) {
    const std::size_t columns = split_fields(lines[0], c).size();
    std::ptrdiff_t numbers = 0;
    for (const std::string& line : lines)
      if (const auto fields = split_fields(line, c); columns > 1 && fields.size() == columns)
        numbers += std::ranges::count_if(fields, [&, c = c](auto f) { return is_number(unquoted_field(f), c); });
    if (numbers > most) most = numbers, best = c;
  }
  if (most > 0) return best;
  for (const char c : {',', ';', '\t'})
    if (lines[0].find(c) != lines[0].npos) return c;
  return ' ';
}

// 0, 1, 2, ...: the titles that pandas gives to columns without names.
bool are_counted(const std::vector<std::string_view>& titles) {
  for (std::size_t c = 0; c < titles.size(); ++c)
    if (titles[c] != std::to_string(c)) return false;
  return titles.size() > 2;  // 0,1 are more likely data
}

struct Column {
  std::string name;
  std::int64_t texts = 0, first_text_line = 0;  // fields that are no number
  std::string first_text = {};
  std::int64_t first_point_line = 0;  // of a number with a decimal point
  double sum = 0, squares = 0;
  bool whole = true;  // all numbers are whole
};

// A value of the label.
struct Value {
  std::int64_t rows = 0, first_line = 0;
};

class Table {
 public:
  // Of test data, `train` says what the columns are.
  Table(const std::string& path, const std::string& label_name, const Table* train = nullptr) : path_(path) {
    each_line(path, [&](std::string_view line, std::int64_t number) {
      if (trimmed(line).empty()) return;
      if (columns.empty()) {
        const bool header = take_titles(line, number, !train || train->counted);
        train ? adopt_columns(*train, number) : find_label(label_name);
        if (header) return;
      }
      take(line, number);
    });
    if (rows == 0) fail(1, "there are no rows of data", "a line for each sample, with the same columns");
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (c == label || columns[c].texts == 0) continue;
      if (headers == 0 && columns[c].texts == 1 && columns[c].first_text_line == first_line_ && rows > 1)
        fail(
            first_line_,
            fmt::format("column {} holds '{}' in this line only, as a line of titles would, but '{}' is a number", c,
                        columns[c].first_text, first_number_),
            fmt::format("begin each title with a letter, as in c{}; if these are data, write a number", first_number_));
      fail(columns[c].first_text_line,
           fmt::format("column {} ('{}') holds '{}', and the columns that the network sees must be numbers", c,
                       columns[c].name, columns[c].first_text),
           "remove the column or write numbers for its words; --label NAME if it is the label");
    }
    check_points();
  }

  bool regression() const { return columns[label].texts == 0 && measured(); }
  // Classes are 0, 1, 2, ... as they stand.
  bool numbered() const {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!values.contains(std::to_string(i))) return false;
    return true;
  }

  // Whether the label is one that can be learned.
  void check_label() const {
    const Column& c = columns[label];
    const bool first = headers == 0 && c.texts > 0 && c.first_text_line == first_line_;
    if (headers == 0 && (first || !measured()) && alone(first_label_))
      fail(first_line_, fmt::format("the label '{}' occurs in this line only", first_label_),
           "remove the line if it holds titles (numbers are taken for data), or add rows of this class");
    if (c.texts > 0 && c.texts <= std::max<std::int64_t>(rows / 10, 1) && measured())
      fail(c.first_text_line,
           fmt::format("the label ('{}') is '{}', and {} of {} labels are numbers", c.name, c.first_text,
                       rows - c.texts, rows),
           first ? "remove the line if it holds titles, or write a number"
                 : "write a number, or remove the line; if they are names of classes, put a letter before them");
    if (!regression() && values.size() > kMostClasses)
      fail(c.first_text_line,
           fmt::format("'{}' has more than {} different values: is it the label?", c.name, kMostClasses),
           "--label NAME of the column to predict");
    if (!regression() && values.size() < 2)
      fail(headers + 1, fmt::format("'{}' is the same in all rows", c.name), "--label NAME of the column to predict");
    if (!regression()) check_spelling();
  }

  // Whether labels of the test data are known from the training data.
  void check_label_of(const Table& test) const {
    const Column& c = test.columns[label];
    if (regression() && c.texts > 0)
      test.fail(c.first_text_line, fmt::format("the label is '{}', and those of '{}' are numbers", c.first_text, path_),
                "write a number, or remove the line");
    if (regression()) return;
    for (const auto& [value, seen] : test.values)
      if (!values.contains(value))
        test.fail(seen.first_line, fmt::format("the label '{}' is none of the {} of '{}'", value, values.size(), path_),
                  "correct it, or train on rows of this class too");
  }

  const std::string& path() const { return path_; }

  char delimiter = ',';
  bool decimal_comma = false;
  bool counted = false;  // the titles are 0, 1, 2, ...
  std::int64_t headers = 0, rows = 0;
  std::vector<Column> columns;
  std::size_t label = 0;
  std::map<std::string, Value, std::less<>> values;  // of the label

 private:
  [[noreturn]] void fail(std::int64_t line, const std::string& what, const std::string& fix) const {
    fail_at(path_, line, what, fix);
  }

  // Without their quotes; as many as the first line has.
  std::vector<std::string_view> fields_of(std::string_view line, std::int64_t number) const {
    auto fields = split_fields(line, delimiter);
    const bool divided = divides_quotes(fields);
    if (!columns.empty() && fields.size() != columns.size())
      fail(number,
           fmt::format("{} column{} with {} between them, and the first line has {}", fields.size(),
                       fields.size() == 1 ? "" : "s", name_of(delimiter), columns.size()),
           divided ? kQuotesFix : "give every line the same columns");
    if (divided) fail(number, "a field begins with a quote and does not end with one", kQuotesFix);
    std::ranges::transform(fields, fields.begin(), unquoted_field);
    return fields;
  }

  // Whether the line holds titles; else columns have numbers, and the line is data.
  bool take_titles(std::string_view line, std::int64_t number, bool may_be_counted) {
    delimiter = delimiter_of(path_);
    const auto fields = fields_of(line, number);
    const auto first_number = std::ranges::find_if(fields, [&](auto f) { return is_number(f, delimiter); });
    counted = may_be_counted && are_counted(fields);
    const bool header = counted || first_number == fields.end();
    if (!header) first_number_ = *first_number;
    for (std::size_t c = 0; c < fields.size(); ++c)
      columns.push_back({header ? std::string(fields[c]) : fmt::format("column {}", c)});
    if (header) headers = number;
    if (columns.size() < 2)
      fail(number, "one column only", "columns with commas, semicolons, tabs or blanks between them");
    return header;
  }

  void adopt_columns(const Table& train, std::int64_t line) {
    if (columns.size() != train.columns.size())
      fail(line, fmt::format("{} columns, and '{}' has {}", columns.size(), train.path_, train.columns.size()),
           "give both files the same columns");
    label = train.label;
    if (headers == 0 || train.headers == 0) return;
    for (std::size_t c = 0; c < columns.size(); ++c)
      if (columns[c].name != train.columns[c].name)
        fail(line,
             fmt::format("column {} is '{}', and that of '{}' is '{}'", c, columns[c].name, train.path_,
                         train.columns[c].name),
             "give both files the same columns in the same order");
  }

  void take(std::string_view line, std::int64_t number) {
    const auto fields = fields_of(line, number);
    if (rows++ == 0) first_line_ = number, first_label_ = fields[label];
    for (std::size_t c = 0; c < fields.size(); ++c) {
      Column& column = columns[c];
      double v = 0;
      if (!read_number(fields[c], delimiter, v)) {
        if (column.texts++ == 0) column.first_text_line = number, column.first_text = fields[c];
        continue;
      }
      decimal_comma = decimal_comma || fields[c].find(',') != fields[c].npos;
      if (column.first_point_line == 0 && fields[c].find('.') != fields[c].npos) column.first_point_line = number;
      column.sum += v, column.squares += v * v;
      column.whole = column.whole && v == std::floor(v);
    }
    if (fields[label].empty())
      fail(number, fmt::format("the label ('{}') is missing", columns[label].name),
           "write it, or remove the line; --label NAME if another column is the label");
    if (const auto known = values.find(fields[label]); known != values.end())
      ++known->second.rows;
    else if (values.size() <= kMostClasses)
      values[std::string(fields[label])] = {1, number};
  }

  // The reader knows one decimal point.
  void check_points() const {
    if (!decimal_comma) return;
    for (std::size_t c = 0; c < columns.size(); ++c)
      if (columns[c].first_point_line > 0 && (c != label || regression()))
        fail(columns[c].first_point_line,
             fmt::format("column {} ('{}') has a decimal point, and other numbers have decimal commas", c,
                         columns[c].name),
             "write all numbers alike");
  }

  void find_label(const std::string& name) {
    label = columns.size() - 1;
    if (name.empty()) return;
    const auto named = std::ranges::find_if(columns, [&](const Column& c) { return c.name == name; });
    double number = 0;
    if (named != columns.end())
      label = static_cast<std::size_t>(named - columns.begin());
    else if (as_number(name, number) && number >= 0 && number < static_cast<double>(columns.size()))
      label = static_cast<std::size_t>(number);
    else
      fail(1, fmt::format("there is no column '{}'", name),
           fmt::format("--label {} or a number from 0 to {}", columns.back().name, columns.size() - 1));
  }

  // Whether numbers of the label are quantities rather than names of classes.
  bool measured() const {
    const Column& c = columns[label];
    const auto few = std::max<std::size_t>(2, std::min(kFewIntegers, static_cast<std::size_t>(rows) / 5));
    return !c.whole || values.size() > few + static_cast<std::size_t>(c.texts);
  }

  // Whether one row has this label, and every other label has several.
  bool alone(const std::string& value) const {
    return values.size() > 1 &&
           std::ranges::all_of(values, [&](const auto& v) { return (v.second.rows == 1) == (v.first == value); });
  }

  // Whether two classes are the same number, as 1 and 1.0.
  void check_spelling() const {
    std::map<double, std::string> numbers;
    for (const auto& [text, seen] : values) {
      double v = 0;
      if (!read_number(text, delimiter, v)) continue;
      const auto [same, is_new] = numbers.emplace(v, text);
      if (!is_new)
        fail(seen.first_line,
             fmt::format("the label '{}' is the same number as '{}', but another class", text, same->second),
             "write them alike, or put a letter before both if they are different classes");
    }
  }

  std::string path_;
  std::int64_t first_line_ = 0;             // of data
  std::string first_number_, first_label_;  // in that line
};

constexpr const char* kClassifier = R"(@INPUTS@
labels = Input {@CLASSES@}

# Columns are brought to mean 0 and deviation 1, which are measured on the training data before the first step.
x = @FEATURES@
model = Sequential (
    DenseLayer {64, activation = ReLU, init = 'heUniform'} :
    DenseLayer {64, activation = ReLU, init = 'heUniform'} :
    LinearLayer {@CLASSES@})
z = model (x)

ce   = CrossEntropyWithSoftmax (labels, z)    # what is minimised
errs = ClassificationError (labels, z)        # the share of wrong answers
criterionNodes  = (ce)
evaluationNodes = (errs)
outputNodes     = (z))";

constexpr const char* kRegression = R"(@INPUTS@
labels = Input {1}

# Columns are brought to mean 0 and deviation 1, which are measured on the training data before the first step.
x = @FEATURES@
model = Sequential (
    DenseLayer {64, activation = ReLU, init = 'heUniform'} :
    DenseLayer {64, activation = ReLU, init = 'heUniform'} :
    LinearLayer {1})
# The network predicts (label - mean) / deviation; z is in the units of the label.
mean      = Constant {@MEAN@}
deviation = Constant {@DEVIATION@}
inverse   = Constant {@INVERSE@}
y = model (x)
z = y .* deviation + mean

mse = SquareError ((labels - mean) .* inverse, y)    # 1 is as good as always answering the mean
criterionNodes = (mse)
outputNodes    = (z))";

// The columns before and behind the label; one stream if it is at an edge.
struct Side {
  std::string name;
  std::size_t start, dim;
};
std::vector<Side> sides_of(const Table& t) {
  const std::size_t right = t.columns.size() - t.label - 1;
  if (t.label == 0) return {{"features", 1, right}};
  if (right == 0) return {{"features", 0, t.label}};
  return {{"left", 0, t.label}, {"right", t.label + 1, right}};
}

std::string streams_of(const Table& t, bool regression, const std::string& mapping) {
  std::string text;
  for (const Side& s : sides_of(t)) text += fmt::format("{} = [ start = {} ; dim = {} ]\n", s.name, s.start, s.dim);
  if (regression) return text + fmt::format("labels = [ start = {} ; dim = 1 ; labelType = \"regression\" ]", t.label);
  return text + fmt::format("labels = [ start = {} ; labelDim = {}{} ]", t.label, t.values.size(),
                            mapping.empty() ? "" : fmt::format(" ; labelMappingFile = \"{}\"", mapping));
}

std::string reader_of(const Table& t, const std::string& streams) {
  std::string text = fmt::format("readerType = \"UCIFastReader\"\nfile = \"{}\"\n", t.path());
  if (t.delimiter != ' ')
    text += fmt::format("customDelimiter = \"{}\"\n",
                        t.delimiter == '\t' ? std::string("\\t") : std::string(1, t.delimiter));
  if (t.decimal_comma) text += "customDecimalPoint = \",\"\n";
  if (t.headers > 0) text += fmt::format("headerLines = {}\n", t.headers);
  return text + streams;
}

}  // namespace

Starter look_at_table(const Request& request) {
  const Table t(request.train, request.label);
  t.check_label();
  const bool regression = t.regression();
  const Column& label = t.columns[t.label];
  Starter s;
  std::string mapping;
  if (!regression && !t.numbered()) {
    mapping = request.name + ".labels";
    std::string names;
    for (const auto& [value, seen] : t.values) names += value + "\n";
    s.files.emplace_back(mapping, names);
  }
  std::string inputs, features;
  for (const Side& side : sides_of(t)) {
    inputs += fmt::format("{}{} = Input {{{}}}", inputs.empty() ? "" : "\n", side.name, side.dim);
    features += fmt::format("{}MeanVarNorm ({})", features.empty() ? "" : " : ", side.name);
  }
  if (sides_of(t).size() > 1) features = "Splice (" + features + ")";
  const double n = static_cast<double>(t.rows), mean = label.sum / n;
  const double deviation = std::sqrt(std::max(label.squares / n - mean * mean, 0.0));
  s.network = filled(regression ? kRegression : kClassifier,
                     {{"INPUTS", inputs},
                      {"FEATURES", features},
                      {"CLASSES", std::to_string(t.values.size())},
                      {"MEAN", fmt::format("{:.8g}", mean)},
                      {"DEVIATION", fmt::format("{:.8g}", deviation > 0 ? deviation : 1)},
                      {"INVERSE", fmt::format("{:.8g}", deviation > 0 ? 1 / deviation : 1)}});
  const std::int64_t minibatch = t.rows < 2000 ? 16 : t.rows < 20000 ? 32 : 128;
  s.sgd = fmt::format(
      "maxEpochs = {}\nminibatchSize = {}             # rows of a step, over all ranks\ngradUpdateType = "
      "\"adam\"\nlearningRatesPerMB = 0.003*{}:0.001",
      epochs_for(4000, t.rows, minibatch), minibatch,
      std::max<std::int64_t>(epochs_for(4000, t.rows, minibatch) * 2 / 3, 1));
  const std::string streams = streams_of(t, regression, mapping);
  s.train_reader = reader_of(t, streams);
  if (!request.test.empty()) {
    const Table test(request.test, "", &t);
    t.check_label_of(test);
    s.test_reader = reader_of(test, streams);
  }
  s.found = fmt::format("{} rows, {} numbers each; '{}' is {}", t.rows, t.columns.size() - 1, label.name,
                        regression ? "a number to predict" : fmt::format("one of {} classes", t.values.size()));
  if (t.decimal_comma) s.found += "; commas are decimal points";
  if (t.counted) s.found += fmt::format("; line {} holds the titles 0 to {}", t.headers, t.columns.size() - 1);
  return s;
}

}  // namespace tutti::starter
