/* A driver whose functions run on the CPU: kernels are run_<symbol>_0 of the library EMULATED. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

#define NOT_FOUND 500
#define INVALID_CONTEXT 201
#define MOST_CONTEXTS 8
#define MOST_PARAMETERS 64
typedef int (*emulated_kernel)(void **arguments, int first, int stop, int threads, int reverse);

static int allowed;  /* bytes of shared memory, of the last function that was to have some */
static int alive;  /* modules, contexts, streams and blocks of memory that nobody gave back */
static CUcontext stack[MOST_CONTEXTS];  /* the current one is the last; before it the callers' */
static int depth;

int driver_alive(void) { return alive; }
void *driver_current(void) { return depth ? stack[depth - 1] : NULL; }
void driver_set_current(void *context) { stack[0] = (CUcontext)context; depth = 1; }
#define INSIDE do { if (driver_current() != (void *)&alive) return INVALID_CONTEXT; } while (0)

CUresult cuInit(unsigned flags) { return (int)flags; }
CUresult cuDeviceGet(CUdevice *device, int number) { *device = number; return number ? 101 : 0; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    *context = (CUcontext)&alive;
    return alive++, device;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return alive--, device; }
CUresult cuCtxSetCurrent(CUcontext context) {
    driver_set_current(context);
    return context != (CUcontext)&alive;
}
CUresult cuCtxPushCurrent(CUcontext context) {
    if (context != (CUcontext)&alive || depth == MOST_CONTEXTS) return INVALID_CONTEXT;
    stack[depth++] = context;
    return 0;
}
CUresult cuCtxPopCurrent(CUcontext *context) {
    if (!depth) return INVALID_CONTEXT;
    *context = stack[--depth];
    return 0;
}
CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    INSIDE;
    *stream = (CUstream)&alive;
    return alive++, flags != CU_STREAM_NON_BLOCKING;
}
CUresult cuStreamSynchronize(CUstream stream) { INSIDE; return !stream; }
CUresult cuStreamDestroy(CUstream stream) { INSIDE; return alive--, !stream; }
CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    INSIDE;
    *module = (CUmodule)dlopen(EMULATED, RTLD_NOW);
    return alive++, !*module || memcmp(image, "\x7f" "ELF", 4);
}
CUresult cuModuleUnload(CUmodule module) { INSIDE; return alive--, dlclose(module); }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    INSIDE;
    char symbol[256];
    for (int number = 0; number < MOST_PARAMETERS; ++number) {
        snprintf(symbol, sizeof symbol, "run_%s_%d", name, number);
        *function = (CUfunction)dlsym(module, symbol);
        if (*function) return 0;
    }
    return NOT_FOUND;
}
CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    INSIDE;
    allowed = value;
    return !function || attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
}
CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
    INSIDE;
    *address = (CUdeviceptr)aligned_alloc(256, (bytes + 255) / 256 * 256);
    return alive++, !*address;
}
CUresult cuMemFree(CUdeviceptr address) { INSIDE; free((void *)address); return alive--, 0; }
CUresult cuMemcpyHtoD(CUdeviceptr target, const void *source, size_t bytes) {
    INSIDE;
    memcpy((void *)target, source, bytes);
    return 0;
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr target, const void *source, size_t bytes, CUstream stream) {
    INSIDE;
    return stream ? cuMemcpyHtoD(target, source, bytes) : 1;
}
CUresult cuMemcpyDtoHAsync(void *target, CUdeviceptr source, size_t bytes, CUstream stream) {
    INSIDE;
    memcpy(target, (const void *)source, bytes);
    return !stream;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
    INSIDE;
    return stream ? cuMemcpyHtoD(target, (const void *)source, bytes) : 1;
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void **parameters, void **extra) {
    INSIDE;
    void *arguments[MOST_PARAMETERS] = {0};
    for (int n = 0; n < MOST_PARAMETERS && parameters[n]; ++n) arguments[n] = *(void **)parameters[n];
    if (!stream || extra || (int)shared_bytes > allowed || grid_y * grid_z * block_y * block_z != 1) return 1;
    return ((emulated_kernel)function)(arguments, 0, (int)grid_x, (int)block_x, 0);
}
