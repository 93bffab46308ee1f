// Tensor units of four warps, which read tiles in shared memory: what a thread has of their results.
// A product happens when the thread waits for it.
#pragma once

namespace emulator {

constexpr int kGroup = 4 * kWarp;
constexpr int kRowBytes = 128, kPeriod = 8 * kRowBytes;

// Where a byte lies: pieces of 16 bytes change places, by the row among 8 that they are in.
static inline size_t place_of(size_t place) { return place ^ (place / kRowBytes % 8 * 16); }

template <class T> static inline T taken_in_place(const T *first, int further) {
  return *(const T *)place_of((size_t)(first + further));
}

// A float of which a unit ignores what tf32 has not.
struct Truncated {
  unsigned bits;
  operator float() const {
    const unsigned whole = bits & ~0x1fffu;
    float value;
    memcpy(&value, &whole, sizeof value);
    return value;
  }
};

template <class Element, class T> static inline Element element_of(T tile, int row, int term) {
  const auto bits = taken_in_place(tile, row * (kRowBytes / (int)sizeof(Element)) + term);
  Element element;
  memcpy(&element, &bits, sizeof element);
  return element;
}

// 64 by N results: rows g and g + 8 of the 16 of a warp, columns 2 t and 2 t + 1 of each 8, of lane
// 4 g + t.
template <class Lhs, class Rhs, class Acc, int N, int K, class C, class L, class R>
static inline void multiply_tiles(C acc, L lhs, R rhs) {
  products[threadIdx.x].begin([=] {
    const int lane = threadIdx.x % kGroup;
    for (int result = 0; result < N / 2; ++result) {
      const int row = lane / kWarp * 16 + result / 2 % 2 * 8 + lane % kWarp / 4;
      const int column = result / 4 * 8 + lane % 4 * 2 + result % 2;
      typename Sum<Acc>::Type total = 0;
      for (int term = 0; term < K; ++term) {
        const Acc one = (Acc)element_of<Lhs>(lhs, row, term);
        total += (typename Sum<Acc>::Type)(one * (Acc)element_of<Rhs>(rhs, column, term));
      }
      put(acc, result, (Acc)(taken(acc, result) + total));
    }
  });
}

}  // namespace emulator

template <int N, class T> static inline void round_piece(T first) {
  using namespace emulator;
  for (int n = 0; n < N; ++n) {
    const float given = taken(first, n);
    Single element;
    memcpy(&element, &given, sizeof element);
    put(first, n, (float)element);
  }
}
template <class T> static inline T tile_at(T first) { return first; }
template <int N, class C> static inline void hold(C) {}
template <int N, class C> static inline void begin_products(C) {}
static inline void commit_products() { emulator::products[threadIdx.x].commit(); }
template <int N> static inline void wait_products() { emulator::products[threadIdx.x].wait(N); }
static inline void publish_stores() {}
