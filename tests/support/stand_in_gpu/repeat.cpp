// GoogleTest's --gtest_repeat=N as N seeds: each repetition has the delays of the next one, whatever came before.
#include <gtest/gtest.h>

#include "tests/support/stand_in_gpu/calls.hpp"
#include "tests/support/stand_in_gpu/machine.hpp"

namespace mn::stand_in {
namespace {

class NextSeed final : public ::testing::EmptyTestEventListener {
  void OnTestIterationStart(const ::testing::UnitTest& /*tests*/, int iteration) override {
    auto lock = machine().lock();
    machine().reseed(lock, settings().seed + static_cast<std::uint64_t>(iteration));
  }
};

/// GoogleTest takes listeners before it runs, and owns them.
const bool is_listening = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new NextSeed);
  return true;
}();

}  // namespace
}  // namespace mn::stand_in
