#include <mn/models/models.hpp>

#include <torch/torch.h>

namespace mn::models {
namespace {

namespace nn = torch::nn;

nn::ReLU relu() { return nn::ReLU(nn::ReLUOptions(true)); }
nn::MaxPool2d pool() { return nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2)); }
nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t padding,
                       std::int64_t stride = 1) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(padding));
}

class AlexNet : public Classifier {
 public:
  explicit AlexNet(std::int64_t num_classes)
      : features_(register_module("features", nn::Sequential(convolution(3, 64, 11, 2, 4), relu(), pool(),  //
                                                             convolution(64, 192, 5, 2), relu(), pool(),    //
                                                             convolution(192, 384, 3, 1), relu(),           //
                                                             convolution(384, 256, 3, 1), relu(),           //
                                                             convolution(256, 256, 3, 1), relu(), pool()))),
        classifier_(
            register_module("classifier", nn::Sequential(nn::Dropout(0.5), nn::Linear(256 * 6 * 6, 4096), relu(),  //
                                                         nn::Dropout(0.5), nn::Linear(4096, 4096), relu(),         //
                                                         nn::Linear(4096, num_classes)))) {}

  torch::Tensor forward(const torch::Tensor& images) override {
    const torch::Tensor x = torch::adaptive_avg_pool2d(features_->forward(images), {6, 6});  // (N, 256, 6, 6)
    return classifier_->forward(x.flatten(1));
  }

 private:
  nn::Sequential features_;
  nn::Sequential classifier_;
};

}  // namespace

std::shared_ptr<Classifier> create_alexnet(std::int64_t num_classes) { return std::make_shared<AlexNet>(num_classes); }

}  // namespace mn::models
