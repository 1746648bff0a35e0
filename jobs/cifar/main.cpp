/// jobs/cifar: trains ResNet-18 or VGG16 on CIFAR-10 or CIFAR-100, like ChainerMN's CIFAR example.
#include <torch/torch.h>

#include <mn/app/app.hpp>
#include <mn/models/models.hpp>

#include "cifar/data.hpp"

namespace {

struct Settings : mn::app::CommonOptions {
  std::string arch = "resnet18";
  std::string train;
  std::string val;
  std::int64_t loaderjob = 0;

  Settings() {
    batchsize = 128;
    epoch = 100;
    optimizer = "sgd";
    lr_samples = 128;
    weight_decay = 5e-4;
    schedule = "cosine";
    warmup = 5;
    cuda_graph = "auto";
  }
};

mn::app::Training make_training(const Settings& given, const std::shared_ptr<mn::Communicator>& comm) {
  const auto data = mn::jobs::open_cifar(given.train, given.val, mn::app::loader_workers(given.loaderjob), given, comm);
  const auto model = mn::app::make_model(given, comm, [&] {
    return given.arch == "vgg16" ? mn::models::create_small_vgg16(data.num_classes)
                                 : mn::models::create_small_resnet18(data.num_classes);
  });
  return {
      .model = model,
      .train = data.train,
      .validations = data.val,
      .loss =
          [model](const mn::Batch& batch, mn::Summary& report) {
            const auto logits = model->forward(batch.data).to(torch::kFloat);
            const auto right = (logits.argmax(1) == batch.target).to(torch::kFloat).mean();
            report.add("accuracy", right, static_cast<double>(batch.samples));
            return torch::nn::functional::cross_entropy(logits, batch.target);
          },
      .rate = given.lr > 0                                        ? given.lr
              : given.optimizer == "sgd" && given.arch == "vgg16" ? 0.05
                                                                  : 0,
      .unit = "images",
      .banner = {"Using " + given.arch + " arch", "Num classes: " + std::to_string(data.num_classes),
                 "Num training samples: " + std::to_string(data.train->dataset_size())},
  };
}

}  // namespace

int main(int argc, char** argv) {
  Settings given;
  mn::Options options("usage: jobs/cifar [options]\nTrains a network to classify CIFAR's images of 32 × 32 pixels.");
  options.add("arch", given.arch, "NAME", "the network: resnet18 or vgg16, with batch normalization",
              {"resnet18", "vgg16"});
  options.add("train", given.train, "DIR", "shards to train on, made by mnshard cifar or images; default: cifar/train");
  options.add("val", given.val, "DIR", "shards to validate on; SET=DIR,SET=DIR: several sets; default: cifar/val");
  mn::app::add_loaderjob(options, given.loaderjob);
  return mn::app::run_training(argc, argv, options, given, [&](const std::shared_ptr<mn::Communicator>& comm) {
    return make_training(given, comm);
  });
}
