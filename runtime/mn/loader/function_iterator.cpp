#include <mn/loader/function_iterator.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn {
namespace {

class FunctionIterator final : public Iterator {
 public:
  FunctionIterator(std::int64_t steps, MakeBatch make_batch) : steps_(steps), make_batch_(std::move(make_batch)) {}

  std::optional<Batch> next() override {
    if (std::exchange(at_end_, false)) return std::nullopt;
    const auto begin = std::chrono::steady_clock::now();
    Batch batch = make_batch_(epoch_, step_);
    wait_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (batch.samples == 0 && batch.data.defined() && batch.data.dim() > 0) batch.samples = batch.data.size(0);
    if (++step_ == steps_) {
      step_ = 0;
      ++epoch_;
      at_end_ = true;
    }
    return batch;
  }

  std::int64_t epoch() const override { return epoch_; }
  double epoch_detail() const override {
    return static_cast<double>(epoch_) + static_cast<double>(step_) / static_cast<double>(steps_);
  }
  std::int64_t steps_per_epoch() const override { return steps_; }
  double data_wait_s() const override { return wait_s_; }

  nlohmann::json state() const override { return {{"epoch", epoch_}, {"step", step_}, {"steps", steps_}}; }
  void load_state(const nlohmann::json& state) override {
    epoch_ = whole_number<std::int64_t>(state.at("epoch"));
    const auto done = state.at("step").get<double>() / state.at("steps").get<double>();
    step_ = std::min(std::llround(done * static_cast<double>(steps_)), static_cast<long long>(steps_ - 1));
    at_end_ = false;
  }

 private:
  std::int64_t steps_;
  MakeBatch make_batch_;
  std::int64_t epoch_ = 0;
  std::int64_t step_ = 0;  // number, in the epoch, of the step that next() makes
  bool at_end_ = false;    // the next call of next() reports the end of an epoch
  double wait_s_ = 0;
};

}  // namespace

std::shared_ptr<Iterator> create_iterator(std::int64_t steps_per_epoch, MakeBatch make_batch) {
  if (steps_per_epoch < 1 || !make_batch) {
    throw ArgumentError("create_iterator needs a function and 1 step an epoch at least, got " +
                        std::to_string(steps_per_epoch) + " steps");
  }
  return std::make_shared<FunctionIterator>(steps_per_epoch, std::move(make_batch));
}

}  // namespace mn
