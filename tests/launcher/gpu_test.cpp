#include <cstdlib>
#include <cstring>
#include <fstream>

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <mn/core/environment.hpp>

#include "facts_equal.hpp"
#include "launcher/facts/elf.hpp"
#include "launcher/facts/gpu/nvidia_gpu.hpp"
#include "tests/support/folders.hpp"

namespace mn::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string fake_nvml() { return test::program_folder() / "fake/libnvidia-ml.so.1"; }

class GpuTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"MN_FAKE_GPUS", "MN_FAKE_FORBIDDEN", "MN_FAKE_MIG"}) unsetenv(name);
  }
  static std::vector<Gpu> gpus() { return read_gpus(fake_nvml())->gpus; }
  static std::vector<std::string> uuids(const std::optional<std::string>& visible) {
    std::vector<std::string> all;
    for (const auto& gpu : visible_gpus(gpus(), visible)) all.push_back(gpu.uuid);
    return all;
  }
};

TEST_F(GpuTest, WithoutADriverThereIsNothing) { EXPECT_EQ(read_gpus("libno-such-driver.so.1"), std::nullopt); }

TEST_F(GpuTest, ARankAsksForNoMoreThanWhichGpusThereAre) {
  setenv("MN_FAKE_MIG", "1", 1);
  const auto all = gpus();
  const auto named = read_gpus(fake_nvml(), GpuDetail::kIdentity)->gpus;
  ASSERT_EQ(named.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    Gpu identity;
    identity.uuid = all[i].uuid;
    identity.bus_id = all[i].bus_id;
    identity.mig = all[i].mig;
    identity.slices = all[i].slices;
    EXPECT_EQ(named[i], identity);
  }
}

TEST_F(GpuTest, HealthIsWhatNvmlCounts) {
  const GpuHealth well{.links = 12,
                       .link_recoveries = 0,
                       .in_fabric = true,
                       .uncorrected = 0,
                       .retirement_pending = false,
                       .remap_failed = false,
                       .persistent = true,
                       .application_clock_mhz = 1980};
  const GpuHealth ill{.links = 11,
                      .link_recoveries = 24,
                      .in_fabric = false,
                      .uncorrected = 5,
                      .retirement_pending = true,
                      .remap_failed = true,
                      .persistent = false,
                      .application_clock_mhz = 345};
  EXPECT_EQ(gpus()[1].health, well);
  setenv("MN_FAKE_ILL", "1", 1);
  const auto all = gpus();
  unsetenv("MN_FAKE_ILL");
  EXPECT_EQ(all[0].health, well);
  EXPECT_EQ(all[1].health, ill);
}

TEST_F(GpuTest, ReadsWhatNvmlSays) {
  const auto driver = read_gpus(fake_nvml());
  ASSERT_TRUE(driver);
  EXPECT_EQ(driver->version, "580.95.05");
  EXPECT_EQ(driver->cuda_version, 13000);
  ASSERT_EQ(driver->gpus.size(), 2u);
  EXPECT_EQ(driver->gpus[1].uuid, "GPU-abc1");
  EXPECT_EQ(driver->gpus[1].bus_id, "0000:3c:00.0");
  EXPECT_EQ(driver->gpus[1].memory_mib, 80u << 10);
  EXPECT_EQ(driver->gpus[1].capability, 90);
  EXPECT_EQ(driver->gpus[1].ecc, true);
  EXPECT_EQ(driver->gpus[1].power_limit_w, 700u);
  EXPECT_EQ(driver->gpus[1].throttled, std::nullopt);  // this NVML lacks the function
}

TEST_F(GpuTest, GpusThatMayNotBeOpenedAreLeftOut) {
  setenv("MN_FAKE_FORBIDDEN", "1", 1);
  EXPECT_THAT(uuids(std::nullopt), ElementsAre("GPU-abc0"));
}

TEST_F(GpuTest, VisibleDevicesAsCudaReadsThem) {
  setenv("MN_FAKE_GPUS", "4", 1);
  EXPECT_THAT(uuids(std::nullopt), ElementsAre("GPU-abc0", "GPU-abc1", "GPU-abc2", "GPU-abc3"));
  EXPECT_THAT(uuids("2,0"), ElementsAre("GPU-abc2", "GPU-abc0"));
  EXPECT_THAT(uuids(" 2, 0 "), ElementsAre("GPU-abc2", "GPU-abc0"));
  EXPECT_THAT(uuids("1,1"), IsEmpty());
  EXPECT_THAT(uuids("1,GPU-abc1"), IsEmpty());
  EXPECT_THAT(uuids("GPU-abc"), IsEmpty());  // which?
  EXPECT_THAT(uuids("GPU-abc3,1"), ElementsAre("GPU-abc3", "GPU-abc1"));
  EXPECT_THAT(uuids("1,7,2"), ElementsAre("GPU-abc1"));
  EXPECT_THAT(uuids("1,-1,2"), ElementsAre("GPU-abc1"));
  for (const char* none : {"", "-1", "NoDevFiles"}) EXPECT_THAT(uuids(none), IsEmpty()) << none;
}

TEST_F(GpuTest, InstancesOfACutGpu) {
  setenv("MN_FAKE_MIG", "1", 1);
  EXPECT_THAT(uuids("MIG-00001"), ElementsAre("MIG-00001"));
  EXPECT_THAT(uuids("MIG-00001,MIG-00000"), ElementsAre("MIG-00001", "MIG-00000"));
  EXPECT_THAT(uuids("0"), ElementsAre("MIG-00000", "MIG-00001"));
  EXPECT_THAT(uuids("GPU-abc0"), ElementsAre("MIG-00000", "MIG-00001"));
  EXPECT_THAT(uuids(std::nullopt), ElementsAre("MIG-00000", "MIG-00001", "GPU-abc1"));
  EXPECT_THAT(uuids("0,MIG-00001"), IsEmpty());
}

TEST_F(GpuTest, BusIdsOfNvmlAndHwlocAgree) {
  EXPECT_EQ(normal_bus_id("00000000:3B:00.0"), "0000:3b:00.0");
  EXPECT_EQ(normal_bus_id("0001:AF:00.0"), "0001:af:00.0");
}

/// An ELF file with nothing but a section .nv_fatbin: a container with a binary for each of `binary`, PTX for 90.
void write_gpu_program(const std::filesystem::path& file, const std::vector<std::uint32_t>& binary,
                       std::uint64_t code_bytes = 8) {
  const std::string names("\0.nv_fatbin\0.shstrtab\0", 22);
  std::string entries;
  const auto add_entry = [&](std::uint16_t kind, std::uint32_t capability) {
    char entry[64 + 8] = {};  // a header and eight bytes of code
    const std::uint32_t header_bytes = 64;
    std::memcpy(entry, &kind, sizeof kind);
    std::memcpy(entry + 4, &header_bytes, sizeof header_bytes);
    std::memcpy(entry + 8, &code_bytes, sizeof code_bytes);
    std::memcpy(entry + 28, &capability, sizeof capability);
    entries.append(entry, sizeof entry);
  };
  for (const auto capability : binary) add_entry(2, capability);
  add_entry(1, 90);
  const std::uint64_t entries_bytes = entries.size();
  std::string section("\x50\xed\x55\xba\x01\0\x10\0", 8);
  section.append(reinterpret_cast<const char*>(&entries_bytes), sizeof entries_bytes);
  section += entries;

  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 2;
  header.e_shoff = sizeof header + names.size() + section.size();
  Elf64_Shdr sections[3] = {};
  sections[1].sh_name = 1;
  sections[1].sh_offset = sizeof header + names.size();
  sections[1].sh_size = section.size();
  sections[2].sh_name = 12;
  sections[2].sh_offset = sizeof header;
  sections[2].sh_size = names.size();
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&header), sizeof header);
  out << names << section;
  out.write(reinterpret_cast<const char*>(sections), sizeof sections);
}

TEST_F(GpuTest, AProgramTellsForWhichGpusItWasCompiled) {
  const auto file = std::filesystem::temp_directory_path() / ("mn_gpu_test_" + std::to_string(getpid()));
  write_gpu_program(file, {75, 80});
  const GpuCode code = read_gpu_code(file);
  EXPECT_THAT(code.binary, ElementsAre(75, 80));
  EXPECT_THAT(code.ptx, ElementsAre(90));
  EXPECT_FALSE(runs_on(code, 70));
  EXPECT_TRUE(runs_on(code, 75));
  EXPECT_TRUE(runs_on(code, 86));   // a later minor version of 8.0
  EXPECT_TRUE(runs_on(code, 120));  // through PTX
  EXPECT_FALSE(runs_on({{90}, {}}, 100));
  write_gpu_program(file, {75, 80}, 0 - std::uint64_t{64});  // ends where it begins
  EXPECT_TRUE(read_gpu_code(file).empty());
  write_gpu_program(file, {75, 80});
  std::filesystem::resize_file(file, 150);
  EXPECT_TRUE(read_gpu_code(file).empty());
  std::filesystem::remove(file);
  EXPECT_TRUE(read_gpu_code(mn::executable_path()).empty());
}

}  // namespace
}  // namespace mn::launcher
