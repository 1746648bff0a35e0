#include "launcher/place/placement.hpp"

#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mn/core/error.hpp>

#include "captured.hpp"
#include "launcher/place/pmi.hpp"
#include "launcher/place/pmix_store.hpp"

namespace mn::launcher {
namespace {

using captured::Task;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const auto kOpen = [](int) { return true; };
const auto kClosed = [](int) { return false; };

/// `pmix`: what a server would say, if it is asked.
Placement placed(const Variables& variables, const std::optional<ServerJob>& pmix = std::nullopt) {
  const Launcher launcher = innermost_launcher(variables, kClosed);
  return find_placement(variables, launcher, needs_server(variables, launcher) ? pmix : std::nullopt);
}

ServerJob pmix_job(int rank, const std::vector<std::string>& hosts, const std::string& name_space = "slurm.pmix.7.0") {
  ServerJob job{name_space, rank, {}, hosts};
  // As Slurm numbers nodes: by name.
  for (const auto& host : hosts) job.node_ids.push_back(host.back() - '1');
  return job;
}

void expect_placement(const Placement& here, std::vector<int> expected) {
  EXPECT_THAT(
      (std::vector<int>{here.rank, here.size, here.intra_rank, here.intra_size, here.inter_rank, here.inter_size}),
      ::testing::ElementsAreArray(expected))
      << here.source;
  EXPECT_THAT(here.conflicts, IsEmpty());
}

TEST(PlacementTest, WithoutLauncherThereIsOneRank) { expect_placement(placed(Variables()), {0, 1, 0, 1, 0, 1}); }

TEST(PlacementTest, JobsWithoutANameOfTheirOwnAreToldApart) {
  EXPECT_THAT(placed(Variables()).job, HasSubstr(std::to_string(getpid())));
  Variables named({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_LOCAL_RANK", "0"}, {"PMI_LOCAL_SIZE", "2"}});
  const std::string job = placed(named).job;
  EXPECT_THAT(job, HasSubstr("user " + std::to_string(getuid())));
  named.set("PBS_JOBID", "17");
  EXPECT_NE(placed(named).job, job);
}

TEST(PlacementTest, BlockDistributionOfASlurmStep) {  // capture A
  expect_placement(placed(captured::step({1, 1, 0, "0,1,2"}, "ma[1-2]", "3,1", 4)), {1, 4, 1, 3, 0, 2});
  expect_placement(placed(captured::step({3, 0, 1, "3"}, "ma[1-2]", "3,1", 4)), {3, 4, 0, 1, 1, 2});
}

TEST(PlacementTest, CyclicDistribution) {  // capture B
  expect_placement(placed(captured::step({3, 2, 0, "0,2,3"}, "ma[1-2]", "3,1", 4, "cyclic")), {3, 4, 2, 3, 0, 2});
  expect_placement(placed(captured::step({1, 0, 1, "1"}, "ma[1-2]", "3,1", 4, "cyclic")), {1, 4, 0, 1, 1, 2});
}

TEST(PlacementTest, PlaneDistribution) {  // capture C
  auto variables = captured::step({5, 2, 0, "0,1,5,6"}, "ma[1-3]", "4,2,1", 7, "plane");
  variables.set("SLURM_DIST_PLANESIZE", "2");
  expect_placement(placed(variables), {5, 7, 2, 4, 0, 3});
}

TEST(PlacementTest, ArbitraryDistribution) {  // capture D: the numbers of the nodes are Slurm's
  const Task tasks[] = {{0, 0, 1, "0,2"}, {1, 0, 0, "1"}, {2, 1, 1, "0,2"}, {3, 0, 2, "3"}};
  const std::vector<int> expected[] = {{0, 4, 0, 2, 1, 3}, {1, 4, 0, 1, 0, 3}, {2, 4, 1, 2, 1, 3}, {3, 4, 0, 1, 2, 3}};
  for (int rank = 0; rank < 4; ++rank) {
    const auto variables = captured::step(tasks[rank], "ma[1-3]", "1,2,1", 4, "arbitrary");
    expect_placement(placed(variables), expected[rank]);
    const auto with_pmix = captured::with_pmix(variables, rank);
    EXPECT_FALSE(needs_server(with_pmix, Launcher::kPmix));
    expect_placement(placed(with_pmix), expected[rank]);
    EXPECT_THAT(placed(with_pmix).hosts, ElementsAre("ma1", "ma2", "ma3"));
  }
}

TEST(PlacementTest, EvenStepOfThreeNodes) {  // capture E
  expect_placement(placed(captured::step({4, 0, 2, "4,5"}, "ma[1-3]", "2(x3)", 6)), {4, 6, 0, 2, 2, 3});
}

TEST(PlacementTest, HeterogeneousStep) {  // capture F: ids restart in each component, ranks don't
  const std::vector<std::string> hosts = {"ma1", "ma1", "ma2"};
  const auto variables = captured::with_pmix(captured::step({2, 0, 1, "2"}, "ma2", "2,1", 3), 2);
  EXPECT_TRUE(needs_server(variables, Launcher::kPmix)) << "a component's variables name its own nodes only";
  expect_placement(placed(variables, pmix_job(2, hosts)), {2, 3, 0, 1, 1, 2});
}

TEST(PlacementTest, BatchScriptItselfIsAlone) {  // capture G
  expect_placement(placed(captured::batch_script()), {0, 1, 0, 1, 0, 1});
  for (const char* reserved : {"-5", "4294967291", "4294967290"}) {  // later versions print the reserved number
    auto variables = captured::batch_script();
    variables.set("SLURM_STEP_ID", reserved);
    EXPECT_EQ(innermost_launcher(variables, kClosed), Launcher::kNone) << reserved;
  }
}

TEST(PlacementTest, MpiexecInABatchScriptIgnoresStaleSlurmVariables) {  // capture H
  const auto variables = captured::with_open_mpi(captured::batch_script(), 1, 2, 1, 2);
  EXPECT_FALSE(needs_server(variables, Launcher::kPmix)) << "the variables describe a job of one node";
  expect_placement(placed(variables), {1, 2, 1, 2, 0, 1});
  EXPECT_EQ(placed(variables).source, "PMIx 10616833");
}

TEST(PlacementTest, AllocationShellIsAlone) {  // capture I
  expect_placement(placed(Variables({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}})),
                   {0, 1, 0, 1, 0, 1});
}

TEST(PlacementTest, MpirunInAnAllocationIgnoresTheDaemonsStep) {  // capture J
  const auto daemons = captured::step({1, 0, 1, "1"}, "ma[1-2]", "1(x2)", 2);
  const auto variables = captured::with_open_mpi(daemons, 3, 4, 1, 2);
  expect_placement(placed(variables, pmix_job(3, {"ma1", "ma1", "ma2", "ma2"}, "10616833")), {3, 4, 1, 2, 1, 2});
}

TEST(PlacementTest, NodesWithOneHostNameAreToldApartByTheLaunchersNames) {  // capture K
  auto variables = captured::with_pmix(captured::step({1, 0, 1, "1"}, "ma[1-2]", "1(x2)", 2), 1);
  variables.set("PMIX_HOSTNAME", "vm");
  expect_placement(placed(variables), {1, 2, 0, 1, 1, 2});
  EXPECT_THAT(placed(variables).hosts, ElementsAre("ma1", "ma2"));
  const auto by_mpiexec = captured::with_open_mpi(Variables(), 1, 2, 0, 1);
  expect_placement(placed(by_mpiexec, pmix_job(1, {"ma1", "ma2"}, "10616833")), {1, 2, 0, 1, 1, 2});
}

TEST(PlacementTest, SlurmsOwnPmiServerLeavesPlacesToSlurm) {  // capture L
  auto variables = captured::step({3, 0, 1, "3"}, "ma[1-2]", "3,1", 4);
  variables.set("PMI_RANK", "3");
  variables.set("PMI_SIZE", "4");
  variables.set("PMI_FD", "6");
  EXPECT_EQ(innermost_launcher(variables, kOpen), Launcher::kSlurm);
  expect_placement(placed(variables), {3, 4, 0, 1, 1, 2});
}

TEST(PlacementTest, HydraKnowsTheRanksOfItsNode) {
  const auto variables = captured::hydra(Variables(), 3, 4, 1, 2);
  ASSERT_EQ(innermost_launcher(variables, kOpen), Launcher::kPmi);
  EXPECT_TRUE(needs_server(variables, Launcher::kPmi)) << "where is the other node?";
  expect_placement(find_placement(variables, Launcher::kPmi, {}), {3, 4, 1, 2, 0, kNotKnown});
  const auto one_node = captured::hydra(Variables(), 1, 2, 1, 2);
  EXPECT_FALSE(needs_server(one_node, Launcher::kPmi));
  expect_placement(find_placement(one_node, Launcher::kPmi, {}), {1, 2, 1, 2, 0, 1});
}

TEST(PlacementTest, HydrasServerTellsTheWholeLayout) {
  const auto variables = captured::hydra(Variables(), 2, 5, 1, 3);
  const ServerJob job{"kvs_7_0", 2, {0, 1, 0, 1, 0}, {"a", "b", "a", "b", "a"}};
  const auto here = find_placement(variables, Launcher::kPmi, job);
  expect_placement(here, {2, 5, 1, 3, 0, 2});
  EXPECT_EQ(here.job, "kvs_7_0");
  EXPECT_THAT(here.conflicts, ElementsAre());
  EXPECT_THAT(find_placement(captured::hydra(Variables(), 2, 5, 0, 3), Launcher::kPmi, job).conflicts,
              ElementsAre("Hydra (PMI) says local rank 1, but MPI_LOCALRANKID is 0"));
}

TEST(PlacementTest, HydrasMappingIsReadBlockByBlockAndBegunAnew) {
  using Nodes = std::vector<int>;
  EXPECT_EQ(nodes_of_mapping("(vector,(0,2,2))", 4), (Nodes{0, 0, 1, 1}));
  EXPECT_EQ(nodes_of_mapping("(vector,(0,1,3),(1,1,1))", 4), (Nodes{0, 0, 0, 1}));
  EXPECT_EQ(nodes_of_mapping("(vector,(0,2,1))", 5), (Nodes{0, 1, 0, 1, 0}));
  EXPECT_EQ(nodes_of_mapping("(vector,(0,2,1),(2,1,2))", 6), (Nodes{0, 1, 2, 2, 0, 1}));
  for (const char* malformed : {"", "(vector)", "(vector,(0,0,1))", "(vector,(0,1))", "(vector,(-1,1,1))"}) {
    EXPECT_EQ(nodes_of_mapping(malformed, 4), std::nullopt) << malformed;
  }
  EXPECT_EQ(nodes_of_mapping("(vector,(7,65536,65536))", 2), (Nodes{7, 7})) << "more ranks than an int counts";
  EXPECT_EQ(nodes_of_mapping("(vector,(0,1,1))", 2'000'000'000), std::nullopt);
}

TEST(PlacementTest, HydraInsideASlurmTaskWinsAsLongAsItsSocketIsOpen) {
  const auto outer = captured::with_pmix(captured::step({0, 0, 0, "0"}, "ma1", "1", 1), 0);
  const auto variables = captured::hydra(outer, 1, 2, 1, 2);
  EXPECT_EQ(innermost_launcher(variables, kOpen), Launcher::kPmi);
  EXPECT_EQ(innermost_launcher(variables, kClosed), Launcher::kPmix);
}

TEST(PlacementTest, OpenMpiVariablesServeWhereItsServerDoesNotAnswer) {
  const auto variables = captured::with_open_mpi(Variables(), 1, 4, 1, 4);
  EXPECT_EQ(launcher_without_server(variables), Launcher::kVariables);
  expect_placement(find_placement(variables, Launcher::kVariables, {}), {1, 4, 1, 4, 0, 1});
  const auto alone = captured::with_open_mpi(Variables(), 0, 1, 0, 1);
  expect_placement(find_placement(alone, launcher_without_server(alone), {}), {0, 1, 0, 1, 0, 1});
}

TEST(PlacementTest, WhereNoServerAnswersTwoLaunchersThatDisagreeAreRefused) {
  const auto step = captured::step({1, 0, 1, "1"}, "ma[1-2]", "1(x2)", 2);
  const auto leaked = captured::with_open_mpi(step, 0, 1, 0, 1);
  auto hydra = captured::hydra(step, 0, 1, 0, 1);
  hydra.set("PMI_PORT", "ma1:1234");
  for (const auto& variables : {leaked, hydra}) {
    try {
      static_cast<void>(find_placement(variables, launcher_without_server(variables), {}));
      ADD_FAILURE() << "nothing thrown";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 0 of 1, those of Slurm step 7.0 rank 1 of 2"));
    }
  }
  const auto agreed = captured::with_open_mpi(step, 1, 2, 0, 1);
  expect_placement(find_placement(agreed, launcher_without_server(agreed), {}), {1, 2, 0, 1, 0, kNotKnown});
}

TEST(PlacementTest, VariablesOfOtherLaunchersTellThePlace) {
  const char* const launchers[][4] = {
      {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
      {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"},
      {"PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PMI_LOCAL_SIZE"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
      {"PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"}};
  for (const auto& [rank, size, local_rank, local_size] : launchers) {
    const Variables told({{rank, "3"}, {size, "4"}, {local_rank, "1"}, {local_size, "2"}});
    EXPECT_EQ(innermost_launcher(told, kClosed), Launcher::kVariables) << rank;
    expect_placement(placed(told), {3, 4, 1, 2, 0, kNotKnown});
    const Variables incomplete({{rank, "3"}, {size, "4"}});
    EXPECT_THROW(static_cast<void>(placed(incomplete)), UsageError) << rank;
    const Variables alone({{rank, "0"}, {size, "1"}});
    expect_placement(placed(alone), {0, 1, 0, 1, 0, 1});
  }
}

TEST(PlacementTest, FluxTellsTheNodesThroughItsServerAlsoInsideASlurmStep) {
  auto variables = captured::step({1, 0, 1, "1"}, "ma[1-2]", "1(x2)", 2);  // of Flux's own brokers
  for (const auto& [name, value] : {std::pair("PMI_RANK", "2"), {"PMI_SIZE", "4"}, {"PMI_FD", "6"}}) {
    variables.set(name, value);
  }
  variables.set("FLUX_TASK_RANK", "2");
  ASSERT_EQ(innermost_launcher(variables, kOpen), Launcher::kPmi);
  EXPECT_TRUE(needs_server(variables, Launcher::kPmi));
  const ServerJob job{"f1", 2, {0, 0, 1, 1}, {"a", "a", "b", "b"}};
  expect_placement(find_placement(variables, Launcher::kPmi, job), {2, 4, 0, 2, 1, 2});
}

TEST(PlacementTest, AStaleRankOfTheSameStepIsAConflictThatNamesBothValues) {
  auto variables = captured::with_pmix(captured::step({2, 0, 1, "2,3"}, "ma[1-2]", "2(x2)", 4), 2);
  variables.set("SLURM_PROCID", "0");
  const auto here = placed(variables);
  EXPECT_EQ(here.rank, 2);
  EXPECT_THAT(here.conflicts, ElementsAre("PMIx slurm.pmix.7.0 says rank 2, but SLURM_PROCID is 0"));
  auto without_pmix = captured::step({2, 0, 1, "2,3"}, "ma[1-2]", "2(x2)", 4);
  without_pmix.set("SLURM_PROCID", "0");
  EXPECT_EQ(placed(without_pmix).rank, 2);
  EXPECT_THAT(placed(without_pmix).conflicts, ElementsAre("Slurm step 7.0 says rank 2, but SLURM_PROCID is 0"));
}

TEST(PlacementTest, AnotherStepsVariablesAreAConflict) {
  auto variables = captured::with_pmix(captured::step({0, 0, 0, "0"}, "ma1", "1", 1), 0, "slurm.pmix.7.3");
  const auto here = placed(variables, pmix_job(0, {"ma1"}, "slurm.pmix.7.3"));
  EXPECT_THAT(here.conflicts, ElementsAre(HasSubstr("SLURM_JOB_ID.SLURM_STEP_ID is 7.0")));
}

TEST(PlacementTest, OpenMpiSizeThatContradictsItsServerIsAConflict) {
  auto variables = captured::with_open_mpi(Variables(), 0, 5, 0, 2);
  const auto here = placed(variables, pmix_job(0, {"ma1", "ma1"}, "1"));
  EXPECT_THAT(here.conflicts, ElementsAre("PMIx 1 says size 2, but OMPI_COMM_WORLD_SIZE is 5"));
}

/// A file of locks as a PMIx 4 server makes it, mapped as its clients map it.
class MappedLocks {
 public:
  MappedLocks(std::size_t bytes, std::uint32_t count, std::vector<std::int32_t> marks) {
    std::string folder = "/tmp/pmix_dstor_ds21_XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    const int file = open((folder_ / "smlockseg-7").c_str(), O_RDWR | O_CREAT, 0600);
    EXPECT_EQ(ftruncate(file, kBytes), 0);
    memory_ = static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
    const std::size_t header[] = {bytes, count, 64, 64};
    std::memcpy(memory_, header, sizeof header);
    std::memcpy(memory_ + sizeof header, marks.data(), marks.size() * sizeof marks[0]);
  }
  ~MappedLocks() {
    munmap(memory_, kBytes);
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::vector<std::int32_t> marks() const {
    std::vector<std::int32_t> marks(2);
    std::memcpy(marks.data(), memory_ + 4 * sizeof(std::size_t), 2 * sizeof(std::int32_t));
    return marks;
  }
  static constexpr std::size_t kBytes = 4096;

 private:
  std::filesystem::path folder_;
  char* memory_ = nullptr;
};

TEST(PlacementTest, LocksOfAPmixStoreAreFreeForTheProgram) {
  EXPECT_TRUE(free_locks_of_store()) << "no store";
  const MappedLocks taken(MappedLocks::kBytes, 2, {1, 1});
  EXPECT_TRUE(free_locks_of_store());
  EXPECT_THAT(taken.marks(), ElementsAre(0, 0));
}

TEST(PlacementTest, UnknownLocksOfAPmixStoreStayAsTheyAre) {
  const MappedLocks other_marks(MappedLocks::kBytes, 2, {1, 2});
  EXPECT_FALSE(free_locks_of_store());
  EXPECT_THAT(other_marks.marks(), ElementsAre(1, 2));
}

TEST(PlacementTest, LocksOfAPmixStoreOfAnotherFormStayAsTheyAre) {
  for (const auto& [bytes, count] : {std::pair<std::size_t, std::uint32_t>{8192, 2}, {MappedLocks::kBytes, 99}}) {
    const MappedLocks other_form(bytes, count, {1, 1});
    EXPECT_FALSE(free_locks_of_store());
    EXPECT_THAT(other_form.marks(), ElementsAre(1, 1));
  }
}

TEST(PlacementTest, MalformedAndMissingVariablesAreNamed) {
  auto variables = captured::step({1, 1, 0, "0,1"}, "ma1", "2", 2);
  variables.set("SLURM_PROCID", "one");
  EXPECT_THROW(static_cast<void>(placed(variables)), UsageError);
  const auto hydra = Variables({{"PMI_RANK", "1"}, {"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"}});
  try {
    static_cast<void>(find_placement(hydra, Launcher::kPmi, {}));
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("PMI_SIZE is not set"));
  }
}

TEST(PlacementTest, ImpossibleNumbersAreRefused) {
  EXPECT_THROW(static_cast<void>(find_placement(captured::hydra(Variables(), 4, 4, 0, 2), Launcher::kPmi, {})),
               UsageError);
}

}  // namespace
}  // namespace mn::launcher
