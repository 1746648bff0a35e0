#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "facts_equal.hpp"
#include "healthy.hpp"
#include "launcher/checks/checks.hpp"
#include "launcher/facts/collect.hpp"
#include "launcher/facts/json_fields.hpp"

namespace mn::launcher {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Facts>
Facts parsed(const json& document) {
  Facts facts;
  json_fields::read(document, "", facts);
  return facts;
}

std::string error_of(const json& document) {
  try {
    static_cast<void>(parsed<NodeFacts>(document));
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

/// Every leaf of `document`.
void collect_leaves(const json& document, const json::json_pointer& at, std::vector<json::json_pointer>& leaves) {
  if (!document.is_structured() || document.empty()) {
    leaves.push_back(at);
    return;
  }
  for (const auto& [key, value] : document.items()) {
    const json::json_pointer below = document.is_array() ? at / std::stoul(key) : at / key;
    collect_leaves(value, below, leaves);
  }
}

/// A node with a value of every fact and an entry in every list.
NodeFacts full_node() {
  NodeFacts facts = healthy_node(0);
  facts.system.xids = {"GPU 0000:3b:00 XID 79"};
  for (FolderFacts* folder : {&facts.system.shm, &facts.system.folder, &facts.system.tmp}) folder->shared = false;
  facts.network->failures = {"no TCP connection to vn2"};
  facts.program.missing = {"libfoo.so.1"};
  facts.program.script_mpi = "mpi4py";
  facts.program.python = {{"torch", "2.11.0"}};
  facts.machine.nics = {{"mlx5_0", {0, 1}}};
  facts.system.cpu.quota = 2.5;
  return facts;
}

TEST(FactsJsonTest, ARoundTripKeepsEveryFact) {
  const NodeFacts node = full_node();
  EXPECT_EQ(parsed<NodeFacts>(json_fields::write(node)), node);
  RankFacts rank = healthy_job().ranks[0];
  rank.conflicts = {"a conflict"};
  EXPECT_EQ(parsed<RankFacts>(json_fields::write(rank)), rank);
}

TEST(FactsJsonTest, AbsentAndUnknownFieldsHaveNoValue) {
  const json document = {{"machine", json_fields::write(healthy_machine())},
                         {"of a later version", {1, 2}},
                         {"system", {{"limits", {{"nofile", nullptr}, {"threads", 7}}}}}};
  const auto facts = parsed<NodeFacts>(document);
  EXPECT_EQ(facts.system.limits.nofile, std::nullopt);
  EXPECT_EQ(facts.network, std::nullopt);
  EXPECT_EQ(facts.environment, std::nullopt);
  NodeFacts expected;
  expected.machine = healthy_machine();
  EXPECT_EQ(facts, expected);
}

TEST(FactsJsonTest, ANodeThatReportsOnlyItsHardwareIsFoundByChecksThatSaySo) {
  auto job = healthy_job();
  job.nodes[2] = parsed<NodeFacts>({{"machine", json_fields::write(job.nodes[2].machine)}});
  std::set<std::string> reporting;
  for (const auto& finding : run_checks(job)) {
    EXPECT_THAT(finding.hosts, ElementsAre("vn3"));
    reporting.insert(finding.check);
  }
  EXPECT_THAT(reporting, ElementsAre("driver", "files", "program"));
}

TEST(FactsJsonTest, AFieldOfAnotherTypeIsNamed) {
  json document = json_fields::write(healthy_node(0));
  document["system"]["limits"]["memlock"] = "unlimited";
  EXPECT_THAT(error_of(document), HasSubstr("system.limits.memlock does not have the expected form: "));
  document = json_fields::write(healthy_node(0));
  document["driver"]["gpus"][1]["ecc"] = "yes";
  EXPECT_THAT(error_of(document), HasSubstr("driver.gpus[1].ecc does not have the expected form: "));
  document = json_fields::write(healthy_node(0));
  document["files"] = json::array({json::array({"data.h5", 10})});
  EXPECT_EQ(error_of(document), "files[0] is not an object but of type array");
  document.erase("files");
  document.erase("machine");
  EXPECT_EQ(error_of(document), "machine is absent");
  EXPECT_EQ(error_of({1, 2}), "the document is not an object but of type array");
}

TEST(FactsJsonTest, NoWrongTypeCrashes) {
  const json document = json_fields::write(full_node());
  std::vector<json::json_pointer> leaves;
  collect_leaves(document, json::json_pointer(), leaves);
  for (const auto& leaf : leaves) {
    for (const json& wrong : {json("x"), json(-1), json(1e300), json(true), json::array({1}), json::object()}) {
      json damaged = document;
      damaged[leaf] = wrong;
      const std::string error = error_of(damaged);
      EXPECT_THAT(error, ::testing::Not(HasSubstr("\n"))) << leaf;
    }
  }
}

TEST(FactsJsonTest, FactsOfANodeStayBelowTheirLimit) {
  NodeFacts facts = healthy_node(0);
  const auto bytes = [&] { return json::to_cbor(json_fields::write(facts)).size(); };
  limit_size(facts);
  EXPECT_EQ(facts.environment->at("PATH"), "/opt/mpi/bin") << "small facts stay as they are";
  for (int i = 0; i < 200; ++i) (*facts.environment)["NCCL_" + std::to_string(i)] = std::string(150, 'x');
  EXPECT_GT(bytes(), 16u << 10);
  limit_size(facts);
  EXPECT_LE(bytes(), 16u << 10);
  EXPECT_EQ(facts.environment->size(), 202u);
  EXPECT_EQ(facts.environment->at("PATH"), hash_of_value("/opt/mpi/bin"));
  limit_size(facts);
  EXPECT_EQ(facts.environment->at("PATH"), hash_of_value("/opt/mpi/bin")) << "a hash stays";
}

TEST(FactsJsonTest, FactsOfARankAreSmall) {
  RankFacts facts = healthy_job().ranks[0];
  facts.resources.gpus.clear();
  for (int gpu = 0; gpu < 8; ++gpu) {
    facts.resources.gpus.push_back(
        {"GPU-12345678-1234-1234-1234-123456789abc", "0000:0" + std::to_string(gpu) + ":00.0"});
  }
  EXPECT_LT(json::to_cbor(json_fields::write(facts)).size(), 1u << 10);
}

}  // namespace
}  // namespace mn::launcher
