// Detection as in CenterNet (arXiv:1904.07850): images have boxes, whose number differs from image to image.
#include <random>

#include <torch/torch.h>

#include <mn/mn.hpp>

constexpr int kSide = 32, kStride = 4;

void make_image(std::int64_t index, mn::SampleWriter& sample) {  // a real program reads a file here
  std::mt19937 random(index);
  std::vector<float> image(kSide * kSide), boxes;     // boxes: left, top, right, bottom
  for (auto left = random() % 4; left > 0; --left) {  // 0 to 3 boxes
    const int width = 4 + random() % 8, height = 4 + random() % 8;
    const int x = random() % (kSide - width), y = random() % (kSide - height);
    for (int i = 0; i < width * height; ++i) image[(y + i / width) * kSide + x + i % width] = 1;
    for (const int value : {x, y, x + width, y + height}) boxes.push_back(static_cast<float>(value));
  }
  sample.set("image", image);
  sample.set("boxes", boxes);
}

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    const mn::SampleSpec spec = {{{.name = "image", .dtype = mn::DType::kFloat32, .shape = {1, kSide, kSide}},
                                  {"boxes", mn::FieldKind::kVariable, mn::DType::kFloat32, {4}}}};
    const auto part = mn::share_dataset(mn::make_dataset(600, spec, make_image), comm, {.shuffle = true});
    auto loader = std::make_shared<mn::DataLoader>(
        part, mn::LoaderOptions{.batchsize = 60 / comm->size(), .device = comm->device()});
    torch::manual_seed(1);
    using torch::nn::Conv2d, torch::nn::ReLU;
    const auto layer = [](int in, int out) { return torch::nn::Conv2dOptions(in, out, 3).padding(1); };
    torch::nn::Sequential model(Conv2d(layer(1, 16).stride(2)), ReLU(), Conv2d(layer(16, 32).stride(2)), ReLU(),
                                Conv2d(layer(32, 32)), ReLU(), Conv2d(layer(32, 3)));
    model->to(comm->device());
    auto optimizer = mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(model->parameters(), 0.008), comm);
    const auto loss_of = [&](const mn::Batch& batch, mn::Summary& report) {
      const auto& [name, boxes, offsets, longest] = batch.field("boxes");  // [B, 4], the boxes of all N images
      const auto image = torch::repeat_interleave(offsets.diff());         // [B], the number of each box's image
      const auto corner = boxes.slice(1, 0, 2), size = boxes.slice(1, 2, 4) - corner;
      const auto cell = ((corner + size / 2) / kStride).to(at::kLong), x = cell.select(1, 0), y = cell.select(1, 1);
      const auto found = model->forward(batch.data).permute({0, 2, 3, 1});  // [N, 8, 8, 3]: score, width, height
      const auto at_boxes = found.index({image, y, x});                     // [B, 3]
      const auto score = found.select(3, 0), wanted = torch::zeros_like(score);
      wanted.index_put_({image, y, x}, torch::ones({}, wanted.options()));
      const auto errors = torch::binary_cross_entropy_with_logits(score, wanted, {}, {}, at::Reduction::Sum);
      const auto count = static_cast<double>(boxes.size(0));  // no recall where it is 0
      report.add("recall", at_boxes.select(1, 0).gt(0).sum().item<double>() / count, count);
      return mn::Loss((errors + (at_boxes.slice(1, 1) - size / kStride).square().sum()) / count, count);  // over boxes
    };
    mn::Trainer trainer(comm, std::move(optimizer), loader, model.ptr(), loss_of, {.epochs = 16, .out = "detection"});
    const auto& log = trainer.extend(std::make_unique<mn::extensions::LogReport>());
    const int status = trainer.run();
    if (comm->rank() == 0) {
      std::cout << "loss " << log.last("main/loss") << "\nrecall " << log.last("main/recall") << std::endl;
    }
    return status;
  });
}
