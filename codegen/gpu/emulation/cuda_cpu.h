// Runs CUDA C++ on the CPU: blocks one after another, the threads of a block as fibres that switch
// at barriers.  Shared memory and private arrays start as garbage, so that reads of what was never
// written show.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include <ucontext.h>

#define __global__
#define __device__
#define __launch_bounds__(threads)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static __attribute__((section("shared_memory"), used))

struct Index { int x; };
static Index threadIdx, blockIdx;

static inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
static inline float __int_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

static inline double __longlong_as_double(unsigned long long bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

extern "C" char __start_shared_memory[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_shared_memory[] __attribute__((weak, visibility("hidden")));

namespace emulator {

constexpr size_t kStackBytes = 96 * 1024;
constexpr int kDivergent = 1;
constexpr int kTrapped = 2;

static ucontext_t scheduler;
static std::vector<ucontext_t> fibres;
static std::vector<char> finished;
static void (*entry)(void **);
static void **arguments;
static bool trapped;

static void run_thread() {
  entry(arguments);
  finished[threadIdx.x] = 1;
  swapcontext(&fibres[threadIdx.x], &scheduler);
}

// Runs every thread of a block up to its next barrier; false if only some of them stop at one.
static bool run_to_barrier(int threads, bool reverse, bool *all_finished) {
  int waiting = 0;
  for (int i = 0; i < threads; ++i) {
    const int thread = reverse ? threads - 1 - i : i;
    if (finished[thread]) continue;
    threadIdx.x = thread;
    swapcontext(&scheduler, &fibres[thread]);
    if (trapped) return true;
    waiting += !finished[thread];
  }
  *all_finished = waiting == 0;
  return waiting == 0 || waiting == threads;
}

static int run_block(int threads, bool reverse, std::vector<char> &stacks) {
  if (__start_shared_memory)
    std::memset(__start_shared_memory, 0xff, __stop_shared_memory - __start_shared_memory);
  finished.assign(threads, 0);
  for (int thread = 0; thread < threads; ++thread) {
    ucontext_t &fibre = fibres[thread];
    getcontext(&fibre);
    fibre.uc_stack.ss_sp = stacks.data() + thread * kStackBytes;
    fibre.uc_stack.ss_size = kStackBytes;
    fibre.uc_link = nullptr;
    makecontext(&fibre, run_thread, 0);
  }
  for (bool all_finished = false; !all_finished && !trapped;)
    if (!run_to_barrier(threads, reverse, &all_finished)) return kDivergent;
  return trapped ? kTrapped : 0;
}

// 0; kDivergent where a barrier was not reached by all threads of a block; kTrapped.
static int launch(void (*kernel)(void **), void **args, int grid, int threads, int reverse) {
  trapped = false;
  entry = kernel;
  arguments = args;
  fibres.resize(threads);
  std::vector<char> stacks(threads * kStackBytes);
  for (int block = 0; block < grid; ++block) {
    blockIdx.x = reverse ? grid - 1 - block : block;
    if (const int status = run_block(threads, reverse, stacks)) return status;
  }
  return 0;
}

}  // namespace emulator

static inline void __syncthreads() {
  swapcontext(&emulator::fibres[threadIdx.x], &emulator::scheduler);
}

// All threads of the block exchange values; only those of one warp get each other's.
template <typename T>
static inline T __shfl_xor_sync(unsigned, T value, int mask) {
  static char slots[1024][8];
  std::memcpy(slots[threadIdx.x], &value, sizeof value);
  __syncthreads();
  std::memcpy(&value, slots[threadIdx.x ^ mask], sizeof value);
  __syncthreads();
  return value;
}

static inline void __trap() {
  emulator::trapped = true;
  swapcontext(&emulator::fibres[threadIdx.x], &emulator::scheduler);
}
