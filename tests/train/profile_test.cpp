// OUT/profile.jsonl and OUT/trace.json.
#include <chrono>
#include <map>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/trace.hpp>
#include <mn/trainer/extensions/profile.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using nlohmann::json;
using toy::TestFolder;
using toy::ToyJob;
using toy::world;

void pause(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

/// A pointer to an operation; its class depends on libtorch's version.
using Operation = std::remove_cvref_t<decltype(at::Tensor().grad_fn())>;

/// Holds every backward pass between the second layer's gradients and the first's until a reduction has ended.
class HeldBackward final : public Extension {
 public:
  std::string name() const override { return "held backward"; }
  void after_forward(Trainer& trainer, const at::Tensor& loss) override {
    Operation node = loss.grad_fn();  // nll ← log_softmax ← second layer ← tanh ← …
    while (node && node->name() != "TanhBackward0") node = before(*node);
    found_ = node != nullptr;
    if (found_) node->add_pre_hook(std::make_unique<Hold>(trainer.optimizer()));
  }
  bool found_ = false;

 private:
  /// The operation, not a parameter, that made an input of this one.
  static Operation before(const torch::autograd::Node& node) {
    Operation found;
    for (const auto& edge : node.next_edges()) {
      const std::string name = edge.function ? edge.function->name() : "";
      if (!name.empty() && name != "torch::autograd::AccumulateGrad" && name != "TBackward0") found = edge.function;
    }
    return found;
  }

  struct Hold : torch::autograd::FunctionPreHook {
    explicit Hold(const MultiNodeOptimizer& trained) : optimizer(trained), before(trained.bytes_sent()) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
      for (int tries = 0; world()->size() > 1 && optimizer.bytes_sent() == before && tries < 2000; ++tries) pause(1);
      return gradients;
    }
    const MultiNodeOptimizer& optimizer;
    std::uint64_t before;
  };
};

toy::ToyOptions profiled(const std::filesystem::path& out, std::int64_t iterations, bool overlap) {
  const auto trace = std::make_shared<Trace>();
  return {.trainer = {.iterations = iterations, .out = out, .trace = trace},
          .optimizer = {.overlap = overlap, .deterministic = true, .bucket_bytes = 1, .trace = trace}};
}

std::vector<json> lines_of(const std::filesystem::path& path) {
  std::vector<json> lines;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST(ProfileTest, HasALineForEachStepWithEveryRank) {
  const TestFolder folder(world());
  ToyJob job(world(), profiled(folder.path(), 47, false));  // two windows and a rest
  job.trainer->extend(std::make_unique<extensions::Profile>());
  EXPECT_EQ(job.trainer->run(), 0);

  const auto lines = lines_of(folder.path() / "profile.jsonl");
  EXPECT_EQ(lines.size(), 47U);
  const auto ranks = static_cast<std::size_t>(world()->size());
  for (std::size_t k = 0; k < lines.size(); ++k) {
    EXPECT_EQ(lines[k].at("iteration"), k + 1);
    for (const char* column : {"data_s", "compute_s", "communication_s", "bytes"}) {
      EXPECT_EQ(lines[k].at(column).size(), ranks) << column;
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      EXPECT_GT(lines[k]["compute_s"][r], 0.0);
      EXPECT_GT(lines[k]["communication_s"][r], 0.0);
      EXPECT_GE(lines[k]["data_s"][r], 0.0);
      EXPECT_EQ(lines[k]["bytes"][r] > 0, ranks > 1);
    }
  }
}

TEST(ProfileTest, TheTraceShowsCommunicationDuringBackward) {
  const TestFolder folder(world());
  auto options = profiled(folder.path(), 12, true);
  options.size = 8 * world()->size();  // every rank has samples in every step
  ToyJob job(world(), options);
  auto& held = job.trainer->extend(std::make_unique<HeldBackward>());
  job.trainer->extend(std::make_unique<extensions::Profile>());
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_TRUE(held.found_);

  const json trace = json::parse(read_file(folder.path() / "trace.json"));
  std::map<int, std::vector<json>> backward, communication;
  std::map<std::string, int> spans;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M") continue;
    EXPECT_EQ(event.at("ph"), "X");
    EXPECT_GE(event.at("dur"), 0.0);
    ++spans[event.at("name")];
    if (event.at("name") == "backward") backward[event.at("pid")].push_back(event);
    if (event.at("tid") == 1) communication[event.at("pid")].push_back(event);
  }
  for (const char* name : {"wait for data", "forward", "backward", "wait for gradients", "update"}) {
    EXPECT_GE(spans[name], 12 * world()->size()) << name;
  }
  for (int rank = 0; world()->size() > 1 && rank < world()->size(); ++rank) {
    int within = 0;
    for (const json& span : communication[rank]) {
      for (const json& step : backward[rank]) {
        const double begin = step.at("ts");
        const double end = begin + step.at("dur").get<double>();
        if (span.at("ts") > begin && span.at("ts") < end) ++within;
      }
    }
    EXPECT_GE(within, 12) << "rank " << rank << ": reductions that began within a backward pass";
    EXPECT_GT(communication[rank].front().at("args").at("bytes"), 0);
  }
}

TEST(ProfileTest, NeedsATrace) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.iterations = 1, .out = folder.path()}});
  job.trainer->extend(std::make_unique<extensions::Profile>());
  EXPECT_THROW((void)job.trainer->run(), ArgumentError);
}

}  // namespace
}  // namespace mn
