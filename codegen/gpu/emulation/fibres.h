// Stacks to run on in turns.  A switch keeps what functions may expect to keep: no signal mask, for
// which the system would have to be called.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)

extern "C" __attribute__((visibility("hidden"))) void emulator_switch(void **from, void *to);
__asm__(
    ".pushsection .text\n"
    ".type emulator_switch, @function\n"
    "emulator_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size emulator_switch, .-emulator_switch\n"
    ".popsection\n");

namespace emulator {

struct Fibre {
  void *top = nullptr;  // of the stack, where the registers are that were kept
};

// The first switch to a fibre calls ``run``, which never returns.
static void start(Fibre &fibre, char *stack, size_t bytes, void (*run)()) {
  constexpr int kRegisters = 6;
  const auto end = (reinterpret_cast<uintptr_t>(stack) + bytes) & ~uintptr_t{15};
  // Below the end as much as a call leaves there: a return address, to a multiple of 16.
  auto *top = reinterpret_cast<void **>(end) - 2 - kRegisters;
  for (int i = 0; i < kRegisters; ++i) top[i] = nullptr;
  top[kRegisters] = reinterpret_cast<void *>(run);
  top[kRegisters + 1] = nullptr;
  fibre.top = top;
}

static inline void switch_fibre(Fibre &from, Fibre &to) { emulator_switch(&from.top, to.top); }

}  // namespace emulator

#else

#include <ucontext.h>

namespace emulator {

struct Fibre {
  ucontext_t context;
};

static void start(Fibre &fibre, char *stack, size_t bytes, void (*run)()) {
  getcontext(&fibre.context);
  fibre.context.uc_stack.ss_sp = stack;
  fibre.context.uc_stack.ss_size = bytes;
  fibre.context.uc_link = nullptr;
  makecontext(&fibre.context, run, 0);
}

static inline void switch_fibre(Fibre &from, Fibre &to) {
  swapcontext(&from.context, &to.context);
}

}  // namespace emulator

#endif
