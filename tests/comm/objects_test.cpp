// Damaged objects, and objects that a rank made wrong, are errors on the reading rank, not crashes.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>
#include <mn/comm/registry.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

#include "tests/comm/count_limit.hpp"
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

TEST(ObjectsTest, ComeFromAnyRank) {
  const auto comm = create_communicator("naive");
  const auto text_of = [](int rank) {
    return std::string(static_cast<std::size_t>(rank) * 40'000, 'x') + std::to_string(rank);
  };
  if (comm->rank() > 0) {
    comm->send_obj(text_of(comm->rank()), 0, comm->rank());
    return comm->send_obj(nlohmann::json(comm->rank()), 0, 0);
  }
  for (const bool as_json : {false, true}) {
    std::vector<int> senders;
    for (int i = 1; i < comm->size(); ++i) {
      int sender = -1;
      if (as_json)
        EXPECT_EQ(comm->recv_json(Communicator::kAnySource, 0, &sender), sender);
      else
        EXPECT_EQ(comm->recv_obj(i, i, &sender), text_of(i));
      senders.push_back(sender);
    }
    std::ranges::sort(senders);
    for (int i = 1; i < comm->size(); ++i) EXPECT_EQ(senders[static_cast<std::size_t>(i - 1)], i);
  }
}

TEST(ObjectsTest, ComeFromAnyRankWithAnyTag) {
  const auto comm = create_communicator("naive");
  if (comm->rank() > 0) return comm->send_obj(std::string(70'000, 'a') + std::to_string(comm->rank()), 0, comm->rank());
  for (int i = 1; i < comm->size(); ++i) {
    int sender = -1;
    const std::string object = comm->recv_obj(Communicator::kAnySource, Communicator::kAnyTag, &sender);
    EXPECT_EQ(object, std::string(70'000, 'a') + std::to_string(sender));
  }
}

TEST(TextsTest, AreGatheredAlsoAboveTheLimitOfAMessage) {
  const auto comm = create_communicator("naive");
  const auto text_of = [](int rank) {
    return std::string(static_cast<std::size_t>(rank) * 7, 'a') + std::to_string(rank);
  };
  std::vector<std::string> expected;
  for (int r = 0; r < comm->size(); ++r) expected.push_back(text_of(r));
  for (const std::size_t limit : {1000, 5, 1}) {
    const CountLimit few(limit);
    EXPECT_EQ(allgather_texts(comm->mpi_comm(), text_of(comm->rank())), expected) << limit;
  }
}

}  // namespace
}  // namespace mn
