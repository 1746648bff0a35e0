// What schedules, plateaus and optimizers give, as JSON: torch_numbers_test compares it with Python's. An argument is
// the number of plateaus.
#include <iostream>
#include <random>

#include <torch/torch.h>

#include <mn/core/json.hpp>
#include <mn/job/job.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/optimizers/fused_sgd.hpp>
#include <mn/optimizers/schedules.hpp>
#include <mn/trainer/extensions/learning_rate.hpp>
#include <mn/trainer/extensions/plateau.hpp>
#include <mn/trainer/optimizer.hpp>

#include "tests/train/metric_job.hpp"

namespace mn {
namespace {

using Parameters = std::vector<at::Tensor>;
using Optimizer = std::unique_ptr<torch::optim::Optimizer>;

nlohmann::json rates(const Schedule& schedule, std::int64_t iterations) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < iterations; ++i) all.push_back(schedule(i));
  return all;
}

nlohmann::json schedules(std::int64_t n) {
  return {{"onecycle", rates(one_cycle_schedule(0.5, n), n)},
          {"onecycle rising", rates(one_cycle_schedule(0.5, n, 0.45), n)},
          {"cosine", rates(cosine_schedule(0.5, n, 0.1), n + 1)},
          {"linear", rates(linear_schedule(0.5, n, 0.1), n + 5)},
          {"wsd", rates(wsd_schedule(0.5, n, static_cast<double>(n / 4) / static_cast<double>(n), 0.1), n + 5)},
          {"step", rates(step_schedule(0.5, {n / 3, n * 2 / 3, n * 2 / 3, n * 8 / 9}, 0.3), n + 5)},
          {"constant", rates(constant_schedule(0.5), n)},
          {"warm-up", rates(warm_up(0.125, n, constant_schedule(0.5)), n + 5)},
          {"later warm-up and cosine",
           rates(starting_at(n / 4, warm_up(0.125, n / 8 + 1, cosine_schedule(0.5, n))), n + 5)},
          {"exponential", rates(exponential_schedule(0.5, 0.125, n), n + 1)},
          {"warm-up of steps", rates(warm_up(0.5 / 3, n / 4 + 1, step_schedule(0.5, {n / 2 + 1}, 0.1)), n + 5)}};
}

/// The parameters after each of twelve steps; in every fifth one of them has no gradient.
nlohmann::json steps(const std::shared_ptr<Communicator>& comm, const std::function<Optimizer(Parameters)>& make,
                     bool sparse) {
  const auto wave = [](const at::Tensor& x, double phase) { return torch::sin(x * 0.7 + phase); };
  const at::Tensor p = wave(torch::arange(15.0).view({5, 3}), 0.1).requires_grad_();
  const at::Tensor q = wave(torch::arange(7.0), 2).requires_grad_();
  const auto optimizer = create_multi_node_optimizer(make({p, q}), comm);
  nlohmann::json all;
  for (int k = 0; k < 12; ++k) {
    optimizer->zero_grad();
    const at::Tensor rows = torch::tensor(std::vector<std::int64_t>{k % 5, (k * k) % 5, 1});
    const at::Tensor x = sparse ? torch::embedding(p, rows, -1, false, true) : p;
    at::Tensor loss = (x * wave(torch::arange(x.numel() * 1.0).view(x.sizes()), k)).sum();
    if (k % 5 != 4 && !sparse) loss = loss + (q * wave(torch::arange(7.0), -k)).sum() * 3;
    loss.backward();
    optimizer->step();
    const at::Tensor both = torch::cat({p.detach().flatten(), q.detach()});
    all.push_back(std::vector<float>(both.const_data_ptr<float>(), both.const_data_ptr<float>() + both.numel()));
  }
  return all;
}

/// The rates of a training's iterations with the reports `values`.
std::vector<double> plateau_rates(const std::vector<double>& values, extensions::Better better, double min_delta,
                                  const extensions::PlateauOptions& options) {
  const toy::TestFolder folder(toy::world());
  toy::MetricJob job(folder, values);
  auto& plateau = job.add<extensions::Plateau>(extensions::Monitor(*job.log, "metric", better, min_delta), options);
  job.trainer->extend(std::make_unique<extensions::LearningRate>(plateau.schedule(constant_schedule(1))));
  std::vector<double> rates;
  job.trainer->extend("watch", toy::MetricJob::kEach, [&](Trainer&) { rates.push_back(job.rate()); });
  static_cast<void>(job.trainer->run());
  return rates;
}

/// Random walks of 60 values in steps of 1/4, under random options.
nlohmann::json plateaus(int count) {
  std::mt19937 random(11);
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  nlohmann::json all = nlohmann::json::array();
  for (int i = 0; i < count; ++i) {
    const bool higher = below(2) == 1;
    const double min_delta = below(3) / 4.0;
    const extensions::PlateauOptions options{.factor = below(2) == 0 ? 0.5 : 0.1,
                                             .patience = 1 + below(4),
                                             .cooldown = below(4),
                                             .min_rate = below(3) / 64.0};
    std::vector<double> values;
    nlohmann::json shown = nlohmann::json::array();
    double value = 0;
    for (int k = 0; k < 60; ++k) {
      value += (below(7) - (higher ? 2 : 4)) / 4.0;
      values.push_back(below(20) == 0 ? NAN : value);
      shown.push_back(std::isnan(values.back()) ? nlohmann::json() : nlohmann::json(value));
    }
    const auto rates =
        plateau_rates(values, higher ? extensions::Better::kHigher : extensions::Better::kLower, min_delta, options);
    all.push_back({{"values", shown},
                   {"higher", higher},
                   {"min_delta", min_delta},
                   {"factor", options.factor},
                   {"patience", options.patience},
                   {"cooldown", options.cooldown},
                   {"min_rate", options.min_rate},
                   {"rates", rates}});
  }
  return all;
}

template <class Actual, class Options>
std::function<Optimizer(Parameters)> maker(const Options& options) {
  return [options](Parameters parameters) { return std::make_unique<Actual>(std::move(parameters), options); };
}

nlohmann::json optimizers(const std::shared_ptr<Communicator>& comm) {
  namespace optim = torch::optim;
  nlohmann::json all;
  const auto both = [&]<class Theirs, class Ours>(const std::string& name, const auto& options, bool sparse = false) {
    all[name] = steps(comm, maker<Theirs>(options), sparse);
    all["mn " + name] = steps(comm, maker<Ours>(options), sparse);
  };
  const auto sgd = [&](const std::string& name, const optim::SGDOptions& options, bool sparse = false) {
    both.operator()<optim::SGD, FusedSgd>(name, options, sparse);
  };
  sgd("SGD", optim::SGDOptions(0.1));
  sgd("SGD momentum", optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.05));
  sgd("SGD dampening", optim::SGDOptions(0.1).momentum(0.9).dampening(0.3));
  sgd("SGD nesterov", optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.05));
  sgd("SGD sparse", optim::SGDOptions(0.1), true);
  sgd("SGD sparse momentum", optim::SGDOptions(0.1).momentum(0.9), true);
  both.operator()<optim::Adam, FusedAdam>("Adam", optim::AdamOptions(0.1).weight_decay(0.05));
  both.operator()<optim::Adam, FusedAdam>("Adam amsgrad", optim::AdamOptions(0.1).amsgrad(true).betas({0.5, 0.6}));
  both.operator()<optim::AdamW, FusedAdamW>("AdamW", optim::AdamWOptions(0.1).weight_decay(0.05).eps(1e-3));
  both.operator()<optim::AdamW, FusedAdamW>("AdamW amsgrad", optim::AdamWOptions(0.1).amsgrad(true).betas({0.5, 0.6}));
  all["RMSprop"] = steps(comm, maker<optim::RMSprop>(optim::RMSpropOptions(0.1).weight_decay(0.05)), false);
  all["RMSprop centered"] =
      steps(comm, maker<optim::RMSprop>(optim::RMSpropOptions(0.1).centered(true).momentum(0.9).alpha(0.8)), false);
  all["Adagrad"] =
      steps(comm, maker<optim::Adagrad>(optim::AdagradOptions(0.1).lr_decay(0.1).weight_decay(0.05)), false);
  all["Adagrad sparse"] = steps(comm, maker<optim::Adagrad>(optim::AdagradOptions(0.1)), true);
  return all;
}

}  // namespace
}  // namespace mn

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job&) {
    nlohmann::json all = {{"optimizers", mn::optimizers(mn::create_communicator("naive"))},
                          {"plateaus", mn::plateaus(argc > 1 ? std::atoi(argv[1]) : 20)}};
    for (const std::int64_t n : {1, 2, 3, 4, 10, 45, 1000}) all["schedules"][std::to_string(n)] = mn::schedules(n);
    std::cout << all.dump() << std::endl;
    return 0;
  });
}
