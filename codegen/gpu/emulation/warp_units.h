// Tensor units of warps: what the threads of a warp load, and multiply, together.
#pragma once

namespace emulator {

// A 16-bit float in the upper half of a float, and one of IEEE 754.
struct Brain {
  unsigned short bits;
  operator float() const {
    const unsigned wide = (unsigned)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
  }
};

struct Half {
  unsigned short bits;
  operator float() const {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float value = exponent == 31   ? (fraction ? NAN : INFINITY)
                  : exponent == 0 ? ldexpf(fraction, -24)
                                  : ldexpf(1024 + fraction, exponent - 25);
    return bits >> 15 ? -value : value;
  }
};

// A float that is rounded to 10 fraction bits, ties away from zero: cvt.rna.tf32 of PTX.
struct Single {
  unsigned bits;
  operator float() const {
    const unsigned rounded = (bits & 0x7fffffff) > 0x7f800000 ? bits : (bits + 0x1000) & ~0x1fffu;
    float value;
    memcpy(&value, &rounded, sizeof value);
    return value;
  }
};

// What a product of two elements is summed as before it is added to a result.
template <class T> struct Sum { using Type = unsigned; };
template <> struct Sum<float> { using Type = double; };

template <class T> static inline T taken(const T *from, int further) { return from[further]; }
template <class T> static inline void put(T *to, int further, T value) { to[further] = value; }
template <class T> static inline void load_row(const T *first, char *row) { memcpy(row, first, 16); }

// Every thread of a warp has given what it has; two slots a thread, as no thread gives the next but
// one before all others have read this one.
template <int Bytes> struct Exchange {
  char slots[2][kMostThreads][Bytes];
  char turns[kMostThreads];

  // Where the first lane of this warp has put its bytes.
  const char (*give(const char *bytes))[Bytes] {
    const int thread = threadIdx.x, first = thread - thread % kWarp;
    if (first + kWarp > (int)fibres.size()) stop(kElsewhere);
    const int turn = turns[thread] ^= 1;
    memcpy(slots[turn][thread], bytes, Bytes);
    members[thread] = ~0u;
    wait(kExchange);
    return &slots[turn][first];
  }
};
static Exchange<16> rows;
static Exchange<24> operands;

// Registers of 16 by 8 results: rows g and g + 8, columns 2 t and 2 t + 1 of lane 4 g + t.  A lane
// has ``Groups`` registers of each of its two rows of the first operand, and of its column of the
// second.
template <class Lhs, class Rhs, class Acc, int Groups, class C, class L, class R>
static inline void multiply_together(C acc, L lhs, R rhs) {
  constexpr int pack = 4 / sizeof(Lhs);
  int own[6] = {};
  for (int n = 0; n < 2 * Groups; ++n) own[n] = taken(lhs, n);
  for (int n = 0; n < Groups; ++n) own[4 + n] = taken(rhs, n);
  const auto all = operands.give(reinterpret_cast<const char *>(own));
  const int lane = threadIdx.x % kWarp;
  for (int result = 0; result < 4; ++result) {
    const int row = lane / 4, column = lane % 4 * 2 + result % 2;
    typename Sum<Acc>::Type total = 0;
    for (int group = 0; group < Groups; ++group)
      for (int part = 0; part < 4; ++part) {
        Lhs one[pack];
        Rhs other[pack];
        memcpy(one, all[4 * row + part] + 4 * (result / 2 + 2 * group), 4);
        memcpy(other, all[4 * column + part] + 4 * (4 + group), 4);
        for (int n = 0; n < pack; ++n)
          total += (typename Sum<Acc>::Type)((Acc)one[n] * (Acc)other[n]);
      }
    put(acc, result, (Acc)(taken(acc, result) + total));
  }
}

}  // namespace emulator

template <int N, int Turned, class W, class T>
static inline void load_matrices(W to, T row) {
  using namespace emulator;
  char own[16] = {};
  const int lane = threadIdx.x % kWarp;
  if (lane < 8 * N) load_row(row, own);
  const auto all = rows.give(own);
  for (int matrix = 0; matrix < N; ++matrix) {
    int word;
    if (Turned) {
      unsigned short halves[2];
      for (int n = 0; n < 2; ++n)
        memcpy(&halves[n], all[8 * matrix + lane % 4 * 2 + n] + 2 * (lane / 4), 2);
      memcpy(&word, halves, 4);
    } else {
      memcpy(&word, all[8 * matrix + lane / 4] + 4 * (lane % 4), 4);
    }
    put(to, matrix, word);
  }
}
