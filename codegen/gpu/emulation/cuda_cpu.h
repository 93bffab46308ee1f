// Runs CUDA C++ on the CPU: blocks one after another, the threads of a block as fibres that switch
// at barriers, or one after another where none waits.  Shared memory and private arrays start as
// garbage, so that reads of what was never written show.
#pragma once

// Headers of C alone: those of C++ take most of the time that a small kernel takes to compile.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fibres.h"
#include "list.h"

#define __global__
#define __device__
#define __launch_bounds__(threads)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static __attribute__((section("shared_memory"), used))
#define DYNAMIC_SHARED(bytes) __shared__ __align__(1024) unsigned char dynamic_shared[bytes]

struct Index { int x; };
static Index threadIdx, blockIdx;

static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fsub_rn(float x, float y) { return x - y; }
static inline double __dadd_rn(double x, double y) { return x + y; }
static inline double __dsub_rn(double x, double y) { return x - y; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline float __int_as_float(unsigned bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline double __longlong_as_double(unsigned long long bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

extern "C" char __start_shared_memory[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_shared_memory[] __attribute__((weak, visibility("hidden")));

namespace emulator {

constexpr size_t kStackBytes = 96 * 1024;
constexpr int kWarp = 32;
constexpr int kMostThreads = 1024;
constexpr size_t kActBytes = 64;  // of what is kept of a copy or a product until it happens
constexpr int kDivergent = 1;
constexpr int kTrapped = 2;
constexpr int kElsewhere = 3;

// What keeps a thread from going on.
enum Wait : char { kNothing, kBarrier, kExchange, kEnd };

static Fibre scheduler;
static List<Fibre> fibres;
static List<Wait> waits;
static List<unsigned> members;  // of the exchange that a thread waits for
static void (*entry)(void **);
static void **arguments;
static int stopped;         // why the launch cannot go on
static unsigned epoch = 1;  // starts of blocks and barriers so far
static unsigned block_number, launch_number;

// What a thread has begun happens when it waits for its group, not before.
struct Later {
  struct Act {
    void (*happen)(const void *);  // of what is kept below
    long group;
    alignas(16) char kept[kActBytes];
  };
  List<Act> begun;
  long group = 0;  // the one that is being made

  template <class Happen> void begin(Happen happen) {
    static_assert(sizeof happen <= kActBytes && __is_trivially_copyable(Happen), "kept as bytes");
    Act act = {};
    act.happen = [](const void *kept) { (*static_cast<const Happen *>(kept))(); };
    act.group = group;
    memcpy(act.kept, &happen, sizeof happen);
    begun.push_back(act);
  }

  void commit() { ++group; }

  void wait(long left) {
    size_t kept = 0;
    for (size_t number = 0; number < begun.size(); ++number) {
      const Act act = begun[number];
      if (act.group >= group - left) begun[kept++] = act;
      else act.happen(act.kept);
    }
    begun.resize(kept);
  }

  void forget() {
    begun.resize(0);
    group = 0;
  }
};
static Later copies[kMostThreads], products[kMostThreads];

static void wait(Wait reason) {
  waits[threadIdx.x] = reason;
  switch_fibre(fibres[threadIdx.x], scheduler);
}

static void stop(int reason) {
  stopped = reason;
  wait(kEnd);
}

static void run_thread() {
  entry(arguments);
  wait(kEnd);
}

// Runs every thread up to what it must wait for.
static void advance(int threads, bool reverse) {
  for (int i = 0; i < threads && !stopped; ++i) {
    const int thread = reverse ? threads - 1 - i : i;
    if (waits[thread] != kNothing) continue;
    threadIdx.x = thread;
    switch_fibre(scheduler, fibres[thread]);
  }
}

static int waiting(int threads, Wait reason) {
  int count = 0;
  for (int thread = 0; thread < threads; ++thread) count += waits[thread] == reason;
  return count;
}

// Threads go on once all members of their exchange have given a value; whether any does.
static bool exchange(int threads) {
  bool any = false;
  for (int first = 0; first < threads; first += kWarp) {
    const int size = threads - first < kWarp ? threads - first : kWarp;
    unsigned present = 0;
    for (int lane = 0; lane < size; ++lane)
      present |= (waits[first + lane] == kExchange ? 1u : 0u) << lane;
    const unsigned real = size < kWarp ? (1u << size) - 1 : ~0u;
    for (int lane = 0; lane < size; ++lane) {
      if (!(present >> lane & 1) || (members[first + lane] & real & ~present)) continue;
      waits[first + lane] = kNothing;
      any = true;
    }
  }
  return any;
}

static int run_block(int threads, bool reverse, char *stacks) {
  if (__start_shared_memory)
    memset(__start_shared_memory, 0xff, __stop_shared_memory - __start_shared_memory);
  waits.assign(threads, kNothing);
  for (int thread = 0; thread < threads; ++thread) {
    copies[thread].forget();
    products[thread].forget();
    start(fibres[thread], stacks + thread * kStackBytes, kStackBytes, run_thread);
  }
  for (++epoch, ++block_number;;) {
    advance(threads, reverse);
    if (stopped) return stopped;
    if (exchange(threads)) continue;
    if (waiting(threads, kExchange)) return kElsewhere;
    const int at_barrier = waiting(threads, kBarrier);
    if (at_barrier == 0) return 0;
    if (at_barrier < threads) return kDivergent;
    waits.assign(threads, kNothing);
    ++epoch;
  }
}

// Memory that nobody fills with zeros first.
struct Stacks {
  char *start;
  explicit Stacks(int threads) : start(static_cast<char *>(malloc(threads * kStackBytes))) {}
  ~Stacks() { free(start); }
  Stacks(const Stacks &) = delete;
};

struct Blocks {
  int first, stop;
  int at(int number, bool reverse) const { return reverse ? first + stop - 1 - number : number; }
};

// 0; kDivergent where a barrier was not reached by all threads of a block; kTrapped; kElsewhere
// where a thread exchanges values with threads that do not take part.
static int launch(void (*kernel)(void **), void **args, Blocks blocks, int threads, bool reverse) {
  stopped = 0;
  ++launch_number;
  entry = kernel;
  arguments = args;
  fibres.resize(threads);
  members.resize(threads);
  const Stacks stacks(threads);
  for (int block = blocks.first; block < blocks.stop; ++block) {
    blockIdx.x = blocks.at(block, reverse);
    if (const int status = run_block(threads, reverse, stacks.start)) return status;
  }
  return 0;
}

// The same for a kernel whose threads wait for nothing: no fibres.
template <class Kernel>
static int launch_free(Kernel kernel, Blocks blocks, int threads, bool reverse) {
  for (int block = blocks.first; block < blocks.stop; ++block) {
    blockIdx.x = blocks.at(block, reverse);
    for (int i = 0; i < threads; ++i) {
      threadIdx.x = reverse ? threads - 1 - i : i;
      kernel();
    }
  }
  return 0;
}

}  // namespace emulator

static inline void __syncthreads() { emulator::wait(emulator::kBarrier); }

// Two values a thread: no thread gives the next but one before all others have what it gave.
template <typename T>
static inline T __shfl_xor_sync(unsigned members, T value, int offset) {
  static char slots[2][emulator::kMostThreads][8];
  static char turns[emulator::kMostThreads];
  const int thread = threadIdx.x, lane = thread % emulator::kWarp;
  const int other = lane ^ (offset & (emulator::kWarp - 1));
  const bool outside = thread - lane + other >= (int)emulator::fibres.size();
  if (outside || !(members >> lane & 1) || !(members >> other & 1))
    emulator::stop(emulator::kElsewhere);
  const int turn = turns[thread] ^= 1;
  memcpy(slots[turn][thread], &value, sizeof value);
  emulator::members[thread] = members;
  emulator::wait(emulator::kExchange);
  memcpy(&value, slots[turn][thread - lane + other], sizeof value);
  return value;
}

// Elements from global to shared memory, later; zeros where they are not wanted.
template <int N, class T> static inline void copy_ahead(T *to, const T *from, bool wanted = true) {
  emulator::copies[threadIdx.x].begin([=] {
    if (wanted) memcpy(to, from, N * sizeof(T));
    else memset(to, 0, N * sizeof(T));
  });
}
static inline void commit_copies() { emulator::copies[threadIdx.x].commit(); }
template <int N> static inline void wait_copies() { emulator::copies[threadIdx.x].wait(N); }

static inline void __trap() { emulator::stop(emulator::kTrapped); }

#include "warp_units.h"
#include "tile_units.h"
