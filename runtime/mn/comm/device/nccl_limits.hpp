/// Limits for the share of a GPU that NCCL's kernels may use.
#pragma once

namespace mn {

/// Limits for NCCL's kernels, so that the GPU has room for the program's own kernels. With the defaults NCCL chooses.
/// NCCL's environment variables, for example NCCL_MAX_CTAS, override these limits.
struct NcclLimits {
  int max_ctas = 0;    ///< greatest number of thread blocks (CTAs) of a call; 0: NCCL chooses
  int cta_policy = 0;  ///< NCCL's CTAPolicy: 0 default, 1 efficiency, 2 zero; has no effect before NCCL 2.27
};

}  // namespace mn
