#include <gtest/gtest.h>

#include <mn/core/nccl_versions.hpp>

namespace mn {
namespace {

TEST(NcclVersionsTest, KnownFaultsNameTheVersionThatMendsAll) {
  EXPECT_EQ(nccl_faults(22807), "NCCL 2.28.7 can hang on large clusters: use NCCL 2.28.9 or newer");
  EXPECT_EQ(nccl_faults(22005), "NCCL 2.20.5 can hang where nodes have different CPUs: use NCCL 2.24.3 or newer");
  const std::string old = nccl_faults(21403);
  EXPECT_TRUE(old.starts_with("NCCL 2.14.3 can damage data that is not aligned (protocol LL128), or damage data"));
  EXPECT_TRUE(old.ends_with(": use NCCL 2.24.3 or newer"));
}

TEST(NcclVersionsTest, OthersAreSilent) {
  for (const int version : {0, 22403, 22707, 22802, 22809, 22903, 23003})
    EXPECT_EQ(nccl_faults(version), "") << version;
}

}  // namespace
}  // namespace mn
