#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "healthy.hpp"

namespace mn::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Gpu& gpu(JobFacts& job, std::size_t node, std::size_t index) { return job.nodes[node].driver->gpus[index]; }

void expect_one(const Findings& findings, bool is_error, const std::string& host, const std::string& what) {
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].is_error, is_error);
  EXPECT_THAT(findings[0].hosts, ElementsAre(host));
  EXPECT_THAT(findings[0].what, HasSubstr(what));
}

TEST(GpuCheckTest, RanksWithoutAGpu) {
  auto job = healthy_job();
  EXPECT_THAT(check_devices(job), IsEmpty());
  job.bindings[1][1].gpu = -1;
  expect_one(check_devices(job), true, "vn2", "1 of 2 ranks");
}

TEST(GpuCheckTest, SharedGpusAreAWarningUnlessTheyAreMeant) {
  auto job = healthy_job();
  for (auto& binding : job.bindings[1]) binding.shares_gpu = true;
  expect_one(check_devices(job), false, "vn2", "2 ranks share GPUs");
  job.gpu_sharing_is_meant = true;
  EXPECT_THAT(check_devices(job), IsEmpty());
}

TEST(GpuCheckTest, NodesWithoutGpusNeedNone) {
  auto job = healthy_job();
  for (auto& rank : job.ranks) rank.resources.gpus.clear();
  for (auto& node : job.bindings) {
    for (auto& binding : node) binding.gpu = -1;
  }
  EXPECT_THAT(check_devices(job), IsEmpty());
}

TEST(GpuCheckTest, CountsDiffer) {
  auto job = healthy_job();
  EXPECT_THAT(check_gpu_counts(job), IsEmpty());
  job.nodes[2].driver->gpus.pop_back();
  expect_one(check_gpu_counts(job), false, "vn3", "is 1, but 2 on other nodes");
}

TEST(GpuCheckTest, DriversDiffer) {
  auto job = healthy_job();
  EXPECT_THAT(check_driver(job), IsEmpty());
  job.nodes[2].driver->version = job.nodes[2].system.driver_module = "570.1";
  expect_one(check_driver(job), true, "vn3", "570.1");
}

TEST(GpuCheckTest, ModuleAndLibraryOfDifferentVersions) {
  auto job = healthy_job();
  job.nodes[0].system.driver_module = "570.1";
  expect_one(check_driver(job), true, "vn1", "kernel module");
}

TEST(GpuCheckTest, TheProgramNeedsANewerCuda) {
  auto job = healthy_job();
  EXPECT_THAT(check_cuda_version(job), IsEmpty());
  job.nodes[1].driver->cuda_version = 12040;
  expect_one(check_cuda_version(job), true, "vn2", "needs CUDA 13, the driver serves CUDA 12");
}

TEST(GpuCheckTest, TheProgramIsNotCompiledForTheGpu) {
  auto job = healthy_job();
  EXPECT_THAT(check_gpu_code(job), IsEmpty());
  gpu(job, 1, 0).capability = gpu(job, 1, 1).capability = 75;
  expect_one(check_gpu_code(job), true, "vn2", "the program has no code for the H100 (compute capability 7.5)");
}

TEST(GpuCheckTest, EccAndPowerLimitsDiffer) {
  auto job = healthy_job();
  gpu(job, 2, 0).ecc = gpu(job, 2, 1).ecc = false;
  expect_one(check_gpu_models(job), false, "vn3", "ECC");
  job = healthy_job();
  gpu(job, 2, 0).power_limit_w = gpu(job, 2, 1).power_limit_w = 350;
  expect_one(check_gpu_models(job), false, "vn3", "is 350, but 700 on other nodes");
}

TEST(GpuCheckTest, WhatNvmlDoesNotSayIsNoDifference) {
  auto job = healthy_job();
  for (const std::size_t index : {0, 1}) {
    auto& unknown = gpu(job, 1, index);
    Gpu silent;
    silent.uuid = unknown.uuid;
    silent.bus_id = unknown.bus_id;
    unknown = silent;
  }
  job.nodes[1].driver->version.reset();
  for (const auto check : {check_driver, check_gpu_models, check_gpu_modes, check_gpu_health, check_gpu_code}) {
    EXPECT_THAT(check(job), IsEmpty());
  }
}

TEST(GpuCheckTest, ANodeWithoutADriverAmongOthersIsFound) {
  auto job = healthy_job();
  job.nodes[2].driver.reset();
  job.nodes[2].nccl.reset();
  expect_one(check_driver(job), true, "vn3", "no driver that answers");
  EXPECT_THAT(check_nccl(job), IsEmpty());
}

TEST(GpuCheckTest, ModelsDiffer) {
  auto job = healthy_job();
  EXPECT_THAT(check_gpu_models(job), IsEmpty());
  gpu(job, 1, 0).name = gpu(job, 1, 1).name = "A100";
  expect_one(check_gpu_models(job), false, "vn2", "A100");
}

TEST(GpuCheckTest, MigOnOneNode) {
  auto job = healthy_job();
  EXPECT_THAT(check_gpu_modes(job), IsEmpty());
  gpu(job, 2, 1).mig = true;
  expect_one(check_gpu_modes(job), true, "vn3", "MIG");
}

TEST(GpuCheckTest, SharedGpusInExclusiveMode) {
  auto job = healthy_job();
  gpu(job, 0, 0).compute_mode = 3;
  EXPECT_THAT(check_gpu_modes(job), IsEmpty());
  job.bindings[0][0].shares_gpu = true;
  expect_one(check_gpu_modes(job), true, "vn1", "exclusive");
}

TEST(GpuCheckTest, Health) {
  EXPECT_THAT(check_gpu_health(healthy_job()), IsEmpty());
  for (const auto sign : {&Gpu::remap_pending, &Gpu::throttled}) {
    auto job = healthy_job();
    gpu(job, 1, 0).*sign = true;
    ASSERT_EQ(check_gpu_health(job).size(), 1u);
  }
  auto job = healthy_job();
  gpu(job, 1, 0).processes = 1;
  expect_one(check_gpu_health(job), false, "vn2", "other processes");
  job = healthy_job();
  job.nodes[2].system.xids = {"GPU 0000:3b:00 XID 79"};
  expect_one(check_gpu_health(job), false, "vn3", "0000:3b:00 XID 79");
}

struct PlantedIllness {
  void (*plant)(Gpu& gpu);
  const char* line;  // its beginning
};

TEST(GpuCheckTest, EachIllnessIsOneLineAndNothingElse) {
  const PlantedIllness illnesses[] = {
      {[](Gpu& gpu) { gpu.health.links = 17; },
       "warning [gpu-health] vn2: GPU 0000:01:00.0 has 17 NVLinks up, others of its kind 18; "},
      {[](Gpu& gpu) { gpu.health.link_recoveries = 2; },
       "warning [gpu-health] vn2: GPU 0000:01:00.0 has counted 2 recoveries of NVLinks; "},
      {[](Gpu& gpu) { gpu.health.in_fabric = false; },
       "warning [gpu-health] vn2: GPU 0000:01:00.0 is not in its NVSwitch fabric; restart nvidia-fabricmanager"},
      {[](Gpu& gpu) { gpu.health.uncorrected = 5; },
       "warning [gpu-health] vn2: GPU 0000:01:00.0 has counted 5 uncorrected memory errors; "},
      {[](Gpu& gpu) { gpu.health.retirement_pending = true; },
       "warning [gpu-health] vn2: GPU 0000:01:00.0 waits for a reset to replace broken memory; "},
      {[](Gpu& gpu) { gpu.remap_pending = true; },
       "warning [gpu-health] vn2: GPU 0000:01:00.0 waits for a reset to replace broken memory; "},
      {[](Gpu& gpu) { gpu.health.remap_failed = gpu.remap_pending = gpu.throttled = true; },
       "warning [gpu-health] vn2: GPU 0000:01:00.0 has no spare memory rows left; "},
      {[](Gpu& gpu) { gpu.throttled = true; },
       "warning [gpu-health] vn2: GPU 0000:01:00.0 is slowed down by heat or a power fault; "},
      {[](Gpu& gpu) { gpu.processes = 1; }, "warning [gpu-health] vn2: other processes compute on the GPUs; "},
      {[](Gpu& gpu) { gpu.health.persistent = false; },
       "warning [gpu-mode] vn2: persistence mode of the GPUs is false, but true on other nodes; "},
      {[](Gpu& gpu) { gpu.health.application_clock_mhz = 345; },
       "warning [gpu-model] vn2: the application clock of the GPUs in MHz is 345, but 1980 on other nodes; "},
  };
  EXPECT_THAT(run_checks(healthy_job()), IsEmpty());
  for (const auto& [plant, line] : illnesses) {
    auto job = healthy_job();
    plant(gpu(job, 1, 1));
    const auto findings = run_checks(job);
    ASSERT_EQ(findings.size(), 1u) << line;
    EXPECT_THAT(to_line(findings[0]), ::testing::StartsWith(line));
    const bool is_broken = findings[0].check == "gpu-health" && findings[0].what.starts_with("GPU ");
    EXPECT_EQ(findings[0].advice.empty(), !is_broken) << line;
  }
}

TEST(GpuCheckTest, GpusOfAnotherKindMayHaveFewerLinks) {
  auto job = healthy_job();
  gpu(job, 1, 1).name = "H100 PCIe";
  gpu(job, 1, 1).health.links = 0;
  EXPECT_THAT(check_gpu_health(job), IsEmpty());
}

TEST(GpuCheckTest, RanksThatMayOpenDifferentGpus) {
  auto job = healthy_job();
  job.ranks[2].resources.gpus.pop_back();  // by CUDA_VISIBLE_DEVICES, through which NCCL sees
  EXPECT_THAT(check_gpu_visibility(job), IsEmpty());
  job.ranks[4].openable = "1";
  expect_one(check_gpu_visibility(job), false, "vn3", "different GPUs");
}

}  // namespace
}  // namespace mn::launcher
