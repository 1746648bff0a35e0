// What tests of OUT/log share: trainings that report, and how to read what they wrote.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/validation.hpp>

#include "tests/train/toy.hpp"

namespace mn::toy {

inline const Interval kEach(1, "iteration");
inline constexpr std::int64_t kNever = 1'000'000;

inline nlohmann::json read_log(const std::filesystem::path& out) {
  return parse_json(read_file(out / "log"), "the log");
}

/// The value called `name` of each entry; −1 for an entry without it.
inline std::vector<double> values_of(const nlohmann::json& entries, const std::string& name) {
  std::vector<double> values;
  for (const nlohmann::json& entry : entries)
    values.push_back(entry.contains(name) ? entry.at(name).get<double>() : -1);
  return values;
}

/// Reports the iteration in which it evaluates.
class IterationEvaluator final : public Evaluator {
 public:
  explicit IterationEvaluator(const Trainer& trainer) : trainer_(trainer) {}
  Summary evaluate_local() override {
    Summary summary;
    summary.add("iteration", static_cast<double>(trainer_.iteration()));
    return summary;
  }

 private:
  const Trainer& trainer_;
};

inline void add_validation(Trainer& trainer, Interval trigger) {
  trainer.extend(std::make_unique<extensions::Validation>(
                     create_multi_node_evaluator(std::make_unique<IterationEvaluator>(trainer), world())),
                 {.trigger = trigger});
}

class ReportsTest : public testing::Test {
 protected:
  TestFolder folder_{world()};

  ToyOptions options(std::int64_t iterations) { return {.trainer = {.iterations = iterations, .out = folder_.path()}}; }
  /// A job of `iterations` that reports every third iteration, and validates only at the end.
  std::unique_ptr<ToyJob> job(std::int64_t iterations) {
    auto made = std::make_unique<ToyJob>(world(), options(iterations));
    log_ = &made->trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = Interval(3, "iteration")});
    add_validation(*made->trainer, Interval(kNever, "iteration"));
    return made;
  }
  std::vector<double> iterations_in_file() { return values_of(read_log(folder_.path()), "iteration"); }

  extensions::LogReport* log_ = nullptr;
};

}  // namespace mn::toy
