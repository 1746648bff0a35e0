// mnlaunch's PMIx declarations against the installed <pmix.h>.
#include "launcher/place/pmix_library.hpp"

#include <cstddef>
#include <type_traits>

#include <gtest/gtest.h>
#include <pmix.h>

namespace mn::launcher {
namespace {

static_assert(sizeof(pmix::Value) == sizeof(pmix_value_t));
static_assert(offsetof(pmix::Value, data) == offsetof(pmix_value_t, data));
static_assert(sizeof(pmix::Proc) == sizeof(pmix_proc_t) && offsetof(pmix::Proc, rank) == offsetof(pmix_proc_t, rank));
static_assert(sizeof(pmix::Info) == sizeof(pmix_info_t) && offsetof(pmix::Info, value) == offsetof(pmix_info_t, value));
static_assert(sizeof(pmix::ByteObject) == sizeof(pmix_byte_object_t));

TEST(PmixAbiTest, ConstantsAreTheInstalledOnes) {
  EXPECT_EQ(pmix::kSuccess, PMIX_SUCCESS);
  EXPECT_EQ(pmix::kPartialSuccess, PMIX_ERR_PARTIAL_SUCCESS);
  EXPECT_EQ(pmix::kRankWildcard, PMIX_RANK_WILDCARD);
  EXPECT_EQ(pmix::kScopeGlobal, PMIX_GLOBAL);
  EXPECT_EQ(pmix::kBool, PMIX_BOOL);
  EXPECT_EQ(pmix::kString, PMIX_STRING);
  EXPECT_EQ(pmix::kUint32, PMIX_UINT32);
  EXPECT_EQ(pmix::kByteObject, PMIX_BYTE_OBJECT);
  EXPECT_STREQ(pmix::kJobSize, PMIX_JOB_SIZE);
  EXPECT_STREQ(pmix::kHostName, PMIX_HOSTNAME);
  EXPECT_STREQ(pmix::kCollectData, PMIX_COLLECT_DATA);
  EXPECT_STREQ(pmix::kImmediate, PMIX_IMMEDIATE);
}

}  // namespace
}  // namespace mn::launcher
