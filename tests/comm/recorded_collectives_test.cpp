// Records of a device's collectives, and messages in the order of a device's stream.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/comm/device/device_collectives.hpp>
#include <mn/core/json.hpp>

#include "tests/comm/gpu_fixture.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

using nlohmann::json;
using testing::filled;
using testing::OnDevice;
using testing::OnGpu;
using testing::pattern;

class DeviceRecords : public OnGpu {
 protected:
  DeviceRecords() {
    name_calls_writer(rank_, size_, "n1");
    set_calls_folder((folder_.path() / "calls").string());
  }
  ~DeviceRecords() override { set_calls_folder(""); }

  /// The last `count` records, in the order of their calls.
  [[nodiscard]] std::vector<json> last_records(std::size_t count) const {
    write_calls("a test");
    std::ifstream file(folder_.path() / "calls" / ("rank-000" + std::to_string(rank_) + ".jsonl"));
    std::vector<json> records;
    std::string line;
    for (std::getline(file, line); std::getline(file, line);) records.push_back(json::parse(line));
    std::ranges::sort(records, {}, [](const json& each) { return each.at("record").get<int>(); });
    EXPECT_GE(records.size(), count);
    records.erase(records.begin(), records.end() - static_cast<std::ptrdiff_t>(std::min(count, records.size())));
    return records;
  }

  test::TemporaryFolder folder_;
};

TEST_F(DeviceRecords, CountAmongTheCallsOfTheGroup) {
  const auto comm = create("pure_nccl");
  const auto buffer = mine<float>(1027);
  comm->allreduce(buffer.view());
  DeviceCollectives& collectives = *comm->device_collectives();
  EXPECT_EQ(&collectives, comm->device_collectives());
  collectives.after(nullptr);
  collectives.bcast(buffer.view(), 0);
  collectives.sum_gradients(std::vector{buffer.view(), buffer.view().slice(0, 0)}, 1.0);
  collectives.wait();
  const auto records = last_records(4);
  const std::vector<std::string> names = {"allreduce", "bcast", "allreduce_grad", "wait for the device"};
  const std::vector<int> counts = {1027, 1027, 1027, 0};
  const int first = records.front().at("number");
  EXPECT_GT(first, 0);
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].at("call"), names[i]);
    EXPECT_EQ(records[i].at("state"), "returned");
    EXPECT_EQ(records[i].at("count"), counts[i]);
    EXPECT_EQ(records[i].at("number"), first + std::min(static_cast<int>(i), 2)) << names[i];
  }
}

TEST_F(DeviceRecords, ARequestIsWaitedForByItsNumber) {
  const auto comm = create("pure_nccl");
  const auto buffer = mine<float>(1027);
  const auto other = mine<float>(1027);
  Request request = comm->iallreduce(buffer.view());
  comm->allreduce(other.view());
  request.wait();
  const auto records = last_records(3);
  EXPECT_EQ(records[0].at("call"), "iallreduce");
  EXPECT_EQ(records[2].at("call"), "wait for the device");
  EXPECT_EQ(records[2].at("number"), records[0].at("number"));
  EXPECT_EQ(records[1].at("number"), records[0].at("number").get<int>() + 1);
}

/// Around a ring, in which the last rank receives first; then later work.
TEST_F(DeviceRecords, MessagesGoInTheOrderOfTheStream_from_2_ranks) {
  const auto comm = create("pure_nccl");
  const bool sends_first = rank_ < size_ - 1;
  DeviceCollectives& collectives = *comm->device_collectives();
  const int next = (rank_ + 1) % size_;
  const int before = (rank_ + size_ - 1) % size_;
  const auto sent = mine<float>(5001);
  const OnDevice<float> got(std::vector<float>(5001, -1.0F), device_);
  collectives.after(nullptr);
  if (sends_first) collectives.send(sent.view(), next);
  collectives.recv(got.view(), before);
  if (!sends_first) collectives.send(sent.view(), next);
  collectives.allreduce(sent.view(), ReduceOp::kSum);
  collectives.join(nullptr);
  collectives.wait();
  EXPECT_EQ(got.get(), filled<float>(5001, [&](std::size_t i) { return pattern(before, i); }));
  expect_sums(sent, 1);
  const auto records = last_records(4);
  const json& received = records[sends_first ? 1 : 0];
  EXPECT_EQ(received.at("call"), "recv");
  EXPECT_EQ(received.at("peer"), before);
  EXPECT_EQ(received.at("number"), 0);
}

}  // namespace
}  // namespace mn
