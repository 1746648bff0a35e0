// Objects that are damaged on their way, or that a rank made wrong: an error on the rank that reads them, not a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>
#include <mn/comm/registry.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

TEST(ObjectsTest, WhatIsNoDocumentIsAnErrorOfOneLine) {
  const auto comm = create_communicator("naive");
  const int root = comm->size() - 1;
  for (const char byte : {'\x81', '\x96', '\x7f', '\x5f', '\x9f', '\xa1'}) {
    const std::string sent(1'000'000, byte);
    const std::string error = test::message_of<DataError>([&] {
      if (comm->rank() == root) {
        (void)comm->bcast_obj(sent, root);
      } else {
        (void)comm->bcast_obj(nlohmann::json(), root);
      }
    });
    if (comm->rank() == root) continue;
    EXPECT_THAT(error, testing::StartsWith("a JSON object that a rank sent is damaged: ")) << +byte;
    EXPECT_THAT(error, testing::Not(testing::HasSubstr("\n")));
  }
}

TEST(ObjectsTest, EveryRankGetsTheErrorOfADocumentThatIsTooDeep) {
  const auto comm = create_communicator("naive");
  nlohmann::json deep;
  for (int depth = 0; depth < 100; ++depth) deep = nlohmann::json::array({deep});
  EXPECT_THAT(test::message_of<DataError>([&] { (void)comm->bcast_obj(deep, 0); }),
              testing::HasSubstr("within each other at byte 64"));
}

}  // namespace
}  // namespace mn
