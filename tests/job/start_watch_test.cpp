// The watch of one rank, in a child process; the test holds the other ends of its connections.
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/job/start_watch.hpp>

namespace mn {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A rank with a link for each element of `reports`. The rank is in MPI's start until the test writes to it.
class Rank {
 public:
  explicit Rank(const std::vector<bool>& reports) {
    int err[2];
    EXPECT_EQ(pipe(err), 0);
    std::vector<StartLink> links;
    for (const bool own : reports) {
      int ends[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
      fcntl(ends[0], F_SETFD, FD_CLOEXEC);
      peers_.emplace_back(ends[0]);
      links.push_back(
          {ends[1], inode_of_socket(ends[1]), own, "rank " + std::to_string(links.size()) + " on host vn2"});
    }
    int up[2];
    EXPECT_EQ(pipe(up), 0);
    process_ = fork();
    if (process_ == 0) {
      close(up[1]);
      run(links, err[1], up[0]);
    }
    for (const auto& link : links) close(link.fd);
    close(err[1]);
    close(up[0]);
    err_ = Fd(err[0]);
    up_ = Fd(up[1]);
  }

  void lose(std::size_t link) { peers_[link].reset(); }
  void tell(std::size_t link, char byte) { EXPECT_EQ(write(peers_[link].get(), &byte, 1), 1); }
  /// MPI is up.
  void finish() { up_.reset(); }
  /// The bytes that the peer of a link has received.
  std::string told(std::size_t link) { return rest_of(peers_[link]); }
  /// Waits for its end.
  int status() {
    int status = 0;
    EXPECT_EQ(waitpid(process_, &status, 0), process_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string line() { return rest_of(err_); }

 private:
  [[noreturn]] void run(const std::vector<StartLink>& links, int err, int up) {
    peers_.clear();
    dup2(err, STDERR_FILENO);
    setenv(kStartLinksVariable, start_links_text(links).c_str(), 1);
    {
      const StartWatch watch({.rank = 7, .host = "vn1"});
      char byte = 0;
      while (read(up, &byte, 1) > 0) {
      }
    }
    _exit(0);
  }
  static std::string rest_of(const Fd& fd) {
    std::string text;
    char byte = 0;
    while (read(fd.get(), &byte, 1) == 1) text += byte;
    return text;
  }

  pid_t process_ = 0;
  std::vector<Fd> peers_;
  Fd err_;
  Fd up_;
};

TEST(StartWatchTest, ARankThatDiesIsReportedAndTheOthersEnd) {
  Rank rank({true, true});
  rank.lose(0);
  EXPECT_EQ(rank.status(), 1);
  EXPECT_THAT(rank.line(), HasSubstr("mn: rank 7 (host vn1): lost rank 0 on host vn2: its process ended before MPI"));
  EXPECT_EQ(rank.told(1), "r");
}

TEST(StartWatchTest, ALossThatAnotherReportsEndsThisRankWithoutALine) {
  Rank rank({false, true});
  rank.lose(0);
  EXPECT_EQ(rank.status(), 1);
  EXPECT_THAT(rank.line(), IsEmpty());
  EXPECT_EQ(rank.told(1), "r");
  Rank told({false, true});
  told.tell(0, 'r');
  EXPECT_EQ(told.status(), 1);
  EXPECT_THAT(told.line(), IsEmpty());
  EXPECT_EQ(told.told(1), "r");
}

TEST(StartWatchTest, ARankThatIsUpMayLeave) {
  Rank rank({true, false});
  for (const std::size_t link : {0u, 1u}) {
    rank.tell(link, 'u');
    rank.lose(link);
  }
  std::this_thread::sleep_for(1500ms);
  rank.finish();
  EXPECT_EQ(rank.status(), 0);
  EXPECT_THAT(rank.line(), IsEmpty());
  Rank last({true});
  last.finish();
  EXPECT_EQ(last.status(), 0);
  EXPECT_EQ(last.told(0), "u");
}

TEST(StartWatchTest, ADescriptorThatIsAnotherFilesByNowIsLeftAlone) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  setenv(kStartLinksVariable, start_links_text({{ends[0], inode_of_socket(ends[0]) + 1, true, "rank 1"}}).c_str(), 1);
  { const StartWatch watch({.rank = 0, .host = "vn1"}); }
  EXPECT_NE(inode_of_socket(ends[0]), 0u) << "it has closed it";
  close(ends[0]);
  close(ends[1]);
}

TEST(StartWatchTest, LinksAreReadAsTheyWereWritten) {
  const std::vector<StartLink> links = {{5, 4711, true, "rank 3 on host vn2"}, {6, 12, false, "the first rank"}};
  EXPECT_EQ(parse_start_links(start_links_text(links)), links);
  EXPECT_THAT(parse_start_links("5 x 1 rank 3;;6"), IsEmpty());
}

}  // namespace
}  // namespace mn
