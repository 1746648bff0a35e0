// Names in /dev/shm from a process that was killed while making shared memory.
#include <cstddef>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/file.h>
#include <unistd.h>

#include <mn/comm/communicator.hpp>
#include <mn/comm/node/shared_memory.hpp>
#include <mn/core/fd.hpp>

namespace mn {
namespace {

/// An object in /dev/shm; `held`: its maker holds the lock.
class Object {
 public:
  Object(const std::string& name, bool held) : path_("/dev/shm/" + name) {
    Fd made(open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    EXPECT_TRUE(made) << path_;
    if (held && flock(made.get(), LOCK_EX) == 0) held_ = std::move(made);
  }
  ~Object() { unlink(path_.c_str()); }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  [[nodiscard]] bool is_there() const { return access(path_.c_str(), F_OK) == 0; }

 private:
  std::string path_;
  Fd held_;
};

TEST(AbandonedMemory, WhatAKilledProcessHasLeftIsRemoved) {
  const auto comm = create_communicator("flat");
  const std::string own = "mn." + std::to_string(getuid()) + ".";
  const std::string number = "00000000deadbee" + std::to_string(comm->rank());
  const Object left(own + number, false);
  const Object used(own + "1" + number.substr(1), true);
  const Object of_another("mn." + std::to_string(getuid() + 1) + "." + number, false);
  const Object of_the_program(own + number + "0", false);
  comm->barrier();
  remove_abandoned_shared_memory();
  comm->barrier();  // another rank may have locked the object, and not yet removed it
  EXPECT_FALSE(left.is_there());
  EXPECT_TRUE(used.is_there() && of_another.is_there() && of_the_program.is_there());
  comm->barrier();
}

/// A second process may look at an object before the lock.
TEST(AbandonedMemory, AJobThatStartsKeepsItsOwn) {
  const std::jthread looks([](const std::stop_token& stop) {
    while (!stop.stop_requested()) remove_abandoned_shared_memory();
  });
  for (int i = 0; i < 50; ++i) {
    const SharedMemory memory(MPI_COMM_WORLD, 1000);
    EXPECT_EQ(memory.segment(0)[999], std::byte{0});
  }
}

}  // namespace
}  // namespace mn
