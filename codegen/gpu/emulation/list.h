// A growing array.  The standard library's header takes longer to compile than a small kernel.
#pragma once

#include <stdlib.h>

namespace emulator {

// Of values that may be copied as bytes.
template <class T> class List {
  static_assert(__is_trivially_copyable(T), "moved as bytes");
  T *items = nullptr;
  size_t count = 0, room = 0;

public:
  List() = default;
  List(const List &) = delete;
  List &operator=(const List &) = delete;
  ~List() { free(items); }

  size_t size() const { return count; }
  bool empty() const { return count == 0; }
  T &operator[](size_t index) { return items[index]; }

  // The first elements stay, others become ``value``.
  void resize(size_t wanted, T value = T()) {
    if (wanted > room) {
      room = wanted < 2 * room ? 2 * room : wanted;
      items = static_cast<T *>(realloc(static_cast<void *>(items), room * sizeof(T)));
      if (!items) abort();
    }
    for (size_t index = count; index < wanted; ++index) items[index] = value;
    count = wanted;
  }

  void assign(size_t wanted, T value) {
    count = 0;
    resize(wanted, value);
  }

  void push_back(T value) { resize(count + 1, value); }
};

}  // namespace emulator
