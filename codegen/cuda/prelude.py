"""Device functions that CUDA programs start with, each where it is called.

No header is needed: the very same text compiles with NVRTC and, for tests, as C++.
"""

from __future__ import annotations

import re
from typing import Final

from codegen.cuda.tile_text import ORDER, ORDERING, TILE_UNITS, tile_function
from codegen.cuda.unit_text import LOADS, MATRICES, unit_parts

# Elements that follow each other, as one access or a few.
_PIECE: Final = """\
template <int N, int A, class T> struct __align__(A) Piece { T at[N]; };
template <int N, int A, class T> __device__ inline void load_piece(T *vector, const T *first) {
  const Piece<N, A, T> piece = *(const Piece<N, A, T> *)first;
#pragma unroll
  for (int n = 0; n < N; ++n) vector[n] = piece.at[n];
}
template <int N, int A, class T> __device__ inline void store_piece(T *first, const T *vector) {
  Piece<N, A, T> piece;
#pragma unroll
  for (int n = 0; n < N; ++n) piece.at[n] = vector[n];
  *(Piece<N, A, T> *)first = piece;
}
"""
# Elements from global to shared memory; zeros where they are not wanted.
_COPY: Final = """\
template <int N, class T> __device__ inline void copy_piece(T *to, const T *from) {
  *(Piece<N, sizeof(T) * N, T> *)to = *(const Piece<N, sizeof(T) * N, T> *)from;
}
template <int N, class T> __device__ inline void copy_piece(T *to, const T *from, bool wanted) {
  Piece<N, sizeof(T) * N, T> piece = {};
  if (wanted) piece = *(const Piece<N, sizeof(T) * N, T> *)from;
  *(Piece<N, sizeof(T) * N, T> *)to = piece;
}
"""
# The same without waiting for it, in groups of what a thread has begun: cp.async of PTX.
_AHEAD: Final = """\
#ifdef __CUDA_ARCH__
template <int N, class T> __device__ inline void copy_ahead(T *to, const T *from) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(to);
  if (N * sizeof(T) == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(place), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :: "r"(place), "l"(from), "n"(N * sizeof(T) == 8 ? 8 : 4) : "memory");
}
template <int N, class T> __device__ inline void copy_ahead(T *to, const T *from, bool wanted) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(to);
  const unsigned bytes = wanted ? N * sizeof(T) : 0;
  if (N * sizeof(T) == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(place), "l"(from), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :: "r"(place), "l"(from), "n"(N * sizeof(T) == 8 ? 8 : 4), "r"(bytes) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}
#endif
"""
# Memory of a block beyond what may be declared by its size: the launch asks for it.
_DYNAMIC: Final = """\
#ifdef __CUDA_ARCH__
#define DYNAMIC_SHARED(bytes) extern __shared__ __align__(1024) unsigned char dynamic_shared[]
#endif
"""
# Where an element of a tile of rows of ``R`` lies whose ``P`` pieces of ``E`` change places.
_SWIZZLE: Final = """\
template <int R, int P, int E> __device__ inline unsigned swizzled(unsigned place) {
  const unsigned within = place % E, piece = place - within, column = piece % R;
  return piece - column + (column ^ piece / R % P * E) + within;
}
"""
# NaN where an operand is.
_MAXIMUM: Final = """\
template <class T> __device__ inline T nan_max(T a, T b) { return a > b || a != a ? a : b; }
"""
_MINIMUM: Final = """\
template <class T> __device__ inline T nan_min(T a, T b) { return a < b || a != a ? a : b; }
"""
_SIGN: Final = """\
template <class T> __device__ inline T sign_of(T a) { return a > 0 ? T(1) : a < 0 ? T(-1) : a; }
"""
# Elements in shared memory, as tensor units have them.
_ROUND_PIECE: Final = """\
#ifdef __CUDA_ARCH__
template <int N> __device__ inline void round_piece(float *first) {
  Piece<N, 4 * N, float> piece = *(const Piece<N, 4 * N, float> *)first;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    int word;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(piece.at[n]));
    piece.at[n] = __int_as_float(word);
  }
  *(Piece<N, 4 * N, float> *)first = piece;
}
#endif
"""
# Integer division by 0 gives 0, by -1 it wraps around; real remainders are exact.
_DIVISION: Final = """\
template <class T> __device__ inline T trunc_div(T a, T b) {
  if (b == 0) return 0;
  return b + 1 == 0 ? T(0ull - a) : T(a / b);
}
template <class T> __device__ inline T trunc_mod(T a, T b) {
  return b == 0 || b + 1 == 0 ? T(0) : T(a % b);
}
template <class T> __device__ inline T floor_div(T a, T b) {
  return trunc_div(a, b) - (trunc_mod(a, b) != 0 && (a < 0) != (b < 0));
}
template <class T> __device__ inline T floor_mod(T a, T b) {
  T rest = trunc_mod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? T(rest + b) : rest;
}
__device__ inline float trunc_mod(float a, float b) { return fmodf(a, b); }
__device__ inline double trunc_mod(double a, double b) { return fmod(a, b); }
template <class T> __device__ inline T real_floor_mod(T a, T b) {
  T rest = trunc_mod(a, b);
  if (rest == 0) return b < 0 ? T(-0.0) : T(0.0);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}
template <class T> __device__ inline T real_floor_div(T a, T b) {
  if (b == 0) return a / b;
  T rest = trunc_mod(a, b);
  T quotient = (a - rest) / b;
  return rint(rest != 0 && (rest < 0) != (b < 0) ? quotient - 1 : quotient);
}
__device__ inline float floor_mod(float a, float b) { return real_floor_mod(a, b); }
__device__ inline double floor_mod(double a, double b) { return real_floor_mod(a, b); }
__device__ inline float floor_div(float a, float b) { return real_floor_div(a, b); }
__device__ inline double floor_div(double a, double b) { return real_floor_div(a, b); }
"""
# Shifts by less than 0, or by all bits and more, shift everything out.
_SHIFTS: Final = """\
template <class T> __device__ inline T shift_left(T a, T b) {
  return b < 0 || b >= T(8 * sizeof(T)) ? T(0) : T((unsigned long long)a << b);
}
template <class T> __device__ inline T shift_right(T a, T b) {
  return b < 0 || b >= T(8 * sizeof(T)) ? T(a < 0 ? -1 : 0) : T(a >> b);
}
"""
# Wraps around; negative exponents give the quotient rounded toward zero, 0 for base 0.
_POWER: Final = """\
template <class T> __device__ inline T whole_pow(T base, T exponent) {
  if (exponent < 0) return base == 1 ? T(1) : base + 1 != 0 ? T(0) : exponent % 2 ? T(-1) : T(1);
  unsigned long long result = 1, square = base;
  for (; exponent; exponent >>= 1, square *= square)
    if (exponent & 1) result *= square;
  return T(result);
}
"""
_SATURATION: Final = """\
template <class T, class F> __device__ inline T saturate(F x, F low, F end, T least, T most) {
  return x != x ? T(0) : x <= low ? least : x >= end ? most : T(x);
}
"""
_SIGMOID: Final = """\
__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
"""
# Bits of a float that a tensor unit has as tf32, the nearest, ties away from zero.
_ROUND_TF32: Final = """\
union RoundedBits { float value; unsigned bits; };
__device__ inline float round_tf32(float x) {
  RoundedBits word;
  word.value = x;
  word.bits = word.bits + 0x1000 & ~0x1fffu;
  return x != x ? x : word.value;
}
"""
# Places in the order of floats; bits of a negative number count down from zero.
_ORDINAL: Final = """\
union OrderedBits { float value; int bits; };
__device__ inline int ordinal(float x) {
  OrderedBits word;
  word.value = x;
  const int size = word.bits & 0x7fffffff;
  return x != x ? 0x7fffffff : word.bits < 0 ? -size : size;
}
"""
# 16-bit floats are their bits; conversions round to nearest, ties to even.
_SHORT_FLOATS: Final = """\
union FloatBits { float value; unsigned bits; };
__device__ inline float brain_to_float(unsigned short x) {
  FloatBits word;
  word.bits = (unsigned)x << 16;
  return word.value;
}
__device__ inline unsigned short float_to_brain(float x) {
  FloatBits word;
  word.value = x;
  if (x != x) return (word.bits | 0x400000) >> 16;
  return (word.bits + 0x7fff + (word.bits >> 16 & 1)) >> 16;
}
#ifdef __CUDA_ARCH__
__device__ inline float half_to_float(unsigned short x) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x));
  return value;
}
__device__ inline unsigned short float_to_half(float x) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
#else
__device__ inline float half_to_float(unsigned short x) {
  FloatBits word;
  word.bits = (x & 0x7fffu) << 13;
  word.value *= 5192296858534827628530496329220096.0f;
  if ((x & 0x7fff) >= 0x7c00) word.bits |= 0x7f800000;
  word.bits |= (x & 0x8000u) << 16;
  return word.value;
}
__device__ inline unsigned short float_to_half(float x) {
  FloatBits word, size, place;
  word.value = x;
  const unsigned sign = word.bits >> 16 & 0x8000;
  if (x != x) return sign | 0x7e00;
  size.bits = word.bits & 0x7fffffff;
  size.value *= 5192296858534827628530496329220096.0f;
  size.value *= 7.70371977754894341222391177034e-34f;
  unsigned exponent = word.bits << 1 & 0xff000000;
  if (exponent < 0x71000000) exponent = 0x71000000;
  place.bits = (exponent >> 1) + 0x07800000;
  place.value += size.value;
  return sign | ((place.bits >> 13 & 0x7c00) + (place.bits & 0xfff));
}
#endif
"""

_ROUND_TO_ODD: Final = """
union SingleBits { float value; unsigned bits; };
__device__ inline float odd_float(double x) {
  SingleBits word;
  word.value = (float)x;
  const double back = word.value;
  if (fabs(back) > fabs(x)) word.bits -= 1;
  if (back < x || back > x) word.bits |= 1;
  return word.value;
}
__device__ inline double exact_double(long long x) {
  const long long low = 2047, limit = 1LL << 53;
  return (double)(x >= -limit && x < limit ? x : (((x & low) + low) | x) & ~low);
}
"""

_PARTS: Final = (
    (_PIECE, ("load_piece", "store_piece", "copy_piece", "round_piece")),
    (_ROUND_PIECE, ("round_piece",)),
    (_COPY, ("copy_piece",)),
    (_SWIZZLE, ("swizzled",)),
    (_DYNAMIC, ("DYNAMIC_SHARED",)),
    (_AHEAD, ("copy_ahead", "commit_copies", "wait_copies")),
    (_MAXIMUM, ("nan_max",)),
    (_MINIMUM, ("nan_min",)),
    (_SIGN, ("sign_of",)),
    (
        _DIVISION,
        (
            "trunc_div",
            "trunc_mod",
            "floor_div",
            "floor_mod",
        ),
    ),
    (
        _SHIFTS,
        (
            "shift_left",
            "shift_right",
        ),
    ),
    (_POWER, ("whole_pow",)),
    (_SATURATION, ("saturate",)),
    (_SIGMOID, ("sigmoid",)),
    (_ROUND_TF32, ("round_tf32",)),
    (_ORDINAL, ("ordinal",)),
    (_ROUND_TO_ODD, ("odd_float", "exact_double")),
    (
        _SHORT_FLOATS,
        (
            "brain_to_float",
            "float_to_brain",
            "half_to_float",
            "float_to_half",
        ),
    ),
    (LOADS, ("load_word", "join")),
    (MATRICES, ("load_matrices",)),
    *unit_parts(),
    (ORDER, ORDERING),
)
FUNCTIONS: Final = tuple(name for _, names in _PARTS for name in names)
"""All that there are, but for those of ``TILE_UNITS``, whose names start with ``wgmma_m``."""


def prelude_of(text: str) -> str:
    """The definitions of the functions that ``text`` calls."""
    called = set(re.findall(r"\b(\w+)(?:<[\w ,]+>)?\(", text))
    parts = [part for part, names in _PARTS if called & set(names)]
    return "".join(
        (*parts, *(tile_function(TILE_UNITS[n]) for n in sorted(called & TILE_UNITS.keys())))
    )
