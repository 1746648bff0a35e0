// Kinds of data that need a job of your own; kinds_test runs it. kinds_job make fields|boxes DIR: DIR/train and DIR/val
// by a ShardWriter. kinds_job --kind arrays|fields|boxes --data DIR [options of all jobs]: trains on them.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <torch/torch.h>

#include <mn/app/app.hpp>
#include <mn/data/shard_writer.hpp>

namespace {

constexpr std::int64_t kSide = 96;  // rows and columns of a field: 3 × 96 × 96 floats are 110 KB

/// The target is the mean of the first channel.
void write_fields(const std::string& folder, int first, int last) {
  mn::ShardWriter writer(folder, {{{.name = "x", .dtype = mn::DType::kFloat32, .shape = {3, kSide, kSide}},
                                   {.name = "y", .dtype = mn::DType::kFloat32}}});
  for (int i = first; i < last; ++i) {
    const float y = static_cast<float>(i % 7) / 7;
    std::vector<float> x(3 * kSide * kSide, 0.5F);
    for (std::size_t k = 0; k < x.size() / 3; ++k) x[k] = y + (k % 2 == 0 ? 0.1F : -0.1F);
    writer.add({x, std::span(&y, 1)});
  }
  writer.finish();
}

/// Sample i has i mod 4 boxes, whose corners are bright in the image; the network learns the covered area.
void write_boxes(const std::string& folder, int first, int last) {
  mn::ShardWriter writer(
      folder, {{{.name = "image", .shape = {1, 16, 16}},
                {.name = "boxes", .kind = mn::FieldKind::kVariable, .dtype = mn::DType::kFloat32, .shape = {4}},
                {.name = "classes", .kind = mn::FieldKind::kVariable, .dtype = mn::DType::kInt64, .num_classes = 2}}});
  for (int i = first; i < last; ++i) {
    std::vector<std::uint8_t> image(16 * 16, 0);
    std::vector<float> boxes;
    std::vector<std::int64_t> classes;
    for (int box = 0; box < i % 4; ++box) {
      const float at = static_cast<float>(4 * box);
      boxes.insert(boxes.end(), {at, at, at + 3, at + 3});
      classes.push_back(box % 2);
      for (int k = 0; k < 9; ++k) image[(4 * box + k / 3) * 16 + 4 * box + k % 3] = 255;
    }
    writer.add({image, boxes, classes});
  }
  writer.finish();
}

int make(const std::string& kind, const std::string& folder) {
  const auto write = kind == "boxes" ? write_boxes : write_fields;
  write(folder + "/train", 0, 120);
  write(folder + "/val", 120, 144);
  return 0;
}

/// The wanted number of each sample, [samples].
torch::Tensor target_of(const std::string& kind, const mn::Batch& batch) {
  if (kind == "fields") return batch["y"];
  if (kind == "arrays") return batch["label"].to(torch::kFloat);
  const auto boxes = batch.padded("boxes", 0);  // [samples, most boxes, 4]
  return ((boxes.select(2, 2) - boxes.select(2, 0)) * (boxes.select(2, 3) - boxes.select(2, 1))).sum(1) / 27;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "make") return make(argv[2], argv[3]);
  mn::app::CommonOptions common;
  common.lr = 0.02;
  std::string kind, data;
  mn::Options options("usage: kinds_job [options]\nLearns a number from the first field.");
  options.add("kind", kind, "KIND", "arrays, fields or boxes");
  options.add("data", data, "DIR", "shards in train and val");
  return mn::app::run_training(argc, argv, options, common, [&](const std::shared_ptr<mn::Communicator>& comm) {
    torch::nn::Linear net(32, 1);
    return mn::app::Training{
        .model = net.ptr(),
        .train = mn::app::train_batches(data + "/train", common, comm),
        .validation = mn::app::validation_batches(data + "/val", common, comm),
        .loss =
            [net, kind](const mn::Batch& batch, mn::Summary&) mutable {
              const auto x = torch::adaptive_avg_pool1d(batch.data.flatten(1), 32).to(torch::kFloat);
              return (net(x).squeeze(1) - target_of(kind, batch)).square().mean();
            },
    };
  });
}
