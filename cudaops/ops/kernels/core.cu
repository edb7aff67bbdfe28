// Kernels that every measurement needs. They are kept to plain CUDA C++ without
// headers, so that NVRTC compiles them anywhere; core.ptx is their PTX, which
// the driver compiles where NVRTC is missing.

typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

__device__ __forceinline__ u64 wall() {
	u64 t;
	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
	return t;
}

__device__ __forceinline__ u32 smid() {
	u32 v;
	asm volatile("mov.u32 %0, %smid;" : "=r"(v));
	return v;
}

// gate keeps the stream waiting until the host has queued everything behind it:
// it spins until *flag is at least want, at least for least_ns and at most for
// limit_ns. out has three words: 1 when the time ran out, and the cycles and
// nanoseconds that it spun: the clock of a multiprocessor before the work.
extern "C" __global__ void aicplan_gate(volatile u32 *flag, u32 want, u64 least_ns, u64 limit_ns, u64 *out) {
	u64 begin = wall(), cycles = clock64();
	u64 now = begin;
	u64 late = 0;
	for (;;) {
		bool open = (int)(*flag - want) >= 0;
		now = wall();
		if (open && now - begin >= least_ns) break;
		if (now - begin > limit_ns) {
			late = 1;
			break;
		}
	}
	out[1] = clock64() - cycles;
	out[2] = wall() - begin;
	out[0] = late;
}

// stamp writes the cycle counter and the wall clock of multiprocessor 0. It is
// launched with one thread per multiprocessor; out has three words: cycles,
// nanoseconds, 1 when written.
extern "C" __global__ void aicplan_stamp(u64 *out) {
	if (smid() != 0) return;
	u64 t = wall();
	u64 c = clock64();
	out[0] = c;
	out[1] = t;
	out[2] = 1;
}

// spin keeps every launched thread busy for so many cycles of its own clock.
extern "C" __global__ void aicplan_spin(u64 cycles) {
	u64 begin = clock64();
	while (clock64() - begin < cycles) {
	}
}

extern "C" __global__ void aicplan_null() {}

// Philox 4x32-10, counter based: any element can be drawn by its index.
__device__ __forceinline__ void philox(u64 counter, u64 seed, u32 out[4]) {
	u32 c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = 0, c3 = 0;
	u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
	for (int i = 0; i < 10; i++) {
		u32 h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
		u32 h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
		c0 = h1 ^ c1 ^ k0;
		c1 = l1;
		c2 = h0 ^ c3 ^ k1;
		c3 = l0;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

// normals draws four standard normal numbers (Box-Muller).
__device__ __forceinline__ void normals(u64 counter, u64 seed, float v[4]) {
	u32 r[4];
	philox(counter, seed, r);
#pragma unroll
	for (int i = 0; i < 4; i += 2) {
		float u = ((float)(r[i] >> 8) + 0.5f) * (1.0f / 16777216.0f);
		float a = (float)(r[i + 1] >> 8) * (6.2831853f / 16777216.0f);
		float m = sqrtf(-2.0f * logf(u));
		v[i] = m * cosf(a);
		v[i + 1] = m * sinf(a);
	}
}

__device__ __forceinline__ u16 to_bf16(float f) {
	u32 b = __float_as_uint(f);
	return (u16)((b + 0x7FFFu + ((b >> 16) & 1u)) >> 16);
}

__device__ __forceinline__ u16 to_f16(float f) {
	u16 h;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
	return h;
}

// to_e4m3 rounds to nearest even and saturates at 448, as the hardware does.
__device__ __forceinline__ u8 to_e4m3(float f) {
	u32 b = __float_as_uint(f);
	u8 sign = (u8)((b >> 24) & 0x80u);
	float a = fabsf(f);
	if (a >= 448.0f) return sign | 0x7Eu;
	if (a < 0.015625f) return sign | (u8)__float2int_rn(a * 512.0f);
	int e = (int)((b >> 23) & 0xFFu) - 127;
	// 2^(3-e) turns the value into 8 .. 16.
	int m = __float2int_rn(a * __uint_as_float((u32)(3 - e + 127) << 23));
	if (m == 16) {
		m = 8;
		e++;
	}
	if (e > 8) return sign | 0x7Eu;
	u8 code = (u8)(((e + 7) << 3) | (m - 8));
	return sign | (code > 0x7Eu ? (u8)0x7Eu : code);
}

__device__ __forceinline__ signed char to_i8(float f) {
	int v = __float2int_rn(f);
	return (signed char)(v > 127 ? 127 : (v < -127 ? -127 : v));
}

// fill writes normals times scale; one thread per four elements. type: 0 float,
// 1 bfloat16, 2 float16, 3 e4m3, 4 int8.
extern "C" __global__ void aicplan_fill(void *out, u64 quads, u64 first, u64 seed, int type, float scale) {
	u64 step = (u64)gridDim.x * blockDim.x;
	for (u64 q = (u64)blockIdx.x * blockDim.x + threadIdx.x; q < quads; q += step) {
		float v[4];
		normals(first + q, seed, v);
#pragma unroll
		for (int i = 0; i < 4; i++) v[i] *= scale;
		switch (type) {
		case 0:
			((float4 *)out)[q] = make_float4(v[0], v[1], v[2], v[3]);
			break;
		case 1:
			((ushort4 *)out)[q] = make_ushort4(to_bf16(v[0]), to_bf16(v[1]), to_bf16(v[2]), to_bf16(v[3]));
			break;
		case 2:
			((ushort4 *)out)[q] = make_ushort4(to_f16(v[0]), to_f16(v[1]), to_f16(v[2]), to_f16(v[3]));
			break;
		case 3:
			((uchar4 *)out)[q] = make_uchar4(to_e4m3(v[0]), to_e4m3(v[1]), to_e4m3(v[2]), to_e4m3(v[3]));
			break;
		default:
			((char4 *)out)[q] = make_char4(to_i8(v[0]), to_i8(v[1]), to_i8(v[2]), to_i8(v[3]));
		}
	}
}

// The memory kernels move 16 bytes per thread and step; count is in such words.

extern "C" __global__ void aicplan_copy(uint4 *__restrict__ out, const uint4 *__restrict__ in, u64 count) {
	u64 step = (u64)gridDim.x * blockDim.x;
	u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
	for (; i + 3 * step < count; i += 4 * step) {
		uint4 a = in[i], b = in[i + step], c = in[i + 2 * step], d = in[i + 3 * step];
		out[i] = a;
		out[i + step] = b;
		out[i + 2 * step] = c;
		out[i + 3 * step] = d;
	}
	for (; i < count; i += step) out[i] = in[i];
}

// triad: out = a + s * b on floats.
extern "C" __global__ void aicplan_triad(float4 *__restrict__ out, const float4 *__restrict__ a, const float4 *__restrict__ b, float s, u64 count) {
	u64 step = (u64)gridDim.x * blockDim.x;
	u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
	for (; i + step < count; i += 2 * step) {
		float4 x = a[i], y = b[i], z = a[i + step], w = b[i + step];
		out[i] = make_float4(x.x + s * y.x, x.y + s * y.y, x.z + s * y.z, x.w + s * y.w);
		out[i + step] = make_float4(z.x + s * w.x, z.y + s * w.y, z.z + s * w.z, z.w + s * w.w);
	}
	for (; i < count; i += step) {
		float4 x = a[i], y = b[i];
		out[i] = make_float4(x.x + s * y.x, x.y + s * y.y, x.z + s * y.z, x.w + s * y.w);
	}
}

// reduce adds floats: one partial sum per block, in a fixed order.
extern "C" __global__ void aicplan_reduce(float *__restrict__ out, const float4 *__restrict__ in, u64 count) {
	__shared__ float part[32];
	u64 step = (u64)gridDim.x * blockDim.x;
	u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
	float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
	for (; i + 3 * step < count; i += 4 * step) {
		float4 a = in[i], b = in[i + step], c = in[i + 2 * step], d = in[i + 3 * step];
		s0 += a.x + a.y + a.z + a.w;
		s1 += b.x + b.y + b.z + b.w;
		s2 += c.x + c.y + c.z + c.w;
		s3 += d.x + d.y + d.z + d.w;
	}
	for (; i < count; i += step) {
		float4 a = in[i];
		s0 += a.x + a.y + a.z + a.w;
	}
	float s = (s0 + s1) + (s2 + s3);
#pragma unroll
	for (int o = 16; o > 0; o >>= 1) s += __shfl_down_sync(0xFFFFFFFFu, s, o);
	if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = s;
	__syncthreads();
	if (threadIdx.x == 0) {
		float t = 0;
		for (int w = 0; w < (blockDim.x + 31) / 32; w++) t += part[w];
		out[blockIdx.x] = t;
	}
}
