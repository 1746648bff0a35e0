// A network of mn's in a program of one's own.
#include <iostream>

#include <torch/types.h>

#include <mn/models/models.hpp>

int main() {
  const auto model = mn::models::create_model("resnet18", 7);
  model->eval();
  std::cout << "logits " << model->forward(torch::zeros({2, 3, 64, 64})).sizes() << "\n";
}
