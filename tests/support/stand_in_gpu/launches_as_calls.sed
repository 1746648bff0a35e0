# kernel<A, B><<<blocks, threads, shared, stream>>>(…) becomes a call, which a C++ compiler takes (see kernel.hpp).
s/([A-Za-z_]+)(<[^<>;]*>)<<<([^;]*)>>>\(/mn::stand_in::launch_kernel\2(\1\2, \3, /g
