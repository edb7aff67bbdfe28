// y = a x over n elements, with a fault on demand: FAULT is a parameter of the
// case that the plan turns into a macro. A thread that writes far outside of
// its buffer is what a kernel under development does sooner or later.
extern "C" __global__ void scale(const float* x, float* y, int n, float a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#if FAULT
    y[(long long)i + (1ll << 40)] = a;
#endif
    if (i < n) y[i] = a * x[i];
}
