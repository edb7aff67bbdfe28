// Elementwise kernels of transformer layers. DTYPE is 1 for bfloat16 and 2 for
// float16; rows are num_tokens, contiguous, and a thread moves eight elements at
// a time. Kept to plain CUDA C++ without headers.

typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

__device__ __forceinline__ float load(u16 h) {
#if DTYPE == 1
	return __uint_as_float((u32)h << 16);
#else
	float f;
	asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
	return f;
#endif
}

__device__ __forceinline__ u16 store(float f) {
	u16 h;
#if DTYPE == 1
	asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
#else
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
#endif
	return h;
}

struct alignas(16) Eight {
	u16 v[8];
};

__device__ __forceinline__ void widen(const Eight &e, float f[8]) {
#pragma unroll
	for (int i = 0; i < 8; i++) f[i] = load(e.v[i]);
}

// sum adds over the block; every thread gets the result.
__device__ float sum(float x) {
	__shared__ float part[33];
#pragma unroll
	for (int o = 16; o > 0; o >>= 1) x += __shfl_down_sync(0xFFFFFFFFu, x, o);
	int warps = (blockDim.x + 31) / 32;
	if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = x;
	__syncthreads();
	if (threadIdx.x < 32) {
		float y = threadIdx.x < warps ? part[threadIdx.x] : 0.0f;
#pragma unroll
		for (int o = 16; o > 0; o >>= 1) y += __shfl_down_sync(0xFFFFFFFFu, y, o);
		if (threadIdx.x == 0) part[32] = y;
	}
	__syncthreads();
	return part[32];
}

// rmsnorm: out = x / sqrt(mean(x^2) + eps) * weight, one block per row.
extern "C" __global__ void aicplan_rmsnorm(Eight *__restrict__ out, const Eight *__restrict__ in, const Eight *__restrict__ weight, int eights, float eps) {
	u64 row = (u64)blockIdx.x * eights;
	float s = 0;
	for (int i = threadIdx.x; i < eights; i += blockDim.x) {
		float f[8];
		widen(in[row + i], f);
#pragma unroll
		for (int k = 0; k < 8; k++) s += f[k] * f[k];
	}
	float r = rsqrtf(sum(s) / (8.0f * eights) + eps);
	for (int i = threadIdx.x; i < eights; i += blockDim.x) {
		float f[8], w[8];
		Eight e;
		widen(in[row + i], f);
		widen(weight[i], w);
#pragma unroll
		for (int k = 0; k < 8; k++) e.v[k] = store(f[k] * r * w[k]);
		out[row + i] = e;
	}
}

// silu_and_mul: the first half of a row gates the second: out = silu(a) * b.
extern "C" __global__ void aicplan_silu_and_mul(Eight *__restrict__ out, const Eight *__restrict__ in, u64 rows, int eights) {
	u64 total = rows * eights, step = (u64)gridDim.x * blockDim.x;
	for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
		u64 row = i / eights;
		int col = (int)(i - row * eights);
		float a[8], b[8];
		Eight e;
		widen(in[2 * row * eights + col], a);
		widen(in[(2 * row + 1) * eights + col], b);
#pragma unroll
		for (int k = 0; k < 8; k++) e.v[k] = store(a[k] / (1.0f + expf(-a[k])) * b[k]);
		out[i] = e;
	}
}

#if FP8
__device__ __forceinline__ u16 two_e4m3(float lo, float hi) {
	u16 r;
	asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo));
	return r;
}

struct alignas(8) Bytes8 {
	u16 v[4];
};

// quantize_fp8: one scale for the tensor, out = x * inverse.
extern "C" __global__ void aicplan_quantize_fp8(Bytes8 *__restrict__ out, const Eight *__restrict__ in, u64 total, float inverse) {
	u64 step = (u64)gridDim.x * blockDim.x;
	for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
		float f[8];
		Bytes8 q;
		widen(in[i], f);
#pragma unroll
		for (int k = 0; k < 4; k++) q.v[k] = two_e4m3(f[2 * k] * inverse, f[2 * k + 1] * inverse);
		out[i] = q;
	}
}

// quantize_fp8_block: a scale per row and 128 columns, so that the largest
// magnitude becomes 448. Sixteen threads share a group; scales are stored group
// by group, the rows of one group together.
extern "C" __global__ void aicplan_quantize_fp8_block(Bytes8 *__restrict__ out, float *__restrict__ scales, const Eight *__restrict__ in, u64 rows, int eights) {
	u64 total = rows * eights, step = (u64)gridDim.x * blockDim.x;
	for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
		float f[8], most = 0;
		widen(in[i], f);
#pragma unroll
		for (int k = 0; k < 8; k++) most = fmaxf(most, fabsf(f[k]));
		u32 mask = 0xFFFFu << (threadIdx.x & 16);
#pragma unroll
		for (int o = 8; o > 0; o >>= 1) most = fmaxf(most, __shfl_xor_sync(mask, most, o));
		float scale = fmaxf(most, 1e-10f) / 448.0f, inverse = 1.0f / scale;
		Bytes8 q;
#pragma unroll
		for (int k = 0; k < 4; k++) q.v[k] = two_e4m3(f[2 * k] * inverse, f[2 * k + 1] * inverse);
		out[i] = q;
		if ((threadIdx.x & 15) == 0) {
			u64 row = i / eights;
			scales[(i - row * eights) / 16 * rows + row] = scale;
		}
	}
}
#endif
