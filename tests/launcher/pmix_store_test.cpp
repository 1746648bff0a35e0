#include "launcher/place/ask_pmix_server.hpp"

#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace mn::launcher {
namespace {

using ::testing::ElementsAre;

/// A file of locks in the form of a PMIx 4 server, mapped as by a client.
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

TEST(PmixStoreTest, LocksOfAPmixStoreAreFreeForTheProgram) {
  EXPECT_TRUE(free_locks_of_store()) << "no store";
  const MappedLocks taken(MappedLocks::kBytes, 2, {1, 1});
  EXPECT_TRUE(free_locks_of_store());
  EXPECT_THAT(taken.marks(), ElementsAre(0, 0));
}

TEST(PmixStoreTest, UnknownLocksOfAPmixStoreStayAsTheyAre) {
  const MappedLocks other_marks(MappedLocks::kBytes, 2, {1, 2});
  EXPECT_FALSE(free_locks_of_store());
  EXPECT_THAT(other_marks.marks(), ElementsAre(1, 2));
}

TEST(PmixStoreTest, LocksOfAPmixStoreOfAnotherFormStayAsTheyAre) {
  for (const auto& [bytes, count] : {std::pair<std::size_t, std::uint32_t>{8192, 2}, {MappedLocks::kBytes, 99}}) {
    const MappedLocks other_form(bytes, count, {1, 1});
    EXPECT_FALSE(free_locks_of_store());
    EXPECT_THAT(other_form.marks(), ElementsAre(1, 1));
  }
}

}  // namespace
}  // namespace mn::launcher
