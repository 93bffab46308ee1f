/* A driver whose functions run on the CPU: kernels are run_<symbol>_0 of the library EMULATED. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

#define NOT_FOUND 500
#define MOST_PARAMETERS 64
typedef int (*emulated_kernel)(void **arguments, int first, int stop, int threads, int reverse);

static int allowed;  /* bytes of shared memory, of the last function that was to have some */
static int alive;  /* modules, contexts, streams and blocks of memory that nobody gave back */

int driver_alive(void) { return alive; }
CUresult cuInit(unsigned flags) { return (int)flags; }
CUresult cuDeviceGet(CUdevice *device, int number) { *device = number; return number ? 101 : 0; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    *context = (CUcontext)&alive;
    return alive++, device;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return alive--, device; }
CUresult cuCtxSetCurrent(CUcontext context) { return context != (CUcontext)&alive; }
CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    *stream = (CUstream)&alive;
    return alive++, flags != CU_STREAM_NON_BLOCKING;
}
CUresult cuStreamSynchronize(CUstream stream) { return !stream; }
CUresult cuStreamDestroy(CUstream stream) { return alive--, !stream; }
CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    *module = (CUmodule)dlopen(EMULATED, RTLD_NOW);
    return alive++, !*module || memcmp(image, "\x7f" "ELF", 4);
}
CUresult cuModuleUnload(CUmodule module) { return alive--, dlclose(module); }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    char symbol[256];
    for (int number = 0; number < MOST_PARAMETERS; ++number) {
        snprintf(symbol, sizeof symbol, "run_%s_%d", name, number);
        *function = (CUfunction)dlsym(module, symbol);
        if (*function) return 0;
    }
    return NOT_FOUND;
}
CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    allowed = value;
    return !function || attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
}
CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
    *address = (CUdeviceptr)aligned_alloc(256, (bytes + 255) / 256 * 256);
    return alive++, !*address;
}
CUresult cuMemFree(CUdeviceptr address) { free((void *)address); return alive--, 0; }
CUresult cuMemcpyHtoD(CUdeviceptr target, const void *source, size_t bytes) {
    memcpy((void *)target, source, bytes);
    return 0;
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr target, const void *source, size_t bytes, CUstream stream) {
    return stream ? cuMemcpyHtoD(target, source, bytes) : 1;
}
CUresult cuMemcpyDtoHAsync(void *target, CUdeviceptr source, size_t bytes, CUstream stream) {
    memcpy(target, (const void *)source, bytes);
    return !stream;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
    return stream ? cuMemcpyHtoD(target, (const void *)source, bytes) : 1;
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void **parameters, void **extra) {
    void *arguments[MOST_PARAMETERS] = {0};
    for (int n = 0; n < MOST_PARAMETERS && parameters[n]; ++n) arguments[n] = *(void **)parameters[n];
    if (!stream || extra || (int)shared_bytes > allowed || grid_y * grid_z * block_y * block_z != 1) return 1;
    return ((emulated_kernel)function)(arguments, 0, (int)grid_x, (int)block_x, 0);
}
