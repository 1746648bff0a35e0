// The report of a process's end, in a child process whose stderr this process reads.
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/job/failure.hpp>

namespace mn {
namespace {

TEST(Failure, OfSeveralThreadsThatEndTheJobOneReports) {
  int err[2];
  ASSERT_EQ(pipe(err), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(err[1], STDERR_FILENO);
    std::vector<std::thread> threads;
    for (const char* reason : {"lost rank 0", "exit(3) was called", "these calls never meet"}) {
      threads.emplace_back([reason] { end_all_ranks({2, "vn1"}, reason, {}, 3, "table\n"); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  close(err[1]);
  std::string text;
  for (char bytes[512]; const ssize_t got = read(err[0], bytes, sizeof bytes);) {
    if (got < 0) break;
    text.append(bytes, static_cast<std::size_t>(got));
  }
  close(err[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_TRUE(text.starts_with("table\nmn: rank 2 (host vn1): ")) << text;
  EXPECT_EQ(text.find("mn: "), text.rfind("mn: ")) << text;
}

}  // namespace
}  // namespace mn
