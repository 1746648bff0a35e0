/// The commands of mnshard.
#pragma once

#include "data/settings.hpp"

namespace mn::data {

/// Each returns the exit status. Throws UsageError or DataError.
int run_idx(Arguments arguments, const Settings& settings);
int run_images(Arguments arguments, const Settings& settings);
int run_cifar(Arguments arguments, const Settings& settings);
int run_tar(Arguments arguments, const Settings& settings);
int run_npy(Arguments arguments, const Settings& settings);
int run_npz(Arguments arguments, const Settings& settings);
int run_tokens(Arguments arguments, const Settings& settings);
int run_info(Arguments arguments, const Settings& settings);
int run_verify(Arguments arguments, const Settings& settings);
int run_extract(Arguments arguments, const Settings& settings);

}  // namespace mn::data
