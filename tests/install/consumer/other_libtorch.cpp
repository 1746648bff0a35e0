// A program that has loaded another libtorch than it was compiled with. Its own function stands for the other's.
#include <iostream>

#include <mn/app/app.hpp>

namespace at {
std::string show_config() { return "PyTorch built with:\n - Build settings: TORCH_VERSION=1.2.3, USE_CUDA=0, \n"; }
}  // namespace at

int main() { std::cout << "main() was reached\n"; }
