// Memory that knows who touched which element since which barrier; a program of its own that runs
// launches and stops at the first fault.
#pragma once

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_cpu.h"

namespace checked {

constexpr int kFault = 64;  // exit status
constexpr size_t kAlignment = 64;
constexpr int kNobody = -1, kSeveral = -2;

[[noreturn]] static void report(const char *format, ...) {
  fprintf(stderr, "thread %d of block %d ", threadIdx.x, blockIdx.x);
  va_list values;
  va_start(values, format);
  vfprintf(stderr, format, values);
  va_end(values);
  fflush(stderr);
  _exit(kFault);
}

[[noreturn]] static void report_race(const char *does, const char *name, long long index,
                                     int thread, int block, const char *did) {
  if (block == kSeveral)
    report("%s %s[%lld], which threads of several blocks %s in the same launch", does, name, index, did);
  if (block != blockIdx.x)
    report("%s %s[%lld], which thread %d of block %d %s in the same launch", does, name, index,
           thread, block, did);
  if (thread == kSeveral)
    report("%s %s[%lld], which several threads %s since the last barrier", does, name, index, did);
  report("%s %s[%lld], which thread %d %s since the last barrier", does, name, index, thread, did);
}

// One element.  All but ``known`` is of one round: of a block for shared memory, of a launch for
// global memory.
struct Cell {
  unsigned round, written_at, read_at;
  int writer, writer_block, reader, reader_block;
  bool known;

  void begin(unsigned now, bool forget) {
    if (round == now) return;
    round = now;
    writer = reader = kNobody;
    if (forget) known = false;
  }

  bool written_by_another() const {
    if (writer == kNobody) return false;
    return writer_block != blockIdx.x ||
           (writer != threadIdx.x && written_at == emulator::epoch);
  }

  bool read_by_another() const {
    if (reader == kNobody) return false;
    return reader_block != blockIdx.x || (reader != threadIdx.x && read_at == emulator::epoch);
  }

  void read(const char *name, long long index) {
    if (!known) report("reads %s[%lld], which nothing has written", name, index);
    if (written_by_another())
      report_race("reads", name, index, writer, writer_block, "writes");
    if (reader == kNobody || (reader_block == blockIdx.x && read_at != emulator::epoch)) {
      reader = threadIdx.x;
      reader_block = blockIdx.x;
    } else {
      if (reader != threadIdx.x) reader = kSeveral;
      if (reader_block != blockIdx.x) reader_block = kSeveral;
    }
    read_at = emulator::epoch;
  }

  void write(const char *name, long long index) {
    if (written_by_another())
      report_race("writes", name, index, writer, writer_block, "writes");
    if (read_by_another()) report_race("writes", name, index, reader, reader_block, "reads");
    writer = threadIdx.x;
    writer_block = blockIdx.x;
    written_at = emulator::epoch;
    known = true;
  }
};

// The place of a write.
template <class M> struct Element {
  M &memory;
  long long index;
  template <class T> void operator=(T value) { memory.write(index, value); }
};

// The address of an element.
template <class M> struct Address {
  M &memory;
  long long index;

  Address operator+(long long further) const { return {memory, index + further}; }

  void aligned(const char *does, int count, int alignment) const {
    const int size = sizeof(typename M::Value);
    if (index * size % alignment == 0 && M::kAligned % alignment == 0) return;
    report("%s %d bytes at %s[%lld], which is not aligned to %d bytes", does, count * size,
           memory.name, index, alignment);
  }
};

// What arrays have in common; ``Own``: read(index), write(index, value).
template <class Own> struct Indexed {
  auto operator[](long long index) const { return own().read(index); }
  Element<Own> at(long long index) const { return {own(), index}; }
  Address<Own> address(long long index) const { return {own(), index}; }
  Own &own() const { return const_cast<Own &>(static_cast<const Own &>(*this)); }

  void inside(const char *does, const char *name, long long index, long long size) const {
    if (index < 0 || index >= size)
      report("%s %s[%lld], which has %lld elements", does, name, index, size);
  }
};

// Memory of a thread.
template <class T, long long N> struct Local : Indexed<Local<T, N>> {
  using Value = T;
  static constexpr int kAligned = 16;
  const char *name;
  T data[N];
  bool known[N] = {};
  explicit Local(const char *name) : name(name) {}

  T read(long long index) const {
    this->inside("reads", name, index, N);
    if (!known[index]) report("reads %s[%lld], which nothing has written", name, index);
    return data[index];
  }

  void write(long long index, T value) {
    this->inside("writes", name, index, N);
    known[index] = true;
    data[index] = value;
  }
};

// Elements of an array of ``size`` that are within the bytes ``given`` to a block; one at least.
template <class T> constexpr long long given(long long size, long long start, long long bytes) {
  const long long inside = (bytes - start) / (long long)sizeof(T);
  return inside < 1 ? 1 : inside < size ? inside : size;
}

// Memory of a block; ``A``: bytes to which it is declared to be aligned.
template <class T, long long N, int A> struct Shared : Indexed<Shared<T, N, A>> {
  using Value = T;
  static constexpr int kAligned = A;
  const char *name;
  T data[N] = {};
  Cell cells[N] = {};
  constexpr explicit Shared(const char *name) : name(name) {}

  Cell &cell(const char *does, long long index) {
    this->inside(does, name, index, N);
    cells[index].begin(emulator::block_number, true);
    return cells[index];
  }

  T read(long long index) {
    cell("reads", index).read(name, index);
    return data[index];
  }

  void write(long long index, T value) {
    cell("writes", index).write(name, index);
    data[index] = value;
  }

  // Something else writes there: no value is known until it has.
  void begin(long long index) {
    cell("writes", index).write(name, index);
    cells[index].known = false;
  }
};

// A buffer in global memory.
struct Memory {
  const char *name;
  long long bytes;
  bool known;     // holds values before the first launch
  bool constant;  // no launch writes to it
  void *data = nullptr;
  emulator::List<Cell> cells = {};  // one an element, once it is written to
};

// A parameter of a kernel.
template <class T> struct Global : Indexed<Global<T>> {
  using Value = T;
  static constexpr int kAligned = 16;
  Memory &memory;
  const char *name;

  Global(Memory &memory) : memory(memory), name(memory.name) {
    if (memory.constant || !memory.cells.empty()) return;
    Cell blank = {};
    blank.known = memory.known;
    memory.cells.resize(memory.bytes / sizeof(T), blank);
  }

  T read(long long index) {
    this->inside("reads", name, index, memory.bytes / (long long)sizeof(T));
    if (Cell *cell = tracked(index)) cell->read(name, index);
    return static_cast<T *>(memory.data)[index];
  }

  void write(long long index, T value) {
    this->inside("writes", name, index, memory.bytes / (long long)sizeof(T));
    if (Cell *cell = tracked(index)) cell->write(name, index);
    else report("writes %s[%lld], which is read-only", name, index);
    static_cast<T *>(memory.data)[index] = value;
  }

  Cell *tracked(long long index) {
    if (memory.constant) return nullptr;
    memory.cells[index].begin(emulator::launch_number, false);
    return &memory.cells[index];
  }
};

template <int N, int A, class V, class M> void load_piece(V &vector, Address<M> first) {
  first.aligned("reads", N, A);
  for (int n = 0; n < N; ++n) vector.write(n, first.memory.read(first.index + n));
}

template <int N, int A, class M, class V> void store_piece(Address<M> first, V &vector) {
  first.aligned("writes", N, A);
  for (int n = 0; n < N; ++n) first.memory.write(first.index + n, vector.read(n));
}

template <int N, class M, class G>
void copy_piece(Address<M> to, Address<G> from, bool wanted = true) {
  const int alignment = N * sizeof(typename M::Value);
  to.aligned("writes", N, alignment);
  if (wanted) from.aligned("reads", N, alignment);
  for (int n = 0; n < N; ++n)
    to.memory.write(to.index + n, wanted ? from.memory.read(from.index + n) : typename M::Value());
}

// Nobody may touch what is copied before the thread that copies it has waited for it.
template <int N, class M, class G>
void copy_ahead(Address<M> to, Address<G> from, bool wanted = true) {
  const int alignment = N * sizeof(typename M::Value);
  to.aligned("writes", N, alignment);
  for (int n = 0; n < N; ++n) to.memory.begin(to.index + n);
  emulator::copies[threadIdx.x].begin([=] { copy_piece<N>(to, from, wanted); });
}

// Registers of the operands and results of a tensor unit.
template <class M> auto taken(Address<M> from, int further) {
  return from.memory.read(from.index + further);
}

template <class M, class T> void put(Address<M> to, int further, T value) {
  to.memory.write(to.index + further, value);
}

template <class M> int load_word(Address<M> first) {
  typename M::Value elements[4 / sizeof(typename M::Value)];
  first.aligned("reads", 4 / sizeof elements[0], 4);
  for (int n = 0; n < (int)(4 / sizeof elements[0]); ++n) elements[n] = taken(first, n);
  int word;
  memcpy(&word, elements, sizeof word);
  return word;
}

// A row of a matrix; those of lanes that say none stay unread.
template <class M> void load_row(Address<M> first, char *row) {
  constexpr int count = 16 / sizeof(typename M::Value);
  first.aligned("reads", count, 16);
  for (int n = 0; n < count; ++n) {
    const typename M::Value element = taken(first, n);
    memcpy(row + n * sizeof element, &element, sizeof element);
  }
}

// An element of a tile whose pieces change places by their addresses.
template <class M> auto taken_in_place(Address<M> first, int further) {
  constexpr int size = sizeof(typename M::Value);
  first.aligned("multiplies", 16 / size, 16);
  if (M::kAligned % emulator::kPeriod)
    report("multiplies %s, which is not aligned to %d bytes", first.memory.name, emulator::kPeriod);
  return first.memory.read(emulator::place_of((first.index + further) * size) / size);
}

// The exit status for what a launch ends with, after a message.
static int explain(int status) {
  const char *what = status == emulator::kDivergent ? "some threads do not reach a barrier"
                     : status == emulator::kTrapped ? "a thread stops with a trap"
                     : "a thread exchanges values with threads that do not take part";
  fprintf(stderr, "block %d: %s", blockIdx.x, what);
  return kFault;
}

struct Program {
  Memory *memory;
  int buffers;
  int (*run)(bool reverse);
};

// Runs a program on the buffers of a file, which lie there at multiples of ``kAlignment``.
static int run(Program &program, bool reverse, const char *path) {
  size_t total = 0;
  for (int i = 0; i < program.buffers; ++i)
    total += (program.memory[i].bytes + kAlignment - 1) / kAlignment * kAlignment;
  const int file = open(path, O_RDWR);
  void *start = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (start == MAP_FAILED) return EXIT_FAILURE;
  char *place = static_cast<char *>(start);
  for (int i = 0; i < program.buffers; ++i) {
    program.memory[i].data = place;
    place += (program.memory[i].bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  return program.run(reverse);
}

}  // namespace checked
