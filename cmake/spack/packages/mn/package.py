from spack.package import *


class Mn(CMakePackage):
    """Multi-node training for libtorch, on Slurm clusters."""

    # From a checkout: spack develop --path $PWD mn@0.2.0
    version("0.2.0")

    variant("torch", default=True, description="The parts that need libtorch: training, jobs")
    variant("cuda", default=False, description="GPUs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("python@3.10:", type=("build", "run"))
    depends_on("mpi")
    depends_on("hwloc")
    depends_on("hdf5@1.10:")
    depends_on("boost@1.74:+log+program_options")
    depends_on("nlohmann-json")
    depends_on("libjpeg-turbo")
    depends_on("libpng")
    depends_on("xxhash")
    depends_on("isa-l")
    depends_on("libsodium")
    depends_on("zlib-api")
    depends_on("libwebp")
    depends_on("libtiff@4.5:")
    depends_on("zstd")
    depends_on("xz")
    depends_on("gnuplot", type="run")
    depends_on("py-torch@2.9:", when="+torch")
    depends_on("py-torch+cuda", when="+torch+cuda")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl", when="+cuda")

    generator("ninja")

    def cmake_args(self):
        args = [self.define_from_variant("MN_TORCH", "torch"), self.define_from_variant("MN_CUDA", "cuda")]
        if self.spec.satisfies("+torch"):
            site = join_path(self.spec["py-torch"].prefix, self.spec["python"].package.platlib)
            args.append(self.define("Torch_ROOT", join_path(site, "torch")))
        return args
