/// What NCCL's kernels may take of a GPU.
#pragma once

namespace mn {

/// Limits of NCCL's kernels, which leave room on the GPU for the program's own kernels. The defaults leave the choice
/// to NCCL. NCCL's variables, such as NCCL_MAX_CTAS, come before these limits.
struct NcclLimits {
  int max_ctas = 0;    ///< most thread blocks (CTAs) of a call; 0: NCCL chooses
  int cta_policy = 0;  ///< NCCL's CTAPolicy: 0 default, 1 efficiency, 2 zero; has no effect before NCCL 2.27
};

}  // namespace mn
