// SPDX-License-Identifier: Apache-2.0
// A training step with an embedding: a vocabulary of 100,000 words by 256, 20 words per sample, momentum SGD included.
// What a step costs beside the words that occur is what this shows.
#include <benchmark/benchmark.h>

#include <random>

#include "../tests/graph/graph_builder.h"
#include "optim/optimizer_options.h"
#include "tutti/network.h"

namespace tutti {
namespace {

constexpr std::size_t vocabulary = 100000, width = 256, words = 20, classes = 10;

struct Bags {
  explicit Bags(std::size_t samples) : labels(samples * classes) {
    std::mt19937 random(3);
    begin.push_back(0);
    for (std::size_t s = 0; s < samples; ++s) {
      for (std::size_t w = 0; w < words; ++w)
        values.push_back(1), indices.push_back(static_cast<std::int32_t>(random() % vocabulary));
      begin.push_back(static_cast<std::int64_t>(values.size()));
      labels[s * classes + random() % classes] = 1;
    }
    batch.streams.resize(2);
    batch.streams[0].columns = batch.streams[1].columns = samples;
    batch.streams[0].values = values, batch.streams[0].indices = indices, batch.streams[0].column_begin = begin;
    batch.streams[1].dense = labels;
    batch.sequences = batch.samples = batch.global_samples = batch.global_columns = static_cast<std::int64_t>(samples);
  }
  std::vector<float> values, labels;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> begin;
  Batch batch;
};

class Update : public GradientSink {
 public:
  explicit Update(Parameters& p) : optimizer(make_optimizer({})) { optimizer->bind(p); }
  void chunk_ready(std::size_t chunk) override { optimizer->update(chunk); }
  std::unique_ptr<Optimizer> optimizer;
};

void step(benchmark::State& state, bool transposed) {
  test::GraphBuilder b;
  const auto x = b.input("x", {vocabulary}, true), labels = b.input("labels", {classes});
  const auto e =
      b.parameter("E", transposed ? std::vector<double>{vocabulary, width} : std::vector<double>{width, vocabulary}, 1);
  const auto h = b.add("Tanh", "h", {b.add(transposed ? "TransposeTimes" : "Times", "t", {e, x})});
  b.criterion("CrossEntropyWithSoftmax", "ce",
              {labels, b.add("Times", "z", {b.parameter("W", {classes, width}, 2), h})});
  Network network(b.graph(), {});
  network.bind({{"x", vocabulary, true}, {"labels", classes, false}});
  network.initialize_parameters();
  std::vector<Bags> batches;
  for (int i = 0; i < 8; ++i) batches.emplace_back(static_cast<std::size_t>(state.range(0)));
  network.plan_training(state.range(0));
  Update update(network.parameters());
  std::size_t next = 0;
  for (auto _ : state) {
    update.optimizer->begin_step({1e-4, 0.999, state.range(0)});
    benchmark::DoNotOptimize(network.forward_backward(batches[next++ % batches.size()].batch, update).criterion);
  }
}
BENCHMARK_CAPTURE(step, embedding, false)->Arg(1)->Arg(32)->Arg(256)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, embedding_transposed, true)->Arg(1)->Arg(32)->Arg(256)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tutti

BENCHMARK_MAIN();
