// The few kernels that the runner itself needs on a GPU, as PTX that every supported driver takes.
#ifndef KILN_WORKER_PROFILE_GPU_KERNELS_H_
#define KILN_WORKER_PROFILE_GPU_KERNELS_H_

namespace kiln::worker::cuda {

// kiln_digest(from, pairs, sum): adds to *sum a digest of `pairs` times 16 bytes at `from`. Each
// 64-bit word is mixed with its place, and the words are added up, so that the order in which
// threads come does not matter. Any grid of kDigestThreads threads a block.
// kiln_apart(a, b, count, kind, rtol, atol, found): adds to *found how many of `count` elements,
// float32 (kind 0), bfloat16 (1) or float16 (2), are not within |a - b| <= atol + rtol |b| of each
// other; infinities and NaNs never are. Any grid.
// kiln_gather(from, places, count, width, to): copies what lies at so many places, counted in
// `width` bytes (1, 2, 4 or 8), one after the other. Any grid. kiln_nothing(): what launching
// costs. kiln_canary(rounds, out, clock): so many rounds of arithmetic in every thread, whose time
// is that of the clock; writes nothing to the float at `out` unless arithmetic is broken.
// kiln_reading(from, pairs, out, clock): reads `pairs` times 16 bytes once, whose time is that of
// the memory; writes a word to `out` only if all that a thread read adds up to one value.
// Both add the cycles of one of their threads and the nanoseconds that these took to the two 64-bit
// words at `clock` (PTX: %clock64, %globaltimer). Grids as of kiln_digest.
extern const char kGpuKernels[];
inline constexpr unsigned kDigestThreads = 256;
inline constexpr unsigned kCanaryRounds = 2048;  // about 0.15 ms with all threads of an SM

}  // namespace kiln::worker::cuda

#endif  // KILN_WORKER_PROFILE_GPU_KERNELS_H_
