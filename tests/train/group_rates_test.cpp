// Groups of parameters by their names, each with a schedule of its own, and their rates in the log and in TensorBoard.
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/optimizers/fused_sgd.hpp>
#include <mn/optimizers/parameter_groups.hpp>
#include <mn/trainer/extensions/learning_rate.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/plateau.hpp>
#include <mn/trainer/extensions/tensorboard.hpp>

#include "tests/train/checkpoint_helpers.hpp"

namespace mn {
namespace {

using extensions::Better;
using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using toy::world;

/// Two linear layers and a normalization, and "tied", which is the first layer again.
struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(3);
    body = register_module("body", torch::nn::Linear(6, 4));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({4})));
    head = register_module("head", torch::nn::Linear(4, 3));
    register_module("tied", body);
  }
  at::Tensor forward(const at::Tensor& x) { return head(norm(torch::tanh(body(x)))); }
  torch::nn::Linear body{nullptr}, head{nullptr};
  torch::nn::LayerNorm norm{nullptr};
};

struct GroupNumbers {
  double rate, decay;
  std::size_t parameters;
  bool operator==(const GroupNumbers&) const = default;
};

std::vector<GroupNumbers> numbers_of(const ParameterGroups& made) {
  std::vector<GroupNumbers> all;
  for (const auto& group : made.groups) {
    const auto& options = static_cast<const torch::optim::SGDOptions&>(group.options());
    all.push_back({options.lr(), options.weight_decay(), group.params().size()});
  }
  return all;
}

TEST(ParameterGroupsTest, FollowTheRulesAndLeaveBiasesAndNormalizationsUndecayed) {
  const Net net;
  const auto settings = torch::optim::SGDOptions(0.5).weight_decay(0.25);
  const auto plain = parameter_groups(net, settings);
  EXPECT_EQ(numbers_of(plain), (std::vector<GroupNumbers>{{0.5, 0.25, 2}, {0.5, 0, 4}}));
  EXPECT_THAT(plain.names, ElementsAre("", ""));
  EXPECT_EQ(numbers_of(parameter_groups(net, settings, {}, Decay::kAll)), (std::vector<GroupNumbers>{{0.5, 0.25, 6}}));
  EXPECT_EQ(numbers_of(parameter_groups(net, torch::optim::SGDOptions(0.5))), (std::vector<GroupNumbers>{{0.5, 0, 6}}));
  // "body" takes what "*.bias" would match, too: the first rule counts.
  const auto made = parameter_groups(
      net, settings, {{.pattern = "body", .rate = 0.125, .weight_decay = 1}, {.pattern = "*.bias", .rate = 2}});
  EXPECT_EQ(numbers_of(made),
            (std::vector<GroupNumbers>{{0.5, 0.25, 1}, {0.5, 0, 1}, {0.0625, 1, 1}, {0.0625, 0, 1}, {1, 0, 2}}));
  EXPECT_THAT(made.names, ElementsAre("", "", "body", "body", "*.bias"));
  // 0 and 0.001 are the defaults of the class, which some versions of libtorch take for absent.
  const auto optimizer = make_optimizer<torch::optim::SGD>(
      parameter_groups(net, settings, {{.pattern = "body", .rate = 0.002}}).groups, settings);
  EXPECT_EQ(numbers_of({optimizer->param_groups(), {}}),
            (std::vector<GroupNumbers>{{0.5, 0.25, 1}, {0.5, 0, 3}, {0.001, 0.25, 1}, {0.001, 0, 1}}));
  EXPECT_THAT([&] { (void)parameter_groups(net, settings, {{.pattern = "haed"}}); },
              ThrowsMessage<ArgumentError>(HasSubstr("the group \"haed\"")));
  EXPECT_THAT(
      [&] {
        (void)parameter_groups(net, settings, {{.pattern = "*"}, {.pattern = "head"}});
      },
      ThrowsMessage<ArgumentError>(HasSubstr("an earlier group has taken the parameters")));
}

class GroupRatesTest : public toy::CheckpointTest {
 protected:
  struct Job {
    std::shared_ptr<Net> net;
    std::unique_ptr<Trainer> trainer;
    extensions::LogReport* log;
  };

  /// A job with the rates of `schedules`, which is called with the number of iterations of an epoch.
  Job make(std::int64_t iterations, std::int64_t batchsize,
           const std::function<std::vector<Schedule>(std::int64_t epoch)>& schedules, bool named = true) const {
    Job job = make_constant(iterations, batchsize, named);
    job.trainer->extend(std::make_unique<extensions::LearningRate>(schedules(job.trainer->iterations_per_epoch())));
    return job;
  }
  Job make_constant(std::int64_t iterations, std::int64_t batchsize, bool named) const {
    Job job{std::make_shared<Net>(), nullptr, nullptr};
    const auto settings = torch::optim::SGDOptions(0.5).weight_decay(0.25);
    auto [groups, names] = parameter_groups(*job.net, settings, {{.pattern = "head"}});
    auto optimizer = create_multi_node_optimizer(make_optimizer<FusedSgd>(std::move(groups), settings), world());
    if (named) optimizer->name_groups(names);
    job.trainer = std::make_unique<Trainer>(
        world(), std::move(optimizer), std::make_shared<toy::ToyIterator>(96, batchsize, *world()), job.net,
        [net = job.net](const Batch& batch, Summary&) { return net->forward(batch.data).pow(2).mean(); },
        TrainerOptions{.iterations = iterations, .out = folder_.path()});
    job.log = &job.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = Interval(1, "iteration")});
    return job;
  }
  static std::vector<double> logged(const Job& job, const std::string& key) {
    std::vector<double> rates;
    for (const auto& entry : job.log->entries()) rates.push_back(entry.value(key, -1.0));
    return rates;
  }
};

/// Groups: "", "" without decay, "head", "head" without decay.
std::vector<Schedule> later_head(std::int64_t start, std::int64_t rising, double rate) {
  const Schedule common = constant_schedule(0.125),
                 head = starting_at(start, warm_up(0, rising, constant_schedule(rate)));
  return {common, common, head, head};
}

TEST_F(GroupRatesTest, EachGroupHasItsCurveWhichTheLogShows) {
  const std::int64_t batchsize = 24 / world()->size();
  Job job = make(6, batchsize, [](std::int64_t) { return later_head(2, 2, 0.5); });
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_THAT(logged(job, "lr"), testing::Each(0.125));
  EXPECT_THAT(logged(job, "lr/head"), ElementsAre(0, 0, 0, DoubleEq(0.25), 0.5, 0.5));
  EXPECT_EQ(job.log->entries().front().count("lr/"), 0U);
  // Without names; a group whose rate is the first one's has no value before it differs, and always has one later.
  Job unnamed = make(
      5, batchsize,
      [](std::int64_t) {
        return std::vector{constant_schedule(1), step_schedule(1, {2, 3}), constant_schedule(1), constant_schedule(1)};
      },
      false);
  EXPECT_EQ(unnamed.trainer->run(), 0);
  EXPECT_THAT(logged(unnamed, "lr/group1"), ElementsAre(-1, -1, DoubleEq(0.1), DoubleEq(0.01), DoubleEq(0.01)));
  EXPECT_THAT(logged(unnamed, "lr/group2"), testing::Each(-1));
}

TEST_F(GroupRatesTest, AResumeContinuesEachCurveInItsEpoch) {
  const std::int64_t batchsize = 24 / world()->size();
  const auto in_epochs = [](std::int64_t epoch) { return later_head(epoch, epoch, 0.5); };
  Job first = make(4, batchsize, in_epochs);  // an epoch
  EXPECT_EQ(first.trainer->run(), 0);
  first.trainer->save(checkpoint_path(folder_.path(), 4));
  Job second = make(8, batchsize, in_epochs);
  EXPECT_TRUE(second.trainer->resume("auto"));
  EXPECT_EQ(second.trainer->run(), 0);
  EXPECT_THAT(logged(second, "lr/head"), ElementsAre(0, 0, 0, 0, 0, DoubleEq(0.125), DoubleEq(0.25), DoubleEq(0.375)));
  // Minibatches of half the size: an epoch has eight iterations.
  Job halved = make(10, batchsize / 2, in_epochs);
  EXPECT_TRUE(halved.trainer->resume("auto"));
  EXPECT_EQ(halved.trainer->run(), 0);
  EXPECT_THAT(logged(halved, "lr/head"), ElementsAre(0, 0, 0, 0, 0, DoubleEq(0.0625), DoubleEq(0.125), DoubleEq(0.1875),
                                                     DoubleEq(0.25), DoubleEq(0.3125)));
}

/// The points of a curve in TensorBoard's event file.
std::vector<float> points_of(const std::string& events, const std::string& tag) {
  const std::string mark = "\x0a" + std::string(1, static_cast<char>(tag.size())) + tag + "\x15";
  std::vector<float> points;
  for (std::size_t at = events.find(mark); at != std::string::npos; at = events.find(mark, at + 1)) {
    std::memcpy(&points.emplace_back(), events.data() + at + mark.size(), sizeof(float));
  }
  return points;
}

TEST_F(GroupRatesTest, APlateauLowersEachGroupToTheLeastRate) {
  const Interval each(1, "iteration");
  Job job = make_constant(8, 24 / world()->size(), false);
  job.trainer->extend("report", each, [](Trainer& trainer) { trainer.report("metric", 1); });
  const auto& plateau = job.trainer->extend(
      std::make_unique<extensions::Plateau>(extensions::Monitor(*job.log, "metric", Better::kLower),
                                            extensions::PlateauOptions{.factor = 0.5, .patience = 2, .min_rate = 0.25}),
      {.trigger = each});
  std::vector<Schedule> schedules;  // the first group is frozen; the last one's rate is below the least
  for (const double rate : {0.0, 0.5, 1.0, 0.125}) schedules.push_back(plateau.schedule(constant_schedule(rate)));
  job.trainer->extend(std::make_unique<extensions::LearningRate>(std::move(schedules)));
  job.trainer->extend(std::make_unique<extensions::TensorBoard>(*job.log));
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_THAT(logged(job, "lr"), testing::Each(0));
  EXPECT_THAT(logged(job, "lr/group1"), ElementsAre(0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25));
  EXPECT_THAT(logged(job, "lr/group2"), ElementsAre(1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25));
  EXPECT_THAT(logged(job, "lr/group3"), testing::Each(0.125));
  EXPECT_EQ(plateau.scale(), 0.25) << "no rate is left to fall";
  world()->barrier();
  const std::string events = read_file(std::filesystem::directory_iterator(folder_.path() / "tensorboard")->path());
  EXPECT_THAT(points_of(events, "lr/group2"), ElementsAre(1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25));
  EXPECT_THAT(points_of(events, "lr/group3"), testing::Each(0.125));
  EXPECT_EQ(points_of(events, "lr/group1").size(), 8U);
}

TEST_F(GroupRatesTest, ANumberOfSchedulesThatIsNotTheGroupsIsAnError) {
  Job job = make(6, 4, [](std::int64_t) { return std::vector<Schedule>(3, constant_schedule(1)); });
  EXPECT_THAT([&] { static_cast<void>(job.trainer->run()); },
              ThrowsMessage<ArgumentError>(HasSubstr("has 3 schedules, but the optimizer has 4 groups")));
}

}  // namespace
}  // namespace mn
