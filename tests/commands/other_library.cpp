// A library that is not NVRTC.
extern "C" int not_nvrtc() {
    return 0;
}
