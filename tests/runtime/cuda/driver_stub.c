/* A stand-in for libcuda.so.1, as far as programs ask it before they use a GPU: what it says comes from the
 * environment. */
#include <stdio.h>
#include <stdlib.h>

static int number(const char* name, int otherwise) {
    const char* value = getenv(name);
    return value ? atoi(value) : otherwise;
}

int cuDriverGetVersion(int* version) {
    *version = number("STUB_DRIVER", 13000);
    return 0;
}
int cuInit(unsigned flags) {
    (void)flags;
    return number("STUB_INIT", 0);
}
int cuGetErrorName(int error, const char** name) {
    *name = error == 999 ? "CUDA_ERROR_UNKNOWN" : "CUDA_ERROR_NO_DEVICE";
    return 0;
}
int cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return 0;
}
int cuDeviceGetName(char* name, int length, int device) {
    (void)device;
    snprintf(name, (size_t)length, "%s", getenv("STUB_NAME") ? getenv("STUB_NAME") : "NVIDIA H100 80GB HBM3");
    return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
    (void)device;
    *bytes = (size_t)number("STUB_GIGABYTES", 80) * 1000000000u;
    return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
    (void)device;
    const int architecture = number("STUB_ARCHITECTURE", 90);
    *value = attribute == 75 ? architecture / 10 : attribute == 76 ? architecture % 10 : 132;
    return 0;
}
