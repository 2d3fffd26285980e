// SPDX-License-Identifier: Apache-2.0
#include "train/sgd_options.h"

#include "config/table.h"
#include "config/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti {

namespace {

float of_time_constant(double samples) { return samples == 0 ? 0.0f : static_cast<float>(std::exp(-1 / samples)); }

template <class Values, class Good>
bool all(const Values& values, Good good) {
  return std::all_of(values.begin(), values.end(), good);
}

void require(config::Fields& f, bool holds, const char* key, const char* what) {
  if (!holds) f.problem(key, fmt::format("{} {}", key, what));
}

bool is_momentum(double v) { return v >= 0 && static_cast<float>(v) < 1.0f; }

// Settings of the block itself that the others leave without effect. Configs of CNTK have such: they are not refused.
void note_unused(const config::Record& block, const SgdOptions& o, config::Notices& notices) {
  const auto note = [&](const char* key, const std::string& why) {
    if (block.has_own(key)) notices.lines.push_back(fmt::format("'{}' in SGD has no effect {}", key, why));
  };
  const auto type = block.find("gradUpdateType");
  const std::string rule = "with gradUpdateType = " + (type ? type->text : "none");
  const auto only_of = [&](std::initializer_list<UpdateRule> rules, std::initializer_list<const char*> keys) {
    if (std::ranges::find(rules, o.optimizer.rule) != rules.end()) return;
    for (const char* key : keys) note(key, rule);
  };
  using enum UpdateRule;
  if (o.optimizer.momentum)
    only_of({sgd, fs_adagrad, lars}, {"momentumPerMB", "momentumPerSample", "momentumAsTimeConstant"});
  if (o.optimizer.nesterov) only_of({sgd}, {"useNAG"});
  only_of({adagrad, rms_prop}, {"normWithAveMultiplier"});
  only_of({fs_adagrad}, {"varianceTimeConstant", "fsAdagradTargetAvDenom"});
  only_of({rms_prop}, {"rms_gamma", "rms_wgt_inc", "rms_wgt_dec", "rms_wgt_max", "rms_wgt_min"});
  only_of({adam, one_bit_adam, adam_w, lamb}, {"beta1", "beta2"});
  only_of({rms_prop_textbook}, {"decay"});
  only_of({adam, one_bit_adam, adam_w, lamb, rms_prop_textbook}, {"epsilon"});
  if (!o.optimizer.clip_by_truncation && !std::isfinite(o.optimizer.clipping_per_sample))
    note("gradientClippingWithTruncation", std::isfinite(o.optimizer.global_norm_per_sample)
                                               ? "with clippingGlobalNormPerSample"
                                               : "without clippingThresholdPerSample");
  if (!o.gradient_check) note("sigFigs", "without gradientcheck = true");
  if (o.faults.on_nan != OnNan::rewind)
    for (const char* key : {"nanRateFactor", "maxRewinds"}) note(key, "without onNaN = rewind");
  if (o.faults.stall_warning >= o.faults.stall_timeout)
    note("stallWarning", fmt::format("because stallTimeout = {:g} ends the run before", o.faults.stall_timeout));
}

}  // namespace

void AutoAdjustOptions::describe(config::Fields& f) {
  f.choice<Method>("autoAdjustLR", method,
                   {{"none", Method::none},
                    {"false", Method::none},
                    {"adjustAfterEpoch", Method::after_epoch},
                    {"afterEpoch", Method::after_epoch},
                    {"after", Method::after_epoch},
                    {"searchBeforeEpoch", Method::before_epoch},
                    {"beforeEpoch", Method::before_epoch},
                    {"before", Method::before_epoch}},
                   "adjusts the learning rate automatically, in epochs after the end of the list of rates");
  f("reduceLearnRateIfImproveLessThan", reduce_if_improve_less, "relative improvement");
  f("increaseLearnRateIfImproveMoreThan", increase_if_improve_more, "relative improvement");
  f("learnRateDecreaseFactor", decrease_factor, "factor when improvement is too small");
  f("learnRateIncreaseFactor", increase_factor, "factor when improvement is large");
  f("continueReduce", continue_reduce, "after the first reduction, reduce every time");
  f("learnRateAdjustInterval", interval, "epochs between two adjustments");
  f("loadBestModel", load_best_model, "return to the better model when the criterion gets worse");
  f("useCVSetControlLRIfCVExists", use_cv_set, "use the criterion on the validation set");
  f("useEvalCriterionControlLR", use_eval_criterion, "use the first evaluation node as the criterion");
  f("numPrevLearnRates", num_prev_learn_rates, "number of previous rates that the search starts from");
  f("numBestSearchEpoch", num_best_search_epoch, "epochs with a refined search");
  f("numSamples4Search", samples_for_search, "samples of a trial");
  f("numMiniBatch4LRSearch", minibatches_for_search, "minibatches of a trial (old)");
  f("autoAdjustMinibatch", adjust_minibatch, "search for the minibatch size in epochs after the end of its list");
  f("minibatchSizeTuningFrequency", minibatch_tuning_frequency, "epochs between two searches");
  f("minibatchSizeTuningMax", minibatch_tuning_max, "largest minibatch size");
  f("minibatchSearchCriterionErrorMargin", minibatch_error_margin, "percent");
  check(f);
}

void AutoAdjustOptions::check(config::Fields& f) const {
  require(f, decrease_factor > 0 && decrease_factor <= 1, "learnRateDecreaseFactor", "must lie above 0, up to 1");
  if (decrease_factor == 1 && method == Method::after_epoch && load_best_model && !continue_reduce)
    f.problem("learnRateDecreaseFactor",
              "with loadBestModel = true, learnRateDecreaseFactor = 1 repeats an epoch that is no better for ever",
              "a smaller factor, or loadBestModel = false");
  require(f, increase_factor >= 1 && std::isfinite(increase_factor), "learnRateIncreaseFactor", "must be 1 or more");
  require(f, !std::isnan(reduce_if_improve_less), "reduceLearnRateIfImproveLessThan", "must be a number");
  require(f, !std::isnan(increase_if_improve_more), "increaseLearnRateIfImproveMoreThan", "must be a number");
  require(f, interval >= 1, "learnRateAdjustInterval", "must be at least 1 epoch");
  require(f, num_prev_learn_rates >= 1, "numPrevLearnRates", "must be at least 1");
  require(f, num_best_search_epoch >= 0, "numBestSearchEpoch", "must not be negative");
  require(f, minibatch_tuning_frequency >= 1, "minibatchSizeTuningFrequency", "must be at least 1 epoch");
  require(f, minibatch_tuning_max >= 1, "minibatchSizeTuningMax", "must be at least 1");
  require(f, minibatch_error_margin >= 0, "minibatchSearchCriterionErrorMargin", "must not be negative");
  const auto count = [](std::int64_t v) { return v >= 1; };
  require(f, all(samples_for_search.values, count), "numSamples4Search", "must be at least 1 sample");
  require(f, all(minibatches_for_search.values, count), "numMiniBatch4LRSearch", "must be at least 1 minibatch");
  if (f.given("numSamples4Search") && f.given("numMiniBatch4LRSearch"))
    f.problem("numMiniBatch4LRSearch", "both numSamples4Search and numMiniBatch4LRSearch are given",
              "keep one of the two");
}

void SgdOptions::describe(config::Fields& f) {
  describe_schedule(f);
  optimizer.describe(f);
  describe_running(f);
  faults.describe(f);
  describe_legacy(f);
  check_sizes(f);
  check_rates(f);
  check_momentum(f);
  check_truncated(f);
  if (learning_rate_schedule) learning_rate_schedule->end_at(max_epochs, f);
}

void SgdOptions::describe_schedule(config::Fields& f) {
  f("maxEpochs", max_epochs, "total number of epochs, including those before a restart; 0 saves the initial model");
  f.required("maxEpochs");
  f("epochSize", epoch_size, "samples per epoch over all ranks; 0 = the whole data set");
  f("minibatchSize", minibatch_size, "samples per minibatch over all ranks, per epoch");
  f("gradientAccumulationSteps", gradient_accumulation,
    "minibatches whose gradients are summed before one exchange and update; saves memory and exchanges");
  f("learningRatesPerMB", learning_rates_per_mb, "per epoch; divided by that epoch's minibatchSize");
  f("learningRatesPerSample", learning_rates_per_sample, "per epoch; either this or learningRatesPerMB");
  f.block("LearningRateSchedule", learning_rate_schedule,
          "a factor on the listed rate that changes with every minibatch: warm-up, cosine, steps, polynomial");
  f("momentumPerMB", momentum_per_mb, "per epoch; momentum of a full minibatch");
  f("momentumPerSample", momentums_per_sample, "per epoch; instead of momentumPerMB");
  f("momentumAsTimeConstant", momentum_as_time_constant, "per epoch, in samples; instead of momentumPerMB");
  f("minLearningRatePerSample", min_learning_rate_per_sample,
    "training ends before an epoch whose rate is below this; the model so far is the final one");
  f("dropoutRate", dropout_rate, "per epoch; share of the elements that Dropout nodes set to 0");
  f("labelSmoothing", label_smoothing,
    "CrossEntropyWithSoftmax is trained with labels moved by this share towards equal probabilities, such as 0.1");
  f("weightAverage", weight_average,
    "decay per update of a moving average of the weights, such as 0.999, which is saved and evaluated; 0 = none");
  f("batchNormalizationTimeConstant", normalization_time_constant,
    "per epoch, in samples; from the first value that is not 0 on, replaces normalizationTimeConstant of the nodes");
  f("batchNormalizationBlendTimeConstant", normalization_blend_time_constant,
    "per epoch, in samples; from the first value that is not 0 on, replaces blendTimeConstant of the nodes");
  f("disableRegInBatchNormalization", no_regularization_in_normalization,
    "exclude scale and bias of batch normalisation from L1 and L2");
  f.alias("disableWkInBatchNormal", "disableRegInBatchNormalization");
}

void SgdOptions::describe_running(config::Fields& f) {
  f("numMBsToShowResult", num_mbs_to_show_result, "minibatches between two result lines; 0 = none");
  f("firstMBsToShowResult", first_mbs_to_show_result, "also report each of the first n minibatches");
  f("traceLevel", trace_level, "verbosity of the log");
  f.block("metrics", metrics, "files with the values of the log, for programs");
  f("timeline", timeline, "file for a trace of what every rank did when, for Perfetto or chrome://tracing");
  f("timelineSteps", timeline_steps, "minibatches of each epoch, from its first, that the timeline records; 0 = all");
  f("keepCheckPointFiles", keep_checkpoint_files, "keep the .ckp file of every epoch");
  f("keepBest", keep_best,
    "also keep the best model so far as modelPath.best, by the criterion on the validation data");
  f("patience", patience, "training ends after so many epochs without improvement; 0 = never");
  f("checkpointEverySamples", checkpoint_every_samples, "also save within epochs; 0 = only after epochs");
  f("trainCriterionNodeName", train_criterion_node, "default: the first criterion of the network");
  f("evalCriterionNodeName", eval_criterion_node, "default: all evaluation nodes");
  f("maxSamplesInRAM", max_samples_in_ram, "split larger minibatches to save memory; 0 = never");
  f("numSubminibatches", num_subminibatches, "split every minibatch into n parts to save memory");
  f("useAllDataForPreComputedNode", use_all_data_for_precomputed_node, "false: Mean and InvStdDev over one epoch only");
  f.block("AutoAdjust", auto_adjust, "automatic learning rate and minibatch size");
  f.block("ParallelTrain", parallel, "how the ranks train together");
  f("shardOptimizer", shard_optimizer,
    "each rank keeps the optimizer's state of one part of the weights, and updates that part (ZeRO, stage 1)");
  f.block("ModelParallel", model_parallel, "which dense layers are divided among the ranks; without it none");
  f("gradientcheck", gradient_check,
    "compare gradients with finite differences in every minibatch (slow), except at kinks; stop when they differ; "
    "refused with LambdaRank");
  f("sigFigs", significant_digits, "digits that gradientcheck compares; single precision can tell two");
  f("traceNodeNamesReal", trace_real, "nodes whose values are printed in every minibatch");
  f("traceNodeNamesCategory", trace_category, "the same, as the index of the largest value");
  f("traceNodeNamesSparse", trace_sparse, "the same, as index:value of what is not 0");
  f("truncated", truncated, "truncated back-propagation through time; the reader sets the length of a segment");
}

void SgdOptions::check_truncated(config::Fields& f) const {
  if (!truncated) return;
  if (checkpoint_every_samples > 0)
    f.problem(
        "checkpointEverySamples",
        "a checkpoint within an epoch does not hold the states of truncated sequences, so it could not be resumed",
        "leave it out: truncated trainings are checkpointed at the ends of epochs");
  if (parallel.exchanges() && parallel.start_sample > 0)
    f.problem("ParallelTrain",
              "parallelizationStartSample divides the data anew within an epoch, where truncated sequences would lose "
              "their states",
              "parallelizationStartEpoch alone: at the end of an epoch all sequences have ended");
}

void SgdOptions::describe_legacy(config::Fields& f) {
  f("modelPath", model_path, "path of the model; default: modelPath of the command block");
  f.no_effect("perfTraceLevel",
              "the times of each epoch are in the log, and syncPerfStats tells those of the exchange");
  for (const char* key : {"numMBsToCUDAProfile", "doUnitTest", "validateAfterModelReloading", "usePtask"})
    f.no_effect(key, "it is internal to CNTK");
  f.no_effect("maxTempMemSizeInSamplesForCNN", "convolutions make no temporary matrix");
  f.no_effect("packThresholdSizeInKB", "gradients are exchanged in buckets");
  f.no_effect("unroll", "the original ignores it too");
  for (const char* key :
       {"hsmoothingWeight", "frameDropThresh", "doReferenceAlign", "seqGammarCalcAMF", "seqGammarCalcLMF",
        "seqGammarCalcWP", "seqGammarCalcbMMIFactor", "seqGammarCalcUsesMBR", "seqGammarUsesMBR", "seqGammarAMF",
        "seqGammarLMF", "seqGammarWordPen", "seqGammarBMMIFactor"})
    f.no_effect(key, "sequence training is not in this version");
  for (const char* key : {"adaptationRegType", "adaptationRegWeight"}) f.no_effect(key, "only action adapt uses it");
}

void SgdOptions::check_sizes(config::Fields& f) const {
  const auto at_least = [&](const char* key, std::int64_t v, std::int64_t least) {
    if (v < least) f.problem(key, fmt::format("{} must be at least {}", key, least));
  };
  // Far beyond any use; products of these numbers fit into 64 bits.
  const auto at_most = [&](const char* key, std::int64_t v, std::int64_t most) {
    if (v > most) f.problem(key, fmt::format("{} must be at most {}", key, most));
  };
  if (f.given("maxEpochs")) at_least("maxEpochs", max_epochs, 0);
  at_least("gradientAccumulationSteps", gradient_accumulation, 1);
  at_most("maxEpochs", max_epochs, 1'000'000'000);
  at_least("epochSize", epoch_size, 0);
  at_most("epochSize", epoch_size, 1'000'000'000'000'000);
  for (std::int64_t m : minibatch_size.values) {
    if (m < 1) {
      f.problem("minibatchSize", "minibatchSize must be at least 1");
    } else if (m > 2'147'483'647) {
      at_most("minibatchSize", m, 2'147'483'647);
    } else if (gradient_accumulation > 2'147'483'647 / m) {
      f.problem("gradientAccumulationSteps",
                fmt::format("gradientAccumulationSteps {} times minibatchSize {} is more than {} samples",
                            gradient_accumulation, m, 2'147'483'647));
    } else if (gradient_accumulation > 1 && epoch_size > 0 && epoch_size < update_size(m)) {
      f.problem("gradientAccumulationSteps",
                fmt::format("epochSize {} is smaller than an update of {} minibatches of {} samples", epoch_size,
                            gradient_accumulation, m),
                "lower gradientAccumulationSteps or minibatchSize, or use epochSize = 0 for the whole data set");
    } else if (epoch_size > 0 && epoch_size < m) {
      f.problem("epochSize",
                fmt::format("epochSize {} is smaller than minibatchSize {}: epoch size must be larger than "
                            "mbsize.",
                            epoch_size, m),
                fmt::format("use epochSize = 0 for the whole data set, or at least {}", m));
    } else {
      continue;
    }
    break;
  }
  at_least("numMBsToShowResult", num_mbs_to_show_result, 0);
  at_least("firstMBsToShowResult", first_mbs_to_show_result, 0);
  at_least("checkpointEverySamples", checkpoint_every_samples, 0);
  at_least("patience", patience, 0);
  at_least("timelineSteps", timeline_steps, 0);
  if (timeline.empty() && f.given("timelineSteps"))
    f.problem("timelineSteps", "timelineSteps has no effect without timeline", "add timeline = trace.json");
  at_least("maxSamplesInRAM", max_samples_in_ram, 0);
  at_least("numSubminibatches", num_subminibatches, 1);
  require(f, all(dropout_rate.values, [](double v) { return v >= 0 && v < 1; }), "dropoutRate", "must lie in [0, 1)");
  require(f, weight_average >= 0 && weight_average < 1, "weightAverage", "must lie in [0, 1)");
  require(f, label_smoothing >= 0 && label_smoothing < 1, "labelSmoothing", "must lie in [0, 1)");
  require(f, all(normalization_blend_time_constant.values, [](double v) { return v >= 0; }),
          "batchNormalizationBlendTimeConstant", "must not be negative");
  require(f, min_learning_rate_per_sample >= 0, "minLearningRatePerSample", "must not be negative");
}

void SgdOptions::check_rates(config::Fields& f) const {
  const bool per_mb = !learning_rates_per_mb.empty(), per_sample = !learning_rates_per_sample.empty();
  if (per_mb && per_sample)
    f.problem("learningRatesPerSample", "both learningRatesPerMB and learningRatesPerSample are given",
              "keep one of the two");
  const bool searched = auto_adjust && auto_adjust->method == AutoAdjustOptions::Method::before_epoch;
  // At the key that holds an empty list, if there is one; a key that could not be read was reported before.
  if (!searched && !per_mb && !per_sample)
    f.problem(f.given("learningRatesPerSample") ? "learningRatesPerSample" : "learningRatesPerMB",
              "no learning rate is given", "add learningRatesPerMB = ... or learningRatesPerSample = ...");
  if (learning_rate_schedule && auto_adjust && auto_adjust->method != AutoAdjustOptions::Method::none)
    f.problem("LearningRateSchedule", "LearningRateSchedule and autoAdjustLR both set the learning rate",
              "remove the block LearningRateSchedule, or set autoAdjustLR = none");
  const auto rate = [](double v) { return v >= 0 && std::isfinite(v); };
  if (!all(learning_rates_per_mb.values, rate))
    f.problem("learningRatesPerMB", "a learning rate must be a finite number that is not negative");
  if (!all(learning_rates_per_sample.values, rate))
    f.problem("learningRatesPerSample", "a learning rate must be a finite number that is not negative");
}

void SgdOptions::check_momentum(config::Fields& f) const {
  const char* given = nullptr;
  for (const char* key : {"momentumPerMB", "momentumPerSample", "momentumAsTimeConstant"}) {
    if (!f.given(key)) continue;
    if (given) {
      f.problem(key, fmt::format("both {} and {} are given", given, key), "keep one of them");
      break;
    }
    given = key;
  }
  if (!all(momentum_per_mb.values, is_momentum)) f.problem("momentumPerMB", "momentum must lie in [0, 1)");
  if (!all(momentums_per_sample.values, is_momentum)) f.problem("momentumPerSample", "momentum must lie in [0, 1)");
  if (!all(momentum_as_time_constant.values, [](double v) { return v >= 0 && of_time_constant(v) < 1.0f; }))
    f.problem("momentumAsTimeConstant",
              "a time constant is a number of samples from 0 to about 16 million (its momentum must be below 1)");
}

double SgdOptions::learning_rate_per_sample(std::size_t epoch) const {
  if (!learning_rates_per_sample.empty()) return static_cast<float>(learning_rates_per_sample.at(epoch));
  return static_cast<float>(learning_rates_per_mb.at(epoch)) / static_cast<float>(minibatch_size.at(epoch));
}

std::optional<double> SgdOptions::once_set(const config::Schedule<double>& values, std::size_t epoch) {
  for (std::size_t e = 0; e <= std::min(epoch, values.size() - 1); ++e)
    if (values.at(e) != 0) return values.at(epoch);
  return std::nullopt;
}

double SgdOptions::momentum_per_sample(std::size_t epoch) const {
  if (!momentums_per_sample.empty()) return static_cast<float>(momentums_per_sample.at(epoch));
  if (!momentum_as_time_constant.empty()) return of_time_constant(momentum_as_time_constant.at(epoch));
  return std::pow(static_cast<double>(static_cast<float>(momentum_per_mb.at(epoch))),
                  1.0 / static_cast<double>(minibatch_size.at(epoch)));
}

double SgdOptions::momentum_time_constant(std::size_t epoch) const {
  const double momentum = momentum_per_sample(epoch);
  return momentum > 0 ? -1.0 / std::log(momentum) : 0.0;
}

SgdOptions read_sgd_options(const config::Record& sgd, Problems& problems, config::Notices& notices) {
  SgdOptions o;
  try {
    o.parallel.double_precision = config::equal_keys(sgd.string("precision", "float"), "double");
  } catch (const ConfigError&) {
    // Reported by the reader of the top level.
  }
  // Settings of AutoAdjust may be written outside that block, if it exists: it inherits like any other.
  AutoAdjustOptions adjust;
  const auto adjusting = config::tabulate([&](config::Fields& f) { adjust.describe(f); })->keys();
  config::read_fields(
      sgd, "SGD", [&](config::Fields& f) { o.describe(f); }, problems, notices, adjusting);
  for (const auto& key : adjusting)
    if (!o.auto_adjust && sgd.has_own(key))
      notices.lines.push_back(
          fmt::format("'{0}' in SGD has no effect here because there is no block AutoAdjust = [ {0} = ... ]", key));
  o.optimizer.min_learning_rate = o.min_learning_rate_per_sample;
  const auto& momenta = !o.momentums_per_sample.empty()        ? o.momentums_per_sample
                        : !o.momentum_as_time_constant.empty() ? o.momentum_as_time_constant
                                                               : o.momentum_per_mb;
  o.optimizer.momentum = !all(momenta.values, [](double v) { return v == 0; });
  note_unused(sgd, o, notices);
  return o;
}

}  // namespace tutti
